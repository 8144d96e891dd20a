#!/bin/sh
# Run Dagster's UI, sensors, schedules and the HTTP service on the demo's data until Ctrl-C, SIGTERM or `memory down`.
set -eu
. tools/demo_env.sh
unset DAGSTER_HOME
if [ ! -d "$DEMO/home" ]; then
    mkdir -p "$DEMO"
    cp -R data/sample "$DEMO/home"
    memory run
fi
exec memory up --ui-port "${PORT:-3000}" --port "${SERVICE_PORT:-8000}"
