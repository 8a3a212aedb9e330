"""The summary of an answer: chosen.json and an HTML page with the reasons and the table."""

from __future__ import annotations

import html
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from leporid.artifacts import write_json
from leporid.errors import MissingExtraError
from leporid.evaluation import Comparison
from leporid.experiments import BASELINES
from leporid.html import figure_html, new_figure, rows_html, write_report
from leporid.memory import format_bytes
from leporid.selection.answer import SUMMARY, FinalModel, Session
from leporid.selection.budget import format_duration
from leporid.selection.candidates import FULL, INITS, Result
from leporid.selection.decision import Decision
from leporid.selection.search import Search

_FIGURE_SECONDS = 5.0
"""With less time left the search is not drawn: loading matplotlib takes seconds."""


def describe(
    session: Session, final: FinalModel, folder: Path, *, draws: bool = False
) -> dict[str, Any]:
    """Write the report and the summary of what was fitted; the parts of a `Choice`."""
    search, timer = session.search, session.search.timer
    elapsed = timer.elapsed
    parts: dict[str, Any] = {
        "winner": final.label,
        "metric": session.evaluator.metric,
        "why": explain(session, final, elapsed),
        "table": search_table(search),
        "tested": final.tested,
        "commands": commands(session, final),
        "elapsed": elapsed,
    }
    about = {"key": final.key, "value": final.value, "budget": timer.budget}
    figure = "<p>The search was not drawn.</p>"
    if draws and search.results and timer.left >= _FIGURE_SECONDS:
        with suppress(MissingExtraError):
            figure = _figure(search)
    write_page(folder / "report.html", parts, figure)
    write_json(folder / SUMMARY, {**parts, **about})
    return parts


def write_page(path: Path, parts: Mapping[str, Any], figure: str) -> None:
    """Write the page: the search over time, its table, the test and the commands."""
    metric = parts["metric"]
    tested = [{name: row[name] for name in ("model", metric)} for row in parts["tested"]]
    shown = "\n".join(html.escape(line) for line in parts["commands"])
    table = rows_html(parts["table"], f"Candidates by {metric} on the inner validation split")
    sections = [
        ("The search", figure),
        ("", table),
        ("On test", rows_html(tested, "Read once, after the choice") if tested else ""),
        ("The same again", f"<pre>{shown}</pre>"),
    ]
    write_report(path, "leporid choose", sections, parts["why"])


def _figure(search: Search) -> str:
    """Value over time, one line per candidate."""
    figure, axes = new_figure(7.2, 4.0)
    lines: dict[str, list[tuple[float, float]]] = {}
    for result in search.results.values():
        lines.setdefault(result.candidate.label, []).append((result.at, result.value))
    best = sorted(lines, key=lambda label: -lines[label][-1][1])[:8]
    for label, points in lines.items():
        how = {"label": label} if label in best else {"color": "0.6"}
        axes.plot(*zip(*sorted(points), strict=True), "o-", **how)
    axes.set(xlabel="seconds", ylabel=search.evaluator.metric)
    axes.grid(visible=True, alpha=0.3)
    axes.legend(fontsize="x-small", frameon=False)
    return figure_html(figure, "Each point is one trial on the inner validation split")


def search_table(search: Search) -> list[dict[str, Any]]:
    """One row per candidate, the last rung and the best value first."""
    last: dict[str, Result] = {}
    for result in search.results.values():
        key = result.candidate.key
        if key not in last or last[key].rung < result.rung:
            last[key] = result
    rows = []
    for result in sorted(last.values(), key=lambda r: (-r.rung, -r.value)):
        facts, candidate = result.outcome.facts, result.candidate
        words = candidate.label.split(" ")
        rows.append(
            {
                "model": candidate.model,
                "init": candidate.init or "-",
                "settings": " ".join(words[3 if candidate.init else 1 :]) or "default",
                search.evaluator.metric: result.value,
                "came to": "the end" if result.rung == FULL else f"rung {result.rung + 1}",
                "seconds": round(result.outcome.seconds, 2),
                "ms per request": round(facts["ms"], 2),
                "memory": format_bytes(facts["bytes"]),
            }
        )
    return rows


