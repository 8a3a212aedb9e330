"""Write benchmarks.md, paper.md, verdict.md, leaderboard.md and tables of other pages from records.

No number there was typed by hand. Tables are between `<!-- NAME:begin -->` and
`<!-- NAME:end -->`.

python docs/make_pages.py
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
# `benchmarks` and `reproduction` are not installed.
sys.path.insert(0, str(ROOT))

from benchmarks.harness import RECORDS, markdown_table
from leporid.artifacts import atomic_path, read_json
from leporid.errors import DataError
from leporid.experiments import RunRecord
from reproduction import study_tables
from reproduction.gains import have_seen, initialisation_gains
from reproduction.leaderboard import leaderboard_page
from reproduction.outputs import tables_page
from reproduction.specs import LEADERBOARD
from reproduction.store import PackedResults
from reproduction.verdict import verdict_page

HEAD = """# Benchmarks

Speed against peers and against the obvious implementation, measured in one run on one machine, so
that the ratio carries over where seconds do not. `make bench` measures them again; this page is
written from the records in `benchmarks/records`.
"""


def page(records: list[dict[str, Any]]) -> str:
    """The whole page as Markdown."""
    return "\n".join([HEAD, *(_section(record) for record in records)])


def _section(record: dict[str, Any]) -> str:
    machine = record["machine"]
    lines = [f"## {record['benchmark']}", ""]
    lines += [f"{machine['processor']}, {machine['cores']} cores, {record['date']}.", ""]
    settings = ", ".join(f"{key} {value}" for key, value in record["settings"].items())
    lines += [f"Settings: {settings}.", ""] if settings else []
    return "\n".join([*lines, markdown_table(record), ""])


def scale_table(record: dict[str, Any]) -> str:
    """Each model's default scale beside what every scale reached; the best is bold."""
    scales = [key for key in record["rows"][0] if key not in ("model", "default", "steps")]
    lines = [
        "| model | default | " + " | ".join(scales) + " |",
        "|---|---:|" + "---:|" * len(scales),
    ]
    for row in record["rows"]:
        best = max(row[scale] for scale in scales)
        cells = [f"**{row[s]:.4f}**" if row[s] == best else f"{row[s]:.4f}" for s in scales]
        lines.append(f"| {row['model']} | {row['default']:g} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def gain_table(records: list[RunRecord], root: Path) -> str:
    """Random against LEPORID vectors on test, one line per model and recipe."""
    lines = [
        "| model | has seen | seeds | HR@10 random | HR@10 LEPORID | F1@10 random | F1@10 LEPORID "
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


def baseline_table(untuned: list[RunRecord], tuned: list[RunRecord]) -> str:
    """The classical models with their defaults and tuned, HR@10 / F1@10 on test; best last."""

    def quality(record: RunRecord) -> str:
        return f"{record.metrics['HR@10']:.4f} / {record.metrics['F1@10']:.4f}"

    lines = [
        "| model | has seen | untuned | tuned | window | F1@10 on validation | trials |",
        "|---|---|---:|---:|---:|---:|---:|",
    ]
    defaults = {record.model: record for record in untuned}
    for run in sorted(tuned, key=lambda record: record.metrics["HR@10"]):
        plain, trials = defaults[run.model], run.extra["tuning"]["trials"]
        window = (run.config["window"] or "all") if "window" in run.config else "-"
        seen = have_seen([plain, run])
        valid = " to ".join(f"{r.valid_metrics['F1@10']:.4f}" for r in (plain, run))
        lines.append(
            f"| `{run.model}` | {seen} | {quality(plain)} | {quality(run)} "
            f"| {window} | {valid} | {trials} |"
        )
    return "\n".join(lines)


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
    "grown": ("grown", "cold"),
    "without content in scores": ("grown, content places rows alone", "cold"),
    "as many places": ("grown, places as content neighbours", "cold"),
    "exposure 1.5": ("grown, exposure 1.5", "cold"),
    "warm: no places": ("grown, no places", "warm"),
    "grown ": ("grown", "warm"),
    "as many places ": ("grown, places as content neighbours", "warm"),
    "exposure 1.5 ": ("grown, exposure 1.5", "warm"),
}
GROWN = {
    "new: retrained": ("retrained", "new"),
    "grown": ("grown by content and interactions", "new"),
    "and 300 steps": ("grown by content and interactions, 300 steps", "new"),
    "old: retrained": ("retrained", "old"),
    "grown, 300 steps": ("grown by content and interactions, 300 steps", "old"),
    "seconds: retrained": ("retrained", "seconds"),
    "grown ": ("grown by content and interactions", "seconds"),
    "and 300 steps ": ("grown by content and interactions, 300 steps", "seconds"),
}
AS_THEY_COME = ", places as they come"
UNLIMITED = f"start leporid_content{AS_THEY_COME}"
WARM = {
    "leporid": ("start leporid", "all"),
    "leporid_content": (UNLIMITED, "all"),
    "low": (UNLIMITED, "low"),
    "high": (UNLIMITED, "high"),
    "content": (f"start content{AS_THEY_COME}", "all"),
    "svd": ("start svd", "all"),
    "random": ("start none", "all"),
}


def new_users_table(runs: list[dict[str, Any]]) -> str:
    """NDCG@10 by the items a model is given of somebody new, mean over the seeds."""
    given = list(runs[0]["given"])
    found: dict[tuple[str, str], list[dict[str, dict[str, float]]]] = {}
    for run in runs:
        name = f"{run['model']}, {run['row']} row" if run["row"] else run["model"]
        found.setdefault((run["log"], name), []).append(run["given"])
    lines = ["| log | model | seeds | " + " | ".join(f"{n} given" for n in given) + " |"]
    lines.append("|---|---|---:|" + "---:|" * len(given))
    for key, values in found.items():
        means = (sum(v[n]["NDCG@10"] for v in values) / len(values) for n in given)
        cells = [*key, str(len(values)), *(f"{mean:.4f}" for mean in means)]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def fill(text: str, name: str, table: str) -> str:
    """Replace what stands between the markers of a table."""
    begin, end = f"<!-- {name}:begin -->", f"<!-- {name}:end -->"
    before, found, rest = text.partition(begin)
    _, closed, after = rest.partition(end)
    if not found or not closed:
        raise DataError(f"the page needs the markers {begin} and {end}")
    return f"{before}{begin}\n\n{table}\n\n{end}{after}"


def models_page(text: str) -> str:
    """docs/models.md with its tables made again."""
    results = ROOT / "results"
    of_ml_1m = ("models", "initialisers", "softmax")
    tables = {
        "rehearsed": ("ml-1m-r3", ("rehearsed",)),
        "ml-1m-r3": ("ml-1m-r3", of_ml_1m),
        "ml-100k": ("ml-100k", ("models",)),
    }
    for name, (dataset, groups) in tables.items():
        records = PackedResults(results).records(dataset, groups)
        text = fill(text, name, gain_table(records, results))
    studies = read_json(results / "ml-1m-r3" / "rehearsed-studies.json")["studies"]
    text = fill(text, "studies", study_table(studies))
    cold = read_json(RECORDS / "cold_items.json")
    for task, columns in (("cold", COLD), ("grow", GROWN), ("warm", WARM)):
        text = fill(text, f"{task}-items", chosen_table(cold, task, columns))
    return fill(text, "scales", scale_table(read_json(RECORDS / "scales.json")))


def baselines_page(text: str) -> str:
    """docs/baselines.md with its table made again."""
    store = PackedResults(ROOT / "results")
    groups = (store.records("ml-1m-r3", [name]) for name in ("baselines-untuned", "baselines"))
    return fill(text, "baselines", baseline_table(*groups))


def scale_page(text: str) -> str:
    """docs/scale.md with its table made again."""
    record = read_json(RECORDS / "landmarks.json")
    return fill(text, "landmarks", landmark_table(record, ROOT / "results"))


def dlr2_page(text: str) -> str:
    """docs/dlr2.md with its table made again."""
    runs = read_json(ROOT / "results" / "new-users.json")["runs"]
    return fill(text, "new-users", new_users_table(runs))


def initialisation_page(text: str) -> str:
    """docs/initialisation.md with its tables made again."""
    for name, table in study_tables.tables(ROOT / "results").items():
        text = fill(text, name, table)
    return text


def main() -> None:
    """Read, write."""
    results = ROOT / "results"
    pages = {
        "benchmarks": page([read_json(path) for path in sorted(RECORDS.glob("*.json"))]),
        "verdict": verdict_page(results),
        "leaderboard": leaderboard_page(LEADERBOARD, results),
        "paper": tables_page(results),
    }
    filled = {
        "models": models_page,
        "baselines": baselines_page,
        "scale": scale_page,
        "dlr2": dlr2_page,
        "initialisation": initialisation_page,
    }
    for name, made in filled.items():
        pages[name] = made((ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8"))
    for name, text in pages.items():
        with atomic_path(ROOT / "docs" / f"{name}.md") as path:
            path.write_text(text, encoding="utf-8")
        print(f"wrote docs/{name}.md")


if __name__ == "__main__":
    main()
