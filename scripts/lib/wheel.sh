# shellcheck shell=bash
# Builds the wheel of the engine. Needs say.sh and setup.sh.

# `zig cc` links against an old glibc on a new system; abi3audit finds symbols that are not of the stable ABI.
readonly WHEEL_TOOLS='maturin[zig]==1.16.0 abi3audit==0.0.26'

# As every build, but without GStreamer.
wheel_packages() {
    build_packages | grep -v -e gstreamer -e pkgconf
    cat <<'END'
python3|python3|builds the wheels
python3-venv||keeps the tools for that apart from the system's
END
}

# Tools for wheels, kept between runs: ensure_wheel_tools ENVIRONMENT
ensure_wheel_tools() {
    [ "$(cat "$1/ready" 2>/dev/null)" = "$WHEEL_TOOLS" ] && return
    python3 -m venv "$1" || return
    # shellcheck disable=SC2086 # A list of words.
    with_progress 'Installing what builds wheels' "$1/bin/pip" install --quiet $WHEEL_TOOLS || return
    printf '%s\n' "$WHEEL_TOOLS" >"$1/ready"
}

# Puts the wheel of the engine of the repository ROOT into FOLDER: build_engine_wheel ROOT TOOLS FOLDER [OPTION OF MATURIN]...
build_engine_wheel() {
    local root=$1 tools=$2 folder=$3
    shift 3
    PATH=$tools/bin:$PATH with_progress 'Building the engine' maturin build --release --locked "$@" --out "$folder" \
        --manifest-path "$root/python/engine/Cargo.toml"
}
