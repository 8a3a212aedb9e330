"""From records to files: every table and figure of the paper, and the report around them."""

from __future__ import annotations

import html
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

from scipy import sparse

from leporid.errors import DataError
from leporid.foundation import atomic_path, fill_template, rows_html, write_json, write_report
from leporid.runs import RunRecord
from reproduction import figures
from reproduction.gains import initialisation_gains
from reproduction.render import FORMATS, render
from reproduction.report import table_section, training_section
from reproduction.simulations import simulate_embedding_change, simulate_le_dimensions
from reproduction.specs import TABLE_GROUPS, group_name
from reproduction.store import PackedResults
from reproduction.tables import (
    DATA_NAMES,
    DATA_SETS,
    NOT_FETCHED,
    TAIL,
    PaperTable,
    build_table,
    command,
    measurements,
    paper_dataset,
    paper_rows,
)
from reproduction.time_cost import measure_time_cost

Section = tuple[str, str]
"""A heading and its HTML."""
_ALSO_READ = {"table4": ("models", "softmax")}
"""Runs the paper does not have, shown below its rows."""
_TABLE4_ALSO = {("bpr", "random"), ("dlr2", "le")}
"""What Table 4 shows beside classical models and LEPORID initialisations."""
_SENSITIVITY = {
    "alpha": ("Figure 4b: sensitivity to alpha", "alpha", "alpha"),
    "neighbours": ("Figure 4c: sensitivity to K", "k", "K"),
}
"""The title, the setting of LEPORID and its label."""
_QUICK_NOTE = (
    "Quick settings: short training, nothing tuned, one seed unless asked for more, and DLR2 with "
    "its fully connected network (no_conv) in place of the ResNet, except where architectures are "
    "compared. Leave out --quick for the full table."
)
"""Printed below every table of quick runs."""


def paper_table(name: str, dataset: str, root: str | Path, *, quick: bool = False) -> PaperTable:
    """A table from whatever records exist; rows that were not run show a dash."""
    groups = [*TABLE_GROUPS[name], *_ALSO_READ.get(name, ())]
    records = PackedResults(root).records(dataset, [group_name(group, quick) for group in groups])
    if name == "table4":
        keep = {None, "leporid"}
        records = [r for r in records if r.init in keep or (r.model, r.init) in _TABLE4_ALSO]
    elif name == TAIL:
        records = [r for r in records if r.model == "dlr2"]
    table = build_table(name, records, dataset)
    return replace(table, notes=(_QUICK_NOTE, *table.notes)) if quick else table


def tables_page(root: str | Path) -> str:
    """docs/paper.md: Tables 3 to 7 on the data sets that were run."""
    names = [f"table{number}" for number in range(3, 8)]
    results = PackedResults(root)
    groups = [group for name in names for group in TABLE_GROUPS[name]]
    data = [dataset for dataset in DATA_SETS if results.records(dataset, groups)]
    tables = [paper_table(name, dataset, root) for dataset in data for name in names]
    shown = [render(table, "markdown") for table in tables]
    known = {dataset: DATA_NAMES[dataset] for dataset in data}
    sizes = _sizes(root)
    return fill_template("reproduction", "paper.md", data=known, tables=shown, sizes=sizes)


def _sizes(root: str | Path) -> list[tuple[str, Mapping[str, Any]]]:
    """The rows of Table 2: each data set of ours, and what the paper prints."""
    rows: list[tuple[str, Mapping[str, Any]]] = []
    for dataset in DATA_SETS:
        on_record = measurements(root, dataset)
        if before := on_record.get("statistics_before_core"):
            rows.append((f"{DATA_NAMES[dataset]}, no filter", before))
        if statistics := on_record.get("statistics"):
            rows.append((f"{DATA_NAMES[dataset]}, 20-core", statistics))
    for name in ("ml-1m", "anime"):
        rows += [(f"printed: {name}", row) for row in paper_rows("table2", name)]
    return rows


def write_outputs(  # noqa: C901 (one branch for each command)
    names: Sequence[str],
    dataset: str,
    root: str | Path,
    out: str | Path,
    *,
    quick: bool = False,
    statistics: Mapping[str, Any] | None = None,
    users: sparse.csr_array | None = None,
    skip_missing: bool = False,
) -> Path:
    """Write the named tables and figures (Markdown, CSV, LaTeX, PNG) and one HTML report.

    `statistics` are those of the data, `users` is the training matrix the time cost is measured
    on; without them, the measurements on record are shown.
    A table without a single record is an error, or with `skip_missing` holds the paper's values,
    "not run yet" beside them, and the command that runs it. (`authors`, which is none of the
    paper's, is only named then.)
    """
    out = Path(out)
    sections: list[Section] = []
    used: dict[str, RunRecord] = {}
    on_record = measurements(root, dataset)
    for name in names:
        if name == "table2":
            sections.append(_data_sets(dataset, statistics or on_record.get("statistics"), out))
        elif name == "timecost":
            rows = on_record.get("time_cost") if users is None else measure_time_cost(users)
            sections += [_time_cost(rows, out)] if rows else []
        elif name in ("figure1", "figure2"):
            sections.append(_simulated(name, out))
        elif name in _SENSITIVITY:
            if records := PackedResults(root).records(dataset, [group_name(name, quick)]):
                sections.append(_sensitivity(name, dataset, records, out))
            elif skip_missing:
                sections.append((_SENSITIVITY[name][0], _not_run(name, dataset)))
        elif name == "figure4a":
            table = paper_table("table7", dataset, root, quick=quick)
            sections.append(_architectures(table, out))
        else:
            table = paper_table(name, dataset, root, quick=quick)
            sections.append(_table(table, root, out, skip_missing))
            used |= {r.spec_hash: r for row in table.rows for r in row.records}
    gains = initialisation_gains(list(used.values()), root)
    if gains:
        heading = "HR@10 of LEPORID and random initialisation, 95% interval over users and seeds"
        sections.append(("Gain of LEPORID over random", rows_html(gains, heading)))
    if trained := [record for record in used.values() if record.extra.get("training")]:
        sections.append(("Training", training_section(trained)))
    summary = _summary(dataset, list(used.values()), gains)
    return write_report(out / "report.html", f"leporid on {dataset}", sections, summary)


