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
    if ! command -v apt-get >/dev/null; then
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
# checked: is_there PACKAGE COMMAND
is_there() {
    local found
    if [ -n "$2" ] && command -v "$2" >/dev/null; then
        return 0
    fi
    found=$(dpkg-query -W -f '${Architecture} ${db:Status-Status}\n' "$1" 2>/dev/null) || return
    grep -Eqx "($(dpkg --print-architecture)|all) installed" <<<"$found"
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
