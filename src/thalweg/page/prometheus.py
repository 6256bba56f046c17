"""The counts of a run as Prometheus reads them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from thalweg.live.series import SECONDS, Histogram
from thalweg.page import trouble
from thalweg.page.reading import Seen
from thalweg.page.state import link_capacity

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Metrics(Collector):
    """All metrics of a run at a moment, in seconds since 1970."""

    def __init__(self, seen: Seen, now: float) -> None:
        self.seen, self.now = seen, now

    def collect(self) -> Iterator[Metric]:
        yield from self._run()
        yield from self._rows()
        yield from self._links()
        yield from self._operators()

    def text(self) -> bytes:
        """As `/metrics` gives them."""
        registry = CollectorRegistry(auto_describe=False)
        registry.register(self)
        return generate_latest(registry)

    def _run(self) -> Iterator[Metric]:
        seen, last, status = self.seen, self.seen.last, self.seen.status
        state = GaugeMetricFamily("thalweg_state", "1 for the state that the run is in", labels=["state"])
        for one in ("starting", "running", "complete", "stopped", "failed", "lost"):
            state.add_metric([one], float(status.state == one))
        yield state
        yield _gauge("thalweg_up", "1 while the run goes on", float(seen.goes_on))
        yield _counter("thalweg_restarts", "Starts of the run after the first", max(0, status.starts - 1))
        yield _counter("thalweg_batches", "Micro-batches", last.batch + 1)
        yield _counter("thalweg_plan_changes", "Changes of the plan", last.changes)
        yield _gauge("thalweg_last_batch_timestamp_seconds", "The end of the last micro-batch", last.at)
        yield _histogram("thalweg_batch_seconds", "How long micro-batches take", last.durations)
        yield _histogram(
            "thalweg_result_latency_seconds",
            "From a result's time to the moment it is written, from a sample of the results",
            last.latencies,
        )
        rows, memory, disk = last.state
        yield _gauge("thalweg_window_rows", "Tuples in the state of all operators", rows)
        yield _gauge("thalweg_state_bytes", "The memory that state takes", memory)
        yield _gauge("thalweg_spilled_bytes", "The bytes of windows on disk", disk)
        wrong = GaugeMetricFamily("thalweg_trouble", "What needs attention", labels=["level"])
        levels = [one.level for one in trouble.found(seen, self.now)]
        for level in ("error", "warning", "note"):
            wrong.add_metric([level], levels.count(level))
        yield wrong

    def _rows(self) -> Iterator[Metric]:
        seen, last = self.seen, self.seen.last
        rows = CounterMetricFamily("thalweg_rows", "Rows read", labels=["stream"])
        lag = GaugeMetricFamily(
            "thalweg_event_time_lag_seconds", "From the greatest time of a stream to now", labels=["stream"]
        )
        back = GaugeMetricFamily(
            "thalweg_holds_back_seconds",
            "How far a stream keeps event time behind the one that has come furthest",
            labels=["stream"],
        )
        late = CounterMetricFamily("thalweg_late_rows", "Rows that take no part", labels=["stream", "reason"])
        holding = trouble.holds_back(seen)
        for stream in seen.streams:
            rows.add_metric([stream], last.read.get(stream, 0))
            if stream in last.newest:
                lag.add_metric([stream], self.now - last.newest[stream] / 1e6)
            back.add_metric([stream], holding.get(stream, 0.0))
            for reason, n in {"late": 0, **last.late.get(stream, {})}.items():
                late.add_metric([stream, reason], n)
        results = CounterMetricFamily("thalweg_results", "Results written", labels=["query"])
        for query in last.results if seen.plan is None else [q.query for q in seen.plan.queries]:
            results.add_metric([query], last.results.get(query, 0))
        yield from (rows, results, late, lag, back)

    def _links(self) -> Iterator[Metric]:
        last = self.seen.last
        whats = ("tuples", "payload_bytes", "bytes")
        told = ("Tuples and keys", "Payload: the tuples' and keys' own bytes", "All bytes")
        families = [
            CounterMetricFamily(
                f"thalweg_link_{what}", f"{text} sent between two sites", labels=["from", "to"]
            )
            for what, text in zip(whats, told, strict=True)
        ]
        delay = GaugeMetricFamily(
            "thalweg_link_delay_seconds", "From sending to the batch that reads it", labels=["from", "to"]
        )
        capacity = GaugeMetricFamily(
            "thalweg_link_capacity_bytes_per_second", "What the path can carry", labels=["from", "to"]
        )
        for way, counts in last.sent.items():
            ends = way.split("-", 1)
            for family, n in zip(families, counts, strict=True):
                family.add_metric(ends, n)
            if way in last.delays:
                delay.add_metric(ends, last.delays[way])
            if (most := link_capacity(self.seen, *ends)[1]) is not None:
                capacity.add_metric(ends, most)
        yield from (*families, delay, capacity)
        yield _counter(
            "thalweg_central_payload_bytes",
            "Payload of shipping every stream whole to one site",
            last.central,
        )

    def _operators(self) -> Iterator[Metric]:
        labels = ["operator", "kind", "site"]
        came = CounterMetricFamily("thalweg_operator_tuples_in", "Tuples that came in", labels=labels)
        went = CounterMetricFamily("thalweg_operator_tuples_out", "Tuples that went out", labels=labels)
        held = [
            GaugeMetricFamily(f"thalweg_operator_{what}", text, labels=labels)
            for what, text in (
                ("window_rows", "Tuples that the operator holds"),
                ("state_bytes", "Memory that its state takes"),
                ("spilled_bytes", "Bytes of its windows on disk"),
            )
        ]
        behind = GaugeMetricFamily(
            "thalweg_operator_lag_seconds",
            "From the event time it has reached to now",
            labels=labels,
        )
        for one in self.seen.operators.running:
            own, work = [one.name, one.kind, one.site], self.seen.last.work.get(one.name)
            if work is None:
                continue
            came.add_metric(own, work[0])
            went.add_metric(own, work[1])
            for family, n in zip(held, work[2:5], strict=True):
                family.add_metric(own, n)
            if work[5] is not None:
                behind.add_metric(own, self.now - work[5] / 1e6)
        yield from (came, went, *held, behind)


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(name, text, value=value)


def _counter(name: str, text: str, value: float) -> Metric:
    return CounterMetricFamily(name, text, value=value)


def _histogram(name: str, text: str, histogram: Histogram) -> Metric:
    sums = itertools.accumulate(histogram.counts)
    names = [*(f"{s:g}" for s in SECONDS), "+Inf"]
    return HistogramMetricFamily(
        name, text, buckets=list(zip(names, sums, strict=True)), sum_value=histogram.sum
    )
