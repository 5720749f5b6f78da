#!/usr/bin/env bash
# Measures the latency of token frames from the writer to readers in other processes, alternating with iceoryx2.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck source-path=SCRIPTDIR source=lib/say.sh
. "$root/scripts/lib/say.sh"
# shellcheck source-path=SCRIPTDIR source=lib/options.sh
. "$root/scripts/lib/options.sh"
# shellcheck source-path=SCRIPTDIR source=lib/setup.sh
. "$root/scripts/lib/setup.sh"

# Debian's own, because its NumPy is for it.
readonly PYTHON=/usr/bin/python3

target=${CARGO_TARGET_DIR:-$root/target}
arguments=(--foveate "$target/release/foveate" --peer "$target/iceoryx2/release/foveate-bench-iceoryx2")

usage() {
    cat <<'END'
Usage: scripts/bench_ipc.sh [options]

Installs what is missing, builds Foveate and a small program that uses iceoryx2, and measures both in turns: how long a
frame of 419328 bytes takes from its writer to the copy of a reader in another process. Measures a read in Python, too.
Prints Markdown. Takes about three minutes once it is built.

  --quick           fewer rounds, about half a minute
  --refresh-docs    put the tables into docs/data/benchmarks.txt as well
  --yes             install missing packages without asking
  --help            this
END
}

read_flag() {
    case "$1" in
    --quick) arguments+=(--rounds 2) ;;
    --refresh-docs) arguments+=(--refresh "$root/docs/data/benchmarks.txt") ;;
    esac
}

ipc_packages() {
    cat <<'END'
python3-numpy||the arrays of the Python reader
END
}

main() {
    read_arguments '--quick --refresh-docs' '' "$@"
    # Standard output is for the figures alone.
    {
        ensure_rust "$root"
        ensure_packages build_packages run_packages ipc_packages
        cargo build --release --locked --manifest-path "$root/Cargo.toml" || fail 'the build failed; see above'
        cargo build --release --locked --manifest-path "$root/scripts/bench/iceoryx2/Cargo.toml" \
            --target-dir "$target/iceoryx2" || fail 'the build of the peer failed; see above'
    } >&2
    "$PYTHON" -B "$root/scripts/bench/ipc.py" "${arguments[@]}"
}

main "$@"
