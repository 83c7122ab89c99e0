#!/usr/bin/env bash
# The table of what Sidewire must show on shared memory, as ratios measured side by side on this machine.
set -euo pipefail

usage() {
    cat <<'TEXT'
usage: bench.sh [--records COUNT] [--duration TIME] [--rounds COUNT] [--keys COUNT] [--json FOLDER] [ROW]...

Starts a kv-server, a Redis and a memcached of its own on free sockets, an LMDB
in memory, and prints a table: each figure, its bar, and what was reached.
Stores are measured in interleaved rounds; a figure is the median round's.

  --records   records of most rows [1M]
  --duration  time of each window [3s]
  --rounds    rounds [3]
  --locations entries of the client's location cache, for rows about warm Gets [4M]
  --keys      keys of the row about memory [10M]
  --json      keep every report of kv-bench in this folder
  ROW         own, get, lmdb, peers, pipeline, put, reads, threads, memory, copies, join, ycsb
              [all but copies and join, which want an etcd and more cores than copies,
              and ycsb, which prints the YCSB workloads and the raw fabric]

SIDEWIRE_BIN_DIR names another folder of programs than target/release;
SIDEWIRE_BENCH_SERVER holds further options of kv-server, e.g.
"--listen 10.0.0.1:0 --fabric verbs". What is not installed is left out.
TEXT
}

# shellcheck source=deploy/demo-words.sh
source "$(dirname "${BASH_SOURCE[0]}")/demo-words.sh"
say() { printf 'bench: %s\n' "$*" >&2; }

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
records=1M locations=4M duration=3s rounds=3 keys=10M json='' rows=()
while (($#)); do
    case $1 in
        --records | --locations | --duration | --rounds | --keys | --json)
            (($# >= 2)) || die "$1 wants a value"
            declare "${1#--}=$2"
            shift
            ;;
        --help | -h) usage; exit 0 ;;
        own | get | lmdb | peers | pipeline | put | reads | threads | memory | copies | join | ycsb) rows+=("$1") ;;
        *) usage >&2; die "unknown option $1" ;;
    esac
    shift
