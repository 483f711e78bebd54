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
	[ -n "$keyring" ] || { echo "install.sh: apt-get install debian-archive-keyring" >&2; exit 1; }
	echo "fetching prometheus from $mirror $suite" >&2
	new=$(mktemp -d "$base/.new.XXXXXX")
	trap 'rm -rf "$new"' EXIT INT TERM
	mkdir -p "$new/apt/debs"
	echo "deb [signed-by=$keyring] $mirror $suite main" >"$new/apt/sources.list"
	twice own_apt "$new/apt" apt-get -qq update && (cd "$new/apt/debs" && twice own_apt "$new/apt" apt-get -qq download prometheus) ||
		{ cat "$new/apt/log/out" >&2; exit 1; }
	dpkg-deb --extract "$new"/apt/debs/*.deb "$new/root"
	mv "$new/root/usr/bin/promtool" "$base/promtool"
	mv "$new/root/usr/bin/prometheus" "$base/prometheus"
fi
echo "prometheus is in $base"
