#!/bin/sh
# Dagster's UI, sensors and schedules on the demo's data; Ctrl-C stops it.
set -eu
. tools/demo_env.sh
if [ ! -d "$DEMO/home" ]; then
    mkdir -p "$DEMO"
    cp -R data/sample "$DEMO/home"
    memory run
fi
umask 077
DAGSTER_HOME="$(python -m memory_assets.defs.instance)"
export DAGSTER_HOME
exec dagster dev --workspace workspace.yaml --host 127.0.0.1 --port "${PORT:-3000}"
