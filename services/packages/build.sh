#!/bin/sh
# Makes what a release consists of: build.sh VERSION DIR
#
#   diapause_VERSION_ARCH.deb            for Debian 12 and 13
#   diapause-VERSION-linux-ARCH.tar.gz   for other systems: the same files, and install.txt
#   diapause-VERSION.cdx.json            what is linked, a CycloneDX bill of materials
#   SHA256SUMS                           of these
#
# The same commit gives the same bytes: all times are SOURCE_DATE_EPOCH, by default that of the commit.
# It needs Go and dpkg-deb, and installs nothing.
set -eu
version=$1
out=$(mkdir -p "$2" && cd "$2" && pwd)
here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/../.." && pwd)
go=${GO:-go}
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git -C "$top" log -1 --format=%ct)}
export SOURCE_DATE_EPOCH TZ=UTC LC_ALL=C
arch=$("$go" env GOARCH)
[ "$arch" = amd64 ] || { echo "build.sh: packages are made for amd64, not $arch" >&2; exit 1; }
command -v dpkg-deb >/dev/null || { echo "build.sh: dpkg-deb is missing: apt-get install dpkg" >&2; exit 1; }
umask 022
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# files puts everything but the units into $1/bin, $1/share and $1/lib, as below /usr.
files() {
	mkdir -p "$1/bin" "$1/lib/diapause/criu/install" "$1/share/man/man1" "$1/share/doc/diapause" \
		"$1/share/bash-completion/completions" "$1/share/zsh/vendor-completions" "$1/share/fish/vendor_completions.d"
	cp "$scratch/diapause" "$1/bin/diapause"
	cp "$scratch/man/"*.1 "$1/share/man/man1"
	gzip -9n "$1/share/man/man1/"*.1
	"$scratch/diapause" completion bash >"$1/share/bash-completion/completions/diapause"
	"$scratch/diapause" completion zsh >"$1/share/zsh/vendor-completions/_diapause"
	"$scratch/diapause" completion fish >"$1/share/fish/vendor_completions.d/diapause.fish"
	for script in apt.sh install.sh build.sh; do
		cp "$top/workers/criu/install/$script" "$1/lib/diapause/criu/install"
	done
	cp -r "$top/workers/criu/patches" "$1/lib/diapause/criu"
	cat "$here/copyright" "$top/LICENSE" >"$1/share/doc/diapause/copyright"
	cp "$scratch/bill/LICENCES.txt" "$top/CHANGELOG.md" "$top/services/OPERATIONS.md" "$1/share/doc/diapause"
}

# units puts the units into $2, for a program in $1.
units() {
	mkdir -p "$2"
	for unit in "$top"/services/systemd/*.service; do
		sed "s|/usr/local/bin/diapause|$1|" "$unit" >"$2/$(basename "$unit")"
	done
}

# size is what the files below $1 take, in KiB, one for each directory: du's differs between file systems.
size() {
	find "$1" -type f -printf '%s\n' -o -printf '1\n' | awk '{ kib += int(($1 + 1023) / 1024) } END { print kib }'
}

# even gives all files the modes that they have anywhere, and the time of the commit.
even() {
	find "$1" -type d -exec chmod 755 {} +
	find "$1" -type f ! -perm /111 -exec chmod 644 {} +
	find "$1" -type f -perm /111 -exec chmod 755 {} +
	find "$1" -exec touch -hd "@$SOURCE_DATE_EPOCH" {} +
}

GO=$go "$top/services/cmd/build.sh" "$scratch/diapause" -buildvcs=false -ldflags "-s -w -X main.version=$version"
mkdir "$scratch/man"
(cd "$top/services" && CGO_ENABLED=0 "$go" run -trimpath -tags man ./cmd/diapause "$scratch/man")
(cd "$top" && "$go" run -trimpath ./e2e/supply/cmd -version "$version" -out "$scratch/bill") >/dev/null

# A version of Debian's sorts what is behind ~ before what hasn't it.
debian=$(printf %s "$version" | sed 's/-/~/')
root=$scratch/deb
files "$root/usr"
units /usr/bin/diapause "$root/usr/lib/systemd/system"
mkdir -p "$root/DEBIAN" "$root/etc/diapause"
sed -e "s/VERSION/$debian/; s/ARCH/$arch/; s/SIZE/$(size "$root")/" "$here/debian/control" >"$root/DEBIAN/control"
cp "$here/debian/postinst" "$here/debian/prerm" "$here/debian/postrm" "$root/DEBIAN"
even "$root"
chmod 700 "$root/etc/diapause"
dpkg-deb --root-owner-group -Zxz --build "$root" "$out/diapause_${debian}_$arch.deb" >/dev/null

name=diapause-$version-linux-$arch
files "$scratch/$name"
units /usr/local/bin/diapause "$scratch/$name/lib/systemd/system"
cp "$here/install.txt" "$scratch/$name/install.txt"
even "$scratch/$name"
tar -C "$scratch" --sort=name --owner=0 --group=0 --numeric-owner --format=gnu -cf - "$name" | gzip -9n >"$out/$name.tar.gz"

cp "$scratch/bill/diapause.cdx.json" "$out/diapause-$version.cdx.json"
(cd "$out" && sha256sum "diapause_${debian}_$arch.deb" "$name.tar.gz" "diapause-$version.cdx.json" >SHA256SUMS)
echo "$out has:" && cat "$out/SHA256SUMS"
