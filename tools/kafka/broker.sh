#!/usr/bin/env bash
# A Kafka broker on this machine (KRaft mode), for the tests, the example and the benchmark. Maven gets its jars
# into .kafka, once.
#   broker.sh jars               only get the jars: the broker's, and those of Spark's packages
#   broker.sh run PORT FOLDER    run a broker on 127.0.0.1:PORT until it is ended; its data are in FOLDER
#   broker.sh spark              print the arguments that give Spark its packages, for PYSPARK_SUBMIT_ARGS
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
here="$root/.kafka"

fail() {
    echo "kafka: $1" >&2
    exit 1
}

get() { # the jars of a list, unless they are there
    "$root/tools/jars.sh" "$root/tools/kafka/$1.xml" "$here/$1"
}

run() {
    local port=$1 folder
    mkdir -p "$2"
    folder=$(cd "$2" && pwd)
    local java=("${JAVA_HOME:+$JAVA_HOME/bin/}java" -XX:+UseSerialGC -Dorg.slf4j.simpleLogger.defaultLogLevel=error)
    local path="$here/broker/*" settings="$folder/server.properties"
    cat >"$settings" <<END
process.roles=broker,controller
node.id=1
listeners=PLAINTEXT://127.0.0.1:$port,CONTROLLER://127.0.0.1:$((port + 1))
advertised.listeners=PLAINTEXT://127.0.0.1:$port
controller.listener.names=CONTROLLER
controller.quorum.bootstrap.servers=127.0.0.1:$((port + 1))
log.dirs=$folder/data
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
auto.create.topics.enable=false
END
    if [[ ! -d "$folder/data" ]]; then
        "${java[@]}" -Xmx128m -cp "$path" kafka.tools.StorageTool format --standalone \
            -t dGhhbHdlZy1rYWZrYS0xMg -c "$settings" >"$folder/format.log" 2>&1 ||
            fail "$(tail -n 1 "$folder/format.log")"
    fi
    exec "${java[@]}" -Xmx512m -cp "$path" kafka.Kafka "$settings"
}

mkdir -p "$here"
case "${1:-}" in
    jars)
        get broker
        get spark
        ;;
    run)
        (($# == 3)) || fail "write broker.sh run PORT FOLDER"
        get broker
        run "$2" "$3"
        ;;
    spark)
        get spark
        jars=("$here"/spark/*.jar)
        echo "--jars $(IFS=, && echo "${jars[*]}") pyspark-shell"
        ;;
    *) fail "write broker.sh jars, broker.sh run PORT FOLDER, or broker.sh spark" ;;
esac
