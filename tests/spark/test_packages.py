"""Spark's packages: named where a source needs one that Spark does not have."""

from __future__ import annotations

import pyspark
import pytest

from thalweg.catalog.model import Destination, Source, Stream
from thalweg.errors import UserError
from thalweg.spark import object_store, packages
from thalweg.storage import location

KAFKA = f"org.apache.spark:spark-sql-kafka-0-10_2.13:{pyspark.__version__}"
AVRO = f"org.apache.spark:spark-avro_2.13:{pyspark.__version__}"


def stream(format_, value=None):
    return Stream(
        name="s", site="n", time="ts", columns={"ts": "timestamp"}, source=Source(format=format_, value=value)
    )


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch, tmp_path):
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    monkeypatch.delenv("PYSPARK_SUBMIT_ARGS", raising=False)


def test_a_package_for_each_format_that_needs_one():
    assert packages.conf([stream("parquet"), stream("text", "json"), stream("text", "protobuf")]) == {}
    assert packages.conf([stream("Kafka", "json"), stream("kafka")]) == {"spark.jars.packages": KAFKA}
    assert packages.conf([stream("kafka", "avro")]) == {"spark.jars.packages": f"{AVRO},{KAFKA}"}
    assert packages.conf([stream("avro")]) == {"spark.jars.packages": AVRO}
    sink = Destination(format="kafka", value="avro")
    assert packages.conf([stream("parquet")], [sink]) == {"spark.jars.packages": f"{AVRO},{KAFKA}"}


def test_what_the_user_names_stays(monkeypatch, tmp_path):
    defaults = tmp_path / "spark-defaults.conf"
    defaults.write_text("# mine\nspark.jars.packages   a:b:1,org.apache.spark:spark-avro_2.13:4.2.0\n")
    both = [stream("kafka", "avro")]
    own = "a:b:1,org.apache.spark:spark-avro_2.13:4.2.0"
    assert packages.conf(both) == {"spark.jars.packages": f"{own},{KAFKA}"}
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "--jars /x/spark-sql-kafka-0-10_2.13-4.2.0.jar pyspark-shell")
    assert packages.conf(both) == {}


def test_a_package_that_can_not_be_had_is_said_in_a_line():
    said = "\t:: UNRESOLVED DEPENDENCIES ::\n\t:: org.apache.spark#spark-avro_2.13;9: not found"
    with pytest.raises(UserError) as told:
        packages.check_had(AVRO, said)
    assert str(told.value).startswith(f"Spark can't get {AVRO} from Maven Central; ")
    assert "\n" not in str(told.value)
    packages.check_had(AVRO, "something else went wrong")


def test_an_object_store_needs_hadoops_s3a_and_a_part_of_amazons_kit(monkeypatch):
    found = packages.conf([stream("kafka")], out=location("s3a://bucket/run"))
    first, *others = found["spark.jars.packages"].split(",")
    assert first == KAFKA
    assert [one.split(":")[1] for one in others] == ["hadoop-aws", "s3-transfer-manager", "sts"]
    assert "software.amazon.awssdk:bundle" in found["spark.jars.excludes"].split(",")
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "--jars /x/hadoop-aws-3.5.0.jar pyspark-shell")
    assert "spark.jars.packages" not in packages.conf([stream("parquet")], out=location("s3a://bucket/run"))


def test_a_store_of_ones_own_is_found_by_its_address(monkeypatch):
    for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    own = "spark.hadoop.fs.s3a."
    plain = object_store.settings(None)
    assert own + "endpoint" not in plain
    assert "spark.sql.streaming.checkpointFileManagerClass" not in plain
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9000")
    found = object_store.settings(location("s3a://bucket/run"))
    assert found[own + "endpoint"] == "http://127.0.0.1:9000"
    assert (found[own + "endpoint.region"], found[own + "path.style.access"]) == ("us-east-1", "true")
    assert "FileContext" in found["spark.sql.streaming.checkpointFileManagerClass"]
