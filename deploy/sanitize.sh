#!/usr/bin/env bash
# The suite under AddressSanitizer, and what fits under valgrind's memcheck.
set -euo pipefail

usage() {
    cat <<'TEXT'
usage: sanitize.sh [asan] [valgrind]

asan      builds everything with AddressSanitizer into target/asan and runs
          all unit tests, and the tests basics, fuzz, fabric_contract and
          hostile, with the programs under it, too. Not sim: its threads
          are coroutines, which change stacks behind the sanitizer's back.
valgrind  runs the unit tests of common's memory, layout and shm under memcheck.
          Threads take turns there, so nothing that is timed is run.

Both unless one is named. CARGO_TARGET_DIR moves the build. Installs nothing.
TEXT
}

say() { printf 'sanitize: %s\n' "$*"; }
die() { printf 'sanitize: %s\n' "$*" >&2; exit 1; }

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
parts=()
while (($#)); do
    case $1 in
        asan | valgrind) parts+=("$1") ;;
        --help | -h) usage; exit 0 ;;
        *) usage >&2; die "unknown argument $1" ;;
    esac
    shift
done
((${#parts[@]})) || parts=(asan valgrind)
cd "$root"
triple=$(rustc -vV | sed -n 's/^host: //p')

asan() {
    [[ -n $(find "$(rustc --print sysroot)/lib/rustlib/$triple" -name 'librustc*_rt.asan.a' -print -quit) ]] ||
        die "this toolchain has no AddressSanitizer for $triple"
    export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$root/target/asan}
    # Sanitizers are not stable yet; the variable opens them on a stable compiler, for this build alone.
    export RUSTC_BOOTSTRAP=1 RUSTFLAGS=-Zsanitizer=address
    # A server that is killed frees nothing, so leaks are not looked for: gauges and descriptors are compared by the
    # tests themselves.
    export ASAN_OPTIONS=detect_leaks=0:abort_on_error=1
    say "building with AddressSanitizer"
    cargo build --locked --workspace --bins --target "$triple"
    export SIDEWIRE_BIN_DIR=$CARGO_TARGET_DIR/$triple/debug
    # Everything takes two to four times as long.
    SIDEWIRE_TEST_SCALE=${SIDEWIRE_TEST_SCALE:-25} cargo test --locked --workspace --target "$triple" --no-fail-fast \
        --lib --test basics --test fuzz --test fabric_contract --test hostile -- --skip simulated
    unset RUSTC_BOOTSTRAP RUSTFLAGS ASAN_OPTIONS CARGO_TARGET_DIR SIDEWIRE_BIN_DIR
}

# Not the programs: rustix looks for the vDSO, which valgrind hides, and reads where none is.
check_with_valgrind() {
    type -P valgrind >/dev/null || die "no valgrind on this machine: apt-get install valgrind"
    type -P jq >/dev/null || die "no jq on this machine: run deploy/setup.sh --lab"
    local tests
    tests=$(cargo test --locked --workspace --lib --no-run --message-format=json-render-diagnostics |
        jq -r 'select(.reason == "compiler-artifact" and .profile.test and .target.name == "sidewire_common") | .executable')
    say "unit tests of common under memcheck"
    valgrind --quiet --error-exitcode=99 --leak-check=no "$tests" --test-threads=1 memory:: layout:: fabric::shm
}

for part in "${parts[@]}"; do
    case $part in
        asan) asan ;;
        valgrind) check_with_valgrind ;;
    esac
done
say "nothing was found"
