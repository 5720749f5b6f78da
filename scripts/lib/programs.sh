# shellcheck shell=bash
# Builds the two programs for packages and wheels: the same sources give the same bytes, in whichever folder they are.

# The folder of the two programs, set in `build_programs`.
# shellcheck disable=SC2034 # Scripts read it.
programs=

# Of an architecture of Debian's, how its compiler, its tools and the folders of its libraries are called: gnu_target ARCH
gnu_target() {
    case "$1" in
    amd64) echo x86_64-linux-gnu ;;
    arm64) echo aarch64-linux-gnu ;;
    *) fail "unknown architecture $1 (expected amd64 or arm64)" ;;
    esac
}

# As Rust calls it: rust_target ARCH
rust_target() {
    gnu_target "$1" | sed 's/-/-unknown-/'
}

this_architecture() {
    case "$(uname -m)" in
    x86_64) echo amd64 ;;
    aarch64) echo arm64 ;;
    *) fail "packages are for x86_64 and aarch64; this machine is $(uname -m)" ;;
    esac
}

# Ends the script unless packages for an architecture can be built here: check_architecture ARCH
check_architecture() {
    [[ $1 == amd64 || $1 == arm64 ]] || usage_error "--arch $1: expected amd64 or arm64"
    [ "$1" = "$(this_architecture)" ] || [ "$1" = arm64 ] || usage_error "--arch $1: can be built on such a machine only"
}

version() {
    sed -n 's/^version = "\(.*\)"$/\1/p' "$root/Cargo.toml" | head -n 1
}

# The time that files of packages and wheels have: that of the last commit, or of SOURCE_DATE_EPOCH.
set_source_date() {
    SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git -C "$root" log -1 --format=%ct 2>/dev/null || date +%s)}
    export SOURCE_DATE_EPOCH
}

# Runs a command that builds with Cargo, without this machine's folders in what it makes: reproducibly COMMAND...
reproducibly() {
    local folders flags library commit
    # Of several that match the last one counts.
    folders=("${CARGO_HOME:-$HOME/.cargo}=/cargo" "$root=/foveate")
    [[ $target == "$root"/* ]] || folders+=("$target=/foveate/target")
    library=$(rustc --print sysroot)/lib/rustlib/src/rust
    commit=$(rustc -vV | sed -n 's/^commit-hash: //p')
    flags=$(printf '\x1f--remap-path-prefix=%s' "${folders[@]}" "$library=/rustc/$commit")
    CARGO_ENCODED_RUSTFLAGS=${flags:1} CFLAGS=${folders[*]/#/-ffile-prefix-map=} CARGO_INCREMENTAL=0 "$@"
}

# Builds both programs for an architecture: build_programs ARCH
build_programs() {
    local build=(cargo build --locked --release --bins --target "$(rust_target "$1")" --manifest-path "$root/Cargo.toml")
    if [ "$1" = "$(this_architecture)" ]; then
        ensure_packages build
    else
        ensure_packages build arm debian
        [ -d "$(rustc --print target-libdir --target "$(rust_target "$1")")" ] \
            || fail "this Rust cannot build for $1: rustup target add $(rust_target "$1")"
        ensure_arm_debian || fail 'there is no Debian for ARM to link with; see above'
        build=(for_arm_debian "${build[@]}")
    fi
    with_progress "Building foveated and foveate for $1" reproducibly "${build[@]}" || fail 'the build failed; see above'
    programs=$target/$(rust_target "$1")/release
}

# The licences of the crates that the programs are built of, most of which ask to be beside them: licences ARCH
licences() (
    local crate licence folder
    cd "$root"
    cargo fetch --locked --quiet
    cargo tree --locked --edges normal --prefix none --target "$(rust_target "$1")" --format '{p}|{l}' \
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
