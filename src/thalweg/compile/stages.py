"""Which operators are called together, and in which stage of a batch.

Operators of a site are called together. They hand tuples to each other directly as long as the key stays the
same; another key takes a shuffle, so its readers are in a later stage. The number of stages, and the stage at
which each stream enters, are fixed in the Spark query (the `Shape`). A plan that needs more stages sends the
rest through an exchange from the site to itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from thalweg.compile.graph import Feed, Op
from thalweg.compile.needs import Needs


class Place(NamedTuple):
    """Where operators are called together: by `key` in many buckets, or `whole` in one."""

    site: str
    kind: str
    stage: int

    @property
    def whole(self) -> bool:
        return self.kind == WHOLE


WHOLE, KEYED = "whole", "keyed"


@dataclass(frozen=True)
class Shape:
    """What of a program is fixed in the Spark query: its stages, and at which of them each stream enters."""

    stages: int
    entries: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Instance:
    """A source operator of a stream, for readers with one key in one place."""

    stream: str
    place: Place
    key: tuple[str, ...]


class Placement:
    """The place of every operator, and the source operators of every stream.

    With `keep`, each stream has one source operator that is the same in all plans. It ships the stream, and
    counts windows of rows. Where all queries read the stream by one key, it has that key, so that a join at
    the stream's own site needs no other.
    """

    def __init__(self, needs: Needs, buckets: int, shape: Shape | None, *, keep: bool = False) -> None:
        self.needs, self.buckets, self.shape, self.keep = needs, buckets, shape, keep
        self.places: dict[int, Place] = {}
        self.instances: dict[str, list[Instance]] = {}
        for op in needs.ops:
            if op.role != "source":
                self._place(op)
        for op in needs.ops:
            if op.role == "source":
                self._add_sources(op)

    @property
    def found(self) -> Shape:
        """The shape that this placement needs."""
        entries = {s: min(i.place.stage for i in found) for s, found in self.instances.items()}
        stages = [p.stage for p in self.places.values()]
        return Shape(max([*stages, *(i.place.stage for f in self.instances.values() for i in f)]), entries)

    def of(self, op: Op) -> Place:
        return self.places[id(op)]

    def primary(self, stream: str) -> Instance:
        """The source operator that reports on a stream, and ships it."""
        return self.instances[stream][0]

    def beside(self, feed: Feed) -> bool:
        """Whether what is read comes from an operator that is called together with the reader."""
        producer, reader = feed.view.op, feed.reader
        if feed.form not in ("tuples", "rows") or producer.site != reader.site:
            return False
        if producer.role == "source":
            counted = self.keep and self.needs.rows.get(producer.stream)
            return feed.form == "tuples" and (not counted or self._base(producer).place == self.of(reader))
        place, own = self.of(producer), self.of(reader)
        return place == own and (place.whole or self._same_key(feed))

    def staged(self, feed: Feed) -> bool:
        """Whether what is read comes from an earlier stage of the same batch."""
        producer, reader = feed.view.op, feed.reader
        if feed.form not in ("tuples", "rows") or producer.site != reader.site:
            return False
        place = self._base(producer).place if producer.role == "source" else self.of(producer)
        return place.stage < self.of(reader).stage

    def _place(self, op: Op) -> None:
        whole = op.buckets == 1 or self.buckets == 1 or self._reads_whole(op)
        if op.role == "sink" and (beside := self._beside_sink(op)) is not None:
            self.places[id(op)] = beside
            return
        stage = 1
        for feed in op.feeds:
            producer = feed.view.op
            if feed.form not in ("tuples", "rows") or producer.site != op.site:
                continue
            if producer.role == "source":
                stage = max(stage, self.shape.entries.get(producer.stream, 1) if self.shape else 1)
                continue
            place = self.of(producer)
            local = place.whole if whole else not place.whole and self._same_key(feed)
            after = place.stage if local else place.stage + 1
            if self.shape is None or after <= self.shape.stages:
                stage = max(stage, after)
        self.places[id(op)] = Place(op.site, WHOLE if whole else KEYED, stage)

    def _reads_whole(self, op: Op) -> bool:
        """Whether it reads, where it arises, a stream with a window of rows that is counted as a whole."""
        beside = (f for f in op.feeds if f.view.op.role == "source" and f.view.op.site == op.site)
        return any(f.form == "tuples" and self._counts_whole(f) for f in beside)

    def _counts_whole(self, feed: Feed) -> bool:
        """Whether a reader's windows of rows need all tuples of a stream together.

        Not if those with the same key are enough: all tuples that are counted together have one.
        """
        windows = self.needs.rows.get(feed.view.op.stream, ())
        key = {feed.view.field(k) for k in feed.key}
        return any(self.keep or not key or not key <= set(window.by) for window in windows)

    def _beside_sink(self, op: Op) -> Place | None:
        """A sink whose results all come from one place is called there.

        One that holds results lets all of a slide or a window go in one batch. So its buckets must have the
        same bound, or it has one bucket of its own.
        """
        places = {self.places.get(id(f.view.op)) for f in op.feeds}
        (place,) = places if len(places) == 1 else (None,)
        if place is None or place.site != op.site:
            return None
        assert op.query is not None
        holds = op.query.query.slide is not None
        uneven = not place.whole and any(self._uneven(f.view.op) for f in op.feeds)
        return None if holds and uneven else place

    def _uneven(self, op: Op) -> bool:
        """Whether the buckets of an operator announce different bounds: in each, other tuples wait.

        What comes from another place is as far as the last of its buckets, and so are streams.
        """
        if op.role in ("probe", "keys") or op.about.get("outer"):
            return True
        beside = (f.view.op for f in op.feeds if f.view.op.role != "source" and self.beside(f))
        return any(map(self._uneven, beside))

    def _same_key(self, feed: Feed) -> bool:
        """Whether a reader takes tuples by the key by which the operator that makes them has them."""
        producer, view = feed.view.op, feed.view
        if feed.form == "rows" or feed.reader.role == "sink":
            return True
        names, own = producer.query, producer.about.get("classes")
        if producer.role == "relay" or names is None or own is None or len(own) != len(feed.key):
            return False
        for c, name in zip(own, feed.key, strict=True):
            members = names.every[c]
            keys = {names.key(a, c) for a in producer.about["aliases"] if a in members}
            if view.field(name) not in keys:
                return False
        return bool(own)

    def _add_sources(self, op: Op) -> None:
        base = self._base(op)
        read = [
            f
            for reader in self.needs.ops
            for f in reader.feeds
            if f.view.op is op and reader.role != "source"
        ]
        # The places of tuples that are counted by key are not those that another reader could go by.
        elsewhere = self.needs.rows.get(op.stream) and any(
            f.form == "tuples" and not self.beside(f) for f in read
        )
        found: dict[Instance, None] = {base: None} if self.keep or elsewhere else {}
        for feed in read:
            if self.beside(feed):
                place = self.of(feed.reader)
                key = () if place.whole else tuple(feed.view.field(k) for k in feed.key)
                found[Instance(op.stream, place, key)] = None
        found = found or {base: None}
        self.instances[op.stream] = sorted(found, key=lambda i: i.place.stage)

    def _base(self, op: Op) -> Instance:
        """The source operator of a stream that needs no reader."""
        whole = self.needs.rows.get(op.stream) or self.buckets == 1
        stage = self.shape.entries.get(op.stream, 1) if self.shape else 1
        key = () if whole or not self.keep else self.needs.only_key(op.stream)
        return Instance(op.stream, Place(op.site, WHOLE if whole else KEYED, stage), key)
