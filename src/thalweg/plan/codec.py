"""Frozen dataclasses as JSON and back, by the types of their fields.

A field that has its default value is left out, unless its metadata say `always`. `metadata={"json": name}`
gives a field another name in JSON. Reading is strict: a ValueError names the object and the field that is
missing, unknown or of a wrong type.
"""

from __future__ import annotations

import math
import types
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

T = TypeVar("T")
_SCALARS: Mapping[type, str] = {str: "text", bool: "true or false", int: "a whole number", float: "a number"}


def encode(value: Any) -> Any:
    """A value as JSON.

    >>> from thalweg.plan.operators import Source
    >>> encode(Source("a", "n1", stream="s1"))
    {'id': 'a', 'site': 'n1', 'inputs': [], 'stream': 's1'}
    """
    if isinstance(value, tuple):
        return [v if type(v) is str else encode(v) for v in value]
    if is_dataclass(value):
        cls: Any = type(value)
        found = ((name, getattr(value, one), default) for name, one, default in _written(cls))
        return {name: encode(v) for name, v, default in found if default is MISSING or v != default}
    if isinstance(value, Mapping):
        return {k: encode(v) for k, v in value.items()}
    return value


def decode(kind: type[T], data: Any, what: str) -> T:
    """Reads an object of a dataclass; `what` names it in errors.

    >>> from thalweg.plan.operators import Source
    >>> decode(Source, {"id": "a", "site": "n1", "inputs": []}, "operator a")
    Traceback (most recent call last):
    ValueError: operator a lacks stream
    """
    given = _expect(dict, data, f"{what} is not an object")
    cls: Any = kind
    hints, written = _hints(cls), _written(cls)
    known = {name: one for name, one, _ in written}
    if missing := [n for n, _, default in written if default is MISSING and n not in given]:
        raise ValueError(f"{what} lacks {', '.join(missing)}")
    if unknown := sorted(set(given) - set(known)):
        raise ValueError(f"{what} has {', '.join(unknown)}, which this version does not know")
    return kind(**{known[n]: _value(hints[known[n]], v, f"{what}: {n}") for n, v in given.items()})


@cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


@cache
def _written(kind: type) -> tuple[tuple[str, str, Any], ...]:
    """The fields of a class: the name in JSON, the name, and the default if the field may be left out."""
    found = []
    for f in fields(kind):
        make: Callable[[], Any] | Any = f.default_factory
        default = make() if make is not MISSING else f.default
        default = MISSING if f.metadata.get("always") else default
        found.append((f.metadata.get("json", f.name), f.name, default))
    return tuple(found)


def _value(kind: Any, data: Any, what: str) -> Any:
    if kind is Any:  # a value of a column
        return data if data is None or isinstance(data, str) else _number(data, what)
    if kind in _SCALARS:
        return _scalar(kind, data, what)
    if get_origin(kind) is types.UnionType:  # X | None
        return _value(get_args(kind)[0], data, what)
    if get_origin(kind) is tuple:
        items = _expect(list, data, f"{what} is not a list")
        each = get_args(kind)
        if each[-1] is not Ellipsis and len(each) != len(items):
            raise ValueError(f"{what} has {len(items)} values, not {len(each)}")
        each = each[:1] * len(items) if each[-1] is Ellipsis else each
        return tuple(_value(k, v, f"{what}[{n}]") for n, (k, v) in enumerate(zip(each, items, strict=True)))
    if get_origin(kind) is not None:  # a mapping
        members = _expect(dict, data, f"{what} is not an object")
        return {k: _value(get_args(kind)[1], v, f"{what}.{k}") for k, v in members.items()}
    read = getattr(kind, "read", None)
    return read(data, what) if read else decode(kind, data, what)


def _scalar(kind: type, data: Any, what: str) -> Any:
    if kind is float and not isinstance(data, bool):
        return float(_number(data, what))
    if type(data) is not kind or data == "":
        raise ValueError(f"{what} is not {_SCALARS[kind]}: {data!r}")
    return data


def _number(data: Any, what: str) -> Any:
    try:
        if isinstance(data, (int, float)) and math.isfinite(data):
            return data
    except OverflowError:  # a whole number beyond all floats
        pass
    raise ValueError(f"{what} is not a number: {data!r}")


def _expect(kind: type[T], data: Any, otherwise: str) -> T:
    if not isinstance(data, kind):
        raise ValueError(otherwise)
    return data
