#!/usr/bin/env bash
# Packs what tests and measures a GPU on a machine that has a Vulkan driver, and neither GStreamer nor Rust nor a network.
set -euo pipefail

# shellcheck source-path=SCRIPTDIR source=lib/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"
# shellcheck source-path=SCRIPTDIR source=lib/wheel.sh
. "$root/scripts/lib/wheel.sh"

# The newest C library that the archive may need.
readonly GLIBC=2.35
readonly BYTES_MAX=$((50 * 1000 * 1000))

# What comes with a C library, and the C++ library, which only the layer needs.
readonly BASE=' ld-linux-x86-64.so.2 ld-linux-aarch64.so.1 libc.so.6 libdl.so.2 libgcc_s.so.1 libm.so.6 libpthread.so.0 librt.so.1 libstdc++.so.6 '

# Libraries that machines may lack, by the package that has them here. Drivers of NVIDIA need those of the last three.
readonly LOADER='libvulkan1 libvulkan.so.1'
readonly DRIVER_LIBRARIES='libglvnd0 libGLdispatch.so.0
libx11-6 libX11.so.6
libxext6 libXext.so.6
libxcb1 libxcb.so.1
libxau6 libXau.so.6
libxdmcp6 libXdmcp.so.6
libbsd0 libbsd.so.0
libmd0 libmd.so.0'
readonly LAYER='vulkan-validationlayers libVkLayer_khronos_validation.so'

archive=$target/foveate-gpu.tar.xz
results=''

usage() {
    cat <<'END'
Usage: scripts/gpu_bundle.sh [options]

Builds target/foveate-gpu.tar.xz, at most 50 MB with the programs, the GPU tests, the wheels of engine and attention, and run.sh, which
tests and measures the GPU of a machine that has neither GStreamer nor Rust nor a network: unpack it there, and run
`foveate-gpu/run.sh OUT`.

  --refresh-docs FILE   put a row into docs/reports/benchmarks.md instead, from the results.json that run.sh wrote
  --yes                 install missing packages without asking
  --help                this
END
}

read_option() {
    [ -f "$2" ] || usage_error "--refresh-docs $2: no such file"
    results=$2
}

libraries() {
    local line
    while read -r line; do
        printf '%s||a library of the archive\n' "${line%% *}"
    done <<<"$LOADER
$DRIVER_LIBRARIES
$LAYER"
}

# Builds the tests, and with them the program that they run. Prints the paths of the test programs: build
build() {
    cargo test --release --locked --manifest-path "$root/Cargo.toml" --package foveate-programs --no-default-features \
        --features vulkan,fault-injection --no-run --test gpu --test engine --message-format json-render-diagnostics \
        | sed -n 's/.*"executable":"\([^"]*\)".*/\1/p'
}

# Copies a program without what debuggers need: put_program FILE NAME
put_program() {
    install -D -m 755 "$1" "$folder/bin/$2"
    strip "$folder/bin/$2"
}

# Copies a library and its licence: put_library FOLDER PACKAGE LIBRARY
put_library() {
    local path
    path=$(dpkg -L "$2" | grep "/$3\$" | head -n 1)
    [ -n "$path" ] || fail "the package $2 has no $3"
    install -D -m 644 "$(readlink -f "$path")" "$folder/lib/$1/$3"
    install -D -m 644 "/usr/share/doc/$2/copyright" "$folder/licences/$2"
}

put_libraries() {
    local package library layers
    # shellcheck disable=SC2086 # Two words each.
    {
        put_library loader $LOADER
        put_library layers $LAYER
    }
    while read -r package library; do
        put_library driver "$package" "$library"
    done <<<"$DRIVER_LIBRARIES"
    layers=$(dpkg -L vulkan-validationlayers | grep 'VkLayer_khronos_validation.json$')
    sed 's|"library_path": *"[^"]*"|"library_path": "./libVkLayer_khronos_validation.so"|' "$layers" \
        >"$folder/lib/layers/VkLayer_khronos_validation.json"
}

