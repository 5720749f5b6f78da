# shellcheck shell=bash
# Prepares a bare machine to build and run Foveate: lists missing packages with the reason for each, and installs them.
# With `assume_yes=true` it does not ask.

assume_yes=false

# A list of packages of packages.txt, or in the same form what a function of this name prints: packages_of LIST
packages_of() {
    sed -nE "s/^([a-z ]* )?$1( [a-z ]*)?: //p" "$root/scripts/lib/packages.txt" | grep . || ! declare -F "$1" >/dev/null || "$1"
}

# On Ubuntu the package has another name.
chromium() {
    local name=chromium
    [ "$(os_release ID)" != ubuntu ] || name=chromium-browser
    echo "$name|$name|the live page is tested in a real browser"
}

# Lists missing packages, and installs them if there is apt: ensure_packages LIST...
ensure_packages() {
    local list missing
    describe_system
    missing=$(for list in "$@"; do packages_of "$list"; done | missing_packages)
    [ -n "$missing" ] || return 0
    say 'Missing packages:'
    awk -F '|' '{ printf "  %-34s %s\n", $1, $3 }' <<<"$missing"
    if ! type -P apt-get >/dev/null; then
        warn 'There is no apt: install the equivalent packages of your distribution. Continuing.'
        return
    fi
    confirm_installation
    mapfile -t missing < <(cut -d '|' -f 1 <<<"$missing")
    install_packages "${missing[@]}"
}

# Warns if this system is not a tested one.
describe_system() {
    case "$(os_release ID) $(os_release VERSION_ID)" in
    'debian 12' | 'debian 13' | 'ubuntu 24.04') ;;
    *) warn "Tested on Debian 12, Debian 13 and Ubuntu 24.04; this is $(os_release PRETTY_NAME). Continuing." ;;
    esac
}

# One value of /etc/os-release; empty if missing.
os_release() {
    # shellcheck source=/dev/null
    [ ! -r /etc/os-release ] || (. /etc/os-release && printf '%s' "${!1:-}")
}

# Of the packages that it reads, prints those that are missing.
missing_packages() {
    local package provider why
    sort -u | while IFS='|' read -r package provider why; do
        is_there "$package" "$provider" || printf '%s|%s|%s\n' "$package" "$provider" "$why"
    done
}

# As a command, or as a package for this machine, which those of another architecture may lie beside. Without dpkg only commands can be
# checked. `command -v` would also find functions of this shell, which lists of packages may be called as: is_there PACKAGE COMMAND
is_there() {
    local found
    if [ -n "$2" ] && type -P "$2" >/dev/null; then
        return 0
    fi
    found=$(dpkg-query -W -f '${Architecture} ${db:Status-Status}\n' "$1" 2>/dev/null) || return
    grep -Eqx "($(dpkg --print-architecture)|all) installed" <<<"$found"
}

# Tries whatever the tests start, link or import, however it was installed, and ends the script with the names of all that does not
# work: tests would fail of it in the middle.
require_tools() {
    local folder lacking=()
    folder=$(mktemp -d)
    printf 'int main(void) { return 0; }\n' >"$folder/main.c"
    try 'cc' 'gcc, libc6-dev' cc "$folder/main.c" -o "$folder/main"
    try 'c++' 'g++' c++ -x c++ "$folder/main.c" -o "$folder/main"
    try 'aarch64-linux-gnu-gcc' 'gcc-aarch64-linux-gnu, libc6-dev-arm64-cross' \
        aarch64-linux-gnu-gcc "$folder/main.c" -o "$folder/main"
    try 'qemu-aarch64' 'qemu-user' qemu-aarch64 --version
    try 'cmake' 'cmake' cmake --version
    try 'make' 'make' make --version
    try 'glslc' 'glslc' glslc --version
    try 'shellcheck' 'shellcheck' shellcheck --version
    try 'systemd-analyze' 'systemd' systemd-analyze --version
    try 'unshare' 'util-linux' unshare --version
    try 'GStreamer for building' 'pkgconf, libgstreamer1.0-dev, libgstreamer-plugins-base1.0-dev' \
        pkg-config --exists gstreamer-app-1.0 gstreamer-video-1.0
    try '/usr/bin/python3 with venv' 'python3, python3-venv' /usr/bin/python3 -c 'import ensurepip, venv'
    try 'NumPy and Pillow of /usr/bin/python3' 'python3-numpy, python3-pil' /usr/bin/python3 -c 'import numpy, PIL'
    try 'GStreamer and its RTSP server in Python' 'python3-gi, gir1.2-gst-rtsp-server-1.0' import_gst GstRtspServer
    try 'GStreamer plugins' 'gstreamer1.0-plugins-base, gstreamer1.0-plugins-good, gstreamer1.0-plugins-bad, gstreamer1.0-libav' \
        import_gst Gst videotestsrc rtspsrc h264parse avdec_h264
    try 'DejaVuSans.ttf' 'fonts-dejavu-core' find_file DejaVuSans.ttf {/usr,/usr/local}/share/fonts ~/.fonts ~/.local/share/fonts
    try 'chromium, chromium-browser or google-chrome' 'chromium' run_browser
    [ -n "${FOVEATE_WITHOUT_VULKAN:-}${FOVEATE_WITHOUT_VALIDATION:-}" ] || try 'Vulkan validation layer' 'vulkan-validationlayers' \
        find_file VkLayer_khronos_validation.json {/usr,/usr/local}/share/vulkan /etc/vulkan
    rm -r "$folder"
    [ "${#lacking[@]}" -eq 0 ] || fail "what the tests need is missing or does not work:$(printf '\n  %s' "${lacking[@]}")"
}

