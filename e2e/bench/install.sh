#!/bin/bash
# Installs restic, which the benchmarks measure beside, where it is missing.
set -euo pipefail
if ! command -v restic >/dev/null; then
	echo "installing restic" >&2
	export DEBIAN_FRONTEND=noninteractive
	apt-get update -qq
	apt-get install -y -qq --no-install-recommends restic >/dev/null
fi
