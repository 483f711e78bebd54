#!/bin/bash
# Disturbs the network that this container shares with a part of the fleet: again and again one of the faults
# that are named, chosen at random, for CHAOS_FAULT seconds, after CHAOS_PAUSE seconds at most without one.
#
#   cut     nothing goes out, so that nothing is answered
#   nats    nothing goes to NATS, or from it to others
#   store   nothing goes to the store
#   slow    20 ms later, one packet in a hundred lost
#
# CAP_NET_ADMIN is all that it needs. Asked to end, it takes its fault back.
set -euo pipefail
pause=${CHAOS_PAUSE:-30} lasts=${CHAOS_FAULT:-20} device=${CHAOS_DEVICE:-eth0}
faults=("$@")
[ ${#faults[@]} -gt 0 ] || { echo "chaos: name faults: cut, nats, store, slow" >&2; exit 2; }

say() { echo "$(date -u +%FT%TZ) $*"; }

# The rule is the first after that for addresses of this machine.
rule() { ip rule add pref 1 "$@" blackhole; }

heal() {
	while ip rule del pref 1 2>/dev/null; do :; done
	tc qdisc del dev "$device" root 2>/dev/null || true
}

port() { rule ipproto tcp dport "$1" && rule ipproto tcp sport "$1"; }

fault() {
	case $1 in
	cut) rule ;;
	nats) port 4222 && port 6222 ;;
	store) port 9000 ;;
	slow) tc qdisc add dev "$device" root netem delay 20ms loss 1% ;;
	*) echo "chaos: there is no fault $1" >&2; exit 2 ;;
	esac
}

rest() {
	sleep "$1" &
	wait $!
}

trap 'kill $(jobs -p) 2>/dev/null || true; heal; say "ends"; exit 0' TERM INT
heal
while :; do
	rest $((RANDOM % pause + 1))
	if ! ip link show dev "$device" >/dev/null 2>&1; then
		echo "chaos: the part was started again, and has another network: start this again, too" >&2
		exit 1
	fi
	which=${faults[RANDOM % ${#faults[@]}]}
	if fault "$which"; then
		say "$which for $lasts s"
		rest "$lasts"
	else
		say "$which can't be done here"
	fi
	heal
	say "healed"
done
