"""From records to files: every table and figure of the paper, and the report around them."""

from __future__ import annotations

import html
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

from scipy import sparse

from leporid.artifacts import atomic_path, read_json, write_json
from leporid.errors import DataError
from leporid.paper import figures
from leporid.paper.render import FORMATS, render
from leporid.paper.report import (
    figure_html,
    rows_html,
    table_section,
    training_section,
    write_report,
)
from leporid.paper.reproduce import QUICK_NOTE, QUICK_SUFFIX, TABLE_GROUPS
from leporid.paper.simulations import simulate_embedding_change, simulate_le_dimensions
from leporid.paper.tables import (
    NOT_FETCHED,
    TAIL,
    PaperTable,
    build_table,
    paper_dataset,
    paper_rows,
)
from leporid.paper.time_cost import measure_time_cost
from leporid.runs import Results, RunRecord, initialisation_gains

Section = tuple[str, str]
"""A heading and its HTML."""
_READ_TOO = {"table4": ("models", "softmax")}
"""Runs the paper does not have, shown below its rows."""
_TABLE4_ALSO = {("bpr", "random"), ("dlr2", "le")}
"""What Table 4 shows beside classical models and LEPORID starts."""
_SENSITIVITY = {
    "alpha": ("Figure 4b: sensitivity to alpha", "alpha", "alpha"),
    "neighbours": ("Figure 4c: sensitivity to K", "k", "K"),
}
"""The title, the setting of LEPORID and its label."""


def paper_table(name: str, dataset: str, root: str | Path, suffix: str = "") -> PaperTable:
    """A table from whatever records exist; rows that were not run show a dash."""
    groups = [f"{group}{suffix}" for group in (*TABLE_GROUPS[name], *_READ_TOO.get(name, ()))]
    records = Results(root).records(dataset, groups)
    if name == "table4":
        keep = {None, "leporid"}
        records = [r for r in records if r.init in keep or (r.model, r.init) in _TABLE4_ALSO]
    elif name == TAIL:
        records = [r for r in records if r.model == "dlr2"]
    table = build_table(name, records, dataset)
    quick = (QUICK_NOTE,) if suffix == QUICK_SUFFIX else ()
    return replace(table, notes=(*quick, *table.notes))


def write_outputs(
    names: Sequence[str],
    dataset: str,
    root: str | Path,
    out: str | Path,
    *,
    suffix: str = "",
    stats: dict[str, dict[str, Any]] | None = None,
    users: sparse.csr_array | None = None,
    skip_missing: bool = False,
    progress: bool = False,
) -> Path:
    """Write the named tables and figures (Markdown, CSV, LaTeX, PNG) and one HTML report.

    `stats` are those of the data, `users` is the training matrix the time cost is measured on;
    without them, what the folder of records holds of both is shown.
    A table without a single record is an error, or with `skip_missing` holds the paper's values,
    "not run yet" beside them, and the command that runs it. (`authors`, which is none of the
    paper's, is only named then.)
    """
    out = Path(out)
    sections: list[Section] = []
    used: dict[str, RunRecord] = {}
    for name in names:
        if name == "table2":
            sections.append(_data_sets(stats or _kept(root, dataset, "statistics.json"), out))
        elif name == "timecost":
            kept = _kept(root, dataset, "time-cost.json") if users is None else None
            if rows := kept or (users is not None and measure_time_cost(users)):
                sections.append(_time_cost(rows, out))
        elif name in ("figure1", "figure2"):
            sections.append(_simulated(name, out, progress))
        elif name in ("alpha", "neighbours"):
            if records := Results(root).records(dataset, [f"{name}{suffix}"]):
                sections.append(_sensitivity(name, dataset, records, out))
            elif skip_missing:
                sections.append((_SENSITIVITY[name][0], _not_run(name, dataset)))
        elif name == "figure4a":
            sections.append(_architectures(paper_table("table7", dataset, root, suffix), out))
        else:
            table = paper_table(name, dataset, root, suffix)
            sections.append(_table(table, root, out, skip_missing))
            used |= {r.spec_hash: r for row in table.rows for r in row.records}
    gains = initialisation_gains(list(used.values()), root)
    if gains:
        heading = "HR@10 from LEPORID and from random vectors, 95% interval over users and seeds"
        sections.append(("What the start is worth", rows_html(gains, heading)))
    if trained := [record for record in used.values() if record.extra.get("training")]:
        sections.append(("Training", training_section(trained)))
    summary = _summary(dataset, list(used.values()), gains)
    return write_report(out / "report.html", f"leporid on {dataset}", sections, summary)


def _summary(dataset: str, records: Sequence[RunRecord], gains: list[dict[str, Any]]) -> str:
    """How much was run, what was best, and what the start was worth."""
    if not records:
        return f"These tables and figures need no run on {dataset}, or none is on record yet."
    by_name = defaultdict(list)
    for record in records:
        name = f"{record.model} ({record.recipe})" if record.recipe else record.model
        by_name[f"{name} from {record.init} vectors" if record.init else name].append(record)
    means = {name: fmean(run.metrics["HR@10"] for run in runs) for name, runs in by_name.items()}
    best = max(means, key=lambda name: means[name])
    lines = [
        f"{len(records)} runs of {len({record.model for record in records})} models on {dataset}. "
        f"The best HR@10 is {means[best]:.4f}, of {best}, mean over seeds."
    ]
    if gains:
        better = sum(row["low"] > 0 for row in gains)
        lines.append(
            f"{better} of {len(gains)} models run from both starts are better from LEPORID than "
            f"from random vectors by more than the 95% interval; the mean gain of HR@10 is "
            f"{fmean(row['gain'] for row in gains):+.4f}."
        )
    return "\n".join(lines)


