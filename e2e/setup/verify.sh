#!/bin/bash
# Checks each module by itself: formatted, vetted, tidy, and building without the
# workspace, as it does for those who import it.
set -euo pipefail
bad=$(gofmt -l "$@")
if [ -n "$bad" ]; then
	echo "not formatted: $bad" >&2
	exit 1
fi
# As the program is built, so that it finds what is compiled here.
export CGO_ENABLED=0
go vet -trimpath work
for module in "$@"; do
	(cd "$module" && GOWORK=off go mod tidy -diff && GOWORK=off go build -trimpath ./...) || { echo "module $module doesn't stand alone" >&2; exit 1; }
done
