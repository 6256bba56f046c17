"""What the fuzzer has found before, and a little more of the same without it."""

from __future__ import annotations

import json
import random

import pytest

from tests.fuzz.fuzz import CORPUS, STRUCTURED, mutated
from tests.fuzz.targets import TARGETS, check, seeds

FOUND = sorted(p for p in CORPUS.glob("*/*") if p.is_file())


@pytest.mark.parametrize("path", FOUND, ids=lambda p: f"{p.parent.name}/{p.name[:24]}")
def test_what_was_found(path):
    check(path.parent.name, path.read_bytes())


@pytest.mark.parametrize("target", TARGETS)
def test_good_input_is_taken(target):
    for seed in seeds()[target]:
        TARGETS[target](seed)


@pytest.mark.parametrize("target", TARGETS)
def test_changed_input_is_taken_or_refused(target):
    rng = random.Random(1)
    for seed in seeds()[target]:
        for _ in range(60):
            if target in STRUCTURED:
                check(target, json.dumps(mutated(json.loads(seed), rng)).encode())
                continue
            changed = bytearray(seed)
            for _ in range(rng.randint(1, 4)):
                at = rng.randrange(len(changed))
                if rng.random() < 0.5:
                    changed[at] = rng.choice((0, 255, changed[at] ^ 1, rng.randrange(256), ord("'")))
                else:
                    del changed[at : at + rng.randint(1, 8)]
                if not changed:
                    break
            check(target, bytes(changed))
