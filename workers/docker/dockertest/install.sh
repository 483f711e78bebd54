#!/bin/sh
# Puts today's Docker engine beside the machine's, for tests, into
# ${DIAPAUSE_PREFIX:-/opt/diapause}/docker: nothing is installed or started, and the
# machine's engine, its settings and its libraries stay as they are. A second run finds what
# is there and ends at once; runs beside each other wait for one another; a run that is
# interrupted leaves what was there before.
#
#   install.sh           dockerd and containerd of a Debian suite, whose signatures apt checks, as
#                        current. They run on the machine's libc, with its runc.
#   install.sh --newest  dockerd, containerd and runc built from the Go module proxy, at the
#                        versions below, as newest. It takes some minutes.
#
# DIAPAUSE_DEBIAN_MIRROR  where from (default http://deb.debian.org/debian)
# DIAPAUSE_DEBIAN_SUITE   which suite (default forky, the first one with Docker 28)
set -eu

base=${DIAPAUSE_PREFIX:-/opt/diapause}/docker
# shellcheck source=../../criu/install/apt.sh
. "$(dirname "$0")/../../criu/install/apt.sh"

oldest=28 # major version of the engine
moby=v2.0.0-beta.24
containerd=v2.3.5
runc=v1.3.6

die() {
	echo "install.sh: $*" >&2
	exit 1
}

# version_of prints the version that a dockerd reports: "28.5.2".
version_of() {
	"$1" --version 2>/dev/null | sed -n 's/^Docker version \([0-9.]*\).*/\1/p'
}

# recent says whether version $1 is one of today's.
recent() {
	[ -n "$1" ] && [ "${1%%.*}" -ge "$oldest" ]
}

# fetch downloads the packages into $1/debs, and nothing that they depend on.
fetch() {
	mkdir -p "$1/debs"
	echo "deb [signed-by=$keyring] $mirror $suite main" >"$1/sources.list"
	twice own_apt "$1" apt-get -qq update && (cd "$1/debs" && twice own_apt "$1" apt-get -qq download docker.io containerd) && return
	cat "$1/log/out" >&2
	die "apt can't fetch docker.io and containerd from $mirror $suite (see above)"
}

# put makes $new/tree what is called $1, by the link $2.
put() {
	chmod 755 "$new/tree"
	rm -rf "${base:?}/$1"
	mv "$new/tree" "$base/$1"
	ln -sfn "$1" "$new/link"
	mv -T "$new/link" "$base/$2"
	echo "dockerd $1 is in $base/$2"
}

debian() {
	have=$(version_of "$base/current/bin/dockerd") || have=
	if recent "$have"; then
		echo "dockerd $have is in $base/current"
		return 0
	fi
	for tool in apt-get dpkg-deb; do
		command -v "$tool" >/dev/null || die "$tool is missing: this needs Debian 12 or newer"
	done
	[ -n "$keyring" ] || die "Debian's archive keyring is missing: apt-get install debian-archive-keyring"
	echo "fetching dockerd from $mirror $suite" >&2
	fetch "$new/apt"
	mkdir -p "$new/root" "$new/tree/bin"
	for deb in "$new"/apt/debs/*.deb; do
		dpkg-deb --extract "$deb" "$new/root"
	done
	for program in dockerd docker-proxy containerd containerd-shim-runc-v2; do
		found=$(find "$new/root/usr" -type f -name "$program" -perm -100 | head -n 1)
		[ -n "$found" ] || die "the packages of $suite hold no $program"
		mv "$found" "$new/tree/bin/"
	done
	version=$(version_of "$new/tree/bin/dockerd") || version=
	recent "$version" || die "dockerd of $suite is version '${version:-that does not run here}', $oldest is needed"
	put "$version" current
}

newest() {
	name=moby-$moby-containerd-$containerd-runc-$runc
	if [ -x "$base/$name/bin/dockerd" ]; then
		ln -sfn "$name" "$base/newest"
		echo "dockerd $moby is in $base/newest"
		return 0
	fi
	command -v go >/dev/null || die "go is missing"
	echo "building dockerd $moby, containerd $containerd and runc $runc" >&2
	mkdir -p "$new/tree/bin"
	build 0 '' "github.com/moby/moby/v2/cmd/dockerd@$moby"
	build 0 '' "github.com/moby/moby/v2/cmd/docker-proxy@$moby"
	build 0 'no_btrfs no_devmapper no_cri' "github.com/containerd/containerd/v2/cmd/containerd@$containerd" \
		"github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2@$containerd"
	build 1 '' "github.com/opencontainers/runc@$runc" # without seccomp, whose headers it would need
	put "$name" newest
}

# build builds packages with cgo or without ($1) and with tags ($2).
build() {
	cgo=$1 tags=$2
	shift 2
	if ! CGO_ENABLED="$cgo" GOBIN="$new/tree/bin" GOWORK=off GOFLAGS=-mod=mod go install -tags "$tags" -ldflags '-s -w' "$@" >"$new/log" 2>&1; then
		cat "$new/log" >&2
		die "$1 can't be built (see above)"
	fi
}

mkdir -p "$base" 2>/dev/null || die "can't write to $base: run it as root, or set DIAPAUSE_PREFIX"
exec 9>"$base/.lock"
flock 9
find "$base" -maxdepth 1 -name '.new.*' -exec rm -rf {} +
new=$(mktemp -d "$base/.new.XXXXXX")
trap 'rm -rf "$new"' EXIT INT TERM
case ${1:-} in
'') debian ;;
--newest) newest ;;
*) die "there is no $1" ;;
esac
