#!/usr/bin/env bash
# Builds and tests the bridges, which the plain build leaves out: Zenoh takes minutes to compile.
set -euo pipefail

# shellcheck source-path=SCRIPTDIR source=lib/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"

measures=false
release=false

usage() {
    cat <<'END'
Usage: scripts/bridges.sh [options]

Builds the bridges in bridges/, and tests them: a daemon with a real clip, the bridge, routers in network namespaces, and a remote
reader in Python. The namespaces need root.

  --release  builds for use, into bridges/target/release, and tests nothing
  --measure  measures the bytes a second of docs/guide/fleet.md instead of testing; takes two minutes
  --yes      install missing packages without asking
  --help     this
END
}

read_option() {
    case "$1" in
    --measure) measures=true ;;
    --release) release=true ;;
    esac
}

# Zenoh's Python package and another reader of ROS 2's messages, kept between runs, beside Debian's NumPy:
# ensure_zenoh ENVIRONMENT
ensure_zenoh() {
    if [ ! -x "$1/bin/pip" ]; then
        /usr/bin/python3 -m venv --system-site-packages "$1" || return
    fi
    with_progress "Installing Zenoh's Python package" "$1/bin/pip" install --quiet \
        --requirement bridges/requirements.txt
}

main() {
    local environment
    read_arguments "$@"
    cd "$root"
    ensure_rust
    ensure_packages bridge
    if [ "$release" = true ]; then
        (cd bridges && cargo build --locked --release) || fail 'the bridges cannot be built; see above'
        say 'bridges/target/release/foveate-zenoh and foveate-ros2'
        return
    fi
    environment=$(clip_cache)/zenoh
    ensure_clips vtest.avi || fail 'the bridges are tested with the clip; see above'
    ensure_zenoh "$environment" || fail "Zenoh's Python package cannot be installed; see above"
    FOVEATE_CLIPS=$(clip_cache)
    FOVEATE_BIN=$target/debug
    FOVEATE_BRIDGES=${CARGO_TARGET_DIR:-$root/bridges/target}/debug
    export FOVEATE_CLIPS FOVEATE_BIN FOVEATE_BRIDGES FOVEATE_REQUIRE_BIN=1
    cargo build --locked --bins
    cd bridges
    cargo build --locked
    if [ "$measures" = true ]; then
        "$environment/bin/python" -B zenoh/tests/measure.py
        return
    fi
    cargo fmt --all --check || fail 'cargo fmt would change the bridges'
    cargo clippy --locked --workspace --all-targets -- -D warnings
    "$environment/bin/python" -B -m unittest discover -s zenoh/tests
    "$environment/bin/python" -B -m unittest discover -s ros2/tests
}

main "$@"
