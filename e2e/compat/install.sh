#!/bin/sh
# Installs the programs that the compatibility run suspends and resumes, and zstd
# for the benchmarks, as far as they are missing. What it installs starts no
# service: packages are told that services may not be started, and a service
# that was running before is left alone.
#
# A second run finds what is there and ends at once.
#
#   install.sh           install what is missing
#   install.sh --list    print each program and its package, install nothing
set -eu

# The programs, each with the Debian package that has it.
programs='
/bin/bash bash
/usr/bin/python3 python3
node nodejs
redis-server redis-server
redis-cli redis-tools
vim vim
sqlite3 sqlite3
Xvfb xvfb
xterm xterm
xwd x11-apps
xwininfo x11-utils
zstd zstd
'

die() {
	echo "install.sh: $*" >&2
	exit 1
}

# missing prints the packages whose programs are not there.
missing() {
	echo "$programs" | while read -r program package; do
		[ -z "$program" ] || command -v "$program" >/dev/null 2>&1 || echo "$package"
	done
}

# install runs apt with services forbidden to start, in the two ways that
# packages ask.
install() {
	policy=/usr/sbin/policy-rc.d
	if [ ! -e "$policy" ]; then
		trap 'rm -f "$policy"' EXIT INT TERM
		printf '#!/bin/sh\nexit 101\n' >"$policy"
		chmod 755 "$policy"
	fi
	export DEBIAN_FRONTEND=noninteractive RUNLEVEL=1
	log=$(mktemp)
	for attempt in 1 2; do
		# shellcheck disable=SC2086 # one word per package
		if { [ "$attempt" = 1 ] || apt-get -qq update; } >>"$log" 2>&1 &&
			apt-get -qq -y --no-install-recommends install $1 >>"$log" 2>&1; then
			rm -f "$log"
			return 0
		fi
	done
	cat "$log" >&2
	rm -f "$log"
	return 1
}

main() {
	if [ "${1:-}" = --list ]; then
		echo "$programs" | sed '/^$/d'
		return 0
	fi
	want=$(missing | tr '\n' ' ')
	if [ -z "$want" ]; then
		echo "all programs of the compatibility run are there"
		return 0
	fi
	command -v apt-get >/dev/null || die "install these yourself, this machine has no apt-get: $want"
	[ "$(id -u)" = 0 ] || die "run it as root to install: $want"
	echo "installing $want" >&2
	install "$want" || die "apt can't install: $want(see above)"
	want=$(missing | tr '\n' ' ')
	[ -z "$want" ] || die "still missing after installing: $want"
}

main "$@"
