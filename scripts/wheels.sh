#!/usr/bin/env bash
# Builds the wheels of the reader and of the engine, and tries both in an empty environment.
set -euo pipefail

# shellcheck source-path=SCRIPTDIR source=lib/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"
# shellcheck source-path=SCRIPTDIR source=lib/wheel.sh
. "$root/scripts/lib/wheel.sh"

usage() {
    cat <<'END'
Usage: scripts/wheels.sh [--yes]

Builds foveate-*.whl, the reader, which is pure Python, and foveate_engine-*.whl, the engine, which runs on every Linux with glibc
2.17 or later (manylinux2014) and on Python 3.10 or later; without GStreamer. Then installs them into an empty environment, runs the
engine's tests there, and puts them into target/wheels.

  --yes   install missing packages without asking
  --help  this
END
}

# In the folder given: build_wheels TOOLS FOLDER
build_wheels() {
    # A copy, since setuptools leaves a folder behind where it builds.
    mkdir "$2/source" "$2/wheels"
    cp -r "$root/python/foveate" "$root/python/pyproject.toml" "$root/python/README.md" "$2/source"
    with_progress 'Building the reader' "$1/bin/pip" wheel --quiet --no-deps --wheel-dir "$2/wheels" "$2/source" || return
    build_engine_wheel "$1" "$2/wheels" --zig --compatibility manylinux2014 --auditwheel repair || return
    with_progress 'Looking for symbols that are not of the stable ABI' "$1/bin/abi3audit" --strict "$2"/wheels/foveate_engine-*.whl
}

# Installs the wheels into an empty environment, and runs tests on what was installed: try_wheels FOLDER
try_wheels() {
    local environment=$1/environment
    python3 -m venv "$environment" || return
    with_progress 'Installing the wheels' "$environment/bin/pip" install --quiet "$1"/wheels/*.whl || return
    # Away from the sources, so that nothing but what is installed can be imported.
    (cd "$1" && "$environment/bin/python" -c \
        'import sys, foveate, foveate_engine; print(sys.version.split()[0], foveate_engine.Engine("cpu"))') || return
    FOVEATE_INSTALLED_ENGINE=1 FOVEATE_WITHOUT_VULKAN=1 with_progress 'Running the tests of the engine' \
        "$environment/bin/python" -B -m unittest discover -s "$root/python/engine/tests" -p 'test_engine.py'
}

main() {
    local tools folder
    read_arguments "$@"
    tools=$(clip_cache)/wheels
    ensure_rust
    ensure_packages wheel
    ensure_wheel_tools "$tools"
    folder=$(mktemp -d)
    # shellcheck disable=SC2064 # The folder of now.
    trap "rm -rf '$folder'" EXIT
    build_wheels "$tools" "$folder" || fail 'the wheels cannot be built; see above'
    try_wheels "$folder" || fail 'the wheels do not work; see above'
    mkdir -p "$target/wheels"
    cp --verbose "$folder"/wheels/*.whl "$target/wheels"
}

main "$@"
