#!/usr/bin/env bash
# Makes everything that a release has, from a clean clone: the same commit gives the same bytes.
set -euo pipefail

# shellcheck source-path=SCRIPTDIR source=lib/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"
# shellcheck source-path=SCRIPTDIR source=lib/programs.sh
. "$root/scripts/lib/programs.sh"

out=$target/dist
architectures=(amd64 arm64)
twice=false
# Created in `main`.
work=

usage() {
    cat <<'END'
Usage: scripts/release.sh [options]

Clones the commit that is checked out, builds from that, and puts into target/dist:

  *.whl, *.deb              what scripts/wheels.sh and scripts/package.sh build, for amd64 and arm64
  foveate-VERSION.tar.gz    the sources
  foveate-VERSION.cdx.json  the crates of the programs and the engine, in the form of CycloneDX (SBOM)
  CHANGES.md                the section of the version in CHANGELOG.md, or the unreleased one
  SHA256SUMS                checksums of all of these

Built on Debian 12, the programs run there and on newer systems. arm64 is cross built, which needs root and a gigabyte in
~/.cache/foveate.

  --arch ARCH  only for amd64 or arm64
  --out DIR    folder of the files (target/dist); what is in it is removed if it is of an earlier release, and otherwise an error
  --twice      build everything twice, in two folders, and fail if a file differs
  --yes        install missing packages without asking
  --help       this
END
}

read_option() {
    case "$1" in
    --arch)
        check_architecture "$2"
        architectures=("$2")
        ;;
    --out) out=$2 ;;
    --twice) twice=true ;;
    esac
}

# Puts all files of the release into a folder: make FOLDER
make() {
    local source architecture
    # Of another name each time, on which no byte may depend.
    source=$(mktemp -d "$work/source.XXXXXX")
    git clone --quiet "$root" "$source" || return
    git -C "$source" checkout --quiet --detach "$commit" || return
    mkdir "$1"
    for architecture in "${architectures[@]}"; do
        CARGO_TARGET_DIR=$source/target "$source/scripts/package.sh" --yes --arch "$architecture" --out "$1" || return
        CARGO_TARGET_DIR=$source/target "$source/scripts/wheels.sh" --yes --arch "$architecture" --out "$1" || return
    done
    git -C "$source" archive --format=tar --prefix="foveate-$version/" HEAD | gzip -9n >"$1/foveate-$version.tar.gz" || return
    python3 -B "$source/scripts/lib/sbom.py" "$version" >"$1/foveate-$version.cdx.json" || return
    changes "$source/CHANGELOG.md" >"$1/CHANGES.md"
    (cd "$1" && LC_ALL=C sha256sum -- *) >"$work/sums" || return
    mv "$work/sums" "$1/SHA256SUMS"
    rm -rf "$source"
}

# The section of this version: changes FILE
changes() {
    local name=$version
    grep -qF "## [$version]" "$1" || name=Unreleased
    awk -v heading="## [$name]" '/^## / { inside = index($0, heading) == 1; next } inside' "$1" | sed '/./,$!d'
}

# Ends the script if the folder has other files than those of a release.
check_out() {
    [ ! -e "$out" ] || [ -e "$out/SHA256SUMS" ] || [ -z "$(ls -A "$out")" ] \
        || usage_error "--out $out: expected a folder that is missing, empty, or of an earlier release"
}

main() {
    read_arguments "$@"
    check_out
    ensure_rust
    ensure_packages build wheel package
    commit=$(git -C "$root" rev-parse HEAD) || fail 'a release is made from a commit: run this in a clone of the repository'
    [ -z "$(git -C "$root" status --porcelain)" ] || warn "There are changes that are not committed. The release is of $commit without them."
    version=$(version)
    SOURCE_DATE_EPOCH=$(git -C "$root" log -1 --format=%ct)
    export SOURCE_DATE_EPOCH
    umask 022
    mkdir -p "$target"
    work=$(mktemp -d "$target/release.XXXXXX")
    # shellcheck disable=SC2064 # The folder of now.
    trap "rm -rf --one-file-system '$work'" EXIT
    make "$work/files" || fail 'the release cannot be made; see above'
    if [ "$twice" = true ]; then
        make "$work/again" || fail 'the release cannot be made a second time; see above'
        diff "$work/files/SHA256SUMS" "$work/again/SHA256SUMS" || fail 'the second time some files were different: see above'
        say 'Both times the files were the same.'
    fi
    rm -rf "$out"
    mkdir -p "$(dirname "$out")"
    mv "$work/files" "$out"
    cat "$out/SHA256SUMS"
    say "Version $version of commit $commit, in $out"
}

main "$@"
