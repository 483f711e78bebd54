#!/bin/sh
# Builds the test programs of CRIU's own suite, ZDTM, as TestZDTM has them check themselves:
# ${DIAPAUSE_PREFIX:-/opt/diapause}/criu/zdtm-<version>. Nothing else on the machine is touched. It needs gcc, make
# and what build.sh needs; programs whose libraries the machine hasn't are left out. A
# second run finds what is there and ends at once.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
base=${DIAPAUSE_PREFIX:-/opt/diapause}/criu
# shellcheck source=apt.sh
. "$here/apt.sh"

mkdir -p "$base"
exec 9>"$base/.zdtm.lock"
flock 9
to=$base/zdtm-$version
if [ -d "$to" ]; then
	echo "the programs of ZDTM are in $to"
	exit 0
fi
find "$base" -maxdepth 1 -name '.zdtm.*' -type d -exec rm -rf {} +
new=$(mktemp -d "$base/.zdtm.XXXXXX")
trap 'rm -rf "$new"' EXIT INT TERM
echo "building the programs of ZDTM" >&2
source_of "$new/source"
zdtm=$new/source/criu-$version/test/zdtm
for part in lib static; do
	make -C "$zdtm/$part" -k -j"$(nproc)" >>"$new/build.log" 2>&1 || true # some lack their libraries
done
mkdir "$new/tree"
find "$zdtm/static" -maxdepth 1 -type f -perm -100 ! -name '*.*' -exec cp -t "$new/tree" {} +
[ "$(find "$new/tree" -type f | wc -l)" -gt 400 ] || { tail -n 30 "$new/build.log" >&2; echo "zdtm.sh: the programs can't be built (see above)" >&2; exit 1; }
chmod 755 "$new/tree"
mv "$new/tree" "$to"
echo "the programs of ZDTM are in $to"
