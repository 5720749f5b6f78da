#!/usr/bin/env bash
# Measures how many cameras two processors can serve.
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

# Debian's own, because its NumPy is for it.
readonly PYTHON=/usr/bin/python3

arguments=(--foveated "${CARGO_TARGET_DIR:-$root/target}/release/foveated")

usage() {
    cat <<'END'
Usage: scripts/bench_load.sh [options]

Installs what is missing, builds Foveate, and finds how many streams of 1280x720 at 30 frames a second two processors
carry with no drop and an age below one frame time: raw frames from memory, raw frames of a still scene, and H.264 that is
decoded; and before that, where the time of a frame goes. Prints Markdown. Takes about three quarters of an hour; nothing else
should run meanwhile.

  --stages          only where the time of a frame goes, stage by stage, about three minutes
  --quick           shorter runs, about ten minutes
  --refresh-docs    put the tables into docs/data/benchmarks.txt as well
  --yes             install missing packages without asking
  --help            this
END
}

read_flag() {
    case "$1" in
    --stages) arguments+=(--stages) ;;
    --quick) arguments+=(--seconds 4 --warm 1) ;;
    --refresh-docs) arguments+=(--refresh "$root/docs/data/benchmarks.txt") ;;
    esac
}

load_packages() {
    cat <<'END'
gstreamer1.0-tools|gst-launch-1.0|makes the clips, and measures the cost of decoding alone
python3-numpy||the arrays of the Python reader
END
}

main() {
    read_arguments '--stages --quick --refresh-docs' '' "$@"
    # Standard output is for the figures alone.
    {
        ensure_rust "$root"
        ensure_packages build_packages run_packages load_packages
        ensure_clips box.mp4 || fail 'the clip is missing; see above'
        cargo build --release --locked --manifest-path "$root/Cargo.toml" --bins || fail 'the build failed; see above'
    } >&2
    PYTHONPATH=$root/python "$PYTHON" -B "$root/scripts/bench/load.py" "${arguments[@]}" --clip "$(clip_cache)/box.mp4"
}

main "$@"
