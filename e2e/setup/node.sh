#!/bin/bash
# Installs what the tests take from npm, as the committed lock files say, below
# ${DIAPAUSE_PREFIX:-/opt/diapause}/node/NAME, outside of the repository. A second run
# finds it and ends at once; runs beside each other wait for one another.
set -euo pipefail
top=$(cd "$(dirname "$0")/../.." && pwd)
base=${DIAPAUSE_PREFIX:-/opt/diapause}/node

# install NAME DIR has the packages of DIR's lock file in $base/NAME.
install() {
	local lock="$top/$2/package-lock.json" to="$base/$1"
	if [ -e "$to/done" ] && cmp -s "$lock" "$to/package-lock.json"; then
		return
	fi
	echo "installing the npm packages of $2" >&2
	rm -rf "$to"
	mkdir -p "$to"
	cp "$top/$2/package.json" "$lock" "$to/"
	(cd "$to" && npm ci --ignore-scripts --fetch-retries=5 --no-audit --no-fund --loglevel=error >/dev/null)
	touch "$to/done"
}

if ! command -v npm >/dev/null; then
	echo "installing npm" >&2
	export DEBIAN_FRONTEND=noninteractive
	apt-get update -qq
	apt-get install -y -qq --no-install-recommends npm >/dev/null
fi
mkdir -p "$base"
exec 9>"$base/.lock"
flock 9
install example events/examples/node
install asyncapi e2e/schema/asyncapi
install clients e2e/gateway/testdata/typescript
install ingress e2e/ingress/node
install console e2e/console/node
install xterm events/screen/testdata/xterm
install player e2e/gateway/testdata/player
