"""Tables, files and figures of a benchmark."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.table import Table

from thalweg.bench.data import Workload
from thalweg.bench.join import BUSY, Comparison, Run
from thalweg.bench.side import KERNEL, THALWEG

LABELS = {
    THALWEG: "Thalweg",
    "spark-memory": "Spark's cascade, in-memory store",
    "spark-rocksdb-2": "Spark's cascade, RocksDB, state format 2",
    "spark-rocksdb-4": "Spark's cascade, RocksDB, state format 4",
    KERNEL: "Thalweg's kernel alone, no Spark",
    "flink-interval": "Flink, interval joins",
    "flink-multijoin": "Flink, MultiJoin operator",
    "duckdb": "DuckDB, once, over static tables",
}
COLUMNS = ("how", "rows", "seconds", "rows/s", "to best Spark", "peak memory, MB")


def describe(spec: Workload) -> str:
    """One line that describes the workload."""
    shape = "a.x = b.x and b.y = c.y" if spec.two_attributes else "one key"
    hot = f", one of them in {spec.hot_fraction:.0%} of all tuples" if spec.hot_fraction else ""
    return (
        f"{spec.streams} streams of {spec.batches * spec.batch_tuples:,} tuples, {shape},"
        f" windows of {spec.window_us / 1e6:g} s, {spec.keys:,} keys{hot},"
        f" {spec.batch_tuples * spec.streams:,} rows a micro-batch"
    )


def rows_of(runs: Sequence[Run], best_spark: Run | None) -> list[tuple[str, ...]]:
    """The cells of the table."""
    return [
        (
            LABELS.get(run.name, run.name),
            f"{run.rows:,}",
            f"{run.seconds:,.2f}",
            f"{run.rows_per_s:,.0f}",
            f"{run.rows_per_s / best_spark.rows_per_s:.2f}" if best_spark else "",
            f"{run.peak_rss_mb:,.0f}" if run.peak_rss_mb else "",
        )
        for run in runs
    ]


def terminal_table(comparison: Comparison) -> Table:
    """The comparison for a terminal."""
    table = Table(*COLUMNS, title=describe(comparison.workload), caption=_verdict(comparison))
    for column in table.columns[1:]:
        column.justify = "right"
    for row in rows_of(comparison.runs, comparison.best_spark):
        table.add_row(*row)
    return table


def markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A markdown table: the first column to the left, numbers to the right.

    >>> print(markdown(["how", "rows"], [["x", "1"]]))
    | how | rows |
    | --- | ---: |
    | x | 1 |
    """
    rule = ["---", *("---:" for _ in header[1:])]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (header, rule, *rows))


def write(comparison: Comparison, out: Path) -> list[Path]:
    """Write the table, the figures and the plot below `out`."""
    name = comparison.workload.name
    rows = rows_of(comparison.runs, comparison.best_spark)
    text = f"{describe(comparison.workload)}.\n\n{markdown(COLUMNS, rows)}\n\n{_verdict(comparison)}\n"
    return write_files(
        out,
        name,
        text=text,
        figures=comparison.to_json(),
        runs=comparison.runs,
        title=describe(comparison.workload),
    )


def write_files(
    out: Path, name: str, *, text: str, figures: dict[str, Any], runs: Sequence[Run], title: str
) -> list[Path]:
    """Write NAME.md, NAME.json, NAME.csv and NAME.png."""
    out.mkdir(parents=True, exist_ok=True)
    paths = [out / f"{name}.{kind}" for kind in ("md", "json", "csv", "png")]
    paths[0].write_text(text)
    paths[1].write_text(json.dumps(figures, indent=2) + "\n")
    with paths[2].open("w", newline="") as file:
        writer = csv.DictWriter(file, ["name", "rows", "seconds", "rows_per_s", "peak_rss_mb"])
        writer.writeheader()
        writer.writerows(run.to_json() for run in runs)
    plot(runs, title, paths[3])
    return paths


def plot(runs: Sequence[Run], title: str, path: Path) -> None:
    """Rows a second of every side, as bars."""
    from matplotlib.figure import Figure

    ordered = sorted(runs, key=lambda run: run.rows_per_s)
    figure = Figure(figsize=(9, 1.2 + 0.45 * len(ordered)), layout="constrained")
    axes = figure.subplots()
    own = ("#1b6ca8", "#9aa5b1")
    colors = [own[0] if run.name in (THALWEG, KERNEL) else own[1] for run in ordered]
    bars = axes.barh(
        [LABELS.get(r.name, r.name) for r in ordered], [r.rows_per_s for r in ordered], color=colors
    )
    axes.bar_label(bars, labels=[f"{run.rows_per_s:,.0f}" for run in ordered], padding=4)
    axes.set_xscale("log")
    axes.set_xlabel("rows a second (log scale)")
    axes.margins(x=0.15)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_title(title, fontsize=8, loc="left")
    figure.savefig(path, dpi=120)


def _verdict(comparison: Comparison) -> str:
    parts = []
    if comparison.results is not None:
        several = sum(bool(run.batches) for run in comparison.runs) > 1
        who = "All sides that ran on Spark gave the same" if several else "It gave"
        parts.append(f"{who} {comparison.results:,} results, as many as DuckDB.")
    if comparison.ratio_to_best_spark is not None:
        parts.append(f"Thalweg: {comparison.ratio_to_best_spark} times the best of Spark's cascade.")
    if comparison.unfinished:
        parts.append(f"Stopped at the time limit: {', '.join(comparison.unfinished)}.")
    if comparison.busy > BUSY:
        parts.append(f"Other work used {comparison.busy:.1f} cores: these figures are too low.")
    return " ".join(parts)
