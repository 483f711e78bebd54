#!/bin/bash
# The main job, seen from the outside: a program with state in memory goes idle,
# is suspended to an encrypted image, and comes back as it was. Everything it
# makes is below .build/ and is removed at the end, unless KEEP=1.
set -euo pipefail
cd "$(dirname "$0")/../.."
bin=$PWD/bin/diapause
mkdir -p .build
scratch=$(mktemp -d "$PWD/.build/demo.XXXXXX")
export DIAPAUSE_DATA=$scratch/data
secret=$(head -c 12 /dev/urandom | od -An -tx1 | tr -d ' \n')
up_pid=

say() { printf '\n\033[1m== %s\033[0m\n' "$*"; }
fail() {
	echo "demo: $*" >&2
	[ -s "$scratch/up.log" ] && tail -20 "$scratch/up.log" >&2
	exit 1
}
field() { "$bin" show demo --json | sed -nE "s/^  \"$1\": \"?([^\",]*)\"?,?\$/\1/p"; }
leave() {
	[ "${kept:-}" = 1 ] && return
	"$bin" rm --yes demo >/dev/null 2>&1 || true
	"$bin" down --kill >/dev/null 2>&1 || true
	[ -z "$up_pid" ] || wait "$up_pid" 2>/dev/null || true
	rm -rf "$scratch"
}
trap leave EXIT

say "Is this machine fit for it?"
"$bin" doctor --listen 127.0.0.1:0 || fail "the doctor found something that has to be mended first"

say "Start everything in one process"
"$bin" up --listen 127.0.0.1:0 >"$scratch/up.log" 2>&1 &
up_pid=$!
until grep -q '^ready' "$scratch/up.log"; do
	kill -0 "$up_pid" 2>/dev/null || fail "diapause up ended"
	sleep 0.05
done
cat "$scratch/up.log"
port=$(sed -nE 's/^ready.*nats:\/\/127\.0\.0\.1:([0-9]+).*/\1/p' "$scratch/up.log")

say "A program that counts, with 200 MB of memory and some secrets"
cp e2e/demo/counter.py "$scratch/counter.py"
"$bin" run --name demo --idle 5s --env DEMO_SECRET="env-secret-$secret" -- "$(command -v /usr/bin/python3 || command -v python3)" "$scratch/counter.py" "$secret"
until [ "$(field rss_bytes)" -gt 200000000 ] 2>/dev/null; do sleep 0.2; done
"$bin" ls

say "It isn't used: the idle clock runs"
while [ "$(field state)" = running ]; do
	"$bin" explain demo | sed -n 1p
	sleep 1
done
until [ "$(field state)" = suspended ] && [ -z "$(field op)" ]; do sleep 0.1; done
before=$("$bin" logs demo | tail -1)

say "Suspended: no process, no memory, an encrypted image"
"$bin" history demo | grep -E 'suspend|reaped'
"$bin" ls
[ "$(field rss_bytes)" = 0 ] || fail "it still holds memory"
(cd "$DIAPAUSE_DATA/objects" && find . -type f -printf '%10s  %P\n' | sed -n 1,8p)
grep -rqa "asked to run" "$DIAPAUSE_DATA/nats" || fail "the search for secrets can't find anything at all"
for kind in memory file env output; do
	if grep -rqa "$kind-secret-$secret" "$DIAPAUSE_DATA"; then fail "its $kind can be read below $DIAPAUSE_DATA"; fi
	echo "no trace of the secret in its $kind below the data directory"
done

say "A bare publish wakes it, without credentials and with an empty payload"
echo "PUB diapause.v1.activity.default.demo.input 0"
exec 3<>"/dev/tcp/127.0.0.1/$port"
printf 'CONNECT {"verbose":false}\r\nPUB diapause.v1.activity.default.demo.input 0\r\n\r\nPING\r\n' >&3
until read -r -t 5 answer <&3 && [ "${answer%$'\r'}" = PONG ]; do [ -n "${answer:-}" ] || fail "NATS doesn't answer"; done
exec 3>&-
until [ "$(field state)" = running ]; do sleep 0.05; done
"$bin" show demo | grep -E 'state|boot|stages'
"$bin" history demo | grep -E 'resume'

say "And it goes on with the next number"
number=${before#count }
until "$bin" logs demo | grep -x "count $((number + 1))" >/dev/null; do sleep 0.1; done
"$bin" logs demo | grep -E -A2 "^count $number\$"
"$bin" audit --verify

if [ "${KEEP:-}" = 1 ]; then
	kept=1
	say "It is left up. Five commands to try next:"
	cat <<-TEXT
	  export DIAPAUSE_DATA=$DIAPAUSE_DATA
	  bin/diapause fork demo twin && bin/diapause ls     # a second one, from the same moment
	  bin/diapause exec demo -- ps aux                   # inside the session
	  bin/diapause history demo                          # what happened, and why
	  bin/diapause hold demo --for 10m --reason lunch && bin/diapause explain demo
	  bin/diapause down --kill                           # end it all; then rm -rf $scratch
	TEXT
	exit 0
fi
"$bin" rm --yes demo
"$bin" down
wait "$up_pid" || fail "diapause up ended with an error"
up_pid=
if pgrep -f "$scratch" >/dev/null; then fail "processes are left: $(pgrep -af "$scratch")"; fi
if grep -q "$scratch" /proc/self/mountinfo; then fail "mounts are left"; fi
say "Done, and nothing is left behind"
