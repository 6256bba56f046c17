"""Whether a deployment computes its query: each result once, from operators that fit together.

Each operator's output stands for the join of some streams: all of it, the part of some key spaces, or the
results that one head completes. Splits narrow that, joins take what all inputs have in common, and what
arrives at the sinks must add up to the whole query. Whether an output that is reused has all tuples of this
query, and the filters after it leave no others, is not checked.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from graphlib import TopologicalSorter

from thalweg.plan import operators as ops
from thalweg.plan.deployment import Deployment
from thalweg.plan.one_way import PIECES
from thalweg.plan.selectors import Region, regions
from thalweg.query.classes import classes, equated
from thalweg.query.model import Query

WIDEST = 1e15
"""The most bytes of one tuple."""


@dataclass(frozen=True)
class Output:
    """The join of some streams; `parts` has the key spaces of which it is a part, by number.

    With a `head`, only the results that a tuple of this stream completes.
    """

    aliases: frozenset[str]
    parts: Mapping[int, Region] = field(default_factory=dict)
    head: str | None = None


def check_deployments(planned: Sequence[tuple[Query, Deployment]]) -> None:
    """Raises a ValueError that says why some deployments don't compute their queries."""
    known: dict[str, _Reader] = {}
    for query, deployment in planned:
        known[query.name] = _Reader(query, deployment, known)
        known[query.name].read()


