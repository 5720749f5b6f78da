#!/usr/bin/env bash
# Builds the Debian packages: the programs with what belongs to them, and their debug information beside them.
set -euo pipefail

# shellcheck source-path=SCRIPTDIR source=lib/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"

out=$target/debian
arch=
# The folder of the two programs, set in `build`.
binaries=

usage() {
    cat <<'END'
Usage: scripts/package.sh [options]

Builds foveate_VERSION_ARCH.deb, what scripts/install.sh installs below /usr with the programs stripped, and
foveate-dbgsym_VERSION_ARCH.deb, their debug information, with which a backtrace has lines. They are for the Debian or Ubuntu
they are built on, and newer ones. Who gives them to others says in DEBFULLNAME and DEBEMAIL who answers for them.

  --arch ARCH  amd64 or arm64 (this machine's); for the other one, its compiler and libraries are installed. Of these,
               libgstreamer-plugins-base1.0-dev is installed for one architecture at a time: apt removes this machine's, and
               installs it again when it is asked to. Tried on amd64; the package of arm64 in an emulated Debian
  --out DIR    folder of the packages (target/debian)
  --yes        install missing packages without asking
  --help       this
END
}

read_option() {
    case "$1" in
    --arch)
        [[ $2 == amd64 || $2 == arm64 ]] || usage_error "--arch $2: expected amd64 or arm64"
        arch=$2
        ;;
    --out) out=$2 ;;
    esac
}

# Of the architecture, as its compiler, its tools and the folders of its libraries are called.
gnu_target() {
    case "$arch" in
    amd64) echo x86_64-linux-gnu ;;
    arm64) echo aarch64-linux-gnu ;;
    esac
}

# Of the architecture, as Rust calls it.
rust_target() {
    gnu_target | sed 's/-/-unknown-/'
}

# Of the other architecture.
foreign() {
    printf '%s||links, and builds the capture of camera streams\n' \
        "gcc-$(gnu_target | tr _ -)" "libgstreamer1.0-dev:$arch" "libgstreamer-plugins-base1.0-dev:$arch"
}

build() {
    ensure_rust
    cd "$root"
    if [ "$arch" = "$(dpkg --print-architecture)" ]; then
        ensure_packages build
        with_progress 'Building foveated and foveate' cargo build --locked --release --bins || fail 'the build failed; see above'
        binaries=$target/release
        return
    fi
    dpkg --print-foreign-architectures | grep -qx "$arch" \
        || fail "packages of $arch are not known here; as root: dpkg --add-architecture $arch && apt-get update"
    ensure_packages cross foreign
    [ -d "$(rustc --print sysroot)/lib/rustlib/$(rust_target)" ] \
        || fail "this Rust cannot build for $arch: rustup target add $(rust_target)"
    with_progress "Building foveated and foveate for $arch" build_across || fail 'the build failed; see above'
    binaries=$target/$(rust_target)/release
}

build_across() {
    local linker
    linker=CARGO_TARGET_$(rust_target | tr 'a-z-' 'A-Z_')_LINKER
    env "$linker=$(gnu_target)-gcc" PKG_CONFIG_ALLOW_CROSS=1 \
        PKG_CONFIG_LIBDIR="/usr/lib/$(gnu_target)/pkgconfig:/usr/share/pkgconfig" \
        cargo build --locked --release --bins --target "$(rust_target)"
}

version() {
    sed -n 's/^version = "\(.*\)"$/\1/p' "$root/Cargo.toml" | head -n 1
}

# When the sources were last changed: the same sources give the same package.
source_date() {
    git -C "$root" log -1 --format=%ct 2>/dev/null || date +%s
}

maintainer() {
    echo "${DEBFULLNAME:-The Foveate authors} <${DEBEMAIL:-foveate@localhost}>"
}

# Lists the files of the package below a folder: stage FOLDER
stage() {
    local share=$1/usr/share
    "$root/scripts/install.sh" --yes --prefix /usr --destdir "$1" --binaries "$binaries" || return
    # Where Debian's zsh looks.
    mv "$share/zsh/site-functions" "$share/zsh/vendor-completions"
    # Its copyright says the same.
    rm "$share/doc/foveate"/LICENSE-*
    awk -v licence="$root/LICENSE-MIT" '/^@MIT@$/ {
        while ((getline line < licence) > 0) print line == "" ? " ." : " " line
        next
    } { print }' "$root/scripts/debian/copyright" >"$share/doc/foveate/copyright"
    cp "$root/CHANGELOG.md" "$share/doc/foveate/changelog"
    changelog >"$share/doc/foveate/changelog.Debian"
    licences >"$share/doc/foveate/crates.txt" || return
    gzip -9n "$share"/man/man[158]/*.[158] "$share"/doc/foveate/{changelog,changelog.Debian,crates.txt}
    install -D -m 644 "$root/scripts/debian/overrides" "$share/lintian/overrides/foveate"
}

# The licences of the crates that the programs are built of, most of which ask to be beside them.
licences() (
    local crate licence folder
    cd "$root"
    cargo fetch --locked --quiet
    cargo tree --locked --edges normal --prefix none --target "$(rust_target)" --format '{p}|{l}' \
        | sed -E 's/ \((\*|proc-macro)\)//g; s/ v/-/' | LC_ALL=C sort -u | while IFS='|' read -r crate licence; do
        # Not those of this source.
        for folder in "${CARGO_HOME:-$HOME/.cargo}"/registry/src/*/"$crate"; do
            [ -d "$folder" ] || continue
            printf '==== %s: %s\n\n' "$crate" "$licence"
            find "$folder" -maxdepth 1 -type f -iregex '.*/\(licen[cs]e\|copying\|notice\|unlicense\)[^/]*' -print0 \
                | LC_ALL=C sort -z | xargs -0 --no-run-if-empty cat
            printf '\n'
        done
    done
)

