# shellcheck shell=bash
# What the demos have in common: how they speak, and where the programs are. Sourced, never run.

say() { printf '\n\033[1m%s\033[0m\n' "$*"; }
[[ -t 1 ]] || say() { printf '\n%s\n' "$*"; }
die() { printf '%s: %s\n' "$(basename "$0" .sh)" "$*" >&2; exit 1; }

# Shows a command as one would type it, and runs it.
run() {
    printf '$ %s\n' "$(shown "$@")"
    "$@"
}

# The words of a command, with quotes only where a shell wants them.
shown() {
    local word line=
    for word in "$@"; do
        [[ $word =~ ^[A-Za-z0-9_./:=,@%+-]+$ ]] || word="'${word//\'/\'\\\'\'}'"
        line+="$word "
    done
    printf '%s' "${line% }"
}

# Puts the folder of the programs first on the path; SIDEWIRE_BIN_DIR names another one.
find_programs() {
    local programs=${SIDEWIRE_BIN_DIR:-$1/../target/release} program
    [[ -d $programs ]] || die "there are no programs in $programs; run \`make build\`"
    PATH=$(cd "$programs" && pwd):$PATH
    for program in kv-server kvctl kv-bench; do
        [[ -n $(command -v "$program") ]] || die "$program is not there; run \`make build\`"
    done
}

# Waits for the one line of a server's output ($1) that tells where it listens; its process is $2.
listening_on() {
    local address=
    for _ in {1..100}; do
        address=$(sed -n 's/^listening on //p' "$1")
        [[ -z $address ]] || break
        kill -0 "$2" 2>/dev/null || break
        sleep 0.1
    done
    printf '%s' "$address"
}
