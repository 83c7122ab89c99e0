#!/usr/bin/env bash
# An interactive shell in the lab VM; takes run.sh's options. Leave with "exit" or Ctrl+D.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
target=$(cd "$here/../.." && pwd)/target/${SIDEWIRE_LAB_PROFILE:-debug}
copies=()
for program in kv-server kvctl kv-bench; do
    [[ ! -x $target/$program ]] || copies+=(--copy "$target/$program")
done
exec "$here/run.sh" --timeout 24h --interactive --env 'PS1=lab:\w# ' "${copies[@]}" "$@" -- bash --norc -i
