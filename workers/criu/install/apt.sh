# shellcheck shell=sh
# Sourced by scripts that take packages of a Debian suite which isn't the machine's: apt with a
# state of its own. It sets:
#
# mirror   DIAPAUSE_DEBIAN_MIRROR, or http://deb.debian.org/debian
# suite    DIAPAUSE_DEBIAN_SUITE, or forky, the first one with CRIU 4.2 and Docker 28
# keyring  Debian's archive keyring, or "" if the machine has none
# version  of CRIU, that the patches are for

mirror=${DIAPAUSE_DEBIAN_MIRROR:-http://deb.debian.org/debian}
suite=${DIAPAUSE_DEBIAN_SUITE:-forky}
keyring=
version=4.2.1
for file in /usr/share/keyrings/debian-archive-keyring.gpg /usr/share/keyrings/debian-archive-keyring.pgp; do
	[ ! -r "$file" ] || keyring=$file
done

# own_apt DIR COMMAND... runs commands of apt with their state in DIR, and what they print in
# DIR/log/out. DIR/sources.list is in the place of the machine's sources if it is there, and
# DIR/status says what is installed: nothing, if it isn't there. The machine's proxies and the
# like are kept; its hooks and preferences are not.
own_apt() {
	at=$1
	shift
	mkdir -p "$at/state/lists/partial" "$at/cache/archives/partial" "$at/log"
	[ -e "$at/status" ] || : >"$at/status"
	{
		apt-config dump 2>/dev/null | grep -E '^Acquire::' || true
		cat <<-CONF
			Dir::Etc::main "/dev/null";
			Dir::Etc::parts "-";
			Dir::Etc::preferences "/dev/null";
			Dir::Etc::preferencesparts "-";
			Dir::State "$at/state";
			Dir::State::status "$at/status";
			Dir::Cache "$at/cache";
			Dir::Log "$at/log";
			Acquire::Languages "none";
			Acquire::IndexTargets::deb::DEP-11::DefaultEnabled "false";
			Acquire::IndexTargets::deb::Contents-deb::DefaultEnabled "false";
			APT::Sandbox::User "root";
			APT::Install-Recommends "false";
			Debug::NoLocking "true";
		CONF
		[ ! -e "$at/sources.list" ] || cat <<-CONF
			Dir::Etc::sourcelist "$at/sources.list";
			Dir::Etc::sourceparts "-";
		CONF
	} >"$at/apt.conf"
	APT_CONFIG=$at/apt.conf "$@" >>"$at/log/out" 2>&1
}

# twice runs a command again if it fails: mirrors are sometimes in the middle of an update.
twice() { "$@" || "$@"; }

# unpack_debs DIR PACKAGE... fetches packages of the suite, without what they need, and unpacks them in DIR/root.
unpack_debs() {
	into=$1
	shift
	[ -n "$keyring" ] || { echo "apt.sh: apt-get install debian-archive-keyring" >&2; return 1; }
	echo "fetching $* from $mirror $suite" >&2
	mkdir -p "$into/apt/debs"
	echo "deb [signed-by=$keyring] $mirror $suite main" >"$into/apt/sources.list"
	twice own_apt "$into/apt" apt-get -qq update && (cd "$into/apt/debs" && twice own_apt "$into/apt" apt-get -qq download "$@") ||
		{ cat "$into/apt/log/out" >&2; return 1; }
	for deb in "$into"/apt/debs/*.deb; do
		dpkg-deb --extract "$deb" "$into/root"
	done
}

# source_of fetches CRIU's source into directory $1.
source_of() {
	mkdir -p "$1"
	echo "deb-src [signed-by=$keyring] $mirror $suite main" >"$1/sources.list"
	twice own_apt "$1" apt-get -qq update &&
		(cd "$1" && twice own_apt "$1" apt-get -qq source --download-only --tar-only criu) ||
		{ cat "$1/log/out" >&2; echo "apt.sh: apt can't fetch the source of criu from $mirror $suite (see above)" >&2; return 1; }
	archive=$(find "$1" -maxdepth 1 -name "criu_$version.orig.tar.*")
	[ -n "$archive" ] || { echo "apt.sh: $suite has no source of criu $version: $(cd "$1" && ls -d criu_* 2>/dev/null)" >&2; return 1; }
	tar -xf "$archive" -C "$1"
}
