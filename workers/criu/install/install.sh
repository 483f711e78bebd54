#!/bin/sh
# Puts CRIU 4.2 or newer, with its libraries and its own dynamic linker, into a
# private prefix: ${DIAPAUSE_PREFIX:-/opt/diapause}/criu/<version>, and points
# criu/current at it. Nothing else on the machine is touched: apt runs with a
# source list, state and cache of its own, and packages are only unpacked.
#
# It works on Debian 12 and 13 (any system with apt-get, dpkg-deb and Debian's
# archive keyring). A second run finds what is there and ends at once; runs
# beside each other wait for one another; a run that is interrupted leaves what
# was there before.
#
#   install.sh            install unless a version that works is there
#   install.sh --upgrade  fetch the newest even so
#
# DIAPAUSE_PREFIX         where to install (default /opt/diapause)
# DIAPAUSE_DEBIAN_MIRROR  where from (default http://deb.debian.org/debian)
# DIAPAUSE_DEBIAN_SUITE   which suite (default forky, the first one with CRIU 4.2)
set -eu

base=${DIAPAUSE_PREFIX:-/opt/diapause}/criu
# shellcheck source=apt.sh
. "$(dirname "$0")/apt.sh"

die() {
	echo "install.sh: $*" >&2
	exit 1
}

# version_of prints the version that a criu command reports: "4.2.1".
version_of() {
	"$@" --version 2>/dev/null | sed -n 's/^Version: *\([0-9.]*\).*/\1/p'
}

# recent says whether version $1 is 4.2 or newer.
recent() {
	[ -n "$1" ] && major=${1%%.*} && rest=${1#*.} && minor=${rest%%.*} || return 1
	[ "$major" -gt 4 ] || { [ "$major" -eq 4 ] && [ "$minor" -ge 2 ]; }
}

fetch() {
	mkdir -p "$1"
	echo "deb [signed-by=$keyring] $mirror $suite main" >"$1/sources.list"
	twice own_apt "$1" apt-get -qq update && twice own_apt "$1" apt-get -qq -y --download-only install criu && return
	cat "$1/log/out" >&2
	die "apt can't fetch criu and its libraries from $mirror $suite (see above)"
}

unpack() {
	mkdir -p "$2/root" "$2/bin"
	for deb in "$1"/cache/archives/*.deb; do
		dpkg-deb --extract "$deb" "$2/root"
	done
	rm -rf "$2/root/usr/share" "$2/root/etc" "$2/root/var"
	loader=$(find "$2/root" -name 'ld-linux-*.so.*' | head -n 1)
	program=$(find "$2/root" -path '*/sbin/criu' | head -n 1)
	[ -n "$loader" ] && [ -n "$program" ] || die "the packages of $suite hold no dynamic linker or no criu"
	libs=$(find "$2/root" -name '*.so*' -exec dirname {} + | sort -u | grep -v gconv | sed "s|^$2/||")
	{
		echo '#!/bin/sh'
		echo '# Runs criu with the libraries unpacked beside it.'
		echo "d=\$(dirname \"\$(dirname \"\$(readlink -f \"\$0\")\")\")"
		# shellcheck disable=SC2086 # one word per directory
		printf 'exec "$d/%s" --library-path "%s" "$d/%s" "$@"\n' "${loader#"$2"/}" \
			"$(printf '$d/%s:' $libs | sed 's/:$//')" "${program#"$2"/}"
	} >"$2/bin/criu"
	chmod 755 "$2/bin/criu"
	# The same for programs, one argument a line, @ for the directory.
	{
		echo "@/${loader#"$2"/}"
		echo --library-path
		printf '@/%s:' $libs | sed 's/:$//'
		echo
		echo "@/${program#"$2"/}"
	} >"$2/command"
}

main() {
	mkdir -p "$base" 2>/dev/null || die "can't write to $base: run it as root, or set DIAPAUSE_PREFIX"
	exec 9>"$base/.lock"
	flock 9
	have=$(version_of "$base/current/bin/criu") || have=
	if [ "${1:-}" != --upgrade ] && recent "$have"; then
		echo "criu $have is in $base/current"
		return 0
	fi
	for tool in apt-get dpkg-deb flock; do
		command -v "$tool" >/dev/null || die "$tool is missing: this needs Debian 12 or newer; elsewhere install CRIU 4.2 or newer yourself, and it is found in PATH or by DIAPAUSE_CRIU"
	done
	[ -n "$keyring" ] || die "Debian's archive keyring is missing: apt-get install debian-archive-keyring"
	find "$base" -maxdepth 1 -name '.new.*' -exec rm -rf {} +
	new=$(mktemp -d "$base/.new.XXXXXX")
	trap 'rm -rf "$new"' EXIT INT TERM
	echo "fetching criu from $mirror $suite" >&2
	fetch "$new/apt"
	unpack "$new/apt" "$new/tree"
	version=$(version_of "$new/tree/bin/criu") || version=
	recent "$version" || die "criu from $suite is version '${version:-that does not run}', 4.2 is needed"
	chmod 755 "$new/tree"
	if [ "$have" = "$version" ]; then
		echo "criu $have in $base/current is the newest"
		return 0
	fi
	rm -rf "${base:?}/$version"
	mv "$new/tree" "$base/$version"
	ln -sfn "$version" "$new/current"
	mv -T "$new/current" "$base/current"
	echo "criu $version is in $base/current"
}

main "$@"
