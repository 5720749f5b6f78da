# shellcheck shell=bash
# Real clips for the demo and the tests: people seen by a fixed camera, and a hand that turns a box. They are part of
# OpenCV's examples and manual, which Debian packages. Needs say.sh and setup.sh.

readonly CLIP_PACKAGE=opencv-doc

# One per line: name|checksum. Of the clips, because the packages around them differ between systems.
clips() {
    cat <<'END'
vtest.avi|45cddc9490be69345cbdab64ca583be65987e864ca408038e648db99e10516cf
box.mp4|62b744b99403f899707c43398a3822441add6160379ab6dd6c12bde9e3075f8d
END
}

# Where the clips are kept between runs.
clip_cache() {
    printf '%s' "${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/foveate"
}

# Puts missing clips into the cache; returns 1 with a warning if one is unavailable: ensure_clips NAME...
ensure_clips() {
    local cache download status=0
    cache=$(clip_cache)
    if are_the_clips "$cache" "$@"; then
        return
    fi
    if ! command -v apt-get >/dev/null || ! command -v dpkg-deb >/dev/null; then
        warn "$* are in the Debian package $CLIP_PACKAGE, and this system has no apt."
        return 1
    fi
    mkdir -p "$cache"
    # Beside their final place, so that the last step is an atomic rename.
    download=$(mktemp -d "$cache/download.XXXXXX")
    fetch_clips "$download" "$@" || status=1
    if [ "$status" -eq 0 ]; then
        (cd "$download" && mv -- "$@" "$cache") || status=1
    fi
    rm -rf "$download"
    return "$status"
}

# Leaves the verified clips in a directory: fetch_clips DIRECTORY NAME...
fetch_clips() {
    local directory=$1 name
    shift
    if ! with_progress "Fetching $*, once (Debian package $CLIP_PACKAGE, about 92 MB)" \
        download_package "$directory"; then
        warn "The package $CLIP_PACKAGE cannot be downloaded (offline?)."
        return 1
    fi
    for name in "$@"; do
        if ! with_progress "Unpacking $name" unpack_clip "$directory" "$name"; then
            warn "The package $CLIP_PACKAGE does not contain $name."
            return 1
        fi
        if ! is_the_clip "$directory" "$name"; then
            warn "$name in $CLIP_PACKAGE is not the expected file: its checksum differs."
            return 1
        fi
    done
}

# Without an earlier `apt-get update` apt knows no packages.
download_package() (
    cd "$1" || return
    apt-get download "$CLIP_PACKAGE" && return
    can_be_root && as_root apt-get update && apt-get download "$CLIP_PACKAGE"
)

# Packages may compress large examples: unpack_clip DIRECTORY NAME
unpack_clip() (
    local packed
    cd "$1" || return
    dpkg-deb --fsys-tarfile "$CLIP_PACKAGE"_*.deb \
        | tar --extract --wildcards "*/$2" "*/$2.gz" 2>/dev/null
    packed=$(find . -name "$2*" -type f | head -n 1)
    case "$packed" in
    *.gz) gunzip --stdout "$packed" >"$2" ;;
    *?) mv "$packed" "$2" ;;
    *) return 1 ;;
    esac
)

# are_the_clips DIRECTORY NAME...
are_the_clips() {
    local directory=$1 name
    shift
    for name in "$@"; do
        is_the_clip "$directory" "$name" || return
    done
}

# is_the_clip DIRECTORY NAME
is_the_clip() {
    local checksum
    checksum=$(clips | sed -n "s/^$2|//p")
    [ -f "$1/$2" ] && printf '%s  %s\n' "$checksum" "$1/$2" | sha256sum --check --status
}
