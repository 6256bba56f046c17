"""`make fuzz MINUTES=N`: looks for input that makes a target fail, guided by coverage.

What it finds goes to tests/fuzz/corpus/TARGET/, where `make test` runs it. What only gives new coverage stays
in .fuzz/TARGET/ for the next time.

    python -m tests.fuzz.fuzz MINUTES            all targets, two at a time
    python -m tests.fuzz.fuzz --target TARGET    one, until libFuzzer's own options end it
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
CORPUS, COVERED = HERE / "corpus", HERE.parents[1] / ".fuzz"
STRUCTURED = ("plan", "program")
"""Targets of JSON: mutated as documents, for nearly all changes of bytes are refused by the JSON reader."""

ODD = (None, True, -1, 0, 1, 2**63, 1e308, float("nan"), "", "x", "n1", "join", [], {}, "\0", "a.k")


def mutated(value: Any, rng: random.Random) -> Any:
    """A document with one thing changed, doubled, moved or taken away."""
    if isinstance(value, dict | list) and value and rng.random() < 0.9:
        keys = list(value) if isinstance(value, dict) else list(range(len(value)))
        key, other = rng.choice(keys), rng.choice(keys)
        made = dict(value) if isinstance(value, dict) else list(value)
        act = rng.random()
        if act < 0.75:
            made[key] = mutated(made[key], rng)
        elif act < 0.85:
            made[key] = made[other]
        elif act < 0.93 and isinstance(made, list):
            made.insert(key, made[other])
        else:
            del made[key]
        return made
    return rng.choice(ODD)


def mutate(data: bytes, size: int, seed: int) -> bytes:
    import atheris

    rng = random.Random(seed)
    try:
        made = json.loads(data)
        for _ in range(rng.randint(1, 3)):
            made = mutated(made, rng)
        return json.dumps(made).encode()[:size]
    except (ValueError, RecursionError):
        return atheris.Mutate(data, size)


def fuzz(target: str, arguments: list[str]) -> None:
    import atheris

    with atheris.instrument_imports(include=["thalweg", "sqlglot"]):
        from tests.fuzz import targets
    folder = COVERED / target
    folder.mkdir(parents=True, exist_ok=True)
    for n, seed in enumerate(targets.seeds()[target]):
        (folder / f"seed-{n}").write_bytes(seed)
    more = {"custom_mutator": mutate} if target in STRUCTURED else {}
    found = CORPUS / target
    found.mkdir(parents=True, exist_ok=True)
    options = [f"-artifact_prefix={found}/", "-timeout=20", "-rss_limit_mb=3000", "-max_len=20000"]
    options += ["-print_final_stats=1", *arguments, str(folder), str(found)]
    atheris.Setup([sys.argv[0], *options], lambda data: targets.check(target, data), **more)
    atheris.Fuzz()


def fuzz_all(minutes: float) -> int:
    """All targets for so long together; the number of those in which something was found."""
    from tests.fuzz.targets import TARGETS

    seconds = round(minutes * 60 * 2 / len(TARGETS))

    def one(target: str) -> bool:
        command = [sys.executable, "-m", "tests.fuzz.fuzz", "--target", target, f"-max_total_time={seconds}"]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=HERE.parents[1])
        lines = done.stderr.splitlines()
        runs = next((line.split()[-1] for line in lines if "number_of_executed_units" in line), "?")
        found = "a fault" if done.returncode else "nothing"
        print(f"{target}: {runs} inputs in {seconds} s, {found} found")
        if done.returncode:
            print("\n".join(lines[-60:]))
        return done.returncode != 0

    with ThreadPoolExecutor(2) as pool:
        return sum(pool.map(one, TARGETS))


if __name__ == "__main__":
    if sys.argv[1] == "--target":
        fuzz(sys.argv[2], sys.argv[3:])
    else:
        sys.exit(min(1, fuzz_all(float(sys.argv[1]))))
