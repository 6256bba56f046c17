"""How long parcels take from their sending to the batch that reads them."""

from __future__ import annotations

from thalweg.exchange.log import Sent
from thalweg.exchange.parcel_file import Edge
from thalweg.spark.delays import Delays


def test_delays_are_those_of_what_a_batch_reads(tmp_path):
    now = [100.0]
    delays = Delays(tmp_path, lambda: now[0])
    (tmp_path / "offsets").mkdir()
    for seq in (1, 2, 3):
        delays.sent({Edge("a", "b"): Sent(seq, seq, 1, 8, 40), Edge("a", "a"): Sent(seq, seq, 1, 8, 40)})
        now[0] += 1.0
    log = 'v1\n{"batchWatermarkMs":0}\n{"logOffset":4}\n{"a-a":2,"a-b":2,"control":1}\n-\n'
    (tmp_path / "offsets" / "7").write_text(log)
    assert delays.begun(7) == {("a", "b"): [3.0, 2.0]}
    assert delays.begun(7) == {}  # once each
    assert delays.begun(8) == {}  # of which nothing is known