def _summary(dataset: str, records: Sequence[RunRecord], gains: list[dict[str, Any]]) -> str:
    """How much was run, what was best, and the gain of LEPORID initialisation."""
    if not records:
        return f"These tables and figures need no run on {dataset}, or none is on record yet."
    by_name = defaultdict(list)
    for record in records:
        name = f"{record.model} ({record.recipe})" if record.recipe else record.model
        by_name[f"{name} with {record.init} init" if record.init else name].append(record)
    means = {name: fmean(run.metrics["HR@10"] for run in runs) for name, runs in by_name.items()}
    best = max(means, key=lambda name: means[name])
    lines = [
        f"{len(records)} runs of {len({record.model for record in records})} models on {dataset}. "
        f"The best HR@10 is {means[best]:.4f}, of {best}, mean over seeds."
    ]
    if gains:
        better = sum(row["outcome"] == "better" for row in gains)
        lines.append(
            f"{better} of {len(gains)} models run with both initialisations are better with "
            f"LEPORID than with random (p at most .05 after Holm); the mean gain of HR@10 is "
            f"{fmean(row['gain'] for row in gains):+.4f}."
        )
    return "\n".join(lines)


def _table(table: PaperTable, root: str | Path, out: Path, skip_missing: bool) -> Section:
    is_run = any(row.records for row in table.rows)
    if not is_run and skip_missing and (table.name == "authors" or not table.rows):
        return table.title, _not_run(table.name, table.dataset)
    if not is_run and not skip_missing:
        raise DataError(
            f"no records for {table.name} on {table.dataset} under {root}: run it first with "
            f"`{command(table.name, table.dataset)}`"
        )
    for form, ending in FORMATS.items():
        with atomic_path(out / f"{table.name}.{ending}") as target:
            target.write_text(render(table, form), encoding="utf-8")
    return table.title, table_section(table, root)


def _data_sets(dataset: str, statistics: Mapping[str, Any] | None, out: Path) -> Section:
    """What our filter leaves of each data set beside what the paper prints, one row per figure."""
    ours = {dataset: statistics or {}}
    if paper_dataset(dataset) != "steam":
        (steam,) = paper_rows("table2", "steam")
        ours["steam"] = {figure: NOT_FETCHED for figure in steam if figure != "dataset"}
    rows = []
    for name, figures_of in ours.items():
        printed = next(iter(paper_rows("table2", name)), {})
        rows += [
            {"dataset": name, "figure": figure, "ours": value, "paper": printed.get(figure, "-")}
            for figure, value in figures_of.items()
        ]
    write_json(out / "table2.json", rows)
    return "Table 2: data sets", rows_html(rows, "After the core filter")


def _time_cost(rows: list[dict[str, Any]], out: Path) -> Section:
    write_json(out / "timecost.json", rows)
    note = "The paper: 172 seconds for 64 eigenvectors of the 47,143 users of Anime, by scipy eigs."
    return "Time cost", rows_html(rows, "Of the user graph") + f"<p class='note'>{note}</p>"


def _simulated(name: str, out: Path) -> Section:
    if name == "figure1":
        title = "Figure 1: the first dimensions of Laplacian Eigenmaps"
        figure = figures.draw_le_dimensions(simulate_le_dimensions())
        caption = "Positive values red, negative blue; later dimensions fluctuate more."
    else:
        title = "Figure 2: change of the embedding against degree"
        change = simulate_embedding_change()
        figure = figures.draw_embedding_change(change)
        caption = f"50 Barabasi-Albert graphs; Spearman correlation {change.spearman():.3f}."
        columns = {key: getattr(change, key).tolist() for key in ("degree", "change", "count")}
        write_json(out / "figure2.json", {**columns, "spearman": change.spearman()})
    _save(figure, out / f"{name}.png")
    return title, figures.figure_html(figure, caption)


def _sensitivity(name: str, dataset: str, records: list[RunRecord], out: Path) -> Section:
    """A figure and a table of metrics against alpha or K, means over seeds."""
    title, setting, label = _SENSITIVITY[name]
    metrics = ["HR@10", "F1@10"]
    by_value = defaultdict(list)
    for record in records:
        by_value[record.extra["cell"]["init_settings"][setting]].append(record.metrics)
    points = [
        (value, {metric: fmean(run[metric] for run in runs) for metric in metrics})
        for value, runs in sorted(by_value.items())
    ]
    figure = figures.draw_sensitivity(label, points, metrics)
    _save(figure, out / f"{name}.png")
    rows = [{label: value, **means} for value, means in points]
    text = figures.figure_html(figure, f"DLR2 with LEPORID initialisation on {dataset}")
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
    return title, figures.figure_html(
        figure, f"DLR2 with LEPORID initialisation on {table.dataset}"
    )


def _not_run(name: str, dataset: str) -> str:
    return f"<p class='note'>Not run yet: <code>{html.escape(command(name, dataset))}</code></p>"


def _save(figure: Any, path: Path) -> None:
    with atomic_path(path) as target:
        figure.savefig(target, format="png", dpi=130)
