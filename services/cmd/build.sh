#!/bin/sh
# Builds diapause, one static file, with the shim's own program inside (package
# workers/shim/embedded says why): build.sh OUT [FLAG...], where flags are those of go build.
set -eu
out=$1
shift
case $out in /*) ;; *) out=$PWD/$out ;; esac
top=$(cd "$(dirname "$0")/../.." && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export CGO_ENABLED=0
go=${GO:-go}
"$go" build -C "$top/workers" -trimpath -ldflags "-s -w" -o "$scratch/program" ./shim/program
printf '{"Replace": {"%s": "%s"}}' "$top/workers/shim/embedded/program" "$scratch/program" >"$scratch/overlay.json"
"$go" build -C "$top/services" -trimpath -overlay "$scratch/overlay.json" "$@" -o "$out" ./cmd/diapause
