"""The answer in words, and the table behind it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from leporid.memory import format_bytes
from leporid.selection.budget import format_duration
from leporid.selection.candidates import STARTS
from leporid.selection.finalise import Closing, Tested
from leporid.selection.search import FULL, Race, Result

_DEFAULTS = ("ease", "itemknn", "toppop")
"""What somebody would pick who does not compare, the best known first."""


def race_table(race: Race, metric: str) -> list[dict[str, Any]]:
    """One row per candidate, the furthest and best first."""
    last: dict[str, Result] = {}
    for result in race.results.values():
        key = result.candidate.key
        if key not in last or last[key].rung < result.rung:
            last[key] = result
    rows = []
    for result in sorted(last.values(), key=lambda r: (-r.rung, -r.value)):
        facts, words = result.outcome.facts, result.candidate.label.split(" ")
        rows.append(
            {
                "model": result.candidate.model,
                "start": result.candidate.init or "-",
                "settings": " ".join(words[3 if result.candidate.init else 1 :]) or "default",
                metric: result.value,
                "came to": "the end" if result.rung == FULL else f"rung {result.rung + 1}",
                "seconds": round(result.outcome.seconds, 2),
                "ms per request": round(facts["ms"], 2),
                "memory": format_bytes(facts["bytes"]),
            }
        )
    return rows


def explain(closing: Closing, elapsed: float) -> str:
    """Why this model: a few sentences."""
    race, verdict, metric = closing.race, closing.verdict, closing.metric
    lines = [f"Chosen: {closing.label}, after {format_duration(elapsed)}."]
    best, winner = verdict.best, verdict.winner
    if best is not None and winner is not None:
        judged = f"{len(best.outcome.columns):,} users of a rehearsal of the test"
        shown = verdict.blend.value if verdict.takes_blend and verdict.blend else winner.value
        lines.append(f"{metric} {shown:.4f}, on {judged}; {_default(race, winner)}")
        near = race.level_with(best)
        level = [r for r in near if r is not winner]
        if winner not in near:
            lines.append(f"{best.candidate.label} was ahead with {best.value:.4f}.")
        elif winner is not best:
            cheaper = ""
            if verdict.milliseconds is not None:
                slow, quick = verdict.milliseconds
                cheaper = f", and cheaper: {quick:.2f} ms per request instead of {slow:.2f}"
            lines.append(f"Level with {best.candidate.label} ({best.value:.4f}){cheaper}.")
        elif level:
            names = ", ".join(dict.fromkeys(r.candidate.model for r in level))
            lines.append(f"Level with it: {len(level)} more ({names}).")
        lines += _blend_words(closing)
        lines += _start_words(race)
    lines += _test_words(closing.tested, metric)
    lines += _next_words(closing)
    lines += [f"{note[0].upper()}{note[1:]}." for note in dict.fromkeys(verdict.notes)]
    return "\n".join(lines)


def commands(closing: Closing, source: str) -> list[str]:
    """What fits the chosen model again from the command line."""
    lines, seed = [], closing.judge.seed
    for member in closing.members:
        words = ["leporid train", source, f"--model {member.model}", f"--seed {seed}"]
        words += [f"--init {member.init}"] if member.init else []
        changed = {k: v for k, v in member.settings.items() if v is not None}
        words += [f"--set {key}={_toml(value)}" for key, value in changed.items()]
        lines.append(" ".join([*words, "--final", f"-o {member.model}"]))
    return lines


def _toml(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _default(race: Race, winner: Result) -> str:
    """Against what a user would pick by default."""
    plain = {r.candidate.label: r for r in race.finished}
    for name in _DEFAULTS:
        if name in plain and plain[name] is not winner:
            gap, low, high = race.difference(winner, plain[name])
            word = "ahead of" if low > 0 else "behind" if high < 0 else "level with"
            return f"{word} {name} with its defaults: {gap:+.4f} [{low:+.4f}, {high:+.4f}]."
    return "nothing to compare it with was judged."


def _blend_words(closing: Closing) -> list[str]:
    blend = closing.verdict.blend
    if blend is None:
        return []
    gap = f"{blend.difference:+.4f} [{blend.low:+.4f}, {blend.high:+.4f}]"
    if closing.verdict.takes_blend:
        return [f"The blend is ahead of its best member: {gap}, on users it was not picked on."]
    if blend.low > 0:
        return [f"A {blend.label} was ahead: {gap}; it could not be fitted in the time left."]
    return [f"A {blend.label} is not worth its price: {gap}."]


def _start_words(race: Race) -> list[str]:
    """What the start was worth: the leading network from each, at the last rung all reached."""
    reached: dict[tuple[str, str], dict[str, Result]] = {}
    for result in race.results.values():
        c = result.candidate
        if c.init:
            place = (c.model, json.dumps([c.settings, result.rung], sort_keys=True))
            reached.setdefault(place, {})[c.init] = result
    whole = [starts for starts in reached.values() if set(starts) == set(STARTS)]
    if not whole:
        return []
    starts = max(whole, key=lambda s: (s["random"].rung, max(r.value for r in s.values())))
    best = max(starts.values(), key=lambda r: r.value)
    values = ", ".join(f"{name} {starts[name].value:.4f}" for name in STARTS)
    gap, low, high = race.difference(best, starts["random"])
    steps = int(best.outcome.facts.get("steps", 0))
    worth = "" if best is starts["random"] else f": {gap:+.4f} [{low:+.4f}, {high:+.4f}]"
    return [
        f"The start: {best.candidate.model} after {steps:,} steps has {values}; "
        f"{best.candidate.init} is best{worth}."
    ]


def _test_words(tested: Sequence[Tested], metric: str) -> list[str]:
    if not tested:
        return ["The log is too small for a test part: nothing was tested."]
    own = tested[0].metrics[metric]
    parts = [f"On test, read once: {metric} {own:.4f}"]
    for other in tested[1:]:
        value, interval = other.metrics[metric], f"[{other.low:+.4f}, {other.high:+.4f}]"
        parts.append(f"{other.label} {value:.4f} ({own - value:+.4f} {interval})")
    return ["; ".join(parts) + "."]


def _next_words(closing: Closing) -> list[str]:
    """What would help next."""
    judged = {result.candidate.model for result in closing.race.finished}
    journal = closing.race.journal
    late = [event["candidate"]["model"] for event in journal.of("late")]
    left_out = [event["model"] for event in journal.of("left out")]
    names = [name for name in dict.fromkeys([*left_out, *late]) if name not in judged]
    lines = [f"More time would help: there was not enough for {', '.join(names)}."] if names else []
    curve = closing.verdict.curve
    if len(curve) > 1:
        (_, before), (_, now) = curve[-2:]
        gain = (now - before) / max(before, 1e-9)
        words = ", ".join(f"{share:.0%} of the users {value:.4f}" for share, value in curve)
        more = "more data would help" if gain > 0.03 else "more users would hardly help"
        lines.append(f"Learning curve: {words}: {more}.")
    return lines
