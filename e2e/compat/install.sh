#!/bin/bash
# Installs the programs that the compatibility run suspends and resumes, and zstd
# for the benchmarks, as far as they are missing. What it installs starts no
# service: packages are told that services may not be started, and a service
# that was running before is left alone.
#
# A second run finds what is there and ends at once.
#
#   install.sh           install what the sample in `make test` needs and is missing
#   install.sh --all     install what the whole run needs: browsers, servers, a JVM
#   install.sh --list    print each program and its package, install nothing
set -euo pipefail
cd "$(dirname "$0")"

# The programs, each with the Debian package that has it.
sample='
/bin/bash bash
/usr/bin/python3 python3
node nodejs
redis-server redis-server
redis-cli redis-tools
vim vim
tmux tmux
sqlite3 sqlite3
zstd zstd
'
others='
npm npm
Xvfb xvfb
xterm xterm
xwd x11-apps
xwininfo x11-utils
gcc gcc
psql postgresql
pgbench postgresql
javac default-jdk-headless
/usr/sbin/sshd openssh-server
ssh openssh-client
firefox-esr firefox-esr
chromium chromium
Xvnc tigervnc-standalone-server
openbox openbox
dbus-daemon dbus-daemon
xdotool xdotool
mousepad mousepad
featherpad featherpad
'

die() {
	echo "install.sh: $*" >&2
	exit 1
}

# missing prints the packages whose programs are not there.
missing() {
	echo "$programs" | while read -r program package; do
		[ -z "$program" ] || command -v "$program" >/dev/null 2>&1 || echo "$package"
	done | sort -u
}

# install runs apt with services forbidden to start, in the two ways that
# packages ask.
install() {
	local policy=/usr/sbin/policy-rc.d log attempt
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

# packages fetches what the npm install of the run installs into npm's cache below
# ${DIAPAUSE_PREFIX:-/opt/diapause}/node/compat.
packages() {
	local to=${DIAPAUSE_PREFIX:-/opt/diapause}/node/compat
	if [ -e "$to/done" ] && cmp -s npm/package-lock.json "$to/package-lock.json"; then
		return
	fi
	echo "fetching the npm packages of the compatibility run" >&2
	rm -rf "$to"
	mkdir -p "$to"
	cp npm/package.json npm/package-lock.json "$to/"
	(cd "$to" && npm ci --cache "$to/cache" --ignore-scripts --fetch-retries=5 --no-audit --no-fund --loglevel=error >/dev/null)
	rm -rf "$to/node_modules"
	: >"$to/done"
	chmod 755 "$to/done" # which makes it a command for the run to need
}

main() {
	programs=$sample
	case "${1:-}" in
	--list) echo "$sample$others" | sed '/^$/d' && return ;;
	--all) programs=$sample$others ;;
	esac
	want=$(missing | tr '\n' ' ')
	if [ -n "$want" ]; then
		command -v apt-get >/dev/null || die "install these yourself, this machine has no apt-get: $want"
		[ "$(id -u)" = 0 ] || die "run it as root to install: $want"
		echo "installing $want" >&2
		install "$want" || die "apt can't install: $want(see above)"
		want=$(missing | tr '\n' ' ')
		[ -z "$want" ] || die "still missing after installing: $want"
	fi
	if [ "${1:-}" = --all ]; then
		packages
		/usr/bin/python3 -c 'import test.test_mmap' 2>/dev/null ||
			install "libpython$(/usr/bin/python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')-testsuite"
	fi
}

main "$@"
