#!/bin/bash
# Says what of this machine the fleet lacks, before anything of it is started.
set -euo pipefail
cd "$(dirname "$0")"
lacks=()
lack() { lacks+=("$1"); }

# value NAME prints what is set of the fleet: in the environment, or else in .env.
value() {
	local v=${!1:-}
	[ -n "$v" ] && echo "$v" || sed -n "s/^$1=//p" .env
}

if ! command -v docker >/dev/null; then
	lack "docker is missing: install Docker, or Debian's docker.io"
elif ! docker compose version >/dev/null 2>&1; then
	lack "docker has no compose plugin: install docker-compose-plugin of Docker's, or docker-compose of Debian 13"
elif ! docker info >/dev/null 2>&1; then
	lack "the Docker engine doesn't answer: start it, or may you use its socket?"
else
	port=$(value NATS_PORT)
	if ! [[ $port =~ ^[0-9]{1,5}$ ]] || [ "$port" -lt 1 ] || [ "$port" -gt 65535 ]; then
		lack "NATS_PORT is $port: want a port from 1 to 65535"
	elif [ -z "$(docker compose ps --quiet nats-1 2>/dev/null)" ] && (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then
		lack "port $port of 127.0.0.1 is taken: set NATS_PORT to another"
	fi
	for image in $(sed -n 's/^ARG [A-Z]*_IMAGE=//p' Dockerfile); do
		[[ $image != grafana/* || ${COMPOSE_PROFILES:-} == *observe* ]] || continue
		docker image inspect "$image" >/dev/null 2>&1 || docker manifest inspect "$image" >/dev/null 2>&1 ||
			lack "image $image isn't there and can't be pulled: \`make compose-bases\` makes it"
	done
fi
case $(value STORE) in
minio | versitygw) ;;
*) lack "STORE is $(value STORE): want minio or versitygw" ;;
esac
if [ "${DOCKER_HOST:-unix:}" = "${DOCKER_HOST#tcp:}" ] && [ "${DOCKER_HOST:-unix:}" = "${DOCKER_HOST#ssh:}" ]; then
	for device in fuse loop-control; do
		[ -c "${COMPOSE_CHECK_DEV:-/dev}/$device" ] || lack "/dev/$device is missing, which workers need: load its module (modprobe fuse, loop)"
	done
fi
[ ${#lacks[@]} -gt 0 ] || exit 0
printf 'compose: %s\n' "${lacks[@]}" >&2
exit 1
