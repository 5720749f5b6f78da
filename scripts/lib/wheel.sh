# shellcheck shell=bash
# Builds the wheels that have Rust in them.

# `zig cc` links against an old glibc on a new system; abi3audit finds symbols that are not of the stable ABI. By their exact versions,
# which wheels name.
readonly WHEEL_TOOLS='maturin[zig]==1.16.0 abi3audit==0.0.26 setuptools==84.2.1'

# Tools for wheels, kept between runs: ensure_wheel_tools ENVIRONMENT
ensure_wheel_tools() {
    ensure_environment "$1" "$WHEEL_TOOLS" || fail 'the tools cannot be installed; see above'
}

# Puts the wheel of python/NAME into FOLDER: build_wheel NAME TOOLS FOLDER [OPTION OF MATURIN]...
build_wheel() {
    local name=$1 tools=$2 folder=$3
    shift 3
    PATH=$tools/bin:$PATH with_progress "Building the wheel of $name" maturin build --release --locked "$@" --out "$folder" \
        --manifest-path "$root/python/$name/Cargo.toml"
}
