"""Makes `scans.csv`: the scans of parcels at a harbour, in a hub and in a town, for one morning."""

from __future__ import annotations

import csv
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path

PARCELS = 600
INLAND, TO_TOWN = 0.3, 0.4
"""The share of the parcels that goes from the harbour to the hub, and of those from there to the town."""
BEGIN = datetime(2026, 5, 4, 8, tzinfo=UTC)
COLUMNS = ("time", "site", "parcel", "place", "grams")


def scans(seed: int = 1) -> list[tuple[str, str, str, str, int]]:
    """All scans by time: a parcel's at the harbour, then perhaps in the hub, then perhaps in the town."""
    chance = random.Random(seed)
    found = []
    for number in range(PARCELS):
        parcel, grams = f"P{100_000 + 7 * number}", 50 * chance.randint(2, 400)
        at = BEGIN + timedelta(seconds=6 * number + chance.random() * 5)
        found.append((at, "harbour", parcel, f"berth {chance.randint(1, 4)}", grams))
        if chance.random() > INLAND:
            continue
        at += timedelta(minutes=chance.uniform(4, 15))
        found.append((at, "hub", parcel, f"belt {chance.randint(1, 9)}", grams))
        if chance.random() > TO_TOWN:
            continue
        at += timedelta(minutes=chance.uniform(8, 25))
        found.append((at, "town", parcel, f"van {chance.randint(1, 3)}", grams))
    found.sort()
    return [(f"{at:%Y-%m-%dT%H:%M:%S.%f}"[:-3] + "Z", *rest) for at, *rest in found]


def main(path: Path = Path("scans.csv")) -> None:
    """Writes the file."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows(scans())


if __name__ == "__main__":
    main()
