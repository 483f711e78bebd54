#!/bin/bash
# Installs restic and socat, which the benchmarks measure beside, where they are missing.
set -euo pipefail
missing=()
for program in restic socat; do
	command -v "$program" >/dev/null || missing+=("$program")
done
if [ ${#missing[@]} -gt 0 ]; then
	echo "installing ${missing[*]}" >&2
	export DEBIAN_FRONTEND=noninteractive
	apt-get update -qq
	apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
fi
