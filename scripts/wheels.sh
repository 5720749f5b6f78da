#!/usr/bin/env bash
# Builds the wheels of the reader and of the engine, and tries both in an empty environment.
set -euo pipefail

# shellcheck source-path=SCRIPTDIR source=lib/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"
# shellcheck source-path=SCRIPTDIR source=lib/wheel.sh
. "$root/scripts/lib/wheel.sh"

wheels=$target/wheels
pythons=()

usage() {
    cat <<'END'
Usage: scripts/wheels.sh [options]

Builds foveate-*.whl, the reader, which is pure Python, and foveate_engine-*.whl, the engine, which runs on every Linux with glibc
2.17 or later (manylinux2014) and on Python 3.9 or later; without GStreamer. Then installs them into an empty environment and runs
the engine's tests there.

  --out DIR       folder of the wheels (target/wheels)
  --python EXE    Python to try them with; may be repeated (python3)
  --yes           install missing packages without asking
  --help          this
END
}

read_option() {
    case "$1" in
    --out) wheels=$2 ;;
    --python)
        command -v "$2" >/dev/null || usage_error "--python $2: there is no such program"
        pythons+=("$2")
        ;;
    esac
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

# Installs the wheels into an empty environment, and runs tests on what was installed: try_wheels PYTHON FOLDER
try_wheels() {
    local environment
    environment=$(mktemp -d "$2/python.XXXXXX")
    with_progress "Installing the wheels: $("$1" -V)" install_wheels "$1" "$2" "$environment" || return
    # Away from the sources, so that nothing but what is installed can be imported.
    (cd "$2" && "$environment/bin/python" -c \
        'import sys, foveate, foveate_engine; print(sys.version.split()[0], foveate_engine.Engine("cpu"))') || return
    FOVEATE_INSTALLED_ENGINE=1 FOVEATE_WITHOUT_VULKAN=1 with_progress 'Running the tests of the engine' \
        "$environment/bin/python" -B -m unittest discover -s "$root/python/engine/tests" -p 'test_engine.py'
}

# install_wheels PYTHON FOLDER ENVIRONMENT
install_wheels() {
    "$1" -m venv "$3" || return
    "$3/bin/pip" install --quiet "$2"/wheels/*.whl
}

main() {
    local tools python wheel
    read_arguments "$@"
    [ "${#pythons[@]}" -gt 0 ] || pythons=(python3)
    tools=$(clip_cache)/wheels
    ensure_rust
    ensure_packages wheel_packages
    ensure_wheel_tools "$tools"
    folder=$(mktemp -d)
    trap 'rm -rf "$folder"' EXIT
    build_wheels "$tools" "$folder" || fail 'the wheels cannot be built; see above'
    for python in "${pythons[@]}"; do
        try_wheels "$python" "$folder" || fail "the wheels do not work with $python; see above"
    done
    mkdir -p "$wheels"
    cp "$folder"/wheels/*.whl "$wheels"
    for wheel in "$folder"/wheels/*.whl; do
        say "$wheels/$(basename "$wheel")"
    done
}

main "$@"
