#!/usr/bin/env bash
# Fuzzes the parsers of client messages and gaze logs.
set -euo pipefail

# shellcheck source-path=SCRIPTDIR source=lib/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"

seconds=60

usage() {
    cat <<'END'
Usage: scripts/fuzz.sh [--seconds N]

Fuzzes what reads the messages of clients and gaze logs, from fuzz/corpus on. Needs cargo-fuzz, a nightly Rust and a C++
compiler, installs none of them, and says what is missing. What it finds interesting stays in fuzz/target/found, and what
breaks a law in fuzz/artifacts; then it fails.

  --seconds N  how long (60)
  --yes        as of the other scripts; there is nothing to ask
  --help       this
END
}

read_option() {
    [[ $2 =~ ^[1-9][0-9]{0,6}$ ]] || usage_error "--seconds $2: expected a whole number from 1"
    seconds=$2
}

check_tools() {
    command -v cargo-fuzz >/dev/null || fail 'cargo-fuzz is missing: cargo install cargo-fuzz'
    cargo +nightly --version >/dev/null 2>&1 \
        || fail 'a nightly Rust is missing: rustup toolchain install nightly --profile minimal'
    command -v c++ >/dev/null || fail 'a C++ compiler is missing, for libFuzzer: apt-get install g++'
}

main() {
    read_arguments "$@"
    check_tools
    cd "$root"
    mkdir -p fuzz/target/found
    # 16 KiB find the same mistakes as 128, faster.
    cargo +nightly fuzz run messages fuzz/target/found fuzz/corpus/messages -- \
        -dict=fuzz/messages.dict -max_len=16384 -timeout=10 -max_total_time="$seconds" \
        || fail 'the fuzzer found a fault, or could not be built; see above'
}

main "$@"
