"""The tables that `make_pages.py` puts between the markers of a page, each from its records."""

from __future__ import annotations

import re
import textwrap
from collections import Counter
from pathlib import Path
from statistics import median
from typing import Any

from leporid.evaluation import Comparison
from leporid.runs import RunRecord
from reproduction.gains import initialisation_gains
from reproduction.global_time import OURS, DatedLog
from reproduction.leaderboard import (
    AS_IT_COMES,
    BASES,
    DLR2,
    SASREC,
    Difference,
    Log,
    best_classical,
)
from reproduction.leave_last_out import PRINTED, Lever
from reproduction.old_records import present_init_settings
from reproduction.store import PackedResults
from reproduction.verdict import WORDS

NETWORKS = ("dlr2", "sasrec", "hgn")
"""Those that have a closed-form part with default settings."""
PHRASES = {
    "better": "better than",
    "equivalent": "equivalent to",
    "inconclusive": "inconclusive against",
    "worse": "worse than",
}
"""The words of a comparison before a number of models."""
ROWS = 10
"""So many rows of a table are shown; the others are folded away."""


def table(columns: list[str], rows: list[list[str]], words: int = 1) -> str:
    """A Markdown table; all columns but the first `words` are set right."""
    lines = [columns, ["---"] * words + ["---:"] * (len(columns) - words), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def listed(words: list[str]) -> str:
    """'a, b and c'."""
    return " and ".join(filter(None, [", ".join(words[:-1]), *words[-1:]]))


def folded(text: str, rows: int = ROWS) -> str:
    """Every table of a page that is longer: its first rows, and all of it to unfold."""

    def fold(found: re.Match[str]) -> str:
        lines = found[0].strip().splitlines()
        count = len(lines) - 2
        if count <= rows:
            return found[0]
        short, whole = "\n".join(lines[: rows + 2]), "\n".join(lines)
        title = f"<summary>all {count} rows</summary>"
        return f'{short}\n\n<details markdown="1">{title}\n\n{whole}\n\n</details>\n'

    return re.sub(r"(?:^\|.*\n)+", fold, text, flags=re.MULTILINE)


def short_table(logs: list[Log]) -> str:
    """NDCG@10 on test by log: the classical model that is best on validation, SASRec and DLR2."""
    rows = []
    for log in logs:
        best = best_classical(log)
        cells = [best, log.row(*SASREC), log.row(*DLR2)]
        values = [row.mean("NDCG@10") if row else -1.0 for row in cells]
        shown = [
            "not run yet" if row is None else f"**{v:.4f}**" if v == max(values) else f"{v:.4f}"
            for row, v in zip(cells, values, strict=True)
        ]
        shown[0] += f" {best.model}" if best else ""
        rows.append([log.name, *shown])
    return table(["log", "best classical model", "SASRec", "DLR2"], rows)


def linear_part_table(logs: list[Log]) -> str:
    """NDCG@10 on test of networks with SLIM beside them, beside DLR2's network alone."""
    named = [("dlr2", "leporid"), *((f"{name}{AS_IT_COMES}", "leporid") for name in NETWORKS)]
    rows = []
    for log in logs:
        alone, *whole = (log.row(*key) for key in named)
        best, ours = best_classical(log), whole[0]
        gains = sorted({int(r.config["linear_weight"]) for r in ours.records}) if ours else []
        cells = [f"{row.mean('NDCG@10'):.4f}" if row else "-" for row in (alone, *whole, best)]
        cells[-1] += f" {best.model}" if best else ""
        rows.append(
            [log.name, *cells, " to ".join(map(str, dict.fromkeys(gains[:1] + gains[-1:])))]
        )
    networks = ["DLR2 alone", "as it comes", "SASRec", "HGN"]
    columns = [*networks, "best classical model", "weight of SLIM"]
    return table(["log", *columns], rows)


def outcome_table(found: list[Difference], of: str) -> str:
    """How often LEPORID is better and so on, by the other initialiser or by the model."""
    own = [d for d in found if d.same_model and (of == "init" or d.second.init == "random")]
    names = dict.fromkeys(d.second.init if of == "init" else d.first.model for d in own)
    if of == "init":
        names = {name: None for name in BASES if name in names}
    rows = []
    for name in names:
        same = [d for d in own if name == (d.second.init if of == "init" else d.first.model)]
        counts = Counter(d.gain.outcome for d in same)
        unclear = [d.gain.detectable_percent for d in same if d.gain.outcome == "inconclusive"]
        values = [counts.total(), *(counts[word] for word in WORDS)]
        rows.append([str(name), *map(str, values), f"{median(unclear):.1f}%" if unclear else ""])
    first = "against" if of == "init" else "model"
    return table([first, "comparisons", *WORDS, "could have seen"], rows)


def two_tower_table(record: dict[str, Any]) -> str:
    """Steps and quality of the two-tower model by log."""
    rows = []
    for row in record["rows"]:
        reached = row["LEPORID is there after"]
        ends = f"{row['difference']:+.4f} [{row['low']:+.4f}, {row['high']:+.4f}]"
        values = [row[k] for k in ("NDCG@10, random", "LEPORID")]
        tail = [row[k] for k in ("tail users, random", "tail users, LEPORID")]
        numbers = [f"{value:.4f}" for value in (*values, *tail)]
        steps = [str(row["best step, random"]), "never" if reached is None else str(reached)]
        rows.append([row["log"], *steps, *numbers[:2], ends, *numbers[2:]])
    columns = ["log", "best step, random", "LEPORID is there after", "NDCG@10, random", "LEPORID"]
    return table([*columns, "difference", "tail users, random", "LEPORID"], rows)


def probe_table(record: dict[str, Any]) -> str:
    """NDCG@10 of embeddings alone by log, and what the adaptive form chose."""
    found: dict[str, dict[str, Any]] = {}
    for row in record["rows"]:
        line = found.setdefault(row["log"], {})
        line[row["vectors"]] = f"{row['NDCG@10']:.4f}"
        if row["vectors"] == "adapted":
            chosen = present_init_settings("leporid", row["chosen"])
            power = chosen.get("popularity_power")
            line["chosen"] = (
                f"alpha {chosen['alpha']:g}, {chosen['row_norm']} {power or ''}".strip()
            )
    columns = ["adapted", "leporid", "le", "svd", "chosen"]
    return table(["log", *columns], [[log, *(r[c] for c in columns)] for log, r in found.items()])


def growth_table(record: dict[str, Any]) -> str:
    """Seconds and memory of the exact method and of landmarks by the number of users."""
    rows = [
        [f"{r['users']:,}", r["method"], f"{r['seconds']:.0f}", f"{r['peak MB']:,.0f}"]
        for r in record["rows"]
        if r["method"] != "approximate"
    ]
    return table(["users", "method", "seconds", "peak MB"], rows, words=2)


def gain_table(records: list[RunRecord], root: Path) -> str:
    """Random against LEPORID vectors on test, one line per model and recipe."""
    lines = [
        "| model | history | seeds | HR@10 random | HR@10 LEPORID | F1@10 random | F1@10 LEPORID "
        "| HR@10 gain (95% interval) |",
        "|---|---|---:|---:|---:|---:|---:|---:|",
    ]
    for row in initialisation_gains(records, root):
        recipe = None if row["recipe"] == "-" else row["recipe"]
        runs = [
            r for r in records if (r.model, r.recipe) == (row["model"], recipe) and not r.variant
        ]
        sides = {init: [r for r in runs if r.init == init] for init in ("random", "leporid")}
        f1 = {init: sum(r.metrics["F1@10"] for r in of) / len(of) for init, of in sides.items()}
        seeds = "/".join(dict.fromkeys(str(len(of)) for of in sides.values()))
        lines.append(
            f"| {row['model']}{f' ({recipe})' if recipe else ''} | {row['has seen']} | {seeds} "
            f"| {row['random HR@10']:.4f} | {row['leporid HR@10']:.4f} "
            f"| {f1['random']:.4f} | {f1['leporid']:.4f} "
            f"| {row['gain']:+.4f} ({row['low']:+.4f} to {row['high']:+.4f}) |"
        )
    return "\n".join(lines)


def test_reads_table(root: Path) -> str:
    """How many runs on record read the test part of each data set."""
    rows = []
    for path in sorted(root.glob("*.jsonl")):
        records = PackedResults(root).all_records(path.stem)
        read = sum(bool(record.metrics) for record in records)
        rows.append([path.stem, str(read)])
    return table(["data set", "runs on record that read its test part"], rows)


def study_table(studies: list[dict[str, Any]]) -> str:
    """Trials with the same settings from both starts: who is ahead, and by how much."""
    values: dict[str, dict[str, dict[str, float]]] = {}
    for study in studies:
        sides = values.setdefault(study["model"], {})
        sides[study["init"]] = {repr(t["settings"]): t["value"] for t in study["trials"]}
    lines = [
        "| model | settings | LEPORID ahead | mean, random | mean, LEPORID | worst, random "
        "| worst, LEPORID | best, random | best, LEPORID |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for model, sides in values.items():
        random, leporid = sides["random"], sides["leporid"]
        both = [(random[key], leporid[key]) for key in random if key in leporid]
        ahead = sum(ours > other for other, ours in both)
        columns = [[pair[side] for pair in both] for side in (0, 1)]
        cells = [sum(column) / len(column) for column in columns]
        cells += [min(column) for column in columns]
        cells += [max(sides[init].values()) for init in ("random", "leporid")]
        numbers = " | ".join(f"{cell:.4f}" for cell in cells)
        lines.append(f"| {model} | {len(both)} | {ahead} | {numbers} |")
    return "\n".join(lines)


def landmark_table(record: dict[str, Any], results: Path) -> str:
    """Time and angle of each share of landmarks beside what DLR2 makes of the vectors."""
    exact = [
        r
        for r in PackedResults(results).records("ml-1m-r3", ["initialisers"])
        if (r.model, r.init) == ("dlr2", "leporid")
    ]
    runs = {"all": exact}
    for run in PackedResults(results).records("ml-1m-r3", ["landmarks"]):
        share = run.extra["cell"]["init_settings"]["landmarks"]
        runs.setdefault(f"1/{round(1 / share)}", []).append(run)
    lines = [
        "| landmarks | rows | seconds | mean angle | first 16 | seeds | HR@10 | F1@10 |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    shown: set[str] = set()
    for row in record["rows"]:
        # The first row of a share is the K that `landmarks=` takes.
        found = runs.get(row["landmarks"], [])
        if row["landmarks"] in shown or not found:
            continue
        shown.add(row["landmarks"])
        angles = [row.get(key) for key in ("mean angle", "mean angle, first 16")]
        means = [sum(r.metrics[m] for r in found) / len(found) for m in ("HR@10", "F1@10")]
        cells = [row["landmarks"], str(row["rows"]), f"{row['seconds']:.2f}"]
        cells += ["-" if angle is None or angle == "" else f"{angle:.1f}" for angle in angles]
        cells += [str(len(found)), *(f"{mean:.4f}" for mean in means)]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def chosen_table(record: dict[str, Any], task: str, columns: dict[str, tuple[str, str]]) -> str:
    """Of the record of cold items one line per log and model; columns: heading -> (what, value)."""
    cells: dict[tuple[str, str], dict[tuple[str, str], Any]] = {}
    for row in record["rows"]:
        if row["task"] == task:
            line = cells.setdefault((row["log"], row["model"]), {})
            line |= {(row["what"], key): value for key, value in row.items()}
    lines = ["| log | model | seeds | " + " | ".join(columns) + " |"]
    lines.append("|---|---|---:|" + "---:|" * len(columns))
    for key, line in cells.items():
        seeds = line[next(iter(columns.values()))[0], "seeds"]
        shown = (
            "" if (value := line.get(column)) is None
            else f"{value:.{1 if column[1] == 'seconds' else 4}f}"
            for column in columns.values()
        )  # fmt: skip
        lines.append("| " + " | ".join([*key, str(seeds), *shown]) + " |")
    return "\n".join(lines)


COLD = {
    "cold: content neighbours": ("content neighbours", "cold"),
    "extended": ("grown", "cold"),
    "equal ranks": ("grown, places as content neighbours", "cold"),
    "warm: no cold items": ("grown, no places", "warm"),
    "extended ": ("grown", "warm"),
    "equal ranks ": ("grown, places as content neighbours", "warm"),
}
"""Columns of the table of cold items: heading, and (row, value) of the record."""
GROWN = {
    "new: retrained": ("retrained", "new"),
    "extended": ("grown by content and interactions", "new"),
    "and 300 steps": ("grown by content and interactions, 300 steps", "new"),
    "old: retrained": ("retrained", "old"),
    "extended, 300 steps": ("grown by content and interactions, 300 steps", "old"),
    "seconds: retrained": ("retrained", "seconds"),
    "extended ": ("grown by content and interactions", "seconds"),
    "and 300 steps ": ("grown by content and interactions, 300 steps", "seconds"),
}
_ROWS_OF_NEIGHBOURS = ("placed", "neighbours")
"""The user row that `recommend_history` does not use, by its older and its present name."""


def new_users_table(runs: list[dict[str, Any]], models: tuple[str, ...]) -> str:
    """NDCG@10 by the number of items given of a new user, mean over the seeds.

    Of DLR2 the runs with a masked user row, as `recommend_history` has it.
    """
    given = list(runs[0]["given"])
    found: dict[tuple[str, str], list[dict[str, dict[str, float]]]] = {}
    for run in runs:
        if run["model"] in models and run["row"] not in _ROWS_OF_NEIGHBOURS:
            found.setdefault((run["log"], run["model"]), []).append(run["given"])
    rows = []
    for key, values in found.items():
        means = (sum(v[n]["NDCG@10"] for v in values) / len(values) for n in given)
        rows.append([*key, str(len(values)), *(f"{mean:.4f}" for mean in means)])
    return table(["log", "model", "seeds", *(f"{n} given" for n in given)], rows, words=2)


def global_time_section(logs: list[DatedLog]) -> str:
    """The table and what it says."""
    return f"{global_time_table(logs)}\n\n{global_time_text(logs)}"


def global_time_table(logs: list[DatedLog]) -> str:
    """Every model trained before a date, in the order of the first log, and DLR2 against it."""
    columns = ["model"]
    for log in logs:
        columns += [log.name, "rank", "temporal", "DLR2 is"]
    rows = []
    for model in (place.model for place in logs[0].places):
        row = [model]
        for place in (log.place(model) for log in logs):
            ranks = [str(place.rank), str(place.temporal_rank)]
            row += [f"{place.value:.4f}", *ranks, _word(place.gain)]
        rows.append(row)
    return table(columns, rows)


def global_time_text(logs: list[DatedLog]) -> str:
    """What the table says: DLR2's rank, how its lead stands, which models move."""
    lines = []
    for log in logs:
        gains = {place.model: place.gain for place in log.places if place.gain}
        ends = Counter(gain.outcome for gain in gains.values())
        second = next(iter(gains))
        most = sorted(log.places, key=lambda place: -abs(place.moved))[:3]
        moves = listed([f"{m.model} from {m.temporal_rank} to {m.rank}" for m in most])
        counted = ", ".join(f"{PHRASES[word]} {ends[word]}" for word in WORDS if ends[word])
        text = (
            f"- **{log.name}.** DLR2 has rank {log.place(OURS).rank}: {counted} ({second}: p = "
            f"{gains[second].p_value:.2f}). {log.cold_users} of {log.users:,} test users are cold. "
            f"Kendall's tau of both orders is {log.tau:.2f}: {moves}."
        )
        lines.append(textwrap.fill(text, 124, subsequent_indent="  "))
    return "\n".join(lines)


def leave_last_out_table(logs: dict[str, list[Lever]]) -> str:
    """Every lever with its seeds, and what others print."""
    columns = ["model", "seeds"]
    for log in logs:
        columns += [f"{log}: validation", "HR@10", "NDCG@10", "against the first"]
    names = dict.fromkeys(lever.name for levers in logs.values() for lever in levers)
    rows = []
    for name in names:
        found = [next((x for x in levers if x.name == name), None) for levers in logs.values()]
        row = [name, str(max(len(lever.records) for lever in found if lever))]
        for lever in found:
            row += _lever_cells(lever) if lever else ["-"] * 4
        rows.append(row)
    for name, values in PRINTED.items():
        row = [f"printed: {name}", "-"]
        for log in logs:
            row += ["-", *(f"{v:.4f}" for v in values.get(log, ())), *["-"] * 3][:4]
        rows.append(row)
    return table(columns, rows)


def _lever_cells(lever: Lever) -> list[str]:
    values = [lever.mean("NDCG@10", "valid_metrics"), lever.mean("HR@10"), lever.mean("NDCG@10")]
    return [*(f"{value:.4f}" for value in values), _change(lever.gain)]


def _change(gain: Comparison | None) -> str:
    """'-2.6% [-4.8, -0.4] worse'."""
    if gain is None:
        return "-"
    low, high = (100 * end / gain.mean_b for end in (gain.low, gain.high))
    return f"{gain.percent:+.1f}% [{low:+.1f}, {high:+.1f}] {gain.outcome}"


def _word(gain: Comparison | None) -> str:
    """The outcome; where it is inconclusive, with the difference that could have been seen."""
    if gain is None or gain.outcome != "inconclusive":
        return gain.outcome if gain else "-"
    return f"inconclusive ({gain.detectable_percent:.0f}%)"
