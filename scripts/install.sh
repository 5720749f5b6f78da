#!/usr/bin/env bash
# Installs Foveate as a service on this machine, or into a directory for a package; and uninstalls it.
set -euo pipefail

# shellcheck source-path=SCRIPTDIR source=lib/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"

prefix=/usr/local
destdir=
binaries=
uninstall=false

usage() {
    cat <<'END'
Usage: scripts/install.sh [--prefix DIR] [--destdir DIR] [--binaries DIR] [--yes]
       scripts/install.sh --uninstall [--prefix DIR] [--destdir DIR]

Builds foveated and foveate, and installs them with their manual pages and completions, the units of systemd, the user and group
`foveate`, the C header with what CMake and pkg-config need, and a first configuration. A configuration that is there is never
overwritten, nor removed. Nothing is started: it says how.

  --prefix DIR    where to (/usr/local); the configuration is in /etc/foveate in any case, and systemd finds units below
                  /usr and /usr/local, so those of another prefix are in /etc/systemd/system
  --destdir DIR   put everything below this folder, as for a package, and touch nothing else
  --binaries DIR  take the two programs from there instead of building them
  --uninstall     stop the service, and remove what was installed
  --yes           install missing packages without asking
  --help          this
END
}

read_option() {
    if [ "$1" = --uninstall ]; then
        uninstall=true
        return
    fi
    [[ $1 == --binaries || $2 == /* ]] || usage_error "$1 $2: expected an absolute path"
    [[ $2 != *[[:space:]%\\\|]* ]] || usage_error "$1 $2: expected a path without blanks, %, | and backslashes"
    case "$1" in
    --prefix) prefix=${2%/} ;;
    --destdir) destdir=${2%/} ;;
    --binaries)
        for program in foveated foveate; do
            [ -x "$2/$program" ] || usage_error "--binaries $2: there is no program $program"
        done
        binaries=$(cd "$2" && pwd)
        ;;
    esac
}

# The installed files, one per line: mode|source, in the source tree or the programs' folder|target, below the prefix
contents() {
    cat <<'END'
755|BINARIES/foveated|bin/foveated
755|BINARIES/foveate|bin/foveate
644|configs/systemd/foveated.service|lib/systemd/system/foveated.service
644|configs/systemd/foveated.socket|lib/systemd/system/foveated.socket
644|configs/systemd/foveate.sysusers|lib/sysusers.d/foveate.conf
644|configs/systemd/cpu-only.conf|share/foveate/systemd/cpu-only.conf
644|configs/systemd/lan-only.conf|share/foveate/systemd/lan-only.conf
644|configs/systemd/backoff.conf|share/foveate/systemd/backoff.conf
644|include/foveate.h|include/foveate.h
644|include/foveate/abi.h|include/foveate/abi.h
644|cmake/foveateConfig.cmake|lib/cmake/foveate/foveateConfig.cmake
644|cmake/foveateConfigVersion.cmake|lib/cmake/foveate/foveateConfigVersion.cmake
644|foveate.pc.in|lib/pkgconfig/foveate.pc
644|configs/completions/foveate.bash|share/bash-completion/completions/foveate
644|configs/completions/foveated.bash|share/bash-completion/completions/foveated
644|configs/completions/_foveate|share/zsh/site-functions/_foveate
644|configs/completions/_foveated|share/zsh/site-functions/_foveated
644|configs/completions/foveate.fish|share/fish/vendor_completions.d/foveate.fish
644|configs/completions/foveated.fish|share/fish/vendor_completions.d/foveated.fish
644|configs/grafana/foveate.json|share/foveate/grafana/foveate.json
644|configs/prometheus/foveate.yml|share/foveate/prometheus/foveate.yml
644|configs/scorers/people.safetensors|share/foveate/scorers/people.safetensors
644|configs/scorers/text.safetensors|share/foveate/scorers/text.safetensors
644|LICENSE-MIT|share/doc/foveate/LICENSE-MIT
644|LICENSE-APACHE|share/doc/foveate/LICENSE-APACHE
END
    local file
    for file in "$root"/pipelines/*.gst; do
        echo "644|${file#"$root/"}|share/foveate/${file#"$root/"}"
    done
    for file in "$root"/docs/*.md "$root"/docs/*/*.md; do
        echo "644|${file#"$root/"}|share/doc/foveate/${file#"$root/docs/"}"
    done
    linked_files
    for file in "$root"/configs/*.toml "$root"/configs/*.yaml; do
        echo "644|${file#"$root/"}|share/doc/foveate/examples/${file##*/}"
    done
    for file in "$root"/docs/man/*.[158]; do
        echo "644|${file#"$root/"}|share/man/man${file##*.}/${file##*/}"
    done
}

# What the documents link to besides each other, in the form of `contents`. Examples are in a folder of their own.
linked_files() {
    local link
    while read -r link; do
        case "$link" in
        configs/*.toml | *.md) ;;
        data/* | images/*) echo "644|docs/$link|share/doc/foveate/$link" ;;
        *) echo "644|$link|share/doc/foveate/$link" ;;
        esac
    done < <(
        grep -oh '](\(\.\./\|images/\)[^)#]*' "$root"/docs/*.md "$root"/docs/*/*.md \
            | sed -e 's|^](||' -e 's|^\(\.\./\)*||' | sort -u
    )
}

