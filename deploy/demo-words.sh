# shellcheck shell=bash
# What the demos and the benchmark have in common: how they speak, where the programs are, an etcd. Sourced, never run.

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

# A port that nobody has now.
free_port() {
    local port
    while :; do
        port=$((20000 + RANDOM % 30000))
        (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null || { printf '%s' "$port"; return; }
    done
}

# Starts an etcd with its data and log in folder $1; its process is left in `etcd`, its URL in `etcd_url`.
# shellcheck disable=SC2034 # both are for who sources this
start_etcd() {
    local peer
    etcd_url=http://127.0.0.1:$(free_port)
    peer=http://127.0.0.1:$(free_port)
    # A death is noticed when a lease has run out, and etcd grants none below one and a half elections.
    etcd --name alone --data-dir "$1/etcd" --listen-client-urls "$etcd_url" --advertise-client-urls "$etcd_url" \
        --listen-peer-urls "$peer" --initial-advertise-peer-urls "$peer" --initial-cluster "alone=$peer" \
        --heartbeat-interval 50 --election-timeout 500 >"$1/etcd.log" 2>&1 &
    etcd=$!
    for _ in {1..100}; do
        grep -q 'ready to serve client requests' "$1/etcd.log" && return
        kill -0 "$etcd" 2>/dev/null || break
        sleep 0.1
    done
    cat "$1/etcd.log" >&2
    die "etcd did not start"
}