def _table(table: PaperTable, root: str | Path, out: Path, skip_missing: bool) -> Section:
    empty = _not_run(table.name, table.dataset)
    is_run = any(row.records for row in table.rows)
    if not is_run and table.name == "authors" and skip_missing:
        return table.title, empty
    if not is_run and not skip_missing:
        raise DataError(
            f"no records for {table.name} on {table.dataset} under {root}: run it first with "
            f"`leporid reproduce {table.name} --dataset {table.dataset}`"
        )
    for form, ending in FORMATS.items():
        with atomic_path(out / f"{table.name}.{ending}") as target:
            target.write_text(render(table, form), encoding="utf-8")
    return table.title, table_section(table, root) if table.rows else empty


def _data_sets(stats: dict[str, dict[str, Any]], out: Path) -> Section:
    """What our filter leaves of each data set beside what the paper prints, one row per figure."""
    if not any(paper_dataset(dataset) == "steam" for dataset in stats):
        (steam,) = paper_rows("table2", "steam")
        stats = {**stats, "steam": {f: NOT_FETCHED for f in steam if f != "dataset"}}
    rows = []
    for dataset, ours in stats.items():
        printed = next(iter(paper_rows("table2", dataset)), {})
        rows += [
            {"dataset": dataset, "figure": figure, "ours": value, "paper": printed.get(figure, "-")}
            for figure, value in ours.items()
        ]
    write_json(out / "table2.json", rows)
    return "Table 2: data sets", rows_html(rows, "After the core filter")


def _kept(root: str | Path, dataset: str, file: str) -> Any:
    """What was measured on the data where it is not here now; empty if nothing was."""
    path = Path(root) / dataset / file
    return read_json(path) if path.is_file() else {}


def _time_cost(rows: list[dict[str, Any]], out: Path) -> Section:
    write_json(out / "timecost.json", rows)
    note = "The paper: 172 seconds for 64 eigenvectors of the 47,143 users of Anime, by scipy eigs."
    return "Time cost", rows_html(rows, "Of the user graph") + f"<p class='note'>{note}</p>"


def _simulated(name: str, out: Path, progress: bool) -> Section:
    if name == "figure1":
        title = "Figure 1: the first dimensions of Laplacian Eigenmaps"
        figure = figures.draw_le_dimensions(simulate_le_dimensions())
        caption = "Positive values red, negative blue; later dimensions fluctuate more."
    else:
        title = "Figure 2: change of the embedding against degree"
        change = simulate_embedding_change(progress=progress)
        figure = figures.draw_embedding_change(change)
        caption = f"50 Barabasi-Albert graphs; Spearman correlation {change.spearman():.3f}."
        columns = {key: getattr(change, key).tolist() for key in ("degree", "change", "count")}
        write_json(out / "figure2.json", {**columns, "spearman": change.spearman()})
    _save(figure, out / f"{name}.png")
    return title, figure_html(figure, caption)


def _sensitivity(name: str, dataset: str, records: list[RunRecord], out: Path) -> Section:
    """A figure and a table of metrics against alpha or K, means over seeds."""
    title, setting, label = _SENSITIVITY[name]
    metrics = ["HR@10", "F1@10"]
    by_value = defaultdict(list)
    for record in records:
        by_value[record.extra["cell"]["init_settings"][setting]].append(record.metrics)
    points = [
        (value, {metric: sum(run[metric] for run in runs) / len(runs) for metric in metrics})
        for value, runs in sorted(by_value.items())
    ]
    figure = figures.draw_sensitivity(label, points, metrics)
    _save(figure, out / f"{name}.png")
    rows = [{label: value, **means} for value, means in points]
    text = figure_html(figure, f"DLR2 from LEPORID on {dataset}")
    return title, text + rows_html(rows, f"{label} on {dataset}")


def _architectures(table: PaperTable, out: Path) -> Section:
    """Table 7's HR@10 as bars, ours and the printed ones; the paper draws it for Anime alone."""
    title = "Figure 4a: architectures of the Feature Network"
    values = [(row.key[0], row.values["HR@10"]) for row in table.rows]
    bars = [
        (f"{name}, {whose}", number)
        for name, value in values
        for whose, number in (("here", value.ours), ("paper", value.paper))
        if number is not None
    ]
    if not any(value.ours is not None for _, value in values):
        return title, _not_run("figure4a", table.dataset)
    labels, numbers = zip(*bars, strict=True)
    name = f"HR@10 on {table.dataset}, mean over seeds"
    figure = figures.draw_bars(labels, numbers, [None] * len(bars), name)
    _save(figure, out / "figure4a.png")
    return title, figure_html(figure, f"DLR2 from LEPORID on {table.dataset}")


def _not_run(name: str, dataset: str) -> str:
    command = f"leporid reproduce {name} --dataset {html.escape(dataset)}"
    return f"<p class='note'>Not run yet: <code>{command}</code></p>"


def _save(figure: Any, path: Path) -> None:
    with atomic_path(path) as target:
        figure.savefig(target, format="png", dpi=130)