class _Reader:
    """Finds out what the operators of one deployment stand for."""

    def __init__(self, query: Query, deployment: Deployment, before: Mapping[str, _Reader]) -> None:
        self.query, self.deployment, self.before = query, deployment, before
        self.outputs: dict[str, Output] = {}
        self.helpers: set[str] = set()  # those that belong to a step
        self.key_space = {  # of each key, by its stream and its text
            (alias, e.sql): c
            for c, by_alias in enumerate(classes(query.equalities))
            for alias, exprs in by_alias.items()
            for e in exprs
        }
        self.filters = self._filters()

    def read(self) -> None:
        self._check_numbers()
        self.regions, self.whole = self._cut()
        order = TopologicalSorter({o.id: o.inputs for o in self.deployment.operators}).static_order()
        operators = [self.deployment.operator(id_) for id_ in order]
        for operator in operators:
            found = self._output(operator)
            if found is not None:
                self.outputs[operator.id] = found
        for operator in operators:
            if isinstance(operator, ops.Helper | ops.Keys) and operator.id not in self.helpers:
                raise ValueError(f"operator {operator.id} is not part of any step")
        self._check_results([o for o in operators if isinstance(o, ops.Sink)])

    def _filters(self) -> set[str]:
        """Every filter that a reused output can need."""
        own = {f.sql for i in self.query.inputs for f in i.filters}
        return own | {c.sql for c in self.query.conditions}

    def _check_numbers(self) -> None:
        for edge in self.deployment.edges:
            if isinstance(self.deployment.operator(edge.target), ops.Widen):
                continue
            if edge.tuples_per_s and edge.bytes_per_s / edge.tuples_per_s > WIDEST:
                raise ValueError(f"edge {edge.source} -> {edge.target}: its tuples are too wide")

    def _cut(self) -> tuple[dict[str, Region], dict[int, Region]]:
        """What each split selects of its key space, and the whole of each key space."""
        splits: dict[int, dict[tuple[str, str], list[ops.Split]]] = {}
        for operator in self.deployment.operators:
            if isinstance(operator, ops.Split):
                (source,) = operator.inputs
                if isinstance(self.deployment.operator(source), ops.Split):
                    raise ValueError(f"operator {operator.id} splits {source}, which is a part already")
                space = self._space(operator)
                splits.setdefault(space, {}).setdefault((source, operator.key), []).append(operator)
        found: dict[str, Region] = {}
        wholes: dict[int, Region] = {}
        for space, by_source in splits.items():
            groups = list(by_source.values())
            cut, wholes[space] = regions([[o.selector for o in group] for group in groups])
            for group, own in zip(groups, cut, strict=True):
                if _together(own, f"the parts of {group[0].inputs[0]}") != wholes[space]:
                    raise ValueError(f"the parts of {group[0].inputs[0]} leave a gap in the key space")
                found |= {o.id: region for o, region in zip(group, own, strict=True)}
        return found, wholes

    def _space(self, operator: ops.Split) -> int:
        found = {c for (_, key), c in self.key_space.items() if key == operator.key}
        if len(found) != 1:
            raise ValueError(f"operator {operator.id}: {operator.key!r} is not a key of the query")
        return found.pop()

    def _output(self, operator: ops.Operator) -> Output | None:
        match operator:
            case ops.Source():
                return Output(frozenset([operator.id]))
            case ops.Reuse():
                return self._reuse(operator)
            case ops.Filter():
                return self._filter(operator)
            case ops.Split():
                return self._split(operator)
            case ops.Join():
                return self._join(operator)
            case ops.Outer():
                return self._outer(operator)
            case ops.Step():
                return self._step(operator)
            case ops.Widen():
                for i in operator.inputs:
                    if not isinstance(self.deployment.operator(i), ops.Widen):
                        raise ValueError(f"operator {operator.id} can't read {i}")
        return None

    def _read(self, operator: ops.Operator, input_: str) -> Output:
        """What an operator reads as tuples."""
        if input_ not in self.outputs:
            raise ValueError(f"operator {operator.id} reads {input_}, which gives no tuples")
        return self.outputs[input_]

    def _reuse(self, operator: ops.Reuse) -> Output:
        for i in operator.inputs:
            if not isinstance(self.deployment.operator(i), ops.Widen):
                raise ValueError(f"operator {operator.id} can't read {i}")
        theirs = self.before[operator.query].outputs.get(operator.operator)
        if theirs is None or theirs.parts or theirs.head is not None:
            raise ValueError(f"operator {operator.id} refers to {operator.operator}, which is no whole join")
        other = self.before[operator.query].query
        streams = sorted(self.query.input(a).stream for a in set(operator.streams))
        if streams != sorted(other.input(a).stream for a in theirs.aliases):
            raise ValueError(f"operator {operator.id} refers to {operator.operator}, which has other streams")
        for label in (*operator.columns_added, *operator.filters_widened):
            stream, _, number = label.partition("#")
            if (number or "1") not in map(str, range(1, streams.count(stream) + 1)):
                raise ValueError(f"operator {operator.id} changes {label}, which is no stream of it")
        return Output(frozenset(operator.streams))

    def _filter(self, operator: ops.Filter) -> Output:
        found = self._read(operator, operator.inputs[0])
        for text in operator.filters:
            sides = equated(text, {key for _, key in self.key_space}) or ("", "")
            spaces = [{c for (_, key), c in self.key_space.items() if key == side} for side in sides]
            if text not in self.filters and not spaces[0] & spaces[1]:
                raise ValueError(f"operator {operator.id}: {text!r} is not a condition of the query")
        for alias, text in operator.windows.items():
            window = self.query.input(alias).window
            if text != str(window):
                raise ValueError(f"operator {operator.id}: {text!r} is not the window of {alias}")
        return found

    def _split(self, operator: ops.Split) -> Output:
        whole = self._read(operator, operator.inputs[0])
        if not any((alias, operator.key) in self.key_space for alias in whole.aliases):
            raise ValueError(f"operator {operator.id} reads no stream with the key {operator.key}")
        part = Output(whole.aliases, {self._space(operator): self.regions[operator.id]})
        return self._common(operator, [whole, part])

    def _join(self, operator: ops.Join) -> Output:
        inputs: dict[frozenset[str], list[Output]] = {}
        for i in operator.inputs:
            found = self._read(operator, i)
            if found.head is not None:
                raise ValueError(f"operator {operator.id} reads {i}, which has the results of one head only")
            inputs.setdefault(found.aliases, []).append(found)
        aliases = _disjoint(operator, inputs)
        if len(inputs) < 2 or aliases != set(operator.streams):
            raise ValueError(f"operator {operator.id} does not join {', '.join(operator.streams)}")
        what = f"the inputs of {operator.id}"
        return self._common(operator, [self._united(parts, what) for parts in inputs.values()])

    def _outer(self, operator: ops.Outer) -> Output:
        """It takes whole results of all streams before it: partners are looked for among all of them."""
        number = next((n for n, o in enumerate(self.query.outer) if o.alias == operator.stream), None)
        if number is None or self.query.outer[number].kind != operator.join:
            raise ValueError(f"operator {operator.id} is no outer join of the query")
        before = self.query.outer[:number]
        wanted = {*self.query.inner, *(o.alias for o in before if o.brings)}
        *inputs, last = operator.inputs
        if self._read(operator, last) != Output(frozenset([operator.stream])):
            raise ValueError(f"operator {operator.id} reads {last}, which is not {operator.stream}")
        self._check_whole(operator, inputs, wanted)
        own = {operator.stream} if self.query.outer[number].brings else set()
        return Output(frozenset(wanted | own))

    def _step(self, operator: ops.Step) -> Output:
        bound: dict[str, str] = {}
        self._bind(operator, operator, bound)
        current, stream = (self._read(operator, bound[name]) for name in ("current", "source"))
        if stream.aliases != {operator.stream} or stream.head is not None:
            raise ValueError(
                f"operator {operator.id} reads {bound['source']}, which is not {operator.stream}"
            )
        begins = current.aliases == {operator.head} and current.head is None
        if not begins and current.head != operator.head:
            raise ValueError(
                f"operator {operator.id} reads {bound['current']}, not what {operator.head} heads"
            )
        aliases = _disjoint(operator, [current.aliases, stream.aliases])
        if aliases != set(operator.streams):
            raise ValueError(f"operator {operator.id} does not join {', '.join(operator.streams)}")
        return self._common(operator, [current, stream], operator.head)

    def _bind(self, step: ops.Step, operator: ops.Operator, bound: dict[str, str]) -> None:
        """Follows the operators of a step's method down to its current stream and the stream it meets."""
        piece = next(p for p in PIECES[step.method] if p.kind == operator.kind)
        for name, input_ in zip(piece.reads, operator.inputs, strict=True):
            if bound.setdefault(name, input_) != input_:
                raise ValueError(f"operator {operator.id} reads {input_} where {step.id} reads {bound[name]}")
            if name in ("keys", "match", "reduce"):
                self._check_helper(step, self.deployment.operator(input_), name)
                self.helpers.add(input_)
                self._bind(step, self.deployment.operator(input_), bound)

    def _check_helper(self, step: ops.Step, helper: ops.Operator, kind: str) -> None:
        if isinstance(helper, ops.Keys):
            fits = helper.streams == (step.stream,) and helper.bloom == step.method.startswith("SB")
        else:
            one_way = (step.head, step.stream, step.method)
            fits = isinstance(helper, ops.Helper) and (helper.head, helper.stream, helper.method) == one_way
        if not fits or helper.kind != kind:
            raise ValueError(f"operator {step.id} needs a {kind} of its own, not {helper.id}")

    def _common(self, operator: ops.Operator, inputs: Sequence[Output], head: str | None = None) -> Output:
        """The join of some outputs: the parts of key spaces that all have."""
        parts: dict[int, Region] = {}
        for one in inputs:
            for space, region in one.parts.items():
                parts[space] = parts.get(space, region) & region
                if not parts[space]:
                    raise ValueError(f"operator {operator.id} joins parts that have no key in common")
        left = {c: r for c, r in parts.items() if r != self.whole[c]}
        return Output(frozenset().union(*(one.aliases for one in inputs)), left, head)

    def _united(self, parts: Sequence[Output], what: str) -> Output:
        """Several outputs of the same streams as one; they must not overlap."""
        boxes = [{c: p.parts.get(c, self.whole[c]) for c in self.whole} for p in parts]
        before = 0
        while len(boxes) != before:
            before = len(boxes)
            for space in self.whole:
                alike: dict[tuple[Region, ...], list[dict[int, Region]]] = {}
                for box in boxes:
                    alike.setdefault(tuple(r for c, r in box.items() if c != space), []).append(box)
                boxes = [
                    {**same[0], space: _together([b[space] for b in same], what)} for same in alike.values()
                ]
        if len(boxes) > 1:
            raise ValueError(f"{what} are not parts of one whole")
        left = {c: r for c, r in boxes[0].items() if r != self.whole[c]} if boxes else {}
        return Output(parts[0].aliases, left, parts[0].head)

    def _check_results(self, sinks: Sequence[ops.Sink]) -> None:
        if not sinks:
            raise ValueError("the results end nowhere")
        if self.query.groups is not None and len(sinks) > 1:
            raise ValueError("the results end at several sites, but those of groups must end at one")
        absent = {one.alias for one in self.query.outer if not one.brings}
        wanted = set(self.query.aliases) - absent
        self._check_whole(sinks[0], [i for sink in sinks for i in sink.inputs], wanted)

    def _check_whole(self, reader: ops.Operator, inputs: Sequence[str], aliases: set[str]) -> None:
        """Whether some outputs are, together, all results of the join of some streams."""
        by_head: dict[str | None, list[Output]] = {}
        for i in inputs:
            found = self._read(reader, i)
            if found.aliases != aliases:
                raise ValueError(f"operator {reader.id} reads {i}, which lacks streams of the query")
            by_head.setdefault(found.head, []).append(found)
        if set(by_head) not in ({None}, aliases):
            raise ValueError("the results are not those of all heads, each once")
        for head, parts in by_head.items():
            what = "the results" if head is None else f"the results of head {head}"
            if self._united(parts, what).parts:
                raise ValueError(f"{what} leave a gap in the key space")


def _together(regions_: Iterable[Region], what: str) -> Region:
    found: set[object] = set()
    for region in regions_:
        if not found.isdisjoint(region):
            raise ValueError(f"{what} overlap in the key space")
        found |= region
    return frozenset(found)


def _disjoint(operator: ops.Operator, sets: Iterable[frozenset[str]]) -> frozenset[str]:
    found: set[str] = set()
    for aliases in sets:
        if not found.isdisjoint(aliases):
            raise ValueError(f"operator {operator.id} reads {min(found & aliases)} twice")
        found |= aliases
    return frozenset(found)
