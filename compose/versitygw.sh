#!/bin/sh
# Runs versitygw with the key of the store, which it takes from the environment alone.
set -eu
ROOT_ACCESS_KEY=$(cat /secrets/user)
ROOT_SECRET_KEY=$(cat /secrets/password)
export ROOT_ACCESS_KEY ROOT_SECRET_KEY
exec /bin/versitygw --quiet --port :9000 --health /health posix /data
