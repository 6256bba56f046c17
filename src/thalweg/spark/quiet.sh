#!/bin/sh
# The Python of Spark's workers, $THALWEG_PYTHON, without what PySpark prints about one of them: for each
# stateful query it starts a process beside the driver, which tells of its steps on standard output.
if [ "$2" = pyspark.sql.streaming.transform_with_state_driver_worker ] && [ -z "$THALWEG_SPARK_LOG" ]; then
    exec "$THALWEG_PYTHON" "$@" >/dev/null
fi
exec "$THALWEG_PYTHON" "$@"