done
((${#rows[@]})) || rows=(own get lmdb peers pipeline put reads threads memory)

programs=$(cd "${SIDEWIRE_BIN_DIR:-$root/target/release}" 2>/dev/null && pwd) || die "no programs: run 'make build' first"
type -P jq >/dev/null || die "no jq: run 'deploy/setup.sh --bench'"
work=$(mktemp -d "${TMPDIR:-/tmp}/sidewire-bench.XXXXXX")
memory=$(mktemp -d /dev/shm/sidewire-bench.XXXXXX)
chmod 755 "$work"
[[ -z $json ]] || mkdir -p "$json"
kept=${json:-$work}
server='' redis='' memcached='' etcd='' members=() table=()

end() { # process
    [[ -z $1 ]] || kill "$1" 2>/dev/null || true
    [[ -z $1 ]] || wait "$1" 2>/dev/null || true
}
end_clusters() {
    local process
    for process in "${members[@]}" $etcd; do end "$process"; done
    members=() etcd=''
}
trap 'end "$server"; end "$redis"; end "$memcached"; end_clusters; rm -rf "$work" "$memory"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

start_server() { # memory
    local options tries
    end "$server"
    server=''
    read -ra options <<<"${SIDEWIRE_BENCH_SERVER:---listen 127.0.0.1:0}"
    "$programs/kv-server" --memory "${1:-2GiB}" --log warn "${options[@]}" >"$work/address" 2>"$work/log" &
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

await_socket() { # process, socket, name
    local tries
    for ((tries = 0; tries < 300; tries++)); do
        [[ ! -S $2 ]] || return 0
        kill -0 "$1" 2>/dev/null || break
        sleep 0.1
    done
    die "$3 did not start"
}

# The other stores' URLs, as far as they are installed.
peers=()
start_peers() {
    ((!${#peers[@]})) || return 0
    if type -P redis-server >/dev/null; then
        redis-server --port 0 --unixsocket "$work/redis" --save '' --appendonly no --dir "$work" >/dev/null 2>&1 &
        redis=$!
        await_socket "$redis" "$work/redis" redis-server
        peers+=("redis+unix://$work/redis")
    fi
    if type -P memcached >/dev/null; then
        memcached -u "$(id -un)" -s "$work/memcached" -m 2048 -c 1024 >/dev/null 2>&1 &
        memcached=$!
        await_socket "$memcached" "$work/memcached" memcached
        peers+=("memcached+unix://$work/memcached")
    fi
    ((${#peers[@]})) || say "neither redis-server nor memcached here: run 'deploy/setup.sh --bench'"
}

bench() { # name, arguments of kv-bench
    local name=$1
    shift
    say "kv-bench $*"
    "$programs/kv-bench" "$@" --json "$kept/$name.json" >"$work/text" || { cat "$work/text" >&2; die "kv-bench $* failed"; }
}

figure() { jq -r "$2" "$kept/$1.json"; } # name, path
median() { sort -g | awk '{ all[NR] = $1 } END { print all[int((NR + 1) / 2)] }'; }
over() { awk -v a="$1" -v b="$2" 'BEGIN { if (b > 0) printf "%.3f", a / b; else print "-" }'; }
row() { table+=("$(printf '%-62s %10s %12s  %s' "$1" "$2" "$3" "${4:-}")"); } # figure, bar, reached, what it is made of

loaded=''
load() { # Everything that rows of 1M records read, once.
    [[ -z $loaded ]] || return 0
    start_server 2GiB
    start_peers
    local target
    for target in "kv://$SIDEWIRE_SERVER" "${peers[@]}" "lmdb:$memory/lmdb"; do
        bench load load --records "$records" --target "$target" --pipeline 64
    done
    loaded=1
}

row_own() {
    local round chooser all
    for chooser in uniform zipfian; do
        all=()
        for ((round = 1; round <= rounds; round++)); do
            bench own run -w c --target null: --records "$records" --distribution "$chooser" --operations 20M --warmup off
            all+=("$(figure own .client_cpu_ns_per_op)")
        done
        row "kv-bench's own CPU per operation, null target, $chooser" "<= 60 ns" "$(printf '%s\n' "${all[@]}" | median | cut -c1-5) ns"
    done
}

row_get() {
    load
    bench get run -w c --records "$records" --duration "$duration" --warmup sweep --location-cache "$locations"
    row "warm Get p50 / raw shm read of the same place" "<= 2.0" "$(figure get '.ratio.read_p50_over_raw_read * 100 | round / 100')" \
        "$(figure get '"\(.latency_ns.read.p50) / \(.raw.read.p50) ns"')"
    row "warm Get p50 / raw shm read spread over as many bytes" "stated" "$(figure get '.ratio.read_p50_over_raw_read_spread * 100 | round / 100')" \
        "$(figure get '"\(.latency_ns.read.p50) / \(.raw.read_spread.p50) ns"')"
}

row_lmdb() {
    load
    bench lmdb compare -w c --distribution uniform --records "$records" --duration "$duration" --rounds "$rounds" --warmup sweep \
        --location-cache "$locations" --target "kv://$SIDEWIRE_SERVER" --target "lmdb:$memory/lmdb"
    row "Get p50 / LMDB get p50, read transaction kept open" "<= 1.0" "$(figure lmdb '.compare_ratio.lmdb.read_p50 * 100 | round / 100')" \
        "$(figure lmdb '"\(.compare[0].p50_ns.read) / \(.compare[1].p50_ns.read) ns"')"
}

# Rates of one store in all rounds, the best count of connections; and its CPU per operation there.
declare -A best best_at best_cpu
row_peers() {
    load
    ((${#peers[@]})) || return 0
    local round connections target name rate
    declare -A rates cpus
    for ((round = 1; round <= rounds; round++)); do
        bench kv run -w c --records "$records" --duration "$duration" --warmup sweep --location-cache "$locations" --no-raw
        rates[kv]+="$(figure kv .throughput_ops) "
        cpus[kv]+="$(figure kv .server_cpu_ns_per_op) "
        for connections in 1 2 4 8 16 32; do
            for target in "${peers[@]}"; do
                name=${target%%+*}
                bench peer run -w c --records "$records" --duration "$duration" --threads "$connections" --target "$target"
                rates[$name $connections]+="$(figure peer .throughput_ops) "
                cpus[$name $connections]+="$(figure peer .server_cpu_ns_per_op) "
            done
        done
    done
    local kv kv_cpu key
    kv=$(tr ' ' '\n' <<<"${rates[kv]% }" | median)
    kv_cpu=$(tr ' ' '\n' <<<"${cpus[kv]% }" | median)
    for key in "${!rates[@]}"; do
        [[ $key != kv ]] || continue
        name=${key% *}
        rate=$(tr ' ' '\n' <<<"${rates[$key]% }" | median)
        if awk "BEGIN { exit !($rate > ${best[$name]:-0}) }"; then
            best[$name]=$rate best_at[$name]=${key#* } best_cpu[$name]=$(tr ' ' '\n' <<<"${cpus[$key]% }" | median)
        fi
    done
    for name in "${!best[@]}"; do
        row "Gets/s, one thread / $name over a Unix socket, best of 1 to 32" ">= 20" "$(over "$kv" "${best[$name]}")" \
            "$(printf '%.0f / %.0f at %s connections' "$kv" "${best[$name]}" "${best_at[$name]}")"
        row "server CPU per Get, percent of $name's" "< 1 %" "$(over "$(awk "BEGIN { print 100 * $kv_cpu }")" "${best_cpu[$name]}") %" \
            "$(printf '%.2f / %.0f ns' "$kv_cpu" "${best_cpu[$name]}")"
    done
}

row_pipeline() {
    load
    [[ -n $redis ]] || return 0
    local round threads target="redis+unix://$work/redis" kv=() single=() double=()
    for ((round = 1; round <= rounds; round++)); do
        bench kv run -w c --records "$records" --duration "$duration" --threads 2 --warmup sweep --location-cache "$locations" --no-raw
        kv+=("$(figure kv .throughput_ops)")
        for threads in 1 2; do
            bench peer run -w c --records "$records" --duration "$duration" --threads "$threads" --pipeline 64 --target "$target"
            if ((threads == 1)); then single+=("$(figure peer .throughput_ops)"); else double+=("$(figure peer .throughput_ops)"); fi
        done
    done
    local ours theirs
    ours=$(printf '%s\n' "${kv[@]}" | median)
    theirs=$({ printf '%s\n' "${single[@]}" | median; printf '%s\n' "${double[@]}" | median; } | sort -g | tail -n 1)
    row "Gets/s, two threads / Redis pipelined 64 deep" ">= 3" "$(over "$ours" "$theirs")" "$(printf '%.0f / %.0f' "$ours" "$theirs")"
    bench puts compare -w c -p readproportion=0 -p updateproportion=1 --records "$records" --duration "$duration" --rounds "$rounds" \
        --pipeline 64 --target "kv://$SIDEWIRE_SERVER" --target "$target"
    row "Puts/s, one worker, pipeline 64 / Redis SET pipelined 64" ">= 1.0" \
        "$(figure puts '.compare_ratio["redis+unix"].throughput_ops * 100 | round / 100')" \
        "$(figure puts '"\(.compare[0].throughput_ops | round) / \(.compare[1].throughput_ops | round)"')"
}

row_put() {
    load
    # A client that spins for long keeps asking, so the worker stays awake; one that pauses finds it asleep.
    bench put run -w c -p readproportion=0 -p updateproportion=1 --records "$records" --duration "$duration"
    row "Put p50, worker awake / raw Write-with-Immediate and ack" "<= 4" \
        "$(figure put '.ratio.update_p50_over_raw_write_imm_ack * 100 | round / 100')" \
        "$(figure put '"\(.latency_ns.update.p50) / \(.raw.write_imm_ack.p50) ns"')"
    bench sleepy run -w c -p readproportion=0 -p updateproportion=1 --records "$records" --duration "$duration" --rate 200 --arrival fixed --no-raw
    row "Put p50, worker asleep (200 Puts a second)" "stated" "$(figure sleepy '.latency_ns.update.p50 / 1000 | round') us"
}

row_reads() {
    load
    local run=(run --records "$records" --duration "$duration" --no-raw)
    bench reads "${run[@]}" -w c --warmup sweep --location-cache "$locations"
    row "Reads per Get, YCSB C zipfian, warm" "<= 1.02" "$(figure reads '.reads_per_get * 10000 | round / 10000')"
    bench reads "${run[@]}" -w c --warmup 5s
    row "Reads per Get, YCSB C zipfian, the default cache after 5 s" "stated" "$(figure reads '.reads_per_get * 10000 | round / 10000')"
    bench reads "${run[@]}" -w b --warmup sweep --location-cache "$locations"
    row "Reads per Get, YCSB B, warm" "<= 1.10" "$(figure reads '.reads_per_get * 10000 | round / 10000')"
    bench reads "${run[@]}" -w c --distribution uniform --location-cache off
    row "Reads per Get, cold" "<= 2.06" "$(figure reads '.reads_per_get * 10000 | round / 10000')"
}

row_threads() {
    load
    local round threads highest=0 rate
    declare -A rates
    for ((round = 1; round <= rounds; round++)); do
        for threads in 1 2 4 8 16; do
            bench a run -w a --records "$records" --duration "$duration" --threads "$threads" --no-raw
            rates[$threads]+="$(figure a .throughput_ops) "
        done
    done
    local told=''
    for threads in 1 2 4 8 16; do
        rate=$(tr ' ' '\n' <<<"${rates[$threads]% }" | median)
        told+=$(printf '%.0f ' "$rate")
        highest=$(printf '%s\n%s\n' "$highest" "$rate" | sort -g | tail -n 1)
    done
    row "YCSB A zipfian 0.99, 16 threads / the best of 1 to 16" ">= 0.8" "$(over "$rate" "$highest")" "${told}per second"
}

row_memory() {
    local size
    for size in 64 1024; do
        start_server 16GiB
        loaded=''
        local count=$keys
        ((size == 64)) || count=1M
        bench memory load --records "$count" --value-size "$size" --pipeline 64
        ((size != 64)) || row "index bytes a key at $keys keys" "<= 20" "$(figure memory '.growth.index_bytes_per_key * 10 | round / 10')"
        row "heap beyond the records' own bytes, values of $size B" "<= $( ((size == 64)) && echo 30 || echo 10) %" \
            "$(figure memory '.growth.heap_overhead * 1000 | round / 10') %" "$count keys"
    done
}

# One more server of a cluster; its address is added to SIDEWIRE_SERVER.
start_member() { # cluster, node, copies
    local address
    "$programs/kv-server" --listen 127.0.0.1:0 --memory 512MiB --workers 1 --pin off --log warn --etcd "$etcd_url" \
        --cluster "$1" --node "$2" --replicas "$3" >"$work/member" 2>>"$work/log" &
    members+=($!)
    address=$(listening_on "$work/member" $!)
    [[ -n $address ]] || { cat "$work/log" >&2; die "a server of a cluster did not start"; }
    export SIDEWIRE_SERVER=${SIDEWIRE_SERVER:+$SIDEWIRE_SERVER,}$address
}

# A cluster of so many servers; leaves their addresses in SIDEWIRE_SERVER.
start_cluster() { # cluster, servers, copies
    local at tries
    SIDEWIRE_SERVER=''
    for ((at = 1; at <= $2; at++)); do start_member "$1" "n$at" "$3"; done
    # Every shard has all its copies.
    for ((tries = 0; tries < 300; tries++)); do
        "$programs/kvctl" cluster status --json 2>/dev/null | jq -e '.settled' >/dev/null && return
        sleep 0.1
    done
    die "the cluster $1 does not settle"
}

row_copies() {
    type -P etcd >/dev/null || { say "no etcd here: run 'deploy/setup.sh --lab'"; return 0; }
    local round copies
    declare -A servers puts gets
    start_etcd "$memory"
    for copies in 1 2 3; do
        start_cluster "copies-$copies" "$copies" "$copies"
        servers[$copies]=$SIDEWIRE_SERVER
        bench load load --records 100k
    done
    for ((round = 1; round <= rounds; round++)); do
        for copies in 1 2 3; do
            export SIDEWIRE_SERVER=${servers[$copies]}
            bench put run -w c -p readproportion=0 -p updateproportion=1 --records 100k --duration "$duration" --no-raw
            puts[$copies]+="$(figure put .latency_ns.update.p50) "
            bench get run -w c --records 100k --duration "$duration" --warmup sweep --no-raw
            gets[$copies]+="$(figure get .latency_ns.read.p50) "
        done
    done
    local put1 get1 put get
    put1=$(tr ' ' '\n' <<<"${puts[1]% }" | median)
    get1=$(tr ' ' '\n' <<<"${gets[1]% }" | median)
    for copies in 2 3; do
        put=$(tr ' ' '\n' <<<"${puts[$copies]% }" | median)
        get=$(tr ' ' '\n' <<<"${gets[$copies]% }" | median)
        row "Put p50, $copies copies / one ($(nproc) cores, $((copies + 1)) processes)" "<= $( ((copies == 2)) && echo 2.2 || echo 2.5)" "$(over "$put" "$put1")" "$put / $put1 ns"
        row "Get p50, $copies servers / one" "<= 1.05" "$(over "$get" "$get1")" "$get / $get1 ns"
    done
    end_clusters
}

# A third server joins two, with two copies of each shard, while a client reads: runs of three seconds until it has its share,
# the first of them begun before it.
row_join() {
    type -P etcd >/dev/null || { say "no etcd here: run 'deploy/setup.sh --lab'"; return 0; }
    local before reader add at=1 most=0 failed=0 p99 keys took
    start_etcd "$memory"
    start_cluster join 2 2
    bench load load --records "$records"
    bench before run -w c --records "$records" --duration "$duration" --warmup sweep --no-raw
    before=$(figure before .latency_ns.read.p99)
    bench join1 run -w c --records "$records" --warmup 1s --duration 3s --no-raw &
    reader=$!
    sleep 1.5
    took=$(date +%s%N)
    start_member join n3 2
    { "$programs/kvctl" --timeout 5m cluster add n3 >"$work/added" 2>&1 && date +%s%N >"$work/joined"; } &
    add=$!
    wait "$reader" || die "reads failed while the third server joined"
    while kill -0 "$add" 2>/dev/null; do
        bench "join$((at += 1))" run -w c --records "$records" --warmup 0s --duration 3s --no-raw
    done
    wait "$add" || { cat "$work/added" >&2; die "the third server did not get its share"; }
    took=$((($(<"$work/joined") - took) / 1000000))
    for ((; at > 0; at--)); do
        p99=$(figure "join$at" .latency_ns.read.p99)
        failed=$((failed + $(figure "join$at" .failed)))
        ((p99 <= most)) || most=$p99
    done
    keys=$("$programs/kvctl" -s "${SIDEWIRE_SERVER##*,}" info --json | jq -s '.[-1].keys')
    row "keys at a third server with two copies / its ideal share" "0.9 to 1.1" "$(over "$((keys * 3))" "$((2 * $(figure load .operations)))")" "$keys keys after $took ms"
    row "Get p99 while it gets them / before" "<= 3" "$(over "$most" "$before")" "$most / $before ns"
    row "calls that failed meanwhile" "0" "$failed"
    end_clusters
}

row_ycsb() {
    local workload
    for workload in fabric a b c d f; do
        start_server 2GiB
        loaded=''
        if [[ $workload == fabric ]]; then
            bench fabric fabric --size 64 --size 1KiB
        else
            bench "$workload" run --workload "$workload" --load --records "$records" --duration "$duration"
        fi
        cat "$work/text"
    done
}

for name in "${rows[@]}"; do
    "row_$name"
done
if ((${#table[@]})); then
    printf '\n%-62s %10s %12s  %s\n' figure bar reached 'made of'
    printf '%s\n' "${table[@]}"
fi
