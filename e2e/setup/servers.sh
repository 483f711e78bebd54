#!/bin/bash
# Makes a Debian with PostgreSQL, redis and nginx in it, from which the tests make
# images, at ${DIAPAUSE_PREFIX:-/opt/diapause}/images/servers-1.tar. A second run finds it
# and ends at once; runs beside each other wait for one another. Nothing of it runs here.
set -euo pipefail
base=${DIAPAUSE_PREFIX:-/opt/diapause}/images
out=$base/servers-1.tar
mkdir -p "$base"
exec 9>"$base/.lock"
flock 9
[ ! -e "$out" ] || exit 0
echo "making a Debian for the tests of containers" >&2
work=$(mktemp -d "$base/.new.XXXXXX")
trap 'rm -rf "$work"' EXIT
if ! debootstrap --variant=minbase --include=postgresql,redis-server,nginx-light bookworm "$work/root" http://deb.debian.org/debian >"$work/log" 2>&1; then
	tail -n 20 "$work/log" "$work/root/debootstrap/debootstrap.log" >&2 || true
	exit 1
fi
cd "$work/root"
rm -rf var/cache/apt/* var/lib/apt/lists/* var/log/* usr/share/{doc,man,locale,info} dev proc sys run
mkdir dev proc sys run var/log/nginx
tar -cf "$work/tar" .
mv "$work/tar" "$out"
