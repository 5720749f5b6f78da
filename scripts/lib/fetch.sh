# shellcheck shell=bash
# Fetches files once and keeps them between runs: clips and pictures of OpenCV's examples, which Debian packages, and environments of
# Python packages.

readonly CLIP_PACKAGE=opencv-doc

# One per line: name|checksum. People seen by a fixed camera, and a hand that turns a box. The checksum is of the clip, because the
# packages around it differ between systems.
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

# Puts pictures of OpenCV's examples into FOLDER, all into that itself: ensure_pictures FOLDER NAME...
ensure_pictures() {
    local folder=$1 download name status=0
    local -a wanted=()
    shift
    for name in "$@"; do
        [ -f "$folder/$name" ] || wanted+=("*/examples/*/$name")
    done
    [ "${#wanted[@]}" -gt 0 ] || return 0
    mkdir -p "$folder"
    download=$(mktemp -d "$folder/download.XXXXXX")
    {
        with_progress "Fetching pictures, once (Debian package $CLIP_PACKAGE)" download_package "$download" \
            && dpkg-deb --fsys-tarfile "$download/$CLIP_PACKAGE"_*.deb \
            | tar --extract --directory "$folder" --transform 's|.*/||' --wildcards "${wanted[@]}"
    } || status=1
    rm -rf "$download"
    return "$status"
}

# Makes an environment of Python with packages, unless it has them. Of the BARE ones only the packages themselves, because
# they name more than is used here: ensure_environment FOLDER "PACKAGE..." ["BARE PACKAGE..."]
ensure_environment() {
    local requirements=$2 bare=${3:-}
    [ "$(cat "$1/ready" 2>/dev/null)" = "$bare $requirements" ] && return
    python3 -m venv "$1" || return
    # shellcheck disable=SC2086 # A list of words.
    with_progress "Installing $requirements" "$1/bin/pip" install --quiet $requirements || return
    if [ -n "$bare" ]; then
        # shellcheck disable=SC2086 # A list of words.
        with_progress "Installing $bare" "$1/bin/pip" install --quiet --no-deps $bare || return
    fi
    printf '%s\n' "$bare $requirements" >"$1/ready"
}
