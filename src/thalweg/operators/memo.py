"""State that is small, or changes all over in each call: facts and tables, written anew as a whole."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from thalweg.operators.state import SEGMENT_BYTES, Page
from thalweg.wire.message import merge, pieces


@dataclass
class Memo:
    """What an operator remembers: plain values by name, and tables by name."""

    page: Page
    facts: dict[str, Any] = field(default_factory=dict)
    tables: dict[str, pa.RecordBatch] = field(default_factory=dict)

    @classmethod
    def load(cls, page: Page) -> Memo:
        memo = cls(page, dict(page.record.get("facts", {})))
        for name, keys in page.record.get("tables", {}).items():
            memo.tables[name] = merge([page.fetch(key) for key in keys])
        return memo

    def save(self) -> None:
        for keys in self.page.record.get("tables", {}).values():
            for key in keys:
                self.page.remove(key)
        tables = {
            name: [self.page.put(part) for part in pieces(table, SEGMENT_BYTES)]
            for name, table in self.tables.items()
            if table.num_rows
        }
        self.page.write({"facts": self.facts, "tables": tables})

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
