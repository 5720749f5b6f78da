#!/usr/bin/env bash
# Builds the Debian packages: the programs with what belongs to them, their debug information, and the readers of Python, C and C++.
set -euo pipefail

# shellcheck source-path=SCRIPTDIR source=lib/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"
# shellcheck source-path=SCRIPTDIR source=lib/arm.sh
. "$root/scripts/lib/arm.sh"
# shellcheck source-path=SCRIPTDIR source=lib/programs.sh
. "$root/scripts/lib/programs.sh"

out=$target/debian
arch=
# Created in `main`.
work=

usage() {
    cat <<'END'
Usage: scripts/package.sh [options]

Builds from one source, for the Debian or Ubuntu that they are built on, and newer ones:

  foveate_VERSION_ARCH.deb         the daemon with its units, and the tool: what scripts/install.sh installs below /usr
  foveate-dbgsym_VERSION_ARCH.deb  debug information, with which a backtrace has lines
  python3-foveate_VERSION_all.deb  the reader in Python
  libfoveate-dev_VERSION_all.deb   the reader in C and C++

Who gives them to others says in DEBFULLNAME and DEBEMAIL who answers for them. The same sources, compilers and libraries give the
same bytes.

  --arch ARCH  amd64 or arm64 (this machine's). arm64 on another machine is built with the libraries of a Debian 12 for ARM, which
               needs root and a gigabyte in ~/.cache/foveate
  --out DIR    folder of the packages (target/debian)
  --yes        install missing packages without asking
  --help       this
END
}

read_option() {
    case "$1" in
    --arch)
        check_architecture "$2"
        arch=$2
        ;;
    --out) out=$2 ;;
    esac
}

maintainer() {
    echo "${DEBFULLNAME:-The Foveate authors} <${DEBEMAIL:-foveate@localhost}>"
}

