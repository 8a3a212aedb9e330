"""The summary of an answer: why this model, the table of candidates, and commands."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from leporid.evaluation import Comparison
from leporid.experiments import BASELINES
from leporid.memory import format_bytes
from leporid.selection.answer import FinalModel, Session, Tested
from leporid.selection.budget import format_duration
from leporid.selection.candidates import INITS
from leporid.selection.decision import Decision
from leporid.selection.search import Search
from leporid.selection.trial import FULL, Result


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
        lines += _ties(search, decision, best, winner)
        lines += _about_blend(decision)
        lines += _about_inits(search)
    lines += _about_test(final.tested, metric)
    lines += _about_limits(search, decision)
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


def _ties(search: Search, decision: Decision, best: Result, winner: Result) -> list[str]:
    level = search.level_with(best)
    others = [result for result in level if result is not winner]
    if winner not in level:
        return [f"{best.candidate.label} was above it with {best.value:.4f}."]
    if winner is not best:
        faster = ""
        if decision.milliseconds is not None:
            slow, quick = decision.milliseconds
            faster = f", and faster: {quick:.2f} ms per request instead of {slow:.2f}"
        return [f"Level with {best.candidate.label} ({best.value:.4f}){faster}."]
    names = ", ".join(dict.fromkeys(result.candidate.model for result in others))
    return [f"Level with it: {len(others)} more ({names})."] if others else []


def _about_blend(decision: Decision) -> list[str]:
    blend = decision.blend
    if blend is None:
        return []
    gap = _gap(blend.comparison)
    if decision.takes_blend:
        return [f"The blend is above its best member: {gap}, on users it was not picked on."]
    if blend.comparison.outcome == "above":
        return [f"A {blend.label} was above: {gap}; it could not be fitted in the time left."]
    return [f"A {blend.label} is {blend.comparison.outcome} its best member: {gap}."]


def _about_inits(search: Search) -> list[str]:
    """The leading network with each initialisation, at the last rung that all reached."""
    reached: dict[tuple[str, str], dict[str, Result]] = {}
    for result in search.results.values():
        c = result.candidate
        if c.init:
            key = (c.model, json.dumps([c.settings, result.rung], sort_keys=True))
            reached.setdefault(key, {})[c.init] = result
    complete = [inits for inits in reached.values() if set(inits) == set(INITS)]
    if not complete:
        return []
    inits = max(complete, key=lambda own: (own["random"].rung, max(r.value for r in own.values())))
    best, random = max(inits.values(), key=lambda r: r.value), inits["random"]
    values = ", ".join(f"{name} {inits[name].value:.4f}" for name in INITS)
    steps = int(best.outcome.facts.get("steps", 0))
    gap = "" if best is random else f": {_gap(search.compare(best, random))} against random"
    return [
        f"Initialisation: {best.candidate.model} after {steps:,} steps has {values}; "
        f"{best.candidate.init} is best{gap}."
    ]


def _about_test(tested: Sequence[Tested], metric: str) -> list[str]:
    if not tested:
        return ["The log is too small for a test part: nothing was tested."]
    parts = [f"On test, read once: {metric} {tested[0].table.mean()[metric]:.4f}"]
    for other in tested[1:]:
        if other.comparison is not None:
            value = other.table.mean()[metric]
            parts.append(f"{other.label} {value:.4f} ({_gap(other.comparison)})")
    return ["; ".join(parts) + "."]


def _about_limits(search: Search, decision: Decision) -> list[str]:
    """Models that had no time, and the learning curve."""
    evaluated = {result.candidate.model for result in search.finished}
    late = [event["candidate"]["model"] for event in search.journal.of("late")]
    left_out = [event["model"] for event in search.journal.of("left out")]
    names = [name for name in dict.fromkeys([*left_out, *late]) if name not in evaluated]
    lines = [f"Not evaluated, for lack of time: {', '.join(names)}."] if names else []
    if len(curve := decision.curve) > 1:
        (_, before), (_, now) = curve[-2:]
        gain = (now - before) / max(before, 1e-9)
        points = ", ".join(f"{share:.0%} of the users {value:.4f}" for share, value in curve)
        lines.append(f"Learning curve: {points}; the last doubling of the users adds {gain:+.1%}.")
    return lines
