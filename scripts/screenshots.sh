#!/usr/bin/env bash
# Takes the screenshots of the live page for README.md, docs/guide/web.md and docs/guide/privacy.md, of real clips and the scene that the
# program draws, in a real browser.
set -euo pipefail

# shellcheck source-path=SCRIPTDIR source=lib/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"

usage() {
    cat <<'END'
Usage: scripts/screenshots.sh [--yes]

Installs what is missing, plays real clips to the daemon, opens the live page in Chromium, and writes web-light.png, web-dark.png,
web-phone.png, web-grid.png, web-inspector.png, web-mask.png, web-paused.png and privacy.png into docs/images.

  --yes   install missing packages without asking
  --help  this
END
}

main() {
    local picture work
    read_arguments "$@"
    cd "$root"
    ensure_rust
    ensure_packages build run browser chromium screenshots
    ensure_clips vtest.avi box.mp4 || fail 'the clips are missing; see above'
    work=$(mktemp -d)
    # shellcheck disable=SC2064 # The folder of now.
    trap "rm -rf '$work'" EXIT
    FOVEATE_CLIPS=$(clip_cache) FOVEATE_SCREENSHOTS=$work \
        cargo test --locked --test web -- --ignored --exact web_browser::screenshots
    for picture in "$work"/*.png.base64; do
        base64 --decode "$picture" | pngquant --quality 70-95 --strip - >"docs/images/$(basename "$picture" .base64)" || fail "$picture"
    done
}

main "$@"
