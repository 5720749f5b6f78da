#!/usr/bin/env bash
# Puts a daemon through the events of months in minutes.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck source-path=SCRIPTDIR source=lib/say.sh
. "$root/scripts/lib/say.sh"
# shellcheck source-path=SCRIPTDIR source=lib/options.sh
. "$root/scripts/lib/options.sh"
# shellcheck source-path=SCRIPTDIR source=lib/setup.sh
. "$root/scripts/lib/setup.sh"

# Debian's own, because the packages below are for it; a python3 found earlier in PATH may not see them.
readonly PYTHON=/usr/bin/python3

minutes=
plots=false
arguments=(--programs "${CARGO_TARGET_DIR:-$root/target}/release")

usage() {
    cat <<'END'
Usage: scripts/soak.sh --minutes N [options]

Installs what is missing, builds Foveate, and runs a daemon of four streams: a file, a live pattern, a network camera, and
frames over UDP on llvmpipe where that is there. Meanwhile, at random: readers come, stand still and are killed, views are
steered, made and set, streams are added, changed and removed, configurations are reloaded, good and bad ones, and sources
are lost and come back. Prints what the daemon holds and how old its frames are, and at the end whether all of it came back,
nothing grew and no error was logged: exit code 0, or 1, and then the logs are kept. Takes two minutes more than asked for.

  --minutes N       how long, a whole number from 1
  --seed S          the seed of what happens, a whole number, to do the same again; by default one is made and printed
  --plot FILE       draws what was seen, as PNG or SVG
  --csv FILE        writes what was seen, one line a sample
  --yes             install missing packages without asking
  --help            this
END
}

read_flag() { :; }

read_option() {
    case "$1" in
    --minutes)
        [[ $2 =~ ^[1-9][0-9]{0,4}$ ]] || usage_error "--minutes $2: expected a whole number from 1"
        minutes=$2
        ;;
    --seed)
        [[ $2 =~ ^[0-9]{1,10}$ ]] || usage_error "--seed $2: expected a whole number"
        arguments+=(--seed "$2")
        ;;
    --plot)
        [[ $2 =~ \.(png|svg)$ ]] || usage_error "--plot $2: expected a name that ends in .png or .svg"
        plots=true
        arguments+=(--plot "$2")
        ;;
    --csv) arguments+=(--csv "$2") ;;
    esac
}

soak_packages() {
    cat <<'END'
gstreamer1.0-tools|gst-launch-1.0|makes the frames of two of the streams
python3-numpy||the arrays of the Python reader
python3-gi||runs the network camera
gir1.2-gst-rtsp-server-1.0||the network camera
END
}

plot_packages() {
    cat <<'END'
python3-matplotlib||draws the figures
END
}

main() {
    local lists=(build_packages run_packages soak_packages)
    read_arguments '' '--minutes --seed --plot --csv' "$@"
    [ -n "$minutes" ] || usage_error '--minutes is needed'
    if [ "$plots" = true ]; then
        lists+=(plot_packages)
    fi
    ensure_rust "$root"
    ensure_packages "${lists[@]}"
    cargo build --release --locked --manifest-path "$root/Cargo.toml" --bins || fail 'the build failed; see above'
    PYTHONPATH=$root/python "$PYTHON" -B "$root/scripts/bench/soak.py" "${arguments[@]}" --minutes "$minutes"
}

main "$@"
