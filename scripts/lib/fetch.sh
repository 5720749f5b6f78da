# shellcheck shell=bash
# Fetches files once and keeps them between runs: clips and pictures of OpenCV's examples, which Debian packages, and environments of
# Python packages.

readonly EXAMPLES=opencv-doc

# People seen by a fixed camera, and a hand that turns a box. The checksums are of the clips, because the package around them differs
# between systems.
readonly CLIP_CHECKSUMS='45cddc9490be69345cbdab64ca583be65987e864ca408038e648db99e10516cf  vtest.avi
62b744b99403f899707c43398a3822441add6160379ab6dd6c12bde9e3075f8d  box.mp4'

readonly AXE_VERSION=4.14.1
readonly AXE_CHECKSUM=29348999450cdf2849a8e70b7912fc2da85a849da39c0d0d5394f51d4a9ed95c

# Where files are kept between runs.
clip_cache() {
    printf '%s' "${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/foveate"
}

# Puts missing clips into the cache; returns 1 with a warning if one is unavailable: ensure_clips NAME...
ensure_clips() {
    local cache name
    cache=$(clip_cache)
    for name in "$@"; do
        is_the_clip "$cache/$name" || rm -f "$cache/$name"
    done
    ensure_examples "$cache" "$@" || return
    for name in "$@"; do
        is_the_clip "$cache/$name" || { warn "$name in $EXAMPLES is not the expected file: its checksum differs." && return 1; }
    done
}

# is_the_clip FILE
is_the_clip() {
    [ -f "$1" ] && (cd "$(dirname "$1")" && grep -F "  ${1##*/}" <<<"$CLIP_CHECKSUMS" | sha256sum --check --status)
}

# Puts missing files of OpenCV's examples into FOLDER, all into that itself: ensure_examples FOLDER NAME...
ensure_examples() {
    local folder=$1 name download status=0 missing=()
    shift
    for name in "$@"; do
        [ -f "$folder/$name" ] || missing+=("$name")
    done
    [ "${#missing[@]}" -gt 0 ] || return 0
    if ! type -P apt-get >/dev/null || ! type -P dpkg-deb >/dev/null; then
        warn "${missing[*]} are in the Debian package $EXAMPLES, and this system has no apt."
        return 1
    fi
    mkdir -p "$folder"
    # Beside their final place, so that the last step is an atomic rename.
    download=$(mktemp -d "$folder/download.XXXXXX")
    with_progress "Fetching ${missing[*]}, once (Debian package $EXAMPLES, about 92 MB)" fetch_examples "$download" "${missing[@]}" \
        && (cd "$download" && mv -- "${missing[@]}" ..) || status=1
    rm -rf "$download"
    return "$status"
}

# fetch_examples FOLDER NAME...
fetch_examples() (
    cd "$1" || return
    shift
    local patterns=("${@/#/*/}")
    # Without an earlier `apt-get update` apt knows no packages.
    apt-get download "$EXAMPLES" || { can_be_root && as_root apt-get update && apt-get download "$EXAMPLES"; } || return
    # The package may compress large files, so only one of both names is there.
    dpkg-deb --fsys-tarfile "$EXAMPLES"_*.deb \
        | tar --extract --transform 's|.*/||' --wildcards "${patterns[@]}" "${patterns[@]/%/.gz}" 2>/dev/null || true
    find . -name '*.gz' -exec gunzip {} +
    ls -- "$@"
)

# Puts axe-core, which checks whether everybody can use a page, into the cache; returns 1 with a warning if it is unavailable.
ensure_axe() {
    local cache download status=0
    cache=$(clip_cache)
    is_axe "$cache" && return
    if ! type -P npm >/dev/null; then
        warn 'axe-core is fetched with npm, and there is none.'
        return 1
    fi
    mkdir -p "$cache"
    download=$(mktemp -d "$cache/download.XXXXXX")
    with_progress "Fetching axe-core $AXE_VERSION, once (npm, about 600 kB)" fetch_axe "$download" \
        && is_axe "$download" && mv "$download/axe.min.js" "$cache/" || status=1
    rm -rf "$download"
    return "$status"
}

# is_axe FOLDER
is_axe() {
    [ -f "$1/axe.min.js" ] && (cd "$1" && sha256sum --check --status <<<"$AXE_CHECKSUM  axe.min.js")
}

# fetch_axe FOLDER
fetch_axe() (
    cd "$1" || return
    npm pack --silent "axe-core@$AXE_VERSION" && tar --extract --gzip --file axe-core-*.tgz --strip-components 1 package/axe.min.js
)

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
