#!/usr/bin/env bash
# Creates .venv and installs thalweg into it, unless that has been done since pyproject.toml last changed.
# What the machine lacks is said in one line.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

fail() {
    echo "setup: $1" >&2
    exit 1
}

suitable() { # whether this command is a Python that can make environments for us
    "$1" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1
}

find_python() {
    local name
    for name in python3.13 python3.12 python3.11 python3; do
        if suitable "$name"; then
            echo "$name"
            return
        fi
    done
    fail "Python 3.11 or later (with venv) is missing: install it with the system's package manager, such as apt install python3 python3-venv, and have it on the PATH"
}

check_java() {
    local java=java where="on the PATH" how version
    how="install it with the system's package manager, such as apt install openjdk-17-jre-headless, or set JAVA_HOME"
    if [[ -n "${JAVA_HOME:-}" ]]; then
        java="$JAVA_HOME/bin/java" where="in JAVA_HOME ($JAVA_HOME)"
    fi
    version=$("$java" -version 2>&1 | sed -n 's/.* version "\([0-9]*\)\(\.[0-9]*\)\{0,1\}.*/\1\2/p' | head -n 1) || true
    [[ -n "$version" ]] || fail "Java 17 or later is missing, there is none $where: $how"
    [[ "$version" != 1.* ]] || version=${version#1.} # Java 8 calls itself 1.8
    ((${version%%.*} >= 17)) || fail "Java 17 or later is missing, the one $where is ${version%%.*}: $how"
}

check_java
stamp=.venv/.installed
if [[ -x .venv/bin/python && -f "$stamp" && ! pyproject.toml -nt "$stamp" ]] && suitable .venv/bin/python; then
    exit 0
fi
if ! suitable .venv/bin/python; then
    python=$(find_python)
    echo "setup: creating .venv with $("$python" --version)"
    "$python" -m venv --clear .venv || fail "$python could not create .venv"
fi
echo "setup: installing thalweg and what it needs into .venv"
.venv/bin/python -m pip install -qq --disable-pip-version-check --no-compile -e '.[dev]' ||
    fail "the installation failed; the lines above say why"
# Python and Numba compile, and the JVM records, what commands would otherwise make anew in each process.
echo "setup: preparing for fast starts"
.venv/bin/python -m thalweg.cli.prepare >/dev/null 2>.venv/prepare.log ||
    echo "setup: that failed, so commands start slower; .venv/prepare.log says why" >&2
touch "$stamp"
