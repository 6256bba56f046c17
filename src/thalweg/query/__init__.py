"""Queries: SQL text in; streams, windows and the join graph out."""

from thalweg.query.classes import classes
from thalweg.query.model import (
    RESULT_TIME,
    Equality,
    Expr,
    Input,
    Output,
    Query,
    Window,
    WindowKind,
    connected,
    quoted,
)
from thalweg.query.parse import Schemas, parse, parse_over

__all__ = [
    "RESULT_TIME",
    "Equality",
    "Expr",
    "Input",
    "Output",
    "Query",
    "Schemas",
    "Window",
    "WindowKind",
    "classes",
    "connected",
    "parse",
    "parse_over",
    "quoted",
]
