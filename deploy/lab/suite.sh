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

# Everything with "--workspace", which gives the features that "cargo test
# --workspace" has chosen before, so that nothing is compiled twice.
build_programs() {
    local integration=() units=0 name
    for name in "${tests[@]}"; do
        if [[ $name == *:lib ]]; then units=1; else integration+=(--test "$(target_of "$name")"); fi
    done
    cd "$root"
    cargo build --locked --workspace --bins "${integration[@]}" --message-format=json-render-diagnostics
    ((!units)) || cargo test --locked --workspace --lib --no-run --message-format=json-render-diagnostics
}

# From cargo's messages: "package:target<TAB>executable" for a test, "bin:name<TAB>executable" for a program.
list_executables() {
    jq -r 'select(.reason == "compiler-artifact" and .executable != null)
        | (.manifest_path | sub("/Cargo.toml$"; "")) as $folder
        | if .profile.test and .target.kind == ["test"] then [$folder + ":" + .target.name, .executable]
          elif .profile.test and .target.kind != ["bin"] then [$folder + ":lib", .executable]
          elif .profile.test then empty
          else ["bin:" + .target.name, .executable] end
        | @tsv'
}

# The executable whose first column is $1.
executable_of() { awk -F '\t' -v name="$1" '$1 == name { print $2 }' "$work/executables" | tail -n 1; }

# The folder of a package, by which cargo's messages name it.
folder_of() { jq -r --arg name "$1" '.packages[] | select(.name == $name) | .manifest_path | sub("/Cargo.toml$"; "")' "$work/metadata"; }

work=$(mktemp -d "${TMPDIR:-/tmp}/sidewire-suite.XXXXXX")
trap 'rm -rf "$work"' EXIT

say "building"
(build_programs) >"$work/messages"
list_executables <"$work/messages" >"$work/executables"
(cd "$root" && cargo metadata --locked --no-deps --format-version 1) >"$work/metadata"
copies=()
for program in kv-server kvctl kv-bench; do
    copies+=(--copy "$(executable_of "bin:$program"):bin/$program")
done
for name in "${tests[@]}"; do
    package=$(package_of "$name") target=$(target_of "$name")
    executable=$(executable_of "$(folder_of "$package"):$target")
    [[ -n $executable ]] || die "$package has no test $target"
    copies+=(--copy "$executable:tests/$package:$target")
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
"$here/run.sh" --memory 4096 --timeout "${SIDEWIRE_LAB_TIMEOUT:-3000s}" "${copies[@]}" --copy "$work/plan:plan" \
    --copy "$here/guest/suite:bin/suite" "${variables[@]}" -- bash /payload/bin/suite || code=$?
((code != 124)) || die "the VM did not finish"
exit "$code"
