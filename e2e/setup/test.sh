#!/bin/bash
# Installs the Debian packages that the tests use, where they are missing. No
# package starts a service.
set -euo pipefail
declare -A needs=(
	[gcc]=gcc [as]=binutils [zstd]=zstd [ps]=procps [ip]=iproute2 [perl]=perl [/usr/bin/python3]=python3
	[dockerd]=docker.io [busybox]=busybox-static [debootstrap]=debootstrap
	[script]=bsdutils [mkfs.ext4]=e2fsprogs [setpriv]=util-linux [tar]=tar [b3sum]=b3sum [curl]=curl
	[/usr/sbin/sshd]=openssh-server [ssh]=openssh-client [systemd-analyze]=systemd [/usr/sbin/nginx]=nginx-light [zsh]=zsh [fish]=fish [chromium]=chromium
	[Xvnc]=tigervnc-standalone-server [openbox]=openbox [xterm]=xterm [dbus-daemon]=dbus-daemon [vncsnapshot]=vncsnapshot
)
missing=()
for program in "${!needs[@]}"; do
	command -v "$program" >/dev/null || missing+=("${needs[$program]}")
done
# docker.io has its command line with it in Debian 12, in a package of its own since.
if ! command -v docker >/dev/null && . /etc/os-release && [ "${VERSION_ID:-13}" != 12 ]; then
	missing+=(docker-cli)
fi
if [ ${#missing[@]} -gt 0 ]; then
	echo "installing ${missing[*]}"
	apt-get update -qq
	# Exit code 101 keeps packages from starting services.
	policy=/usr/sbin/policy-rc.d
	if [ ! -e "$policy" ]; then
		printf '#!/bin/sh\nexit 101\n' >"$policy"
		chmod +x "$policy"
		trap 'rm -f "$policy"' EXIT
	fi
	DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
fi
"$(dirname "$0")/../../workers/criu/install/build.sh"
"$(dirname "$0")/../compat/install.sh"
"$(dirname "$0")/../../objectstore/storetest/server/install.sh"
"$(dirname "$0")/../bench/install.sh"
"$(dirname "$0")/../../workers/docker/dockertest/install.sh"
"$(dirname "$0")/servers.sh"
"$(dirname "$0")/node.sh"
"$(dirname "$0")/../upgrade/install.sh" >/dev/null
