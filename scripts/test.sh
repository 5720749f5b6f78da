#!/usr/bin/env bash
# The second of the two commands: proves Foveate correct on this machine.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck source-path=SCRIPTDIR source=lib/say.sh
. "$root/scripts/lib/say.sh"
# shellcheck source-path=SCRIPTDIR source=lib/setup.sh
. "$root/scripts/lib/setup.sh"

usage() {
    cat <<'END'
Usage: scripts/test.sh [--long] [--yes]

Installs what is missing, then runs every check and every test.

  --long    also the long tests: more cases, more iterations
  --yes     install missing packages without asking
  --help    this
END
}

read_arguments() {
    while [ $# -gt 0 ]; do
        case "$1" in
        --long) export FOVEATE_LONG=1 ;;
        --yes) assume_yes=true ;;
        --help | -h)
            usage
            exit
            ;;
        *) usage_error "unknown option $1" ;;
        esac
        shift
    done
}

# Runs one check, and ends the script with its name if it fails: step NAME COMMAND...
step() {
    local name=$1 started=$SECONDS
    shift
    say "== $name"
    "$@" || fail "failed: $name"
    say "   passed in $((SECONDS - started)) s"
}

check_scripts() {
    shellcheck --external-sources --check-sourced .ci/run scripts/*.sh
}

# Advisories change from day to day, and the same code must pass or fail the same tests tomorrow.
check_dependencies() {
    if ! command -v cargo-deny >/dev/null; then
        say '   not checked: cargo-deny is not installed (cargo install cargo-deny)'
        return
    fi
    cargo deny check bans licenses sources
}

main() {
    read_arguments "$@"
    cd "$root"
    ensure_rust "$root"
    ensure_packages build_packages run_packages test_packages
    # Mesa's software device is installed, so a Vulkan test that finds none has found a fault.
    export FOVEATE_REQUIRE_VULKAN=1

    step 'scripts' check_scripts
    step 'format' cargo fmt --check
    step 'lints' cargo clippy --locked --all-targets -- -D warnings
    step 'lints without features' cargo clippy --locked --all-targets --no-default-features -- -D warnings
    step 'documentation' env RUSTDOCFLAGS=-Dwarnings cargo doc --locked --no-deps
    step 'dependencies' check_dependencies
    step 'tests' cargo test --locked --no-fail-fast
    say "Everything passed in $SECONDS s."
}

main "$@"
