#!/usr/bin/env bash
# The decoders under libFuzzer, guided by coverage.
set -euo pipefail

usage() {
    cat <<'TEXT'
usage: fuzz.sh [--seconds COUNT] [TARGET]...

Runs each target of tests/fuzz, or those given, for so many seconds (60).
Needs a nightly Rust toolchain and cargo-fuzz ("cargo install cargo-fuzz").
What is found on the way is kept in target/fuzz/corpus; an input that fails is
named and kept in target/fuzz/artifacts. Exits non-zero when one did.
TEXT
}

die() { printf 'fuzz: %s\n' "$*" >&2; exit 1; }

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
seconds=60 targets=()
while (($#)); do
    case $1 in
        --seconds)
            (($# >= 2)) || die "$1 wants a value"
            seconds=$2
            shift
            ;;
        --help | -h) usage; exit 0 ;;
        -*) usage >&2; die "unknown option $1" ;;
        *) targets+=("$1") ;;
    esac
    shift
done

cargo fuzz --version >/dev/null 2>&1 || die "no cargo-fuzz: cargo install cargo-fuzz"
cargo +nightly --version >/dev/null 2>&1 || die "no nightly toolchain: rustup toolchain install nightly"
((${#targets[@]})) || mapfile -t targets < <(cd "$root/tests/fuzz/targets" && printf '%s\n' *.rs | sed 's/\.rs$//')

cd "$root"
cargo +nightly fuzz build --fuzz-dir tests/fuzz --target-dir target/fuzz
failed=0
for target in "${targets[@]}"; do
    seeds=tests/fuzz/corpus/$target found=target/fuzz/corpus/$target kept=target/fuzz/artifacts/$target
    [[ -d $seeds ]] || die "there is no target $target"
    mkdir -p "$found" "$kept"
    if log=$(cargo +nightly fuzz run --fuzz-dir tests/fuzz --target-dir target/fuzz "$target" "$found" "$seeds" -- \
        -max_total_time="$seconds" -max_len=10000 -timeout=20 -artifact_prefix="$kept/" 2>&1); then
        printf 'fuzz: %s: %s\n' "$target" "$(grep '^Done ' <<<"$log")"
    else
        printf 'fuzz: %s failed\n%s\n' "$target" "$(tail -n 40 <<<"$log")" >&2
        failed=1
    fi
done
exit "$failed"
