#!/bin/bash
# Says from a shell that a session is in use, with nothing but bash. Where the nats
# command line is installed, `nats pub diapause.v1.activity.default.work.input ''` does it.
#
#   NATS_URL=nats://127.0.0.1:4222 ./activity.sh work.input
#   NATS_URL=nats://127.0.0.1:4222 ./activity.sh work.hold.deploy '{"ttl":"10m","reason":"deploys"}'
#
# Inside of a session it needs no address: the session's own file has that.
set -euo pipefail

if (($# < 1 || $# > 2)); then
	echo "usage: $0 SESSION.KIND [JSON], e.g. $0 work.input" >&2
	exit 2
fi

# say SUBJECT [JSON] publishes one message and waits until the server has read it.
say() {
	local subject=$1 payload=${2:-} line
	exec 3<>"/dev/tcp/$host/$port"
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

inside=/run/diapause/generation
if [[ -z ${NATS_URL:-} && -r $inside && $(<"$inside") =~ \"url\":\"([^\"]+)\" ]]; then
	NATS_URL=${BASH_REMATCH[1]}
fi
address=${NATS_URL:-nats://127.0.0.1:4222}
address=${address#nats://}
address=${address%/}
host=${address%:*}
port=${address##*:}
if [[ $address != *:* ]]; then port=4222; fi
if [[ $address = *[/@,]* ]]; then
	echo "activity.sh: NATS_URL: want nats://HOST:PORT, of one server that takes messages without credentials" >&2
	exit 2
fi
say "diapause.v1.activity.default.$1" "${2:-}"