# Where a file of the list goes.
target() {
    case "$prefix|$1" in
    '/usr|'* | '/usr/local|'*) ;;
    *'|lib/systemd/'* | *'|lib/sysusers.d/'*)
        echo "$destdir/etc/${1#lib/}"
        return
        ;;
    esac
    echo "$destdir$prefix/$1"
}

# Runs as root for an installation into the system, and as this user with --destdir: change COMMAND...
change() {
    if [ -n "$destdir" ]; then
        "$@"
    else
        as_root "$@"
    fi
}

# Whether the installation is for this machine, and it runs systemd.
is_live() {
    [ -z "$destdir" ] && [ -d /run/systemd/system ]
}

build() {
    [ -z "$binaries" ] || return 0
    ensure_rust
    ensure_packages build
    cd "$root"
    with_progress 'Building foveated and foveate' cargo build --locked --release --bins \
        || fail 'the build failed; see above'
    binaries=$target/release
}

install_contents() {
    local mode from to
    while IFS='|' read -r mode from to; do
        case "$from" in
        BINARIES/*) from=$binaries/${from#BINARIES/} ;;
        *) from=$root/$from ;;
        esac
        install_one "$mode" "$from" "$(target "$to")"
    done < <(contents)
}

# Installs a file, with its paths replaced by those of the installation, or without debug information: a tenth of the size, and a
# backtrace still names functions: install_one MODE FROM TO
install_one() {
    local source=$2 version up here
    case "$2" in
    *.service | *.socket | *.pc.in | *.yml)
        version=$(sed -n 's/^version = "\(.*\)"$/\1/p' "$root/Cargo.toml" | head -n 1)
        source=$(mktemp)
        sed -e "s|/usr/bin/|$prefix/bin/|" -e "s|/usr/share/|$prefix/share/|" \
            -e "s|@PREFIX@|$prefix|" -e "s|@VERSION@|$version|" "$2" >"$source"
        ;;
    *.toml)
        source=$(mktemp)
        sed -e "s|\bdocs/|$prefix/share/doc/foveate/|" -e "s|\bpipelines/|$prefix/share/foveate/pipelines/|" "$2" >"$source"
        ;;
    *.md)
        source=$(mktemp)
        # Files outside docs/ are installed beside its pages.
        case "$2" in
        "$root"/docs/*/*) up='\.\./\.\./' here='../' ;;
        *) up='\.\./' here='' ;;
        esac
        sed -e "s|](${up}configs/\([^/)#]*\.toml\)|](${here}examples/\1|g" -e "s|](${up}|](${here}|g" "$2" >"$source"
        ;;
    "$binaries"/*)
        source=$(mktemp)
        strip --strip-debug -o "$source" "$2" 2>/dev/null || cp "$2" "$source"
        ;;
    esac
    change install -D -m "$1" "$source" "$3"
    [ "$source" = "$2" ] || rm -f "$source"
}

# The configuration belongs to the administrator of this machine.
install_configuration() {
    local file=$destdir/etc/foveate/foveate.toml
    change install -d -m 755 "$destdir/etc/foveate" "$destdir/etc/foveate/conf.d"
    if [ -e "$file" ]; then
        say "Kept unchanged: $file"
    else
        install_one 644 "$root/configs/default.toml" "$file"
    fi
}

enable_units() {
    if [ -z "$destdir" ] && type -P systemd-sysusers >/dev/null; then
        as_root systemd-sysusers "$(target lib/sysusers.d/foveate.conf)"
    fi
    if is_live; then
        as_root systemctl daemon-reload
    fi
    say "Installed below $destdir$prefix. It shows a test scene until $destdir/etc/foveate says otherwise. Next:"
    say '  systemctl enable --now foveated.socket foveated.service'
    say '  usermod --append --groups foveate NAME   # lets this user connect'
}

remove_everything() {
    local to folder
    if is_live; then
        # Parts may have been removed already.
        as_root systemctl disable --now foveated.socket foveated.service || true
    fi
    while IFS='|' read -r _ _ to; do
        change rm -f "$(target "$to")"
    done < <(contents)
    # Folders with nothing but installed files have this name, or are in one that has.
    for folder in include lib/cmake share share/doc; do
        [ ! -d "$destdir$prefix/$folder/foveate" ] || change find "$destdir$prefix/$folder/foveate" -depth -type d -empty -delete
    done
    if is_live; then
        as_root systemctl daemon-reload
    fi
    say "Removed. Left in place: $destdir/etc/foveate, and the user and group foveate if they were created."
}

main() {
    read_arguments "$@"
    [ -n "$destdir" ] || can_be_root || fail 'neither root nor sudo; run as root, or install into a folder with --destdir'
    if [ "$uninstall" = true ]; then
        remove_everything
        return
    fi
    build
    install_contents
    install_configuration
    enable_units
}

main "$@"
