#!/bin/bash
# Builds the program of an older commit, $1 or the one that most tests of upgrades begin with, and
# prints its path, which is below ${DIAPAUSE_PREFIX:-/opt/diapause}. A second run finds it and ends at once; runs beside each other wait for one another.
set -euo pipefail
top=$(cd "$(dirname "$0")/../.." && pwd)
commit=${1:-f36b4bdc99177489254afe4778362216b8092a42}
base=${DIAPAUSE_PREFIX:-/opt/diapause}/old
out=$base/diapause-$commit
mkdir -p "$base"
exec 9>"$base/.lock"
flock 9
if [ ! -x "$out" ]; then
	echo "building diapause of commit ${commit:0:7}" >&2
	git() { command git -c safe.directory='*' -C "$top" "$@"; }
	if ! git cat-file -e "$commit^{commit}" 2>/dev/null; then
		echo "commit ${commit:0:7} isn't in this clone: git fetch --unshallow" >&2
		exit 1
	fi
	work=$(mktemp -d "$base/.new.XXXXXX")
	trap 'rm -rf "$work"' EXIT
	git archive "$commit" | tar -x -C "$work"
	(cd "$work/services" && CGO_ENABLED=0 GOFLAGS= go build -trimpath -buildvcs=false -o "$work/diapause" ./cmd/diapause)
	mv "$work/diapause" "$out"
fi
echo "$out"