# Puts the files of the daemon and of the reader in C below folders: stage FOLDER HEADERS
stage() {
    local share=$1/usr/share
    "$root/scripts/install.sh" --yes --prefix /usr --destdir "$1" --binaries "$programs" || return
    # Where Debian's zsh looks.
    mv "$share/zsh/site-functions" "$share/zsh/vendor-completions"
    # Its copyright says the same.
    rm "$share/doc/foveate"/LICENSE-*
    cp "$root/CHANGELOG.md" "$share/doc/foveate/changelog"
    licences "$arch" >"$share/doc/foveate/crates.txt" || return
    gzip -9n "$share"/man/man[158]/*.[158] "$share"/doc/foveate/{changelog,crates.txt}
    install -D -m 644 "$root/scripts/debian/overrides" "$share/lintian/overrides/foveate"
    mkdir -p "$2/usr"/{lib,share}
    mv "$1/usr/include" "$2/usr/include"
    mv "$1/usr/lib/cmake" "$2/usr/lib/cmake"
    # Where all architectures look.
    mv "$1/usr/lib/pkgconfig" "$2/usr/share/pkgconfig"
}

# Puts the files of the reader in Python below a folder: stage_python FOLDER
stage_python() {
    local packages=$1/usr/lib/python3/dist-packages information
    information=$packages/foveate-$(version).dist-info
    mkdir -p "$packages" "$information"
    (cd "$root/python" && find foveate -name '*.py' -o -name py.typed) | while read -r file; do
        install -D -m 644 "$root/python/$file" "$packages/$file"
    done
    # For pip, and packages that need this one.
    printf 'Metadata-Version: 2.1\nName: foveate\nVersion: %s\nRequires-Python: >=3.10\nRequires-Dist: numpy>=1.21\n' "$(version)" \
        >"$information/METADATA"
    echo dpkg >"$information/INSTALLER"
}

# Puts what each package has to say of itself into its folder of documents: describe FOLDER NAME
describe() {
    local documents=$1/usr/share/doc/$2
    mkdir -p "$documents"
    awk -v licence="$root/LICENSE-MIT" '/^@MIT@$/ {
        while ((getline line < licence) > 0) print line == "" ? " ." : " " line
        next
    } /^Comment:/ && name != "foveate" { next } { print }' name="$2" "$root/scripts/debian/copyright" >"$documents/copyright"
    changelog | gzip -9n >"$documents/changelog.Debian.gz"
}

changelog() {
    printf 'foveate (%s-1) unstable; urgency=medium\n\n  * See changelog.gz of the package foveate.\n\n -- %s  %s\n' \
        "$(version)" "$(maintainer)" "$(date --utc --rfc-email --date "@$SOURCE_DATE_EPOCH")"
}

# Moves the debug information of the programs below FOLDER to below SYMBOLS: separate FOLDER SYMBOLS
separate() {
    local tools program id file
    tools=$(gnu_target "$arch")-
    for program in foveated foveate; do
        id=$("${tools}readelf" --notes "$programs/$program" | sed -n 's/^ *Build ID: //p')
        [ -n "$id" ] || fail "$programs/$program has no build ID, by which its debug information is found"
        file=$2/usr/lib/debug/.build-id/${id:0:2}/${id:2}.debug
        mkdir -p "$(dirname "$file")"
        "${tools}objcopy" --only-keep-debug --compress-debug-sections "$programs/$program" "$file"
        chmod 644 "$file"
        "${tools}strip" --strip-all --remove-section=.comment -o "$1/usr/bin/$program" "$programs/$program"
        echo "$id"
    done
    mkdir -p "$2/usr/share/doc"
    ln -s foveate "$2/usr/share/doc/foveate-dbgsym"
}

# The libraries that the programs are linked with: libraries FOLDER
libraries() {
    local scratch=$work/libraries in_arm_debian=()
    [ "$arch" = "$(this_architecture)" ] || describe_arm_debian "$scratch"
    mkdir -p "$scratch/debian"
    cp "$1"/usr/bin/* "$scratch"
    printf 'Source: foveate\n\nPackage: foveate\nArchitecture: any\n' >"$scratch/debian/control"
    # shellcheck disable=SC2016 # Of that shell.
    "${in_arm_debian[@]}" sh -c 'cd "$0" && dpkg-shlibdeps -O foveate foveated' "$scratch" | sed -n 's/^shlibs:Depends=//p'
}

installed_size() {
    du --summarize --apparent-size --block-size=1024 --exclude DEBIAN "$1" | cut -f 1
}

# Writes the fields that all packages have, and then its standard input: write_control FOLDER NAME ARCH
write_control() {
    {
        printf 'Package: %s\nVersion: %s-1\nArchitecture: %s\nMaintainer: %s\nInstalled-Size: %s\n' \
            "$2" "$(version)" "$3" "$(maintainer)" "$(installed_size "$1")"
        [ "$2" = foveate ] || echo 'Source: foveate'
        cat
    } >"$1/DEBIAN/control"
}

# describe_daemon FOLDER LIBRARIES
describe_daemon() {
    describe "$1" foveate
    install -m 755 "$root"/scripts/debian/{postinst,prerm,postrm} "$1/DEBIAN"
    echo /etc/foveate/foveate.toml >"$1/DEBIAN/conffiles"
    write_control "$1" foveate "$arch" <<END
Depends: $2, gstreamer1.0-plugins-base, init-system-helpers (>= 1.54), passwd, systemd | systemd-standalone-sysusers | systemd-sysusers
Recommends: gstreamer1.0-libav, gstreamer1.0-plugins-bad, gstreamer1.0-plugins-good, libvulkan1, mesa-vulkan-drivers
Suggests: libfoveate-dev, python3-foveate
Section: video
Priority: optional
Description: camera streams in, foveated multi-resolution tokens out
 A daemon watches camera streams, detects what changed, keeps an exact image
 pyramid of each stream up to date, and publishes a few hundred multi-resolution
 patches per frame in shared memory: at full resolution where it looks and
 coarser around it. Robots, AR processes and vision-language models map the
 memory read-only.
 .
 The package has the daemon with its systemd units, and the tool foveate. The
 members of the group foveate may connect.
END
}

describe_python() {
    describe "$1" python3-foveate
    install -m 755 "$root/scripts/debian/python3-foveate.postinst" "$1/DEBIAN/postinst"
    install -m 755 "$root/scripts/debian/python3-foveate.prerm" "$1/DEBIAN/prerm"
    write_control "$1" python3-foveate all <<'END'
Depends: python3 (>= 3.10), python3-numpy
Suggests: foveate
Section: python
Priority: optional
Description: reader of foveated tokens in Python
 Reads the tokens that the daemon of the package foveate publishes in shared
 memory, as arrays of NumPy, and tells it where to look.
END
}

describe_headers() {
    describe "$1" libfoveate-dev
    write_control "$1" libfoveate-dev all <<'END'
Suggests: foveate
Section: libdevel
Priority: optional
Description: reader of foveated tokens in C and C++
 Reads the tokens that the daemon of the package foveate publishes in shared
 memory, and tells it where to look: one header and nothing to link, with what
 CMake and pkg-config need to find it.
END
}

# describe_symbols FOLDER ID...
describe_symbols() {
    local folder=$1
    shift
    write_control "$folder" foveate-dbgsym "$arch" <<END
Auto-Built-Package: debug-symbols
Depends: foveate (= $(version)-1)
Section: debug
Priority: optional
Description: debug symbols for foveate
Build-Ids: $*
END
}

# pack NAME ARCH
pack() {
    local file
    file=$1_$(version)-1_$2.deb
    (
        cd "$work/$1"
        find . -path ./DEBIAN -prune -o -type f -printf '%P\0' | LC_ALL=C sort -z | xargs -0 md5sum >DEBIAN/md5sums
        chmod 644 DEBIAN/md5sums
    )
    mkdir -p "$out"
    dpkg-deb --root-owner-group -Zxz --build "$work/$1" "$out/$file" >/dev/null
    say "$out/$file"
}

clean_up() {
    forget_arm_programs
    rm -rf --one-file-system "$work"
}

main() {
    local ids libraries
    read_arguments "$@"
    type -P dpkg-deb >/dev/null || fail 'there is no dpkg here: scripts/install.sh installs without a package'
    arch=${arch:-$(this_architecture)}
    ensure_rust
    ensure_packages package
    umask 022
    trap clean_up EXIT
    work=$(mktemp -d)
    if [ "$arch" != "$(this_architecture)" ]; then
        ensure_packages debian
        run_arm_programs || fail 'programs for ARM cannot run here (root, binfmt_misc)'
    fi
    build_programs "$arch"
    set_source_date
    mkdir -p "$work"/{foveate,foveate-dbgsym,python3-foveate,libfoveate-dev}/DEBIAN
    stage "$work/foveate" "$work/libfoveate-dev" >/dev/null || fail 'the files cannot be put together; see above'
    stage_python "$work/python3-foveate"
    ids=$(separate "$work/foveate" "$work/foveate-dbgsym")
    libraries=$(libraries "$work/foveate")
    [ -n "$libraries" ] || fail 'the libraries that the programs need were not found; see above'
    describe_daemon "$work/foveate" "$libraries"
    # shellcheck disable=SC2086 # One word an ID.
    describe_symbols "$work/foveate-dbgsym" $ids
    describe_python "$work/python3-foveate"
    describe_headers "$work/libfoveate-dev"
    pack foveate "$arch"
    pack foveate-dbgsym "$arch"
    pack python3-foveate all
    pack libfoveate-dev all
}

main "$@"
