#!/bin/sh
# Builds CRIU with the patches of workers/criu/patches and puts it beside the
# released one: ${DIAPAUSE_PREFIX:-/opt/diapause}/criu/<version>-<digest of the
# patches>, and points criu/current at it. Nothing else on the machine is touched:
# apt runs with a state and cache of its own, headers and libraries are only
# unpacked for the build, and the libraries that the machine hasn't are linked in.
#
# It needs gcc, make, patch and pkg-config, on Debian 12 or 13 (any system with
# apt-get, dpkg-deb and Debian's archive keyring). A second run finds what is there
# and ends at once; runs beside each other wait for one another; a run that fails
# leaves what was there before.
#
# DIAPAUSE_PREFIX         where to install (default /opt/diapause)
# DIAPAUSE_DEBIAN_MIRROR  where CRIU's source comes from (default http://deb.debian.org/debian)
# DIAPAUSE_DEBIAN_SUITE   which suite (default forky)
set -eu

here=$(cd "$(dirname "$0")" && pwd)
patches=$here/../patches
base=${DIAPAUSE_PREFIX:-/opt/diapause}/criu
# shellcheck source=apt.sh
. "$here/apt.sh"

die() {
	echo "build.sh: $*" >&2
	exit 1
}

# headers_of unpacks what the build needs and the machine hasn't into directory $2.
headers_of() {
	mkdir -p "$1" "$2"
	cp /var/lib/dpkg/status "$1/status"
	twice own_apt "$1" apt-get -qq update &&
		twice own_apt "$1" apt-get -qq -y --download-only install \
			libprotobuf-c-dev libprotobuf-dev protobuf-c-compiler protobuf-compiler libnl-3-dev libnet1-dev libcap-dev uuid-dev ||
		{ cat "$1/log/out" >&2; die "apt can't fetch the headers that criu is built with (see above)"; }
	for deb in "$1"/cache/archives/*.deb; do
		[ ! -e "$deb" ] || dpkg-deb --extract "$deb" "$2"
	done
	# The static ones are linked in.
	find "$2" \( -name 'libprotobuf-c.so' -o -name 'libnl-3.so' -o -name 'libnet.so' -o -name 'libuuid.so' \) -delete
}

# build builds the source in directory $1 with the headers of directory $2.
build() {
	triple=$(gcc -print-multiarch)
	lib=$2/usr/lib/$triple
	for patch in "$patches"/*.patch; do
		patch -d "$1" -p1 --quiet <"$patch" || die "$(basename "$patch") doesn't apply to criu $version"
	done
	PKG_CONFIG_SYSROOT_DIR=$2
	[ -e "$lib/pkgconfig/protobuf.pc" ] || PKG_CONFIG_SYSROOT_DIR=
	export PKG_CONFIG_SYSROOT_DIR
	PATH=$2/usr/bin:$PATH C_INCLUDE_PATH=$2/usr/include:$2/usr/include/libnl3:/usr/include/libnl3 \
		LIBRARY_PATH=$lib:$2/lib/$triple LD_LIBRARY_PATH=$lib:$2/lib/$triple PKG_CONFIG_PATH=$lib/pkgconfig \
		make -C "$1" -j"$(nproc)" NO_GNUTLS=1 criu/criu >"$1/build.log" 2>&1 ||
		{ tail -n 30 "$1/build.log" >&2; die "criu $version can't be built (see above)"; }
}

main() {
	mkdir -p "$base" 2>/dev/null || die "can't write to $base: run it as root, or set DIAPAUSE_PREFIX"
	exec 9>"$base/.lock"
	flock 9
	tree=$version-$(cat "$patches"/*.patch "$0" | sha256sum | cut -c 1-12)
	if "$base/$tree/bin/criu" --version >/dev/null 2>&1; then
		[ "$(readlink "$base/current")" = "$tree" ] || { ln -sfn "$tree" "$base/.new.current" && mv -T "$base/.new.current" "$base/current"; }
		echo "criu $version with its mends is in $base/current"
		return 0
	fi
	for tool in gcc make patch pkg-config flock apt-get dpkg-deb apt-config; do
		command -v "$tool" >/dev/null || die "$tool is missing: apt-get install gcc libc6-dev make patch pkg-config"
	done
	[ -n "$keyring" ] || die "Debian's archive keyring is missing: apt-get install debian-archive-keyring"
	find "$base" -maxdepth 1 -name '.new.*' -exec rm -rf {} +
	new=$(mktemp -d "$base/.new.XXXXXX")
	trap 'rm -rf "$new"' EXIT INT TERM
	echo "building criu $version with its mends" >&2
	source_of "$new/source"
	headers_of "$new/apt" "$new/headers"
	build "$new/source/criu-$version" "$new/headers"
	mkdir -p "$new/tree/bin"
	strip -o "$new/tree/bin/criu" "$new/source/criu-$version/criu/criu"
	"$new/tree/bin/criu" --version >/dev/null || die "the criu that was built doesn't run"
	echo "@/bin/criu" >"$new/tree/command"
	# What Mends reads: a name a line.
	(cd "$patches" && ls -- *.patch) | sed 's/^[0-9]*-//; s/\.patch$//' >"$new/tree/bin/criu.mends"
	chmod 755 "$new/tree"
	rm -rf "${base:?}/$tree"
	mv "$new/tree" "$base/$tree"
	ln -sfn "$tree" "$new/current"
	mv -T "$new/current" "$base/current"
	echo "criu $version with its mends is in $base/current"
}

main "$@"
