"""State that is small, or changes all over in each call: facts and tables, written anew as a whole."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from thalweg.programs.packet import dump, load, merge, pieces
from thalweg.programs.state import SEGMENT_BYTES, Store


@dataclass
class Memo:
    """What an operator remembers: numbers and texts by name, and tables by name."""

    facts: dict[str, Any] = field(default_factory=dict)
    tables: dict[str, pa.RecordBatch] = field(default_factory=dict)
    _kept: list[int] = field(default_factory=list)

    @classmethod
    def load(cls, store: Store) -> Memo:
        head = store.get(0)
        if head is None:
            return cls()
        said = json.loads(head)
        memo = cls(said["facts"])
        for name, keys in said["tables"].items():
            parts = []
            for key in keys:
                data = store.get(key)
                if data is None:
                    raise RuntimeError(
                        f"state is damaged: entry {key} is missing; start again with a new folder"
                    )
                parts.append(load(data))
            memo.tables[name] = merge(parts)
            memo._kept += keys
        return memo

    def save(self, store: Store) -> None:
        for key in self._kept:
            store.remove(key)
        self._kept = []
        keys: dict[str, list[int]] = {}
        for name, table in self.tables.items():
            if table.num_rows:
                keys[name] = []
                for part in pieces(table, SEGMENT_BYTES):
                    self._kept.append(len(self._kept) + 1)
                    keys[name].append(self._kept[-1])
                    store.put(self._kept[-1], dump(part))
        store.put(0, json.dumps({"facts": self.facts, "tables": keys}).encode())

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


def numbers(name: str, values: np.ndarray) -> pa.RecordBatch:
    """A table of one column of numbers."""
    return pa.record_batch([pa.array(values)], names=[name])