# Notes what is lacking if a trial of it fails: try NAME PACKAGES COMMAND...
try() {
    local what="$1: install $2"
    shift 2
    "$@" </dev/null >/dev/null 2>&1 || lacking+=("$what")
}

# import_gst LIBRARY ELEMENT...
import_gst() {
    /usr/bin/python3 -c '
import sys, gi
gi.require_version(sys.argv[1], "1.0")
gi.require_version("Gst", "1.0")
from gi.repository import Gst
Gst.init(None)
sys.exit(not all(map(Gst.ElementFactory.find, sys.argv[2:])))' "$@"
}

# find_file NAME FOLDER...
find_file() {
    local name=$1
    shift
    [ -n "$(find "$@" -name "$name" 2>/dev/null)" ]
}

# One of those that tests/web/browser.rs looks for.
run_browser() {
    local name
    for name in chromium chromium-browser google-chrome; do
        ! type -P "$name" || { "$name" --no-sandbox --version && return; }
    done
    return 1
}

# Returns only if the missing packages may be installed.
confirm_installation() {
    local answer
    if [ "$assume_yes" = true ] || [ "${CI:-}" = true ]; then
        return
    fi
    [ -t 0 ] || fail 'cannot ask without a terminal: run again with --yes to install them'
    read -r -p 'Install them with apt? [Y/n] ' answer
    [[ $answer =~ ^([yY]|[yY][eE][sS])?$ ]] || fail 'these packages are required'
}

# The package lists are updated only if the installation fails: install_packages PACKAGE...
install_packages() {
    can_be_root || fail "neither root nor sudo; run as root: apt-get install $*"
    with_progress 'Installing the packages' apt_install "$@" && return
    with_progress 'Refreshing the package lists' as_root apt-get update || warn 'Updating the package lists failed.'
    with_progress 'Installing the packages' apt_install "$@" || fail "apt could not install them; see above, and try: apt-get install $*"
}

apt_install() {
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends "$@"
}

can_be_root() {
    [ "$(id -u)" -eq 0 ] || type -P sudo >/dev/null
}

as_root() {
    if [ "$(id -u)" -eq 0 ]; then
        "$@"
    else
        sudo "$@"
    fi
}

# Finds cargo, preferring rustup's, and fails if it is too old for the crate.
ensure_rust() {
    local needed found
    needed=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' "$root/Cargo.toml")
    PATH=${CARGO_HOME:-${HOME:-/root}/.cargo}/bin:$PATH
    if ! type -P cargo >/dev/null; then
        fail "Rust is missing; $needed or newer is needed. $(how_to_get_rust)"
    fi
    found=$(cargo --version | cut -d ' ' -f 2)
    if [ "$(printf '%s\n' "$needed" "$found" | sort -V | head -n 1)" != "$needed" ]; then
        fail "Rust $found is too old; $needed or newer is needed. $(how_to_get_rust)"
    fi
}

how_to_get_rust() {
    if type -P rustup >/dev/null; then
        printf 'Get it with:\n  rustup update stable && rustup default stable'
        return
    fi
    printf 'Get it from https://rustup.rs with:'
    type -P curl >/dev/null || printf '\n  apt-get install curl ca-certificates   # as root'
    printf '\n  %s' "curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh" \
        ". \"\$HOME/.cargo/env\""
}

# Builds a release of all programs, or as the options say: build_release [OPTION OF CARGO]...
build_release() {
    cargo build --release --locked --manifest-path "$root/Cargo.toml" "$@" || fail 'the build failed; see above'
}
