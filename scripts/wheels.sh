#!/usr/bin/env bash
# Builds the wheels of the reader, the daemon and the engine, and tries them in an empty environment.
set -euo pipefail

# shellcheck source-path=SCRIPTDIR source=lib/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"
# shellcheck source-path=SCRIPTDIR source=lib/arm.sh
. "$root/scripts/lib/arm.sh"
# shellcheck source-path=SCRIPTDIR source=lib/programs.sh
. "$root/scripts/lib/programs.sh"
# shellcheck source-path=SCRIPTDIR source=lib/wheel.sh
. "$root/scripts/lib/wheel.sh"

out=$target/wheels
arch=
with_engine=true
# Created in `main`.
work=

usage() {
    cat <<'END'
Usage: scripts/wheels.sh [options]

Builds three wheels, tries them in an empty environment, and puts them into target/wheels:

  foveate         the reader: pure Python
  foveate-daemon  foveated and foveate, for every Linux with a C library at least as new as they need (glibc 2.35, when built on
                  Debian 12) and GStreamer 1.20 or later of its own
  foveate-engine  the engine, for every Linux with glibc 2.17 or later (manylinux2014); without GStreamer

The same sources, compilers and libraries give the same bytes.

  --arch ARCH       amd64 or arm64 (this machine's). Of arm64 on another machine only foveate-daemon is built, with the libraries of
                    a Debian 12 for ARM, in which it is tried; this needs root and a gigabyte in ~/.cache/foveate
  --out DIR         folder of the wheels (target/wheels)
  --without-engine  leave out foveate-engine, half of the time
  --yes             install missing packages without asking
  --help            this
END
}

read_option() {
    case "$1" in
    --arch)
        check_architecture "$2"
        arch=$2
        ;;
    --out) out=$2 ;;
    --without-engine) with_engine=false ;;
    esac
}

is_native() {
    [ "$arch" = "$(this_architecture)" ]
}

# Builds the wheels of this machine: build_wheels TOOLS
build_wheels() {
    # A copy, since setuptools leaves a folder behind where it builds.
    mkdir "$work/source"
    cp -r "$root/python/foveate" "$root/python/pyproject.toml" "$root/python/README.md" "$work/source"
    with_progress 'Building the reader' \
        "$1/bin/pip" wheel --quiet --no-deps --no-build-isolation --wheel-dir "$work/wheels" "$work/source" || return
    [ "$with_engine" = true ] || return 0
    reproducibly build_wheel engine "$1" "$work/wheels" --zig --compatibility manylinux2014 --auditwheel repair || return
    with_progress 'Looking for symbols that are not of the stable ABI' "$1/bin/abi3audit" --strict "$work"/wheels/foveate_engine-*.whl
}

build_daemon_wheel() {
    build_programs "$arch"
    licences "$arch" >"$work/crates.txt" || return
    python3 -B "$root/scripts/lib/wheel.py" "$work/wheels" "$programs" "$work/crates.txt" "$(version)" "$arch" "$(gnu_target "$arch")-"
}

# Installs the wheels into an empty environment, and runs tests on what was installed.
try_wheels() {
    local environment=$work/environment
    python3 -m venv "$environment" || return
    with_progress 'Installing the wheels' "$environment/bin/pip" install --quiet "$work"/wheels/*.whl || return
    # Away from the sources, so that nothing but what is installed can be imported.
    (cd "$work" && "$environment/bin/python" -c 'import sys, foveate; print(sys.version.split()[0])') || return
    "$environment/bin/foveated" --config "$environment/share/foveate/examples/tour.toml" --check || return
    try_demo "$environment/bin/foveate" || return
    [ "$with_engine" = true ] || return 0
    FOVEATE_INSTALLED_ENGINE=1 FOVEATE_WITHOUT_VULKAN=1 with_progress 'Running the tests of the engine' \
        "$environment/bin/python" -B -m unittest discover -s "$root/python/engine/tests" -p 'test_engine.py'
}

# The same for the daemon on ARM.
try_arm_wheel() {
    local tag in_arm_debian
    tag=$(basename "$work"/wheels/foveate_daemon-*.whl .whl)
    "$1/bin/pip" install --quiet --no-deps --only-binary=:all: --platform "${tag##*-}" --target "$work/environment" "$work"/wheels/*.whl \
        || return
    describe_arm_debian "$work"
    try_demo "${in_arm_debian[@]}" env PYTHONPATH="$work/environment" \
        python3 -c 'import foveate_daemon; foveate_daemon.foveate()'
}

# Looks whether `foveate demo` shows its page: try_demo FOVEATE...
try_demo() {
    local process address='' status=0
    "$@" demo --no-open --listen 127.0.0.1:0 >"$work/demo.log" 2>&1 &
    process=$!
    while [ -z "$address" ] && kill -0 "$process" 2>/dev/null; do
        sleep 0.1
        address=$(grep -o 'http://[^ ]*' "$work/demo.log") || true
    done
    python3 -c 'import sys, urllib.request; assert b"<html" in urllib.request.urlopen(sys.argv[1]).read()' "$address" || status=1
    kill -TERM "$process" 2>/dev/null || true
    wait "$process" || status=1
    [ "$status" -eq 0 ] || cat "$work/demo.log" >&2
    return "$status"
}

clean_up() {
    forget_arm_programs
    rm -rf --one-file-system "$work"
}

main() {
    local tools
    read_arguments "$@"
    arch=${arch:-$(this_architecture)}
    tools=$(clip_cache)/wheels
    ensure_rust
    ensure_packages wheel package
    ensure_wheel_tools "$tools"
    set_source_date
    umask 022
    trap clean_up EXIT
    work=$(mktemp -d)
    mkdir "$work/wheels"
    build_daemon_wheel || fail 'the wheel of the daemon cannot be built; see above'
    if is_native; then
        build_wheels "$tools" || fail 'the wheels cannot be built; see above'
        try_wheels || fail 'the wheels do not work; see above'
    else
        { run_arm_programs && try_arm_wheel "$tools"; } || fail 'the wheel does not work on ARM; see above'
    fi
    mkdir -p "$out"
    cp --verbose "$work"/wheels/*.whl "$out"
}

main "$@"
