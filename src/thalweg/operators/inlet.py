"""How an operator reads a channel: tuples under the names of its port, with their key and interval."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from thalweg.kernel.window import NEVER
from thalweg.operators.event_time import Ends, tumbled
from thalweg.operators.outlet import flags, key_words
from thalweg.operators.spec import END, KEY, SEQ, START, ArrowType, RowWindow
from thalweg.operators.tuples import ints, restored


@dataclass(frozen=True)
class Narrow:
    """A window that is narrower than the one that a shared join was made with: its alias's time, its span."""

    time: str
    span: int


@dataclass(frozen=True)
class Inlet:
    """One channel that an operator reads, and the port it comes in at.

    `key` are the fields that make the key word; without them tuples bring it. `columns` are (name in the
    channel, name at the port); `time` is a column of the port that START stands for. Tuples without one of
    `flags` are not for this reader. `rows` is the alias and its window of rows; `resolves` are the aliases
    with one among the members of joined tuples, and their names here. `tumble` is the size of a tumbling
    window. `ends`: tuples bring their own.
    `words` are columns of the port with the key words of fields. `raw`: all as it comes.

    It began with the change of number `fresh`. A reader that leaves reads only what is before `upto`.
    """

    channel: str
    port: int
    feed: int = 0
    key: tuple[str, ...] = ()
    columns: tuple[tuple[str, str], ...] = ()
    time: str | None = None
    time_kind: ArrowType | None = None
    flags: tuple[str, ...] = ()
    rows: tuple[str, RowWindow] | None = None
    resolves: tuple[tuple[str, str], ...] = ()
    ends: bool = False
    tumble: int | None = None
    narrow: tuple[Narrow, ...] = ()
    words: tuple[tuple[str, str], ...] = ()
    raw: bool = False
    keyless: bool = False  # tuples with a NULL in their key come in, too
    fresh: int = 0
    upto: int | None = None

    def heard(self, bound: int) -> int:
        """How far the channel has come for this reader."""
        return bound if self.upto is None or bound < self.upto else NEVER

    def arranged(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The tuples under the names and with the key of the port."""
        if self.upto is not None:
            batch = batch.filter(pa.array(ints(batch, START) < self.upto))
        if self.raw:
            return batch
        for flag in self.flags:
            keep = flags(batch, flag)
            if not keep.all():
                batch = batch.filter(pa.array(keep))
        if self.key:
            batch = keyed(batch, self.key, keyless=self.keyless)
        columns = {START: batch.column(START)}
        there = KEY in batch.schema.names  # in a join of all with all there is no key
        columns[KEY] = batch.column(KEY) if there else pa.array(np.zeros(batch.num_rows, np.int64))
        columns |= {new: batch.column(old) for old, new in self.columns}
        columns |= {new: pa.array(key_words(batch, (old,))) for old, new in self.words}
        if self.time is not None:
            columns[self.time] = restored(ints(batch, START), self.time_kind)
        if self.rows is not None:
            alias, window = self.rows
            columns |= {END: batch.column(window.end), f"{SEQ}.{alias}": batch.column(SEQ)}
        elif self.tumble is not None:
            columns[END] = pa.array(tumbled(ints(batch, START), self.tumble))
        elif self.ends:
            columns[END] = batch.column(END)
        if self.narrow:
            last = np.min([_micros(batch.column(n.time)) + n.span for n in self.narrow], axis=0)
            columns[END] = pa.array(np.minimum(last, ints(batch, END)) if self.ends else last)
        out = pa.record_batch(list(columns.values()), names=list(columns))
        if END in columns and (self.narrow or self.rows is not None):
            alive = ints(out, END) >= ints(out, START)
            if not alive.all():
                out = out.filter(pa.array(alive))
        return out

    def learnt(self, ends: Ends) -> Ends | None:
        """Last moments of a window of rows as the reader knows it; None where it holds none of its tuples."""
        if self.raw:
            return ends
        if self.rows is not None:
            alias = self.rows[0] if ends.window == self.rows[1].name else None
        else:
            alias = dict(self.resolves).get(ends.window)
        return None if alias is None else Ends(alias, ends.places, ends.moments)


def keyed(batch: pa.RecordBatch, key: tuple[str, ...], *, keyless: bool = False) -> pa.RecordBatch:
    """Tuples with their key word; NULL equals nothing, so tuples with a NULL in their key are left out.

    With `keyless` they stay, all with the word 0.
    """
    valid: np.ndarray | None = None
    for name in key:
        if batch.column(name).null_count:
            found = np.asarray(batch.column(name).is_valid()).astype(bool)
            valid = found if valid is None else valid & found
    if valid is not None and not keyless:
        batch, valid = batch.filter(pa.array(valid)), None
    words = key_words(batch, key)
    word = pa.array(words if valid is None else np.where(valid, words, 0))
    at = batch.schema.get_field_index(KEY)
    return batch.append_column(KEY, word) if at < 0 else batch.set_column(at, KEY, word)


def _micros(times: pa.Array) -> np.ndarray:
    return np.asarray(times.view(pa.int64()))
