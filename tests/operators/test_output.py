"""Reports of calls, as they travel and as they add up."""

import numpy as np
import pyarrow as pa

from thalweg.operators.output import Report, Work, moments


def test_reports_of_several_calls_add_up():
    one = Report(
        late={"s": 2},
        reasons={"s": {"late": 2}},
        work={"q.join": Work(5, 1, 10, 100, 0, 70)},
        moments=[[5, 1.0]],
    )
    two = Report(
        late={"s": 1},
        reasons={"s": {"no time": 1}},
        work={"q.join": Work(2, 0, 4, 40, 8, 60)},
        moments=[[7, 3.0]],
    )
    total = Report.sum([one.to_json(), two.to_json(), Report(read={"s": 1}).to_json()])
    assert total.reasons == {"s": {"late": 2, "no time": 1}}
    assert total.work == {"q.join": Work(7, 1, 14, 140, 8, 60)}
    assert total.moments == [[5, 1.0], [7, 3.0]]


def test_moments_stand_for_all_results():
    times = np.random.default_rng(1).integers(0, 10**9, 100_000)
    found = moments([pa.array(times[:70_000]), pa.array(times[70_000:])])
    assert len(found) <= 16
    assert abs(sum(n for _, n in found) - len(times)) < 1e-6
    median = sorted(t for t, _ in found)[len(found) // 2]
    assert abs(median - np.median(times)) < 1e8
    assert moments([]) == moments([pa.array([], pa.int64())]) == []
