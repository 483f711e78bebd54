#!/bin/bash
# Prepares what takes long of the images of compose/: the base images and all that is built of other projects'
# sources. They are in the data of an engine, ${DIAPAUSE_PREFIX:-/opt/diapause}/compose/engine, with which the test of
# the fleet starts its own. A second run finds them, and builds what has another version since.
set -euo pipefail
top=$(cd "$(dirname "$0")/../.." && pwd)
base=${DIAPAUSE_PREFIX:-/opt/diapause}/compose

mkdir -p "$base"
exec 9>"$base/.lock"
flock 9
work=$(mktemp -d /var/tmp/compose-images.XXXXXX)
export DOCKER_HOST=unix://$work/sock DOCKER_BUILDKIT=0
echo '{}' >"$work/config"
dockerd --config-file "$work/config" --data-root "$base/engine" --exec-root "$work/exec" --pidfile "$work/pid" --host "$DOCKER_HOST" \
	--bridge none --iptables=false --ip6tables=false --ip-forward=false --ip-masq=false >"$work/log" 2>&1 9>&- &
engine=$!
end() {
	kill "$engine" 2>/dev/null || true
	wait "$engine" || true
	umount --lazy "$work"/exec/netns/* 2>/dev/null || true # the engine leaves them
	rm -rf "$work"
}
trap end EXIT
trap 'exit 1' INT TERM
until docker info >/dev/null 2>&1; do
	kill -0 "$engine" 2>/dev/null || { cat "$work/log" >&2; exit 1; }
	sleep 0.2
done

"$top/compose/bases.sh"
# A tag keeps what a stage is built from when the others are removed.
for stage in chaos build build-nats build-criu build-versitygw build-minio; do
	echo "building the stage $stage of compose/Dockerfile"
	docker build --quiet --network host --target "$stage" --tag "diapause-stage/$stage" --file "$top/compose/Dockerfile" "$top" >/dev/null
done
docker image prune --force >/dev/null
