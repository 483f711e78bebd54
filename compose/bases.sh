#!/bin/bash
# Makes the base images of the Dockerfile under their usual names where no registry can be
# reached: Debian by debootstrap, and the same with the machine's Go. What is there stays.
# It needs root, debootstrap, docker and the Go of the repository.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
mirror=${DIAPAUSE_DEBIAN_MIRROR:-http://deb.debian.org/debian}

# named NAME prints what the Dockerfile says that an argument is.
named() { sed -n "s/^ARG $1=//p" "$here/Dockerfile"; }

debian=$(named DEBIAN_IMAGE)
golang=$(named GO_IMAGE)
have() { docker image inspect "$1" >/dev/null 2>&1; }

if have "$debian" && have "$golang"; then
	echo "$debian and $golang are there"
	exit 0
fi
for tool in debootstrap docker go tar; do
	command -v "$tool" >/dev/null || { echo "bases.sh: $tool is missing" >&2; exit 1; }
done
want=${golang#golang:}
want=go${want%%-*}
[ "$(go env GOVERSION)" = "$want" ] || { echo "bases.sh: $golang needs $want, the machine has $(go env GOVERSION)" >&2; exit 1; }
work=$(mktemp -d /var/tmp/compose-bases.XXXXXX)
trap 'rm -rf "$work"' EXIT

# bootstrap NAME PACKAGES makes a Debian in $work/NAME.
bootstrap() {
	echo "making $1 by debootstrap" >&2
	debootstrap --variant=minbase --include="$2" bookworm "$work/$1" "$mirror" >"$work/log" 2>&1 || { tail -n 20 "$work/log" >&2; exit 1; }
	rm -rf "$work/$1"/var/cache/apt/* "$work/$1"/var/lib/apt/lists/* "$work/$1"/var/log/* "$work/$1"/usr/share/{doc,man,locale,info}
	# How the machine reaches Debian's mirror.
	apt-config dump | grep '^Acquire::' >"$work/$1/etc/apt/apt.conf.d/90machine" || true
	# What the machine trusts, a proxy of its network included.
	[ ! -r /etc/ssl/certs/ca-certificates.crt ] || cp /etc/ssl/certs/ca-certificates.crt "$work/$1/etc/ssl/certs/ca-certificates.crt"
}

if ! have "$debian"; then
	bootstrap debian ca-certificates
	tar -C "$work/debian" --exclude './dev/*' -c . | docker import --change 'CMD ["bash"]' - "$debian" >/dev/null
fi
if ! have "$golang"; then
	bootstrap golang ca-certificates,gcc,libc6-dev,git
	mkdir -p "$work/golang/usr/local/go"
	tar -C "$(go env GOROOT)" -c . | tar -C "$work/golang/usr/local/go" -x
	tar -C "$work/golang" --exclude './dev/*' -c . | docker import \
		--change 'ENV PATH=/usr/local/go/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin' --change 'ENV GOTOOLCHAIN=local' --change 'WORKDIR /go' - "$golang" >/dev/null
fi
echo "made $debian and $golang"
