"""The answer in words: three paragraphs, the details, the table, and the commands."""

import json
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from leporid.evaluation import Comparison, MetricTable, compare
from leporid.machine import format_bytes
from leporid.runs import groups_of_users, hits_in_words
from leporid.selection.candidates import CONTENT_INITS, by_value
from leporid.selection.priors import NETWORKS, expected_shares, family_of
from leporid.selection.search import Decision, Search

SUMMARY = "chosen.json"
PARTS = ("why", "table", "tested", "commands", "details")
FIRST_DETAILS = ("winner", "metric", "elapsed")


def as_json(parts: Mapping[str, Any]) -> dict[str, Any]:
    """The parts of a `Choice` as the file has them: the first details stand before all."""
    return {**{name: parts["details"][name] for name in FIRST_DETAILS}, **parts}


def summarise(
    search: Search,
    final: Decision,
    tables: Mapping[str, MetricTable],
    source: str,
    folder: Path,
    about: Mapping[str, Any],
) -> dict[str, Any]:
    """The parts of a `Choice`, but for the model.

    `tables` are those of the test, by label: the chosen model first, then the baselines. `about`
    has the notes and the learning curve.
    """
    problem, metric = search.problem, search.problem.metric
    table, rows = tables.get(final.label), []
    found: dict[str, Comparison] = {}
    for label, own in tables.items():
        rows.append({"model": label, **own.mean()})
        if table is not None and own is not table:
            names = {"name_a": "the chosen model", "name_b": label}
            found[label] = compare(table, own, metric, **names)
            rows[-1]["chosen minus this"] = [found[label].low, found[label].high]
    details = {
        "winner": final.label,
        "metric": metric,
        "elapsed": search.timer.elapsed,
        "left out": left_out(search),
        "notes": [
            f"{note[0].upper()}{note[1:]}." for note in dict.fromkeys(about["notes"])
        ],
        "learning curve": about["learning curve"],
        "initialisations": (search.journal.of("inits") or [{"values": {}}])[-1][
            "values"
        ],
        "users": groups_of_users(table, metric) if table else [],
        "log": problem.statistics,
        "prior": expected_shares(problem.statistics),
        "timeline": [
            {"at": r.at, "value": r.value, "model": r.candidate.model}
            for r in search.results.values()
        ],
    }
    paragraphs = [
        what_to_deploy(search, final, rows, found),
        how_sure(search, final, table, found),
        what_next(table, details),
        *details["notes"],
    ]
    return {
        "why": "\n".join(filter(None, paragraphs)),
        "table": search_table(search),
        "tested": rows,
        "commands": commands(search, final, source, folder),
        "details": details,
    }


def what_to_deploy(
    search: Search,
    final: Decision,
    rows: list[dict[str, Any]],
    found: dict[str, Comparison],
) -> str:
    """The first paragraph: which model, and how good it is."""
    metric, n = search.problem.metric, search.problem.cutoff
    warning = "".join(
        f"Careful: on test {label} is better than the chosen model, {_gap(one)} in {metric}. "
        for label, one in found.items()
        if one.outcome == "below"
    )
    deploy = f"{warning}Deploy {final.label}."
    if not rows:
        return f"{deploy} The log is too small for a test part: nothing was tested."
    hits = {row["model"]: row[f"HR@{n}"] for row in rows}
    popular = {"the bestsellers": hits["toppop"]} if "toppop" in found else {}
    return f"{deploy} {hits_in_words(hits[final.label], popular, n)}"


def how_sure(
    search: Search,
    final: Decision,
    table: MetricTable | None,
    tested: Mapping[str, Comparison],
) -> str:
    """The second paragraph: tie or clear, with intervals."""
    best, metric = list(search.best_of_each().values()), search.problem.metric
    own = [r for r in best if r.candidate in final.members]
    others = [
        r for r in best if r.candidate.model not in {m.model for m in final.members}
    ]
    said = []
    if own and others:
        names = {"name_a": own[0].candidate.label, "name_b": others[0].candidate.label}
        found = compare(own[0].columns, others[0].columns, metric, **names)
        words = {
            "above": "It is clear",
            "level": "It is a tie",
            "below": "It was not the best",
        }
        is_faster = others[0].facts["ms"] < own[0].facts["ms"]
        hint = f"; {others[0].candidate.model} answers faster" if is_faster else ""
        said.append(
            f"{words[found.outcome]}: {found.describe()}, for {found.n_users:,} users of the inner "
            f"validation split{hint}."
        )
    if final.gain is not None:
        said.append(f"The blend gains {_gap(final.gain)} over its best member.")
    if table is not None:
        tests = ", ".join(
            f"to {label} {_gap(found)}" for label, found in tested.items()
        )
        inner = "on the inner validation split, fitted on less"
        before = "" if final.value is None else f" ({final.value:.4f} {inner})"
        said.append(
            f"On test, read once, {metric} is {table.mean()[metric]:.4f} for {len(table):,} users"
            f"{before}."
        )
        said += [f"Difference {tests}; 95% intervals."] if tests else []
    return " ".join(said)


