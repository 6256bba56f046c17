"""The catalog: sites, links, streams and statistics. YAML in, checked model out."""

from thalweg.catalog.load import load, load_text
from thalweg.catalog.model import (
    Catalog,
    Costs,
    JoinSelectivity,
    Link,
    Links,
    Site,
    Source,
    Stats,
    Stream,
)
from thalweg.catalog.types import SparkType, parse_type

__all__ = [
    "Catalog",
    "Costs",
    "JoinSelectivity",
    "Link",
    "Links",
    "Site",
    "Source",
    "SparkType",
    "Stats",
    "Stream",
    "load",
    "load_text",
    "parse_type",
]
