#!/usr/bin/env bash
# Builds and tests hierarchical attention, which the plain build leaves out: only Python uses it.
set -euo pipefail

# shellcheck source-path=SCRIPTDIR source=lib/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"

usage() {
    cat <<'END'
Usage: scripts/attention.sh [options]

Builds python/attention, a workspace of its own, and tests it: its kernel against itself and a Vulkan device, the Python package
against the definition. FOVEATE_WITHOUT_VULKAN=1 leaves the device out. PYTHON is the interpreter, by default /usr/bin/python3; tensors
are tested where it has torch.

  --yes   install missing packages without asking
  --help  this
END
}

main() {
    read_arguments "$@"
    cd "$root"
    ensure_rust
    ensure_packages build run test
    cd python/attention
    cargo fmt --all --check || fail 'cargo fmt would change python/attention'
    cargo clippy --locked --workspace --all-targets -- -D warnings
    cargo test --locked --workspace
    cargo build --locked
    "${PYTHON:-/usr/bin/python3}" -B -m unittest discover -v -s tests
}

main "$@"
