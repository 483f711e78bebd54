#!/bin/sh
# Builds the S3 servers that the tests use, from the Go module proxy, into
# ${DIAPAUSE_PREFIX:-/opt/diapause}/servers/<name>@<version>. A second run finds
# them and ends at once; runs beside each other wait for one another.
set -eu

base=${DIAPAUSE_PREFIX:-/opt/diapause}/servers

servers='
minio github.com/minio/minio v0.0.0-20260212201848-7aac2a2c5b7c
versitygw github.com/versity/versitygw/cmd/versitygw v1.8.0
'

die() {
	echo "install.sh: $*" >&2
	exit 1
}

# build makes $1 from package $2 at version $3.
build() {
	[ ! -x "$base/$1@$3" ] || return 0
	echo "building $1 $3" >&2
	new=$(mktemp -d "$base/.new.XXXXXX")
	if ! GOBIN="$new" GOWORK=off GOFLAGS=-mod=mod go install -ldflags '-s -w' "$2@$3" >"$new/log" 2>&1; then
		cat "$new/log" >&2
		rm -rf "$new"
		die "$1 can't be built (see above)"
	fi
	mv "$new/$1" "$base/$1@$3"
	rm -rf "$new"
}

main() {
	command -v go >/dev/null || die "go is missing"
	mkdir -p "$base" 2>/dev/null || die "can't write to $base: run it as root, or set DIAPAUSE_PREFIX"
	exec 9>"$base/.lock"
	flock 9
	echo "$servers" | while read -r name package version; do
		[ -z "$name" ] || build "$name" "$package" "$version"
	done
	echo "$servers" | while read -r name package version; do
		[ -z "$name" ] || ln -sfn "$name@$version" "$base/$name"
	done
	echo "minio and versitygw are in $base"
}

main