put_programs() {
    local file
    put_program "$target/release/foveate" foveate
    while read -r file; do
        case "$(basename "$file")" in
        gpu-*) put_program "$file" test-gpu ;;
        engine-*) put_program "$file" test-engine ;;
        esac
    done <<<"$1"
    for file in test-gpu test-engine; do
        [ -x "$folder/bin/$file" ] || fail "the program $file was not built"
    done
}

put_scripts() {
    install -m 755 "$root/scripts/gpu/run.sh" "$folder"
    install -m 644 "$root/scripts/gpu/report.awk" "$root"/LICENSE-* "$folder"
    install -D -m 644 --target-directory "$folder/python" "$root"/scripts/gpu/tiers.py "$root"/scripts/bench/{recipes,measuring}.py
    git -C "$root" describe --always --dirty 2>/dev/null >"$folder/VERSION" || printf 'unknown\n' >"$folder/VERSION"
}

# The newest version of the C library that a file needs: newest_glibc FILE
newest_glibc() {
    objdump -p "$1" | sed -n -e 's/.* GLIBC_\([0-9.]*\)$/\1/p' -e 's/.* GLIBC_ABI_DT_RELR$/2.36/p' | sort -V | tail -n 1
}

# Fails if a file needs a library that neither comes with the C library nor is in the archive: check_libraries FILE
check_libraries() {
    local library
    while read -r library; do
        [[ $BASE == *" $library "* || -n $(find "$folder/lib" -name "$library") ]] \
            || fail "${1##*/} needs $library (expected one of the archive): add its package to DRIVER_LIBRARIES"
    done < <(objdump -p "$1" | sed -n 's/^ *NEEDED *//p')
}

# Fails if anything needs more of a machine than the archive promises: check_needs UNPACKED_WHEEL
check_needs() {
    local file newest needed=0
    while read -r file; do
        check_libraries "$file"
        newest=$(newest_glibc "$file")
        needed=$(printf '%s\n' "$needed" "${newest:-0}" | sort -V | tail -n 1)
        [ "$(printf '%s\n' "${newest:-0}" "$GLIBC" | sort -V | tail -n 1)" = "$GLIBC" ] \
            || fail "${file##*/} needs glibc $newest (expected at most $GLIBC): build it on an older system, such as Debian 12"
    done < <(find "$folder" "$1" -name '*.so*' -o -path '*/bin/*' -type f)
    say "   needs glibc $needed"
}

main() {
    local work folder tools programs wheel bytes
    read_arguments "$@"
    if [ -n "$results" ]; then
        python3 -B "$root/scripts/gpu/row.py" "$results" "$root/docs/reports/benchmarks.md"
        return
    fi
    ensure_rust
    ensure_packages wheel bundle libraries
    tools=$(clip_cache)/wheels
    ensure_wheel_tools "$tools"
    work=$(mktemp -d)
    # shellcheck disable=SC2064 # The folder of now.
    trap "rm -rf '$work'" EXIT
    folder=$work/foveate-gpu
    mkdir -p "$folder/python" "$work/unpacked"
    say 'Building the programs and the tests'
    programs=$(build) || fail 'the build failed; see above'
    # Beside the other programs, with the linker of this system: what it needs is checked below.
    for wheel in engine attention; do
        build_wheel "$wheel" "$tools" "$folder/python" --compatibility linux --auditwheel skip || fail 'a wheel cannot be built; see above'
    done
    put_programs "$programs"
    put_libraries
    put_scripts
    for wheel in "$folder"/python/*.whl; do
        python3 -m zipfile -e "$wheel" "$work/unpacked"
    done
    check_needs "$work/unpacked"
    XZ_OPT='-6 -T0' tar --owner 0 --group 0 -C "$work" -cJf "$archive" foveate-gpu
    bytes=$(stat -c %s "$archive")
    [ "$bytes" -le "$BYTES_MAX" ] || fail "$archive has $bytes bytes (expected at most $BYTES_MAX)"
    say "$archive: $bytes bytes"
}

main "$@"
