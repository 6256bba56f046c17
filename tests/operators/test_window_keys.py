"""Window copies at other sites (semijoin 3.2): the example of its figure 5, and what bounds make needless."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from thalweg.kernel.window import NEVER
from thalweg.operators.cache import OwnCache
from thalweg.operators.event_time import Arrivals, Arrived
from thalweg.operators.probe import SENT, Probe
from thalweg.operators.spec import END, KEY, START, Field, KeysSpec, OutputField, Port, ProbeSpec
from thalweg.operators.state import Ledger, MemoryStore
from thalweg.operators.window_keys import WindowKeys, rows_of

A, C, D, E, F = 1, 3, 4, 5, 6
VALUE = "s.v"


def tuples(*rows):
    """Tuples of S2 as they reach an operator: key, value, time."""
    return pa.record_batch(
        [pa.array([r[0] for r in rows]), pa.array([r[2] for r in rows]), pa.array([r[1] for r in rows])],
        names=[KEY, START, VALUE],
    )


def arrivals(batch, bound):
    return Arrivals([] if batch is None else [batch], heard={0: {0: bound}})


class Site:
    """An operator with its state."""

    def __init__(self, operator):
        self.operator, self.store, self.cache = operator, MemoryStore(), OwnCache()

    def call(self, *ports):
        ledger = Ledger(self.store)
        more = (self.cache,) if isinstance(self.operator, Probe) else ()
        out = list(self.operator.call(Arrived(list(ports)), ledger.page("it"), *more))
        ledger.save()
        return [o for o in out if isinstance(o, pa.RecordBatch) and o.num_rows]


def test_figure_5():
    """W2 gets <d,x>, <a,z>, <f,w> and loses <c,y>, <a,x>; full tuples of c and a have been shipped before."""
    window = Port("s", (Field(VALUE, pa.string()), Field(SENT, pa.int64())), 10, rewritten=True)
    keys = Site(WindowKeys(KeysSpec("keys", Port("s", (), 10))))
    reduce = Site(
        Probe(
            ProbeSpec(
                "reduce",
                (Port("requests", (), None), window),
                "fetch",
                (OutputField(VALUE, pa.string(), 1, VALUE),),
                ranges=True,
                standing=True,
            )
        )
    )
    before = tuples((C, "y", 0), (A, "x", 1), (A, "y", 5), (E, "u", 6))
    told = keys.call(arrivals(before, 7))
    assert sorted(told[0].column(KEY).to_pylist()) == [A, C, E]
    requests = rows_of(np.array([A, C]), np.array([1, 0]), np.full(2, NEVER))
    fetched = reduce.call(arrivals(requests, 7), arrivals(before, 7))
    assert sorted(fetched[0].column(VALUE).to_pylist()) == ["x", "y", "y"]  # <a,x>, <a,y>, <c,y>

    after = tuples((D, "x", 12), (A, "z", 12), (F, "w", 12))
    told = keys.call(arrivals(after, 12))[0]
    rows = list(zip(*(told.column(n).to_pylist() for n in (KEY, START, END)), strict=True))
    # v_J = <d, f>. Of v_C only the zero matters, that c has gone; the copy expires <a,x> by itself.
    assert sorted(r[0] for r in rows if r[2] == NEVER) == [D, F]
    assert [r for r in rows if r[2] != NEVER] == [(C, 0, 10)]
    s_f = reduce.call(arrivals(None, 12), arrivals(after, 12))
    assert s_f[0].column(VALUE).to_pylist() == ["z"]  # s_F = {<a,z>}

    # M2 at the other site: all that was fetched, less what no probe can find any more.
    step = Site(
        Probe(
            ProbeSpec(
                "step",
                (Port("current", (), None), Port("s", (Field(VALUE, pa.string()),), 10)),
                "join",
                (OutputField(VALUE, pa.string(), 1, VALUE),),
            )
        )
    )
    copy = [tuples((C, "y", 0), (A, "x", 1), (A, "y", 5)), tuples((A, "z", 12))]
    probes = pa.record_batch([pa.array([A, C, E]), pa.array([12, 12, 12])], names=[KEY, START])
    step.call(arrivals(None, 7), arrivals(copy[0], 7))
    found = step.call(arrivals(probes, 13), arrivals(copy[1], 13))
    assert sorted(found[0].column(VALUE).to_pylist()) == ["y", "z"]
    assert len(step.cache.take(step.operator.spec.join, step.cache._held.nonce).join.windows[1]) == 2


def test_nothing_is_sent_for_keys_that_stay():
    keys = Site(WindowKeys(KeysSpec("keys", Port("s", (), 10))))
    assert len(keys.call(arrivals(tuples((A, "x", 0)), 0))) == 1
    for time in range(5, 100, 5):
        assert keys.call(arrivals(tuples((A, "x", time)), time)) == []
    (gone,) = keys.call(arrivals(None, NEVER))
    assert gone.column(END).to_pylist() == [105]


def test_a_key_that_comes_back_is_a_presence_of_its_own_however_batches_fall():
    keys = Site(WindowKeys(KeysSpec("keys", Port("s", (), 10))))
    (told,) = keys.call(arrivals(tuples((A, "x", 0), (A, "y", 40)), 60))
    rows = sorted(zip(*(told.column(n).to_pylist() for n in (KEY, START, END)), strict=True))
    assert rows == [(A, 0, 10), (A, 0, NEVER), (A, 40, 50), (A, 40, NEVER)]


def test_a_first_tuple_that_comes_late_is_told():
    keys = Site(WindowKeys(KeysSpec("keys", Port("s", (), 10))))
    keys.call(arrivals(tuples((A, "x", 20)), 10))
    (told,) = keys.call(arrivals(tuples((A, "y", 12)), 12))
    assert told.column(START).to_pylist() == [12]
