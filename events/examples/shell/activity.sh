#!/bin/bash
# Says from a shell that a session is in use, with nothing but bash. Where the nats
# command line is installed, `nats pub diapause.v1.activity.default.work.input ''` does it.
#
#   NATS_ADDRESS=127.0.0.1:4222 ./activity.sh work.input
#   NATS_ADDRESS=127.0.0.1:4222 ./activity.sh work.hold.deploy '{"ttl":"10m","reason":"deploys"}'
set -euo pipefail

# say SUBJECT [JSON] publishes one message and waits until the server has read it.
say() {
	local subject=$1 payload=${2:-} line
	exec 3<>"/dev/tcp/${NATS_ADDRESS%:*}/${NATS_ADDRESS##*:}"
	printf 'CONNECT {"verbose":false,"pedantic":false,"name":"activity.sh"}\r\nPUB %s %d\r\n%s\r\nPING\r\n' \
		"$subject" "$(LC_ALL=C; echo "${#payload}")" "$payload" >&3
	while read -r -t 10 line <&3; do
		case $line in
		-ERR*) echo "activity.sh: the server refuses: $line" >&2; return 1 ;;
		PONG*) exec 3>&-; return 0 ;;
		esac
	done
	echo "activity.sh: the server doesn't answer" >&2
	return 1
}

NATS_ADDRESS=${NATS_ADDRESS:-127.0.0.1:4222}
say "diapause.v1.activity.default.$1" "${2:-}"
