#!/usr/bin/env bash
# Measures Foveate against OpenCV and PyTorch on the same frames, in turns.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck source-path=SCRIPTDIR source=lib/say.sh
. "$root/scripts/lib/say.sh"
# shellcheck source-path=SCRIPTDIR source=lib/options.sh
. "$root/scripts/lib/options.sh"
# shellcheck source-path=SCRIPTDIR source=lib/setup.sh
. "$root/scripts/lib/setup.sh"
# shellcheck source-path=SCRIPTDIR source=lib/clip.sh
. "$root/scripts/lib/clip.sh"

# Debian's own, because the packages below are for it; a python3 found earlier in PATH may not see them.
readonly PYTHON=/usr/bin/python3

# Arguments of peers.py.
arguments=(--foveate "${CARGO_TARGET_DIR:-$root/target}/release/foveate")
clips=()

usage() {
    cat <<'END'
Usage: scripts/bench_peers.sh [options]

Installs what is missing, builds Foveate, and measures it in turns with OpenCV and PyTorch on the same frames:
made ones of three sizes and five shares of change, and real clips. Prints Markdown. Takes a quarter of an hour.

  --quick           fewer sizes and rounds, about five minutes
  --clip FILE       another clip to measure on; may be repeated
  --device NAME     part of the name of the Vulkan device (a GPU if there is one, otherwise llvmpipe)
  --json            print the figures of every round as JSON instead
  --refresh-docs    put the tables into docs/data/benchmarks.txt as well
  --yes             install missing packages without asking
  --help            this
END
}

read_flag() {
    case "$1" in
    --refresh-docs) arguments+=(--refresh "$root/docs/data/benchmarks.txt") ;;
    *) arguments+=("$1") ;;
    esac
}

read_option() {
    case "$1" in
    --clip)
        [[ -f $2 && -r $2 ]] || usage_error "--clip $2: no such file, or not readable"
        clips+=("$(realpath "$2")")
        ;;
    --device) arguments+=(--device "$2") ;;
    esac
}

peer_packages() {
    cat <<'END'
python3-numpy||gathers patches, as people do in Python
python3-opencv||one of the programs that Foveate is measured against
python3-torch||the other one
END
}

main() {
    read_arguments '--quick --json --refresh-docs' '--clip --device' "$@"
    # Standard output is for the figures alone.
    {
        ensure_rust "$root"
        ensure_packages build_packages run_packages peer_packages
        if ensure_clips vtest.avi box.mp4; then
            clips=("$(clip_cache)/vtest.avi" "$(clip_cache)/box.mp4" "${clips[@]}")
        fi
        cargo build --release --locked --manifest-path "$root/Cargo.toml" --bin foveate \
            || fail 'the build failed; see above'
    } >&2
    "$PYTHON" -B "$root/scripts/bench/peers.py" "${arguments[@]}" "${clips[@]}"
}

main "$@"
