# Installs the packages of a lock file from a registry within the session, whenever
# there is /tmp/go.
exec >/tmp/start.out 2>&1
mkdir /tmp/app
cp "$2/package.json" "$2/package-lock.json" /tmp/app/
python3 -c "$1" /tmp/app/package-lock.json "$2/cache" &
cd /tmp/app
while :; do
	until [ -e /tmp/go ]; do sleep 0.05; done
	rm -rf /tmp/go node_modules /tmp/cache
	npm ci --registry http://127.0.0.1:4873 --cache /tmp/cache --ignore-scripts --no-audit --no-fund --no-update-notifier
	echo $? >/tmp/done
done
