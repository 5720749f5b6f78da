# shellcheck shell=bash
# A real clip to look at: people seen by a fixed camera. It is part of OpenCV's examples, which Debian packages.
# Needs say.sh and setup.sh.

readonly CLIP_PACKAGE=opencv-doc
readonly CLIP_NAME=vtest.avi
# Of the clip, because the packages around it differ from one system to the next.
readonly CLIP_SHA256=45cddc9490be69345cbdab64ca583be65987e864ca408038e648db99e10516cf

# Where the clip is kept between runs.
clip_cache() {
    printf '%s' "${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/foveate"
}

# Puts the clip into the cache unless it is there; returns 1, having said why, if it cannot be had.
ensure_clip() {
    local cache download status=0
    cache=$(clip_cache)
    if is_the_clip "$cache/$CLIP_NAME"; then
        return
    fi
    if ! command -v apt-get >/dev/null || ! command -v dpkg-deb >/dev/null; then
        warn "The clip comes in the Debian package $CLIP_PACKAGE, and this system has no apt."
        return 1
    fi
    mkdir -p "$cache"
    # Beside its final place, so that the last step is a rename and no half of a clip is ever found there.
    download=$(mktemp -d "$cache/download.XXXXXX")
    fetch_clip "$download" || status=1
    if [ "$status" -eq 0 ]; then
        mv "$download/$CLIP_NAME" "$cache/$CLIP_NAME"
    fi
    rm -rf "$download"
    return "$status"
}

# Leaves the verified clip in a directory: fetch_clip DIRECTORY
fetch_clip() {
    if ! with_progress "Fetching a clip, once (Debian package $CLIP_PACKAGE, about 92 MB)" \
        download_package "$1"; then
        warn "The package $CLIP_PACKAGE cannot be fetched (offline?)."
        return 1
    fi
    if ! with_progress 'Unpacking the clip' unpack_clip "$1"; then
        warn "The package $CLIP_PACKAGE does not hold $CLIP_NAME."
        return 1
    fi
    if ! is_the_clip "$1/$CLIP_NAME"; then
        warn "The $CLIP_NAME in $CLIP_PACKAGE is not the one that is expected: its checksum differs."
        return 1
    fi
}

# A machine that never ran `apt-get update` knows no packages.
download_package() (
    cd "$1" || return
    apt-get download "$CLIP_PACKAGE" && return
    can_be_root && as_root apt-get update && apt-get download "$CLIP_PACKAGE"
)

# Packages keep large examples compressed or not, as their makers please.
unpack_clip() (
    local packed
    cd "$1" || return
    dpkg-deb --fsys-tarfile "$CLIP_PACKAGE"_*.deb \
        | tar --extract --wildcards "*/$CLIP_NAME" "*/$CLIP_NAME.gz" 2>/dev/null
    packed=$(find . -name "$CLIP_NAME*" -type f | head -n 1)
    case "$packed" in
    *.gz) gunzip --stdout "$packed" >"$CLIP_NAME" ;;
    *?) mv "$packed" "$CLIP_NAME" ;;
    *) return 1 ;;
    esac
)

is_the_clip() {
    [ -f "$1" ] && printf '%s  %s\n' "$CLIP_SHA256" "$1" | sha256sum --check --status
}
