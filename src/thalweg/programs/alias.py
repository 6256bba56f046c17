"""One alias of a query while it is compiled: its keys, and which of its columns travel under which names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from thalweg.kernel.columns import is_bytes
from thalweg.kernel.keys import is_exact
from thalweg.programs.job import StreamInfo
from thalweg.query.model import Expr, Window


@dataclass
class Alias:
    """One alias while its query is being compiled."""

    alias: str
    info: StreamInfo
    window: Window
    keys: dict[int, Expr]
    types: dict[int, pa.DataType]
    columns: tuple[str, ...]
    plain: dict[int, str] = field(init=False)
    """The column that is its key in a class, where the key is just a column."""
    same: Mapping[str, tuple[str, str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        names = {Expr.column(self.alias, name).sql: name for name in self.info.columns}
        self.plain = {c: names[key.sql] for c, key in self.keys.items() if key.sql in names}

    @property
    def sent(self) -> list[str]:
        """The columns that go on after its join; the others equal one of another alias that does."""
        return [c for c in self.columns if c not in self.same]

    def word(self, c: int) -> str:
        return f"#word.{self.alias}.{c}"

    def value(self, c: int) -> str:
        """The field that holds the comparable value: the column itself where that is stored anyway."""
        name = self.plain.get(c)
        if name in self.columns and is_bytes(self.types[c]):
            return f"{self.alias}.{name}"
        return f"#value.{self.alias}.{c}"


def share(c: int, members: Sequence[Alias]) -> None:
    """Key columns that are equal in every result are sent once."""
    carriers: dict[pa.DataType, tuple[str, str]] = {}
    for a in members:
        name = a.plain.get(c)
        if name is None or name not in a.sent:
            continue
        kind = a.info.columns[name]
        if not (restorable(kind) or is_bytes(kind)):
            continue
        carrier = carriers.setdefault(kind, (a.alias, name))
        if carrier != (a.alias, name):
            a.same = {**a.same, name: carrier}


def restorable(kind: pa.DataType) -> bool:
    """Whether a value can be had back from its key word: a float's zeros and NaNs were made one."""
    return is_exact(kind) and not pa.types.is_floating(kind) and not pa.types.is_decimal(kind)