def explain(session: Session, final: FinalModel, elapsed: float) -> str:
    """Why this model: a few sentences."""
    search, decision = session.search, session.decision
    metric, best, winner = session.evaluator.metric, decision.best, decision.winner
    lines = [f"Chosen: {final.label}, after {format_duration(elapsed)}."]
    if best is not None and winner is not None:
        users = f"{len(best.outcome.columns):,} users of the inner validation split"
        blend = decision.blend if decision.takes_blend else None
        shown = winner.value if blend is None else blend.value
        lines.append(f"{metric} {shown:.4f}, on {users}; {_against_default(search, winner)}.")
        if winner is not best:
            lines.append(_against_best(search, decision, best, winner))
        if decision.blend is not None:
            compared = decision.blend.comparison
            taken = "It is taken." if decision.takes_blend else "It is not taken."
            lines.append(
                f"A {decision.blend.label}, on users it was not picked on, is {compared.outcome} "
                f"its best member: {_gap(compared)}. {taken}"
            )
        lines += _about_inits(search)
    lines.append(_about_test(final.tested, metric))
    evaluated = {result.candidate.model for result in search.finished}
    late = [event["candidate"]["model"] for event in search.journal.of("late")]
    late += [event["model"] for event in search.journal.of("left out")]
    if names := [name for name in dict.fromkeys(late) if name not in evaluated]:
        lines.append(f"Not evaluated, for lack of time: {', '.join(names)}.")
    lines += [f"{note[0].upper()}{note[1:]}." for note in dict.fromkeys(decision.notes)]
    return "\n".join(lines)


def commands(session: Session, final: FinalModel) -> list[str]:
    """What fits the chosen model again from the command line."""
    lines, seed = [], session.evaluator.problem.seed
    for member in final.members:
        words = ["leporid train", session.source, f"--model {member.model}", f"--seed {seed}"]
        words += [f"--init {member.init}"] if member.init else []
        changed = {k: v for k, v in member.settings.items() if v is not None}
        words += [f"--set {key}={_toml(value)}" for key, value in changed.items()]
        lines.append(" ".join([*words, "--final", f"-o {member.model}"]))
    return lines


def _toml(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _gap(found: Comparison) -> str:
    return f"{found.difference:+.4f} [{found.low:+.4f}, {found.high:+.4f}]"


def _against_default(search: Search, winner: Result) -> str:
    """Against a baseline with its default settings, the strongest first."""
    plain = {result.candidate.label: result for result in search.finished}
    for name in reversed(BASELINES):
        if name in plain and plain[name] is not winner:
            found = search.compare(winner, plain[name])
            word = "level with" if found.outcome == "level" else found.outcome
            return f"{word} {name} with its defaults: {_gap(found)}"
    return "no baseline was evaluated"


def _against_best(search: Search, decision: Decision, best: Result, winner: Result) -> str:
    if winner not in search.level_with(best):
        return f"{best.candidate.label} was above it with {best.value:.4f}."
    faster = ""
    if decision.milliseconds is not None:
        slow, quick = decision.milliseconds
        faster = f", and faster: {quick:.2f} ms per request instead of {slow:.2f}"
    return f"Level with {best.candidate.label} ({best.value:.4f}){faster}."


def _about_inits(search: Search) -> list[str]:
    """The leading network with each initialisation, at the last rung that all reached."""
    reached: dict[str, dict[str | None, Result]] = {}
    for result in search.results.values():
        c = result.candidate
        key = json.dumps([c.model, c.settings, result.rung], sort_keys=True)
        reached.setdefault(key, {})[c.init] = result
    complete = [inits for inits in reached.values() if inits.keys() == {*INITS}]
    if not complete:
        return []
    inits = max(complete, key=lambda own: (own["random"].rung, max(r.value for r in own.values())))
    best, random = max(inits.values(), key=lambda r: r.value), inits["random"]
    values = ", ".join(f"{name} {inits[name].value:.4f}" for name in INITS)
    gap = "" if best is random else f": {_gap(search.compare(best, random))} against random"
    return [
        f"Initialisation: {best.candidate.model} after {int(best.outcome.facts['steps']):,} steps "
        f"has {values}; {best.candidate.init} is best{gap}."
    ]


def _about_test(tested: Sequence[Mapping[str, Any]], metric: str) -> str:
    if not tested:
        return "The log is too small for a test part: nothing was tested."
    chosen, *others = tested
    parts = [f"On test, read once: {metric} {chosen[metric]:.4f}"]
    for row in others:
        low, high = row["chosen minus this"]
        gap = f"{chosen[metric] - row[metric]:+.4f} [{low:+.4f}, {high:+.4f}]"
        parts.append(f"{row['model']} {row[metric]:.4f} ({gap})")
    return "; ".join(parts) + "."
