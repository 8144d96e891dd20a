#!/bin/sh
# Install strace, which memory_assets_tests/test_privacy.py needs to watch the program. Needs Debian and root.
set -eu
command -v strace >/dev/null && exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    apt-get update -qq && apt-get install -qq --no-install-recommends -y strace >/dev/null || echo "strace cannot be installed; test_privacy will be skipped"
else
    echo "strace is missing; test_privacy will be skipped"
fi
