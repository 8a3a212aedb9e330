"""`Summary`: what a search has found, in words, as tables and as commands."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from leporid.evaluation import Comparison, MetricTable, compare
from leporid.foundation import JsonValue, Tone, format_bytes
from leporid.runs import MOST_POPULAR, groups_of_users, hits_in_words
from leporid.selection.answer import Answer
from leporid.selection.candidates import Candidate
from leporid.selection.decision import Decision
from leporid.selection.events import LeftOut, left_out_models, probed_inits
from leporid.selection.learning_curve import LearningCurve
from leporid.selection.priors import (
    NETWORKS,
    LogStatistics,
    expected_shares,
    family_of,
)
from leporid.selection.search import Search
from leporid.selection.task import CONTENT_INITS, SearchTask
from leporid.selection.trials import TrialResult

WORTH_MORE_TIME = 0.005
"""A search that gained a smaller share in its second half is called finished."""


@dataclass(frozen=True)
class CandidateRow:
    """A candidate in the table of the search."""

    family: str
    model: str
    init: str
    settings: str
    value: float
    seconds: float
    ms: float
    """Milliseconds per request."""
    memory: str

    @classmethod
    def of(cls, result: TrialResult) -> CandidateRow:
        """Return the row of a result."""
        candidate = result.candidate
        return cls(
            family=family_of(candidate.model),
            model=candidate.model,
            init=candidate.init or "-",
            settings=candidate.changed or "default",
            value=result.value,
            seconds=round(result.seconds, 2),
            ms=round(result.cost.ms, 2),
            memory=format_bytes(max(result.cost.bytes, 1024)),
        )

    def to_dict(self, metric: str) -> dict[str, JsonValue]:
        """Return the values by column."""
        return {
            "family": self.family,
            "model": self.model,
            "init": self.init,
            "settings": self.settings,
            metric: self.value,
            "seconds": self.seconds,
            "ms per request": self.ms,
            "memory": self.memory,
        }


@dataclass(frozen=True)
class TestedModel:
    """The chosen model on test, or a baseline."""

    label: str
    metrics: dict[str, float]
    gap: Comparison | None
    """The chosen model (a) compared with this baseline (b); None for the chosen model itself."""

    def to_dict(self) -> dict[str, JsonValue]:
        """Return the values by column."""
        row: dict[str, JsonValue] = {"model": self.label, **self.metrics}
        if self.gap is not None:
            gap = self.gap.to_dict()
            row["chosen minus this"] = [gap["low"], gap["high"]]
        return row


@dataclass(frozen=True)
class TimelinePoint:
    """A trial that was done, for the chart of the search."""

    at: float
    value: float
    model: str


@dataclass(frozen=True, kw_only=True)
class Summary:
    """What a search has found."""

    winner: str
    metric: str
    elapsed: float
    why: str
    rows: list[CandidateRow]
    tested: list[TestedModel]
    tone: Tone
    """Whether the chosen model is better than every baseline on test, or worse than one."""
    commands: list[str]
    left_out: list[LeftOut]
    notes: list[str]
    curve: LearningCurve | None
    inits: dict[str, float]
    """What the vectors of each initialisation predict, best first."""
    user_groups: list[dict[str, JsonValue]]
    """The metric of the chosen model by group of users."""
    log: LogStatistics
    prior: dict[str, float]
    """Quality expected of each model."""
    timeline: list[TimelinePoint]

    def answer(self) -> Answer:
        """Return everything as plain JSON values."""
        return Answer(
            why=self.why,
            table=[row.to_dict(self.metric) for row in self.rows],
            tested=[row.to_dict() for row in self.tested],
            commands=self.commands,
            details={
                "winner": self.winner,
                "metric": self.metric,
                "elapsed": self.elapsed,
                "left out": [asdict(each) for each in self.left_out],
                "notes": self.notes,
                "learning curve": {} if self.curve is None else self.curve.to_dict(),
                "initialisations": self.inits,
                "users": self.user_groups,
                "log": self.log.to_dict(),
                "prior": self.prior,
                "timeline": [asdict(point) for point in self.timeline],
            },
        )


def summarise(
    search: Search,
    decision: Decision,
    tables: Mapping[str, MetricTable],
    *,
    source: str,
    folder: Path,
    notes: Sequence[str],
    curve: LearningCurve | None,
) -> Summary:
    """Put what a search has found into words and tables.

    `tables` are those of the test by label, the chosen model first; empty without a test part.
    """
    task = search.task
    metric = task.metric
    table = tables.get(decision.label)
    tested = tested_models(tables, table, metric)
    timeline = [
        TimelinePoint(result.at, result.value, result.candidate.model)
        for result in search.results.values()
    ]
    evaluated = search.best_of_each()
    left_out = [
        each for each in left_out_models(search.journal) if each.model not in evaluated
    ]
    elapsed = search.timer.elapsed
    sentences = [f"{note[0].upper()}{note[1:]}." for note in dict.fromkeys(notes)]
    paragraphs = [
        what_to_deploy(task, decision, tested),
        how_sure(search, decision, table, tested),
        what_next(timeline, curve, left_out, table),
        settings_in_words(decision),
        *sentences,
    ]
    return Summary(
        winner=decision.label,
        metric=metric,
        elapsed=elapsed,
        why="\n".join(filter(None, paragraphs)),
        rows=[
            *blend_rows(search, decision),
            *(CandidateRow.of(result) for result in search.ranked),
        ],
        tested=tested,
        tone=tone_of_test(tested),
        commands=commands(task, decision, source, folder),
        left_out=left_out,
        notes=sentences,
        curve=curve,
        inits=probed_inits(search.journal),
        user_groups=groups_of_users(table, metric) if table else [],
        log=task.statistics,
        prior=expected_shares(task.statistics),
        timeline=timeline,
    )


def blend_rows(search: Search, decision: Decision) -> list[CandidateRow]:
    """Return the row of a blend, which costs what its members cost together; none without one."""
    if not decision.is_blend or decision.value is None:
        return []
    results = [search.results[member.key] for member in decision.members]
    row = CandidateRow(
        family="blend",
        model="blend",
        init="-",
        settings=" + ".join(member.label for member in decision.members),
        value=decision.value,
        seconds=round(sum(result.seconds for result in results), 2),
        ms=round(sum(result.cost.ms for result in results), 2),
        memory=format_bytes(sum(result.cost.bytes for result in results)),
    )
    return [row]


def tested_models(
    tables: Mapping[str, MetricTable], chosen: MetricTable | None, metric: str
) -> list[TestedModel]:
    """Compare the chosen model with the baselines on test."""
    tested = []
    for label, table in tables.items():
        gap = None
        if chosen is not None and table is not chosen:
            gap = compare(
                chosen, table, metric, name_a="the chosen model", name_b=label
            )
        tested.append(TestedModel(label, table.mean(), gap))
    return tested


def tone_of_test(tested: Sequence[TestedModel]) -> Tone:
    """Return whether the comparisons with the baselines on test are good news."""
    outcomes = {each.gap.outcome for each in tested if each.gap is not None}
    if "worse" in outcomes:
        return "bad"
    return "good" if outcomes == {"better"} else ""


def what_to_deploy(
    task: SearchTask, decision: Decision, tested: Sequence[TestedModel]
) -> str:
    """Return the first paragraph: which model, and how good it is."""
    cutoff = task.cutoff
    warning = "".join(
        f"Careful: on test {each.label} is better than the chosen model, {gap_words(each.gap)} "
        f"in {task.metric}. "
        for each in tested
        if each.gap is not None and each.gap.outcome == "worse"
    )
    deploy = f"{warning}Deploy {decision.headline}."
    if not tested:
        return f"{deploy} The log is too small for a test part: nothing was tested."
    hits = {each.label: each.metrics[f"HR@{cutoff}"] for each in tested}
    chosen = hits.pop(decision.label)
    popular = {MOST_POPULAR: hits["toppop"]} if "toppop" in hits else {}
    return f"{deploy} {hits_in_words(chosen, popular, cutoff)}"


def settings_in_words(decision: Decision) -> str:
    """Return the settings that differ from the defaults; empty without one."""
    changed = [
        f"{member.headline} with {member.changed.removeprefix('with ')}"
        for member in decision.members
        if member.changed
    ]
    return f"Settings: {', '.join(changed)}." if changed else ""


def how_sure(
    search: Search,
    decision: Decision,
    table: MetricTable | None,
    tested: Sequence[TestedModel],
) -> str:
    """Return the second paragraph: tie or clear, with intervals."""
    metric = search.task.metric
    sentences = [against_runner_up(search, decision)]
    if table is not None:
        before = ""
        if decision.value is not None:
            value = f"{decision.value:.4f}"
            before = f" ({value} on the inner validation split, where it was fitted on less data)"
        sentences.append(
            f"On the test part, which is read once, its {metric} is {table.mean()[metric]:.4f} for "
            f"{len(table):,} users{before}."
        )
        gaps = [
            f"to {each.label} {gap_words(each.gap)}"
            for each in tested
            if each.gap is not None
        ]
        if gaps:
            sentences.append(f"Differences with 95% intervals: {', '.join(gaps)}.")
    return " ".join(filter(None, sentences))


def against_runner_up(search: Search, decision: Decision) -> str:
    """Compare what is deployed with its runner-up on the inner validation split.

    The runner-up of a blend is the best single model, that of a single model the best other one.
    Returns an empty sentence if either was not evaluated.
    """
    best = search.leader
    if decision.gain is not None and best is not None:
        single = best.candidate.headline
        return f"The blend beats the best single model ({single}) by {gap_words(decision.gain)}."
    by_model = search.best_of_each()
    chosen = by_model.pop(decision.members[0].model, None)
    if chosen is None or chosen.candidate not in decision.members or not by_model:
        return ""
    other = next(iter(by_model.values()))
    comparison = compare(chosen.columns, other.columns, search.task.metric)
    outcomes = {
        "better": "It beats the runner-up,",
        "worse": "It was not the best: it loses to",
        "equivalent": "It ties with the runner-up,",
        "inconclusive": "It cannot be told apart from the runner-up,",
    }
    hint = ""
    if other.cost.ms < chosen.cost.ms:
        hint = f"; {other.candidate.model} answers faster"
    return (
        f"{outcomes[comparison.outcome]} {other.candidate.headline}: {gap_words(comparison)} for "
        f"{comparison.n_users:,} users of the inner validation split{hint}."
    )


def what_next(
    timeline: Sequence[TimelinePoint],
    curve: LearningCurve | None,
    left_out: Sequence[LeftOut],
    table: MetricTable | None,
) -> str:
    """Return the third paragraph: what would make it better, with a number each."""
    sentences = []
    if timeline:
        gain = gain_of_second_half(timeline)
        hope = f"perhaps: the second half of the search gained {gain:.1%}"
        if gain < WORTH_MORE_TIME:
            hope = f"hardly: the second half of the search gained {gain:.1%}"
        sentences.append(f"More search time: {hope}.")
    if curve is not None:
        hope = "more of them would hardly help"
        if curve.twice > curve.all:
            hope = f"twice as many users might give about {curve.twice:.4f}"
        sentences.append(
            f"More data: for the same users {curve.candidate.split()[0]} reached "
            f"{curve.half:.4f} with half of all users and {curve.all:.4f} with all; {hope}."
        )
    missing = [each for each in left_out if each.model in (*NETWORKS, "networks")]
    if missing:
        first = missing[0]
        what = f"{first.model} was left out"
        if first.model == "networks":
            what = "no neural model was tried"
        sentences.append(f"A GPU: {what} because {first.why}.")
    if table is not None:
        relevant = max(int(table.relevant.sum()), 1)
        share = int(table.cold_relevant.sum()) / relevant
        sentences.append(
            f"Content: {share:.1%} of the held-out interactions are with items that have no "
            f"history."
        )
    return " ".join(["What would help?", *sentences]) if sentences else ""


def gain_of_second_half(timeline: Sequence[TimelinePoint]) -> float:
    """Return by which share the best value grew in the second half of the search."""
    moments = [point.at for point in timeline]
    begin = min(moments)
    half = begin + (max(moments) - begin) / 2
    early = max(point.value for point in timeline if point.at <= half)
    best = max(point.value for point in timeline)
    return best / early - 1 if early > 0 else 0.0


def commands(
    task: SearchTask, decision: Decision, source: str, folder: Path
) -> list[str]:
    """Return the commands that test the chosen model again, with the same number, and fit it."""
    run = shlex.quote(str(folder))
    evaluate = f"leporid evaluate {run} --data {source} --at {task.cutoff}"
    trainings = [training_command(task, each, source) for each in decision.members]
    return [evaluate, *trainings]


def training_command(task: SearchTask, candidate: Candidate, source: str) -> str:
    """Return the command that fits a candidate on everything."""
    model = candidate.model
    words = ["leporid train", source, f"--model {model}", f"--seed {task.seed}"]
    if candidate.init:
        words.append(f"--init {candidate.init}")
    if candidate.init in CONTENT_INITS:
        words.append(f"--init-set items={shlex.quote(str(task.items))}")
    for name, value in candidate.settings.items():
        if value is not None:
            text = value if isinstance(value, str) else json.dumps(value)
            words.append(f"--set {shlex.quote(f'{name}={text}')}")
    return " ".join([*words, "--final", f"-o {model}"])


def gap_words(gap: Comparison) -> str:
    """Return a difference with its interval: '+0.0123 [+0.0100, +0.0146]'."""
    return f"{gap.difference:+.4f} {gap.interval()}"


def best_of_each_model(rows: Iterable[CandidateRow]) -> list[CandidateRow]:
    """Return the best row of each model, in the order of the table."""
    best: dict[str, CandidateRow] = {}
    for row in rows:
        best.setdefault(row.model, row)
    return list(best.values())