def what_next(table: MetricTable | None, details: Mapping[str, Any]) -> str:
    """The third paragraph: what would make it better, with a number each."""
    said = []
    line, curve = (
        sorted(details["timeline"], key=lambda row: row["at"]),
        details["learning curve"],
    )
    if line:
        half = line[0]["at"] + (line[-1]["at"] - line[0]["at"]) / 2
        early = max(row["value"] for row in line if row["at"] <= half)
        gain = (
            100 * (max(row["value"] for row in line) / early - 1) if early > 0 else 0.0
        )
        said.append(f"More time: the second half of the search gained {gain:.1f}%.")
    if curve:
        hope = f"twice as many might give about {curve['twice']:.4f}"
        hope = (
            hope if curve["twice"] > curve["all"] else "more of them would hardly help"
        )
        said.append(
            f"More data: for the same users {curve['candidate'].split()[0]} gave "
            f"{curve['half']:.4f} from half of all users, {curve['all']:.4f} from all; {hope}."
        )
    missing = [
        row for row in details["left out"] if row["model"] in (*NETWORKS, "networks")
    ]
    if missing:
        name = missing[0]["model"]
        what = (
            "no network was trained" if name == "networks" else f"{name} was left out"
        )
        said.append(f"A GPU: {what}, {missing[0]['why']}.")
    if table is not None:
        share = 100 * int(table.cold_relevant.sum()) / max(int(table.relevant.sum()), 1)
        said.append(
            f"Content: {share:.1f}% of what users chose were items without history."
        )
    return "Next. " + " ".join(said) if said else ""


def left_out(search: Search) -> list[dict[str, str]]:
    """The models without a result, and the real reason of each."""
    reasons: dict[str, str] = {}
    for event in search.journal.of("late", "failed", "left out"):
        name = event["candidate"]["model"] if "candidate" in event else event["model"]
        reasons[name] = event["why"]
    evaluated = search.best_of_each()
    return [
        {"model": n, "why": why} for n, why in reasons.items() if n not in evaluated
    ]


def search_table(search: Search) -> list[dict[str, Any]]:
    """One row per candidate, the best value first."""
    return [
        {
            "family": family_of(result.candidate.model),
            "model": result.candidate.model,
            "init": result.candidate.init or "-",
            "settings": result.candidate.changed or "default",
            search.problem.metric: result.value,
            "seconds": round(result.seconds, 2),
            "ms per request": round(result.facts["ms"], 2),
            "memory": format_bytes(max(result.facts["bytes"], 1024)),
        }
        for result in sorted(search.results.values(), key=by_value)
    ]


def commands(search: Search, final: Decision, source: str, folder: Path) -> list[str]:
    """What tests the chosen model again, with the same number, and what fits it again."""
    problem = search.problem
    lines = [
        f"leporid evaluate {shlex.quote(str(folder))} --data {source} --at {problem.cutoff}"
    ]
    for member in final.members:
        words = [
            "leporid train",
            source,
            f"--model {member.model}",
            f"--seed {problem.seed}",
        ]
        words += [f"--init {member.init}"] if member.init else []
        if member.init in CONTENT_INITS:
            words.append(f"--init-set items={shlex.quote(str(problem.items))}")
        given = {
            key: value for key, value in member.settings.items() if value is not None
        }
        texts = {
            key: v if isinstance(v, str) else json.dumps(v) for key, v in given.items()
        }
        words += [
            f"--set {shlex.quote(f'{key}={text}')}" for key, text in texts.items()
        ]
        lines.append(" ".join([*words, "--final", f"-o {member.model}"]))
    return lines


def _gap(found: Comparison) -> str:
    return f"{found.difference:+.4f} [{found.low:+.4f}, {found.high:+.4f}]"


def best_rows(table: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The best row of each model, in the order of the table."""
    best: dict[str, dict[str, Any]] = {}
    for row in table:
        best.setdefault(row["model"], dict(row))
    return list(best.values())
