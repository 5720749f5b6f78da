#!/usr/bin/env bash
# Takes the screenshots of the live page for README.md, docs/guide/web.md and docs/guide/privacy.md, of a real clip in a real browser.
set -euo pipefail

# shellcheck source-path=SCRIPTDIR source=lib/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"

out=$root/docs/images
# Created in `main`, removed at the end.
work=

usage() {
    cat <<'END'
Usage: scripts/screenshots.sh [options]

Installs what is missing, plays real clips to the daemon, opens the live page in Chromium, and writes web-light.png, web-dark.png,
web-phone.png and privacy.png.

  --out DIR   where they go (docs/images)
  --yes       install missing packages without asking
  --help      this
END
}

read_option() {
    case "$1" in
    --out) out=$2 ;;
    esac
}

screenshot_packages() {
    printf 'fonts-inter||the font of the screenshots; elsewhere the page uses the system font\n'
}

clean_up() {
    if [ -n "$work" ]; then
        rm -rf "$work"
    fi
}

main() {
    local picture
    read_arguments "$@"
    cd "$root"
    ensure_rust
    ensure_packages build_packages run_packages browser_packages screenshot_packages
    ensure_clips vtest.avi box.mp4 || fail 'the clips are missing; see above'
    work=$(mktemp -d)
    trap clean_up EXIT
    FOVEATE_CLIPS=$(clip_cache) FOVEATE_SCREENSHOTS=$work \
        cargo test --locked --test web -- --ignored --exact web_browser::screenshots
    mkdir -p "$out"
    for picture in "$work"/*.png.base64; do
        base64 --decode "$picture" >"$out/$(basename "$picture" .base64)"
    done
    say "web-light.png, web-dark.png, web-phone.png and privacy.png are in $out."
}

main "$@"
