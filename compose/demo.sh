#!/bin/bash
# Shows that a session outlives its host: it counts on worker-1, that container is killed, and
# it goes on counting on worker-2 from its last snapshot.
set -euo pipefail
cd "$(dirname "$0")"

say() { printf '\n== %s\n' "$*"; }
fleet() { docker compose run --rm --no-TTY client "$@" </dev/null; }

# state NAME prints "running on worker-1".
state() { fleet show "$1" --json | sed -n 's/^  "\(state\|host\)": "\(.*\)",*$/\2/p' | paste -sd' '; }

# count NAME prints the last number that the session has printed.
count() { fleet logs "$1" --tail 1 | tr -dc 0-9; }

name=demo-$$
trap 'fleet rm --force "$name" >/dev/null 2>&1 || true' EXIT

say "a session that counts begins on worker-1"
fleet run --name "$name" --host worker-1 --root /srv/session --cwd / --idle never --on-host-loss resume -- \
	sh -c 'n=0; while sleep 0.2; do n=$((n+1)); echo $n; done'
until [ "$(count "$name")" -ge 10 ] 2>/dev/null; do sleep 0.5; done

say "a checkpoint: it runs on"
before=$(count "$name")
fleet checkpoint "$name"
echo "it had counted to $before before that"

say "worker-1 is killed: docker compose kill --signal KILL worker-1"
killed=$SECONDS
docker compose kill --signal KILL worker-1

say "the session goes on on worker-2"
until [ "$(state "$name" 2>/dev/null)" = "running worker-2" ]; do
	[ $((SECONDS - killed)) -lt 180 ] || { echo "it doesn't: $(state "$name")" >&2; exit 1; }
	sleep 0.5
done
echo "after $((SECONDS - killed)) s: $(state "$name")"
first=$(count "$name")
until after=$(count "$name") && [ "$after" -gt "$first" ]; do
	[ $((SECONDS - killed)) -lt 240 ] || { echo "it doesn't count" >&2; exit 1; }
	sleep 0.5
done
echo "it had counted to $before before its last snapshot, and counts on: $first, $after"
[ "$after" -gt "$before" ] || { echo "it has lost what its snapshot had" >&2; exit 1; }
fleet history "$name"

say "worker-1 is started again"
docker compose up --detach --wait --no-deps worker-1
