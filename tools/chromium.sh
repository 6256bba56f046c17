#!/usr/bin/env bash
# Whether there is a Chromium for the tests of the live page; on Debian, root gets it.
set -euo pipefail

[[ ! -x /usr/bin/chromium ]] || exit 0
if [[ $(id -u) == 0 ]] && command -v apt-get >/dev/null; then
    echo "chromium: installing Debian's package" >&2
    if DEBIAN_FRONTEND=noninteractive apt-get install -qq --no-install-recommends -y chromium >/dev/null 2>&1 ||
        { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq --no-install-recommends -y chromium; } >/dev/null 2>&1; then
        exit 0
    fi
fi
echo "chromium: there is none; on Debian, apt-get install chromium gets it" >&2
exit 1
