"""Spark's packages that sources and sinks need: Spark gets them from Maven Central when its JVM starts."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path

import pyspark

from thalweg.catalog.model import Destination, Source, Stream
from thalweg.errors import UserError
from thalweg.spark import object_store
from thalweg.storage import Location, RemotePath

_SCALA = "2.13"
_SDK = "2.35.4"
_CONF = "spark.jars.packages"
_BY_FORMAT = {"kafka": "spark-sql-kafka-0-10", "avro": "spark-avro"}
_HADOOP = "hadoop-aws"
_LEFT_OUT = ("software.amazon.awssdk:bundle", "io.netty:*", "org.slf4j:*")  # Spark brings the others
_LACKS = "Failed to find data source"
_NOT_HAD = re.compile(r"UNRESOLVED DEPENDENCIES|unresolved dependency|download failed", re.IGNORECASE)


def package(format_: str) -> str | None:
    """The package with a format such as kafka, in the version of this Spark; None for Spark's own."""
    name = _BY_FORMAT.get(format_.lower())
    return name and f"org.apache.spark:{name}_{_SCALA}:{pyspark.__version__}"


def conf(
    streams: Iterable[Stream], sinks: Iterable[Destination] = (), out: Location | None = None
) -> dict[str, str]:
    """The settings by which a session gets the packages of streams and sinks; nothing where Spark has them.

    With a source or `out` in an object store, its package and settings, too. What the user's own settings
    name stays: a package there stands, in whatever version.
    """
    streams = list(streams)
    store = isinstance(out, RemotePath) or object_store.read_by(streams)
    settings = object_store.settings(out) if store else {}
    named = [(s.source.format, s.source.value) for s in streams] + [(to.format, to.value) for to in sinks]
    formats = {one.lower() for both in named for one in both if one is not None}
    known = _given()
    wanted = [
        found
        for one in sorted(formats)
        if (found := package(one)) is not None and found.split(":")[1].rsplit("_", 1)[0] not in known
    ]
    left_out = {}
    if store and _HADOOP not in known:
        wanted += _s3a()
        left_out = {"spark.jars.excludes": ",".join(_LEFT_OUT)}
    if not wanted:
        return settings
    own = re.findall(rf"^\s*{re.escape(_CONF)}[\s=]+(\S+)", _defaults(), re.MULTILINE)
    return {_CONF: ",".join([*own[-1:], *wanted]), **left_out, **settings}


def _s3a() -> list[str]:
    """Hadoop's S3A in the version of Spark's Hadoop, and the part of Amazon's SDK that it needs: 15 MB.

    S3A itself asks for the whole SDK, which is 690 MB.
    """
    jars = (path.name for path in (_home() / "jars").glob("hadoop-client-api-*.jar"))
    version = next((name.removeprefix("hadoop-client-api-").removesuffix(".jar") for name in jars), "3.5.0")
    modules = ("s3-transfer-manager", "sts")
    return [
        f"org.apache.hadoop:{_HADOOP}:{version}",
        *(f"software.amazon.awssdk:{m}:{_SDK}" for m in modules),
    ]


def _given() -> str:
    """All that may name a package: the jars of PySpark, its defaults and the arguments it is started with."""
    jars = (path.name for kind in ("spark", _HADOOP) for path in (_home() / "jars").glob(f"{kind}-*.jar"))
    return " ".join([*jars, _defaults(), os.environ.get("PYSPARK_SUBMIT_ARGS", "")])


def _home() -> Path:
    return Path(os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent)


def _defaults() -> str:
    folder = Path(os.environ.get("SPARK_CONF_DIR") or _home() / "conf")
    try:
        return (folder / "spark-defaults.conf").read_text(encoding="utf-8")
    except OSError:
        return ""


def missing(error: Exception, source: Source) -> tuple[str, str] | None:
    """What Spark lacks for a source, by its error, and what to do; None where it lacks nothing."""
    text = str(error)
    if "AVRO_NOT_LOADED" in text:
        return "Spark can't decode Avro without its package", _name(f"{package('avro')}")
    if "ClassNotFoundException" not in text and "DATA_SOURCE_NOT_FOUND" not in text and _LACKS not in text:
        return None
    wanted = package(source.format)
    what = f"Spark has no source of the format {source.format!r}"
    return what, _name(wanted) if wanted else "such as parquet, json, csv or kafka"


def _name(wanted: str) -> str:
    return f"start it with {_CONF}={wanted}, or with the jars in spark.jars"


def check_had(wanted: str, said: str) -> None:
    """Refuse to go on where Spark could not get packages, by what its JVM has said."""
    if _NOT_HAD.search(said):
        raise UserError(
            f"Spark can't get {wanted.replace(',', ' and ')} from Maven Central",
            remedy="see that Maven Central can be reached and has it, or name the jars in spark.jars of "
            "Spark's conf/spark-defaults.conf",
        )
