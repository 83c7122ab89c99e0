#!/usr/bin/env bash
# A cluster on one host: etcd, three servers, two copies of everything, and one server killed under load.
set -euo pipefail

usage() {
    cat <<'TEXT'
usage: demo-cluster.sh [--seconds N]

Starts an etcd and three kv-servers on free ports, loads records, runs YCSB workload A for N seconds
(20 unless said otherwise), kills one of the servers a third of the way, starts it again at two
thirds, and shows throughput and errors of every second, and the cluster before and after. Needs
etcd and the programs of `make build`; SIDEWIRE_BIN_DIR names another folder for them.
TEXT
}

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=deploy/demo-words.sh
source "$here/demo-words.sh"

seconds=20
while (($#)); do
    case $1 in
        --seconds) [[ ${2-} =~ ^[1-9][0-9]*$ ]] || die "--seconds wants a number"; seconds=$2; shift 2 ;;
        --help | -h) usage; exit ;;
        *) usage >&2; exit 2 ;;
    esac
done
find_programs "$here"
command -v etcd >/dev/null || die "etcd is not there; run \`deploy/setup.sh --lab\`"

work=$(mktemp -d -t sidewire-demo.XXXXXX)
cd "$work"
declare -A servers addresses
etcd=
clean_up() {
    local process
    for process in "${servers[@]}" $etcd; do
        if kill -TERM "$process" 2>/dev/null; then wait "$process" 2>/dev/null || true; fi
    done
    rm -rf "$work"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# Starts node $1; one that was there before gets the port that it had.
start_server() {
    local listen=${addresses[$1]:-127.0.0.1:0}
    kv-server --listen "$listen" --fabric shm --memory 256MiB --log warn --etcd "$etcd_url" --cluster demo \
        --node "$1" --replicas 2 >"$1.out" 2>"$1.err" &
    servers[$1]=$!
    addresses[$1]=$(listening_on "$1.out" "${servers[$1]}")
    [[ -n ${addresses[$1]} ]] || { cat "$1.err" >&2; die "kv-server $1 did not start"; }
    echo "$1 listens on ${addresses[$1]} (process ${servers[$1]})"
}

say "1. An etcd for the map, and three servers that keep two copies of everything"
start_etcd "$work"
for node in red green blue; do start_server "$node"; done
SIDEWIRE_SERVER=${addresses[red]},${addresses[green]},${addresses[blue]}
export SIDEWIRE_SERVER

say "2. 50,000 records over all of them"
run kv-bench load --records 50k --threads 2
run kvctl counter create visits
run kvctl counter add visits 41

say "3. YCSB workload A for $seconds seconds; green is killed after $((seconds / 3)) and comes back after $((seconds * 2 / 3))"
kv-bench run --workload a --records 50k --threads 2 --duration "${seconds}s" --interim 1s --deadline 10s &
load=$!
sleep $((seconds / 3))
echo "--- green is killed (SIGKILL)"
kill -KILL "${servers[green]}"
wait "${servers[green]}" 2>/dev/null || true
sleep $((seconds / 3))
echo "--- green starts again, empty"
start_server green
result=0
wait "$load" || result=$?
((result == 0)) || echo "(kv-bench: exit code $result)"

say "4. Nothing is gone"
run kvctl counter add visits 1
run kvctl cluster status

say "Done. deploy/README.md tells how to run a cluster for good."
