#!/bin/bash
# Runs a command as root: as it is, or with sudo, or says what is missing.
set -euo pipefail
if [ "$(id -u)" = 0 ]; then
	exec "$@"
fi
if command -v sudo >/dev/null; then
	exec sudo --preserve-env=PATH,HOME,GOPATH,GOCACHE,GOMODCACHE,GOFLAGS,GOPROXY,KEEP,DIAPAUSE_LONG,DIAPAUSE_PREFIX,DIAPAUSE_TEST_ENGINE "$@"
fi
echo "This needs root, to freeze, capture and restore processes: run it as root, or install sudo." >&2
exit 1
