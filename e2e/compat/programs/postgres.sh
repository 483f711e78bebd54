# Starts PostgreSQL with a database of pgbench, and pgbench against it over TCP.
set -e
exec >/tmp/start.out 2>&1
bin=$(ls -d /usr/lib/postgresql/*/bin | tail -n 1)
printf %s "$1" >/tmp/uid.c
user=$(id -u postgres)
gcc -shared -fPIC -DUSER="$user" -o /tmp/uid.so /tmp/uid.c
mkdir -m 700 /tmp/data
chown "$user" /tmp/data
export LD_PRELOAD=/tmp/uid.so PGHOST=127.0.0.1 PGUSER=bench PGDATABASE=postgres
"$bin/initdb" -D /tmp/data -U bench --auth=trust --data-checksums --no-sync
cat >>/tmp/data/postgresql.conf <<EOF
listen_addresses = '127.0.0.1'
unix_socket_directories = '/tmp'
shared_buffers = 32MB
min_wal_size = 32MB
max_wal_size = 64MB
checkpoint_timeout = 30s
EOF
"$bin/postgres" -D /tmp/data >/tmp/server.out 2>&1 &
until "$bin/pg_isready" -q; do sleep 0.05; done
"$bin/psql" -qc 'CREATE EXTENSION amcheck'
"$bin/pgbench" -q -i -s 2
"$bin/pgbench" -n -c 4 -j 2 -R 100 -T 100000 -P 1 >/tmp/bench.out 2>&1 &
echo $! >/tmp/bench.pid
wait