changelog() {
    printf 'foveate (%s-1) unstable; urgency=medium\n\n  * See changelog.gz.\n\n -- %s  %s\n' \
        "$(version)" "$(maintainer)" "$(date --utc --rfc-email --date "@$SOURCE_DATE_EPOCH")"
}

# Moves the debug information of the programs below FOLDER to below SYMBOLS: separate FOLDER SYMBOLS
separate() {
    local tools program id file
    tools=$(gnu_target)-
    for program in foveated foveate; do
        id=$("${tools}readelf" --notes "$binaries/$program" | sed -n 's/^ *Build ID: //p')
        [ -n "$id" ] || fail "$binaries/$program has no build ID, by which its debug information is found"
        file=$2/usr/lib/debug/.build-id/${id:0:2}/${id:2}.debug
        mkdir -p "$(dirname "$file")"
        "${tools}objcopy" --only-keep-debug --compress-debug-sections "$binaries/$program" "$file"
        chmod 644 "$file"
        "${tools}strip" --strip-all --remove-section=.comment -o "$1/usr/bin/$program" "$binaries/$program"
        echo "$id"
    done
    mkdir -p "$2/usr/share/doc"
    ln -s foveate "$2/usr/share/doc/foveate-dbgsym"
}

# The libraries that the programs are linked with: libraries FOLDER
libraries() (
    local scratch
    scratch=$(mktemp -d)
    trap 'rm -rf "$scratch"' EXIT
    mkdir "$scratch/debian"
    printf 'Source: foveate\n\nPackage: foveate\nArchitecture: any\n' >"$scratch/debian/control"
    cd "$scratch"
    DEB_HOST_ARCH=$arch dpkg-shlibdeps -O "$1"/usr/bin/* | sed -n 's/^shlibs:Depends=//p'
)

installed_size() {
    du --summarize --apparent-size --block-size=1024 --exclude DEBIAN "$1" | cut -f 1
}

# write_control FOLDER LIBRARIES
write_control() {
    cat >"$1/DEBIAN/control" <<END
Package: foveate
Version: $(version)-1
Architecture: $arch
Maintainer: $(maintainer)
Installed-Size: $(installed_size "$1")
Depends: $2, gstreamer1.0-plugins-base, init-system-helpers (>= 1.54), passwd, systemd | systemd-standalone-sysusers | systemd-sysusers
Recommends: gstreamer1.0-libav, gstreamer1.0-plugins-bad, gstreamer1.0-plugins-good, libvulkan1, mesa-vulkan-drivers
Section: video
Priority: optional
Description: camera streams in, foveated multi-resolution tokens out
 A daemon watches camera streams, detects what changed, keeps an exact image
 pyramid of each stream up to date, and publishes a few hundred multi-resolution
 patches per frame in shared memory: at full resolution where it looks and
 coarser around it. Robots, AR processes and vision-language models map the
 memory read-only.
 .
 The package has the daemon with its systemd units, the tool foveate, and the
 header of the C and C++ reader. The members of the group foveate may connect.
END
    install -m 755 "$root"/scripts/debian/{postinst,prerm,postrm} "$1/DEBIAN"
    echo /etc/foveate/foveate.toml >"$1/DEBIAN/conffiles"
}

# write_symbols_control FOLDER ID...
write_symbols_control() {
    local folder=$1
    shift
    cat >"$folder/DEBIAN/control" <<END
Package: foveate-dbgsym
Source: foveate
Version: $(version)-1
Auto-Built-Package: debug-symbols
Architecture: $arch
Maintainer: $(maintainer)
Installed-Size: $(installed_size "$folder")
Depends: foveate (= $(version)-1)
Section: debug
Priority: optional
Description: debug symbols for foveate
Build-Ids: $*
END
}

# pack FOLDER NAME
pack() {
    local file
    file=$2_$(version)-1_$arch.deb
    (cd "$1" && find . -path ./DEBIAN -prune -o -type f -printf '%P\0' | LC_ALL=C sort -z | xargs -0 md5sum >DEBIAN/md5sums)
    chmod 644 "$1/DEBIAN/md5sums"
    mkdir -p "$out"
    dpkg-deb --root-owner-group -Zxz --build "$1" "$out/$file" >/dev/null
    say "$out/$file"
}

main() {
    local folder ids
    read_arguments "$@"
    type -P dpkg-deb >/dev/null || fail 'there is no dpkg here: scripts/install.sh installs without a package'
    arch=${arch:-$(dpkg --print-architecture)}
    ensure_packages package
    build
    SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(source_date)}
    export SOURCE_DATE_EPOCH
    umask 022
    folder=$(mktemp -d)
    # shellcheck disable=SC2064 # The folder is this one.
    trap "rm -rf '$folder'" EXIT
    mkdir -p "$folder"/{foveate,foveate-dbgsym}/DEBIAN
    chmod 755 "$folder"/*
    stage "$folder/foveate" >/dev/null || fail 'the files cannot be put together; see above'
    ids=$(separate "$folder/foveate" "$folder/foveate-dbgsym")
    write_control "$folder/foveate" "$(libraries "$folder/foveate")"
    # shellcheck disable=SC2086 # One word an ID.
    write_symbols_control "$folder/foveate-dbgsym" $ids
    pack "$folder/foveate" foveate
    pack "$folder/foveate-dbgsym" foveate-dbgsym
}

main "$@"
