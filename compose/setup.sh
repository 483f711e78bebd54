#!/bin/sh
# Makes, once, what the parts of the fleet are told: NATS's configuration with TLS and a user
# for each part, the store's key, and its bucket. Each part's volume gets what it needs and
# no more. A second run keeps all keys.
set -eu
umask 077
cd /volumes

/bin/diapause nats-config authority --installed /etc/nats --streams /data \
	--cluster diapause --route nats-1:6222 --route nats-2:6222 --route nats-3:6222 \
	--server-name nats-1 --server-name nats-2 --server-name nats-3 --server-name localhost --server-name 127.0.0.1 \
	--monitor 127.0.0.1:8222 --host worker-1 --host worker-2 >/dev/null

# The servers need no user's secret, and not the authority's key.
mkdir -p nats/tls nats/creds
cp authority/tls/server.pem authority/tls/server-key.pem nats/tls/
cp authority/creds/ca.pem nats/creds/
cp authority/nats.conf nats/

# copy PART USER gives a part the credentials of a user, and what it needs to know the servers.
copy() {
	cp "authority/creds/$2.nk" "$1/$2.nk.new"
	mv "$1/$2.nk.new" "$1/$2.nk"
	cp authority/creds/ca.pem "$1/ca.pem"
}
copy system system
copy scheduler scheduler
copy api api
for key in log.txt log.key; do
	cp "authority/creds/$key" "api/$key.new"
	mv "api/$key.new" "api/$key"
done
copy client client
copy worker-1 worker-worker-1
copy worker-2 worker-worker-2

# secret prints a random word.
secret() { od -An -N "$1" -tx1 /dev/urandom | tr -d ' \n'; }
[ -s store/user ] || secret 10 >store/user
[ -s store/password ] || secret 20 >store/password
for part in api worker-1 worker-2; do
	{
		echo '[default]'
		echo "aws_access_key_id = $(cat store/user)"
		echo "aws_secret_access_key = $(cat store/password)"
	} >"$part/s3.new"
	mv "$part/s3.new" "$part/s3"
done
mkdir -p objects/images
echo "keys, certificates and secrets are there"
