#!/usr/bin/env bash
# Get the jars of a list by Maven, once.
#   jars.sh LIST.xml FOLDER
set -euo pipefail
(($# == 2)) || {
    echo "jars: write jars.sh LIST.xml FOLDER" >&2
    exit 1
}
list=$1 name=$(basename "$1" .xml)

fail() {
    echo "$name: $1" >&2
    exit 1
}

mkdir -p "$2"
folder=$(cd "$2" && pwd)
home="$(dirname "$folder")/.maven"
stamp="$folder/.done-$(cksum <"$list" | tr ' ' -)"
[[ ! -f "$stamp" ]] || exit 0
command -v mvn >/dev/null || fail "Maven (mvn) is missing: install it with the system's package manager, such as apt install maven"
rm -f "$folder"/*.jar "$folder"/.done-*
for _ in 1 2 3; do
    if timeout 300 mvn -B -ntp -f "$list" "-Dmaven.repo.local=$home" \
        -Dmaven.wagon.rto=60000 -Daether.connector.requestTimeout=60000 \
        org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies \
        "-DoutputDirectory=$folder" >"$folder/maven.log" 2>&1; then
        touch "$stamp"
        exit 0
    fi
    find "$home" -name '*.lastUpdated' -delete 2>/dev/null || true
done
fail "Maven could not get the jars of $list: $(grep -m 1 ERROR "$folder/maven.log" || tail -n 1 "$folder/maven.log")"
