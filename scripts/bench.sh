#!/usr/bin/env bash
# Runs a measurement of scripts/bench after installing what it needs and building Foveate.
set -euo pipefail

# shellcheck source-path=SCRIPTDIR source=lib/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"

# Fetches clips and builds programs, unless programs are given: prepare ARGUMENT...
prepare() {
    ensure_rust
    ensure_packages build run "$name"
    case "$name" in
    ipc)
        cargo build --release --manifest-path "$root/scripts/bench/iceoryx2/Cargo.toml" --target-dir "$target/iceoryx2" \
            || fail 'the build of iceoryx2 failed; see above'
        ;;
    layouts | load | pursuit | relevance) ensure_clips vtest.avi box.mp4 || fail 'the clips are missing; see above' ;;
    peers) ensure_clips vtest.avi box.mp4 || warn 'Measured on made frames alone.' ;;
    esac
    [[ " $* " == *' --programs'[\ =]* ]] || build_release --bins
}

main() {
    local word name arguments=() is_help=false
    for word in "$@"; do
        case "$word" in
        --yes) assume_yes=true ;;
        --help | -h) is_help=true arguments+=(--help) ;;
        *) arguments+=("$word") ;;
        esac
    done
    # Standard output is for the figures alone.
    ensure_packages bench >&2
    # Wrong usage ends here.
    /usr/bin/python3 -B "$root/scripts/bench" --check "${arguments[@]}"
    [ "$is_help" = false ] || return 0
    name=${arguments[0]}
    prepare "${arguments[@]}" >&2
    # Debian's own Python, because its packages are for it.
    PYTHONPATH=$root/python /usr/bin/python3 -B "$root/scripts/bench" "${arguments[@]}"
}

main "$@"
