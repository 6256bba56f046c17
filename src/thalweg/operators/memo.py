"""State that is small, or changes all over in each call: facts and tables.

A table that has changed is written anew as a whole. One that only grows is written so when it has many parts,
or when half of its rows count no longer; between, its new rows are a part of their own.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from thalweg.operators.state import SEGMENT_BYTES, Page
from thalweg.wire.message import merge, pieces

SMALL = 1 << 18
"""Bytes of a table that is cheaper to write anew than to read in parts."""

PARTS = 16
"""So many parts, beside those that one piece of state has no room for, before a table is written anew."""


@dataclass
class Memo:
    """What an operator remembers: plain values by name, and tables by name."""

    page: Page
    facts: dict[str, Any] = field(default_factory=dict)
    tables: dict[str, pa.RecordBatch] = field(default_factory=dict)
    _stored: dict[str, pa.RecordBatch] = field(default_factory=dict)
    _new: dict[str, pa.RecordBatch] = field(default_factory=dict)

    @classmethod
    def load(cls, page: Page) -> Memo:
        memo = cls(page, dict(page.record.get("facts", {})))
        for name, keys in page.record.get("tables", {}).items():
            memo.tables[name] = memo._stored[name] = merge([page.fetch(key) for key in keys])
        return memo

    def save(self) -> None:
        before, tables = self.page.record.get("tables", {}), {}
        for name, table in self.tables.items():
            keys = list(before.get(name, ()))
            if table is not self._stored.get(name):
                if name not in self._new:
                    for key in keys:
                        self.page.remove(key)
                    keys = []
                keys += [self.page.put(part) for part in pieces(self._new.get(name, table), SEGMENT_BYTES)]
            if keys:
                tables[name] = keys
        self.page.write({"facts": self.facts, "tables": tables})

    def grow(self, name: str, whole: pa.RecordBatch, new: pa.RecordBatch, counting: pa.RecordBatch) -> None:
        """Put new rows at the end of a table, which is then the `whole`.

        Only the `counting` rows are needed. Others may stay in it for a while, before those.
        """
        room = PARTS + whole.nbytes // SEGMENT_BYTES
        many = len(self.page.record.get("tables", {}).get(name, ())) >= room
        if many or whole.nbytes < SMALL or whole.num_rows > 2 * counting.num_rows:
            self.tables[name] = counting
        else:
            self.tables[name], self._new[name] = whole, new

    def together(self, name: str, new: list[pa.RecordBatch]) -> pa.RecordBatch | None:
        """A table and what is to be added to it; None where there is nothing."""
        old = self.tables.get(name)
        parts = ([old] if old is not None and old.num_rows else []) + [b for b in new if b.num_rows]
        return merge(parts) if parts else None

    @property
    def rows(self) -> int:
        return sum(t.num_rows for t in self.tables.values())

    @property
    def nbytes(self) -> int:
        return sum(t.nbytes for t in self.tables.values())
