"""What Spark needs to keep files in an object store: Hadoop's S3A and its settings."""

from __future__ import annotations

import os
from collections.abc import Iterable

from thalweg.catalog.model import Stream
from thalweg.storage import Location, RemotePath, own_endpoint, scheme_of

_S3A = "spark.hadoop.fs.s3a."
_MANAGER = "org.apache.spark.sql.execution.streaming.checkpointing.FileContextBasedCheckpointFileManager"


def read_by(streams: Iterable[Stream]) -> bool:
    """Whether a source of one of the streams is in an object store."""
    return any(scheme_of(s.source.option("path") or "") == "s3a" for s in streams)


def settings(out: Location | None) -> dict[str, str]:
    """The settings of a session that reads from a store, and keeps its checkpoint there if `out` is there."""
    conf = {
        # The environment, a profile, or the role of the machine: as Thalweg itself finds its own.
        "aws.credentials.provider": "software.amazon.awssdk.auth.credentials.DefaultCredentialsProvider",
        # Amazon's asynchronous client takes an early `100 Continue` of other servers for their answer.
        "optimized.copy.from.local.enabled": "false",
    }
    if endpoint := own_endpoint():
        region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or "us-east-1"
        conf |= {"endpoint": endpoint, "endpoint.region": region, "path.style.access": "true"}
    found = {_S3A + name: value for name, value in conf.items()}
    # The one that is faster on a local disk can't replace a file of S3A, as a batch that is repeated does.
    manager = {"spark.sql.streaming.checkpointFileManagerClass": _MANAGER}
    return found | (manager if isinstance(out, RemotePath) else {})
