#!/usr/bin/env bash
# Runs the end-to-end tests on real verbs: builds here, boots one VM, runs them inside.
set -euo pipefail

usage() {
    cat <<'TEXT'
usage: suite.sh [--no-bench] [TEST]...

Runs the tests of tests.list, or those given, in one boot of the lab VM, then
the raw-fabric benchmark beside perftest. Exits non-zero when a test failed.
RUST_LOG and SIDEWIRE_TEST_* variables are handed on to the tests.
TEXT
}

say() { printf 'lab: %s\n' "$*"; }
die() { printf 'lab: %s\n' "$*" >&2; exit 1; }

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
bench=1 chosen=()
while (($#)); do
    case $1 in
        --no-bench) bench=0 ;;
        --help | -h) usage; exit 0 ;;
        -*) usage >&2; die "unknown option $1" ;;
        *) chosen+=("$1") ;;
    esac
    shift
done

type -P jq >/dev/null || die "no jq on this machine: run deploy/setup.sh --lab"
# The VM can be built, or fetched from the cache, while cargo works.
"$here/build.sh" >/dev/null &
base=$!

declare -A limits=()
listed=()
while read -r name limit; do
    [[ -z $name || $name == '#'* ]] && continue
    listed+=("$name")
    limits[$name]=${limit:-300s}
done <"$here/tests.list"
tests=("${listed[@]}")
if ((${#chosen[@]})); then
    tests=("${chosen[@]}")
    bench=0
fi

# Package and target of a line of the list.
package_of() { if [[ $1 == *:* ]]; then echo "${1%%:*}"; else echo sidewire-tests; fi; }
target_of() { echo "${1##*:}"; }

# Builds the tests of one package: "target<TAB>executable", a line each, "lib" for its unit tests.
build_tests() {
    local package=$1 arguments=() name
    shift
    for name in "$@"; do
        if [[ $name == lib ]]; then arguments+=(--lib); else arguments+=(--test "$name"); fi
    done
    (cd "$root" && cargo test --locked -p "$package" "${arguments[@]}" --no-run --message-format=json-render-diagnostics) |
        jq -r 'select(.reason == "compiler-artifact" and .profile.test and .executable != null)
            | [(if (.target.kind | index("test")) then .target.name else "lib" end), .executable] | @tsv'
}

say "building"
(cd "$root" && cargo build --locked --workspace --bins)
target=$(cd "$root" && cargo metadata --no-deps --format-version 1 --locked | jq -r .target_directory)
copies=()
for program in kv-server kvctl kv-bench; do
    copies+=(--copy "$target/debug/$program")
done

work=$(mktemp -d "${TMPDIR:-/tmp}/sidewire-suite.XXXXXX")
trap 'rm -rf "$work"' EXIT
for package in $(for name in "${tests[@]}"; do package_of "$name"; done | sort -u); do
    targets=()
    for name in "${tests[@]}"; do
        [[ $(package_of "$name") != "$package" ]] || targets+=("$(target_of "$name")")
    done
    build_tests "$package" "${targets[@]}" >"$work/built"
    for name in "${targets[@]}"; do
        executable=$(awk -F '\t' -v name="$name" '$1 == name { print $2 }' "$work/built" | tail -n 1)
        [[ -n $executable ]] || die "$package has no test $name"
        copies+=(--copy "$executable:tests/$package:$name")
    done
done
for name in "${tests[@]}"; do
    echo "$(package_of "$name"):$(target_of "$name") ${limits[$name]:-300s}"
done >"$work/plan"

wait "$base" || die "cannot build the VM"
variables=(--env "LAB_BENCH=$bench")
while IFS= read -r variable; do
    variables+=(--env "$variable")
done < <(env | grep -E '^(RUST_LOG|RUST_BACKTRACE|SIDEWIRE_TEST_[A-Z_]*)=')

say "booting"
code=0
"$here/run.sh" --timeout "${SIDEWIRE_LAB_TIMEOUT:-2400s}" "${copies[@]}" --copy "$work/plan:plan" \
    --copy "$here/guest/suite:bin/suite" "${variables[@]}" -- bash /payload/bin/suite || code=$?
((code != 124)) || die "the VM did not finish"
exit "$code"
