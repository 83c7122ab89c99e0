#!/usr/bin/env bash
# The YCSB workloads and the raw fabric, on a server of this machine.
set -euo pipefail

usage() {
    cat <<'TEXT'
usage: bench.sh [--records COUNT] [--duration TIME] [--threads COUNT] [--json FOLDER]

Starts a kv-server on a free port, measures the raw fabric, then runs the
YCSB workloads a, b, c, d and f, each on records of its own server.
Defaults: 200k records, 10s a workload, 1 thread. With --json each report is
written to FOLDER too. SIDEWIRE_BIN_DIR names another folder of programs than
target/release; SIDEWIRE_BENCH_SERVER holds further options of kv-server, e.g.
"--listen 10.0.0.1:0 --fabric verbs".
TEXT
}

die() { printf 'bench: %s\n' "$*" >&2; exit 1; }

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
records=200k duration=10s threads=1 json=
while (($#)); do
    case $1 in
        --records | --duration | --threads | --json)
            (($# >= 2)) || die "$1 wants a value"
            case $1 in
                --records) records=$2 ;;
                --duration) duration=$2 ;;
                --threads) threads=$2 ;;
                --json) json=$2 ;;
            esac
            shift
            ;;
        --help | -h) usage; exit 0 ;;
        *) usage >&2; die "unknown option $1" ;;
    esac
    shift
done

programs=$(cd "${SIDEWIRE_BIN_DIR:-$root/target/release}" 2>/dev/null && pwd) || die "no programs: run 'make build' first"
[[ -z $json ]] || mkdir -p "$json"
work=$(mktemp -d "${TMPDIR:-/tmp}/sidewire-bench.XXXXXX")
server=''

stop_server() {
    [[ -z $server ]] || kill "$server" 2>/dev/null || true
    [[ -z $server ]] || wait "$server" 2>/dev/null || true
    server=''
}
trap 'stop_server; rm -rf "$work"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

start_server() {
    local options tries
    read -ra options <<<"${SIDEWIRE_BENCH_SERVER:---listen 127.0.0.1:0}"
    "$programs/kv-server" --memory 1GiB --log warn "${options[@]}" >"$work/address" 2>"$work/log" &
    server=$!
    for ((tries = 0; tries < 300; tries++)); do
        SIDEWIRE_SERVER=$(sed -n 's/^listening on //p' "$work/address")
        export SIDEWIRE_SERVER
        [[ -z $SIDEWIRE_SERVER ]] || return 0
        kill -0 "$server" 2>/dev/null || break
        sleep 0.1
    done
    cat "$work/log" >&2
    die "the server did not start"
}

measure() { # name, arguments of kv-bench
    local name=$1 report=()
    shift
    [[ -z $json ]] || report=(--json "$json/$name.json")
    printf '\n$ kv-bench %s\n' "$*"
    start_server
    "$programs/kv-bench" "$@" "${report[@]}"
    stop_server
}

measure fabric fabric --size 64 --size 1KiB
for workload in a b c d f; do
    measure "$workload" run --workload "$workload" --load --records "$records" --duration "$duration" --threads "$threads"
done
