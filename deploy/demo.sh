#!/usr/bin/env bash
# A tour: a server, the descriptions of all packages this machine knows, a counter, a lock, and YCSB B.
set -euo pipefail

usage() {
    cat <<'TEXT'
usage: demo.sh [--seconds N]

Starts a kv-server on a free port, loads this machine's package index into it, looks things up,
counts, locks, runs YCSB workload B for a few seconds (5 unless said otherwise), and stops the
server. Needs the programs of `make build`; SIDEWIRE_BIN_DIR names another folder for them.
TEXT
}

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=deploy/demo-words.sh
source "$here/demo-words.sh"

seconds=5
while (($#)); do
    case $1 in
        --seconds) [[ ${2-} =~ ^[1-9][0-9]*$ ]] || die "--seconds wants a number"; seconds=$2; shift 2 ;;
        --help | -h) usage; exit ;;
        *) usage >&2; exit 2 ;;
    esac
done

find_programs "$here"

work=$(mktemp -d -t sidewire-demo.XXXXXX)
cd "$work"
server=
clean_up() {
    if [[ -n $server ]] && kill -TERM "$server" 2>/dev/null; then
        wait "$server" || true
    fi
    rm -rf "$work"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# Starts the server and learns from its one line of output where it listens.
start_server() {
    kv-server --listen 127.0.0.1:0 --memory 1GiB --log warn >server.out 2>server.err &
    server=$!
    local address
    address=$(listening_on server.out "$server")
    [[ -n $address ]] || { cat server.err >&2; die "kv-server did not start"; }
    export SIDEWIRE_SERVER=$address
}

# The package index as paragraphs of "Field: value" lines.
package_index() {
    if command -v apt-cache >/dev/null && [[ $(apt-cache dumpavail 2>/dev/null | head -c 1 | wc -c) -gt 0 ]]; then
        apt-cache dumpavail
    elif [[ -r /var/lib/dpkg/status ]]; then
        cat /var/lib/dpkg/status
    else
        die "this machine has no package index (apt-cache or dpkg)"
    fi
}

# Name, tab, description: a line break inside is \n, a backslash \\, as `kvctl load` reads tsv.
to_tsv() {
    awk '
        function flush() { if (name != "" && text != "") print name "\t" text; name = text = ""; inside = 0 }
        /^$/ { flush(); next }
        /^Package: / { name = $2; inside = 0; next }
        /^Description(-en)?: / { sub(/^[^:]*: /, ""); text = plain($0); inside = 1; next }
        /^ / { if (inside) text = text "\\n" plain($0); next }
        { inside = 0 }
        END { flush() }
        function plain(line) { gsub(/\\/, "\\\\\\\\", line); gsub(/\t/, "\\t", line); return line }
    '
}

say "1. A server, with an index that starts empty and 1 GiB to grow into"
start_server
echo "kv-server listens on $SIDEWIRE_SERVER (process $server)"

say "2. Every package that this machine knows: name and description"
package_index | to_tsv >packages.tsv
run kvctl load packages.tsv --no-header

say "3. Looking things up: the client reads the server's memory, the server's CPU does nothing"
first=$(awk -F '\t' 'NR == 1 { print $1 }' packages.tsv)
for package in bash coreutils grep "$first"; do
    kvctl exists "$package" >/dev/null || continue
    run kvctl get "$package" --newline
done
run kvctl get no-such-package 2>&1 || echo "(exit code $?)"

say "4. A counter: one fetch-and-add in the server's memory"
run kvctl counter create visits
for _ in 1 2 3; do run kvctl counter add visits; done

say "5. A lock: a command that runs while nobody else holds it, with a token that grows"
for _ in 1 2; do
    # The command's own shell expands it.
    # shellcheck disable=SC2016
    run kvctl lock run nightly-backup -- sh -c 'echo "working under token $SIDEWIRE_LOCK_TOKEN"'
done
run kvctl lock show nightly-backup

say "6. YCSB workload B (95% reads, 5% updates) for $seconds seconds"
run kv-bench run --workload b --load --records 100k --duration "${seconds}s"

say "7. What the server says of itself"
run kvctl info

say "Done. To go on by hand: start kv-server, then \`kvctl --help\`."
