#!/usr/bin/env bash
# Measures how the cost of a frame scales, and plots it.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck source-path=SCRIPTDIR source=lib/say.sh
. "$root/scripts/lib/say.sh"
# shellcheck source-path=SCRIPTDIR source=lib/options.sh
. "$root/scripts/lib/options.sh"
# shellcheck source-path=SCRIPTDIR source=lib/setup.sh
. "$root/scripts/lib/setup.sh"

# Debian's own, because the package below is for it; a python3 found earlier in PATH may not see it.
readonly PYTHON=/usr/bin/python3

out=$root/docs/images
arguments=(--foveate "${CARGO_TARGET_DIR:-$root/target}/release/foveate")

usage() {
    cat <<'END'
Usage: scripts/plot_scaling.sh [options]

Installs what is missing, builds Foveate, and measures how the cost of a frame grows with its size, with the share of
it that changes, with the tokens and with the views. Leaves scaling.json and scaling.png. Takes about a quarter of a minute once it is built.

  --out DIR         where the figures and the picture go (docs/images)
  --backend NAME    cpu or vulkan (cpu)
  --device NAME     part of the name of the Vulkan device, such as llvmpipe
  --quick           fewer points and frames
  --yes             install missing packages without asking
  --help            this
END
}

read_flag() {
    arguments+=("$1")
}

read_option() {
    case "$1" in
    --out) out=$2 ;;
    --backend)
        [[ $2 =~ ^(cpu|vulkan)$ ]] || usage_error "--backend $2: expected cpu or vulkan"
        arguments+=(--backend "$2")
        ;;
    --device) arguments+=(--device "$2") ;;
    esac
}

plot_packages() {
    cat <<'END'
python3-matplotlib||draws the figures
END
}

main() {
    read_arguments --quick '--out --backend --device' "$@"
    ensure_rust "$root"
    ensure_packages build_packages run_packages plot_packages
    cargo build --release --locked --manifest-path "$root/Cargo.toml" --bin foveate \
        || fail 'the build failed; see above'
    mkdir -p "$out"
    "$PYTHON" -B "$root/scripts/bench/scaling.py" "${arguments[@]}" --out "$out"
}

main "$@"
