# shellcheck shell=bash
# Prepares a bare machine to build and run Foveate: lists missing packages with the reason for each, and installs them.
# With `assume_yes=true` it does not ask.

assume_yes=false

# Lists of packages, one per line: package|a command that makes the package unnecessary, if any|reason
build_packages() {
    cat <<'END'
gcc|cc|links Rust programs, and builds the compression of recordings
libc6-dev||links Rust programs
pkgconf|pkg-config|finds the GStreamer libraries
libgstreamer1.0-dev||builds the capture of camera streams
libgstreamer-plugins-base1.0-dev||builds the capture of camera streams
glslc|glslc|compiles the GPU shaders
END
}

run_packages() {
    cat <<'END'
gstreamer1.0-plugins-base||test pattern, video conversion, files
gstreamer1.0-plugins-good||cameras, RTSP, MP4 and AVI
gstreamer1.0-plugins-bad||H.264 and H.265 parsing
gstreamer1.0-libav||video decoders
libvulkan1||finds GPUs
mesa-vulkan-drivers||GPU drivers, and a software device for machines without one
END
}

test_packages() {
    cat <<'END'
vulkan-validationlayers||the Vulkan tests fail on any message of these
shellcheck|shellcheck|checks the scripts
g++|c++|compiles the C reader as C++
cmake|cmake|builds the C reader's example as a package
make|make|builds it for cmake
systemd|systemd-analyze|checks the units, and runs the service in namespaces of its own
util-linux|unshare|makes these namespaces
python3|python3|runs the Python reader
python3-numpy||the arrays of the Python reader
python3-pil||the pictures that the Python reader encodes
python3-gi||runs the network camera of the tests
gir1.2-gst-rtsp-server-1.0||the network camera of the tests
END
}

torch_packages() {
    cat <<'END'
python3-torch||the tensors of the Python reader
END
}

model_packages() {
    cat <<'END'
python3-venv||the environment of transformers and timm
END
}

prometheus_packages() {
    cat <<'END'
prometheus|prometheus|answers the queries of the dashboard
END
}

arm_packages() {
    cat <<'END'
gcc-aarch64-linux-gnu|aarch64-linux-gnu-gcc|links Rust programs for ARM
libc6-dev-arm64-cross||the C library of these
qemu-user|qemu-aarch64|runs them, and counts their instructions
END
}

debian_packages() {
    cat <<'END'
mmdebstrap|mmdebstrap|makes a Debian for ARM
qemu-user-static|qemu-aarch64-static|runs its programs
util-linux|unshare|makes namespaces
END
}

# On Ubuntu the package has another name.
browser_packages() {
    local chromium='chromium'
    if [ "$(os_release ID)" = ubuntu ]; then
        chromium='chromium-browser'
    fi
    cat <<END
$chromium|$chromium|the live page is tested in a real browser
fonts-dejavu-core||the words of the page
END
}

# Lists missing packages, and installs them if there is apt: ensure_packages NAME_OF_LIST...
ensure_packages() {
    local missing
    describe_system
    missing=$(missing_packages "$@")
    if [ -z "$missing" ]; then
        return
    fi
    say 'Missing packages:'
    explain_packages "$missing"
    confirm_installation
    install_packages "$(cut -d '|' -f 1 <<<"$missing")"
}

# Warns if this system is not a tested one.
describe_system() {
    local id version name
    id=$(os_release ID)
    version=$(os_release VERSION_ID)
    name=$(os_release PRETTY_NAME)
    case "$id $version" in
    'debian 12' | 'debian 13' | 'ubuntu 24.04') ;;
    *) warn "Tested on Debian 12, Debian 13 and Ubuntu 24.04; this is ${name:-an unknown system}. Continuing." ;;
    esac
}

# One value of /etc/os-release; empty if missing.
os_release() {
    if [ -r /etc/os-release ]; then
        # shellcheck source=/dev/null
        (. /etc/os-release && printf '%s' "${!1:-}")
    fi
}

# The lines of the lists whose packages are missing. Without dpkg only commands can be checked.
missing_packages() {
    local list package provider why
    for list in "$@"; do
        "$list"
    done | while IFS='|' read -r package provider why; do
        if [ -n "$package" ] && ! is_there "$package" "$provider"; then
            printf '%s|%s|%s\n' "$package" "$provider" "$why"
        fi
    done
}

# As a command, or as a package for this machine, which those of another architecture may lie beside: is_there PACKAGE COMMAND
is_there() {
    local found
    if [ -n "$2" ] && command -v "$2" >/dev/null; then
        return 0
    fi
    found=$(dpkg-query -W -f '${Architecture} ${db:Status-Status}\n' "$1" 2>/dev/null) || return
    grep -Eqx "($(dpkg --print-architecture)|all) installed" <<<"$found"
}

explain_packages() {
    local package why
    while IFS='|' read -r package _ why; do
        printf '  %-34s %s\n' "$package" "$why"
    done <<<"$1"
}

# Returns only if the missing packages may be installed, or there is no apt to install them.
confirm_installation() {
    local answer
    if ! command -v apt-get >/dev/null || [ "$assume_yes" = true ] || [ "${CI:-}" = true ]; then
        return
    fi
    if [ ! -t 0 ]; then
        fail 'cannot ask without a terminal: run again with --yes to install them'
    fi
    read -r -p 'Install them with apt? [Y/n] ' answer
    case "$answer" in
    '' | [yY] | [yY][eE][sS]) ;;
    *) fail 'these packages are required' ;;
    esac
}

# Installs packages, one per line. The package lists are updated only if that fails.
install_packages() {
    local -a packages
    mapfile -t packages <<<"$1"
    if ! command -v apt-get >/dev/null; then
        warn 'There is no apt: install the equivalent packages of your distribution. Continuing.'
        return
    fi
    can_be_root || fail "neither root nor sudo; run as root: apt-get install ${packages[*]}"
    with_progress 'Installing the packages' apt_install "${packages[@]}" && return
    with_progress 'Refreshing the package lists' as_root apt-get update \
        || warn 'Updating the package lists failed.'
    with_progress 'Installing the packages' apt_install "${packages[@]}" \
        || fail "apt could not install them; see above, and try: apt-get install ${packages[*]}"
}

apt_install() {
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends "$@"
}

can_be_root() {
    [ "$(id -u)" -eq 0 ] || command -v sudo >/dev/null
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
    if ! command -v cargo >/dev/null; then
        fail "Rust is missing; $needed or newer is needed. $(how_to_get_rust)"
    fi
    found=$(cargo --version | cut -d ' ' -f 2)
    if [ "$(printf '%s\n' "$needed" "$found" | sort -V | head -n 1)" != "$needed" ]; then
        fail "Rust $found is too old; $needed or newer is needed. $(how_to_get_rust)"
    fi
}

how_to_get_rust() {
    if command -v rustup >/dev/null; then
        printf 'Get it with:\n  rustup update stable && rustup default stable'
        return
    fi
    printf 'Get it from https://rustup.rs with:'
    command -v curl >/dev/null || printf '\n  apt-get install curl ca-certificates   # as root'
    printf '\n  %s' "curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh" \
        ". \"\$HOME/.cargo/env\""
}

# Builds a release of all programs, or as the options say: build_release [OPTION OF CARGO]...
build_release() {
    cargo build --release --locked --manifest-path "$root/Cargo.toml" "$@" || fail 'the build failed; see above'
}
