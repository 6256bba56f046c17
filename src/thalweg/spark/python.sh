#!/bin/sh
# The Python of Spark's workers in local sessions: $THALWEG_PYTHON with another search path.
# Spark puts its own copy of PySpark in front of the path. That copy is a zip without bytecode, so each of the
# many processes that Spark starts would compile it anew. The installed package is the same, and compiled.
own=
IFS=:
for entry in $PYTHONPATH; do
    case $entry in
    */pyspark.zip | */py4j-*-src.zip | */spark-core_*.jar) ;;
    *) own=${own:+$own:}$entry ;;
    esac
done
export PYTHONPATH="$own"
exec "${0%/*}/quiet.sh" "$@"
