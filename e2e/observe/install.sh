#!/bin/sh
# Puts Prometheus and promtool, of Debian 12, into ${DIAPAUSE_PREFIX:-/opt/diapause}/prometheus: nothing is
# installed, and apt checks its signature. A second run finds them and ends at once.
#
# DIAPAUSE_DEBIAN_MIRROR  where from (default http://deb.debian.org/debian)
# DIAPAUSE_DEBIAN_SUITE   which suite (default bookworm)
set -eu

base=${DIAPAUSE_PREFIX:-/opt/diapause}/prometheus
DIAPAUSE_DEBIAN_SUITE=${DIAPAUSE_DEBIAN_SUITE:-bookworm}
# shellcheck source=../../workers/criu/install/apt.sh
. "$(dirname "$0")/../../workers/criu/install/apt.sh"

mkdir -p "$base"
exec 9>"$base/.lock"
flock 9
if [ ! -x "$base/prometheus" ]; then
	new=$(mktemp -d "$base/.new.XXXXXX")
	trap 'rm -rf "$new"' EXIT INT TERM
	unpack_debs "$new" prometheus
	mv "$new/root/usr/bin/promtool" "$base/promtool"
	mv "$new/root/usr/bin/prometheus" "$base/prometheus"
fi
echo "prometheus is in $base"
