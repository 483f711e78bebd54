#!/bin/sh
# Puts Docker's compose plugin, of Debian 13, into ${DIAPAUSE_PREFIX:-/opt/diapause}/compose:
# nothing is installed, and apt checks its signature. A second run finds it and ends at once.
#
# DIAPAUSE_DEBIAN_MIRROR  where from (default http://deb.debian.org/debian)
set -eu

base=${DIAPAUSE_PREFIX:-/opt/diapause}/compose
version=2.26.1-4
DIAPAUSE_DEBIAN_SUITE=trixie
# shellcheck source=../../workers/criu/install/apt.sh
. "$(dirname "$0")/../../workers/criu/install/apt.sh"

mkdir -p "$base"
exec 9>"$base/.lock"
flock 9
out=$base/docker-compose-$version
if [ ! -x "$out" ]; then
	new=$(mktemp -d "$base/.new.XXXXXX")
	trap 'rm -rf "$new"' EXIT INT TERM
	unpack_debs "$new" "docker-compose=$version"
	mv "$new/root/usr/libexec/docker/cli-plugins/docker-compose" "$out"
fi
ln -sfn "docker-compose-$version" "$base/docker-compose"
echo "docker-compose $version is in $base"
