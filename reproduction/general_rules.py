"""`python -m reproduction general-rules`: the recipe `general` with one log left out at a time.

A rule changes settings of `general` for a kind of log. Runs that differ in nothing but settings of
a rule, between its values and those without it, say on validation what the rule is worth on a log.
The other logs on the same side of the rule then choose for that log, or all others where there are
none; the table says what their choice would cost there.

`run_arms` makes such runs: `python -m reproduction general-rules --data FOLDER --only LOG ...`.
"""

from __future__ import annotations

import json
import warnings
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from leporid import models
from leporid.data import Split
from leporid.errors import LeporidWarning
from leporid.evaluation import evaluate
from leporid.foundation import read_json, write_json
from leporid.runs import Meter, load_split, read_experiment
from reproduction.old_records import present_settings
from reproduction.sequence_tables import RECORDS as SEQUENCE_SETTINGS
from reproduction.specs import LEADERBOARD
from reproduction.store import PackedResults

EXPLORATION, ARMS = "exploration.json", "general-rules"
"""What was tried before the rules were fixed; in it, both arms of a rule, run by `add_runs`."""
METRIC = "NDCG@10"
UNORDERED = ("anime-5k", "steam-200k", "-notime")
_LENGTHS = ("steps", "eval_every", "patience")
"""How long and how often: not compared."""
_FIRST = {"channels": 64, "label_smoothing": 0.0, "profile_items": 0, "circular": False}
_V2 = {
    "channels": 16, "max_history": 5, "label_smoothing": 0.1, "user_dropout": 0.95,
    "weight_decay": 0.3, "batch_size": 512, "profile_items": 50, "circular": False,
}  # fmt: skip
_V4 = {**_V2, "channels": 32, "label_smoothing": 0.2}
_UNNAMED: dict[int, dict[str, Any]] = {
    **dict.fromkeys(range(1, 5), _FIRST), **dict.fromkeys(range(5, 9), _V2), 9: _V4, 10: _V4,
}  # fmt: skip
"""What DLR2 had where a run of a round of the exploration does not name it."""


@dataclass(frozen=True)
class Rule:
    """What `general` changes in a model for a kind of log."""

    model: str
    kind: str

    @property
    def settings(self) -> dict[str, Any]:
        changed = models.get(self.model).general_by_kind[self.kind]
        return {key: value for key, value in changed.items() if key not in _LENGTHS}

    def values(self, part: _Part, *, without: bool = False) -> dict[str, Any]:
        """The same settings on a log as `general` has them, or would have without this rule."""
        cls: Any = models.get(self.model)
        if without:
            kept = {kind: new for kind, new in cls.general_by_kind.items() if kind != self.kind}
            cls = type(cls.__name__, (cls,), {"general_by_kind": kept})
        found = {**cls.config_class().to_dict(), **cls.recipe_settings("general", part)}
        return {key: found[key] for key in self.settings}


@dataclass(frozen=True)
class _Part:
    """As much of a training part as `general` asks for."""

    interactions: int
    n_users: int
    n_items: int
    time: bool | None

    def __len__(self) -> int:
        return self.interactions


@dataclass(frozen=True)
class LeftOut:
    """What the other logs would choose for a log, and what that costs."""

    rule: Rule
    log: str
    in_place: bool
    gain: float
    """Of the rule on this log, as a share: mean over `pairs` of runs, or over the exact ones."""
    error: float | None
    """The standard error of that mean; None for one pair."""
    pairs: int
    exact: int
    """Of the pairs: from the recipe without the rule to the recipe with it."""
    others: int
    """Logs that choose; 0 where none has such runs."""
    alike: bool
    """Whether they are on the same side of the rule."""
    chosen: bool

    @property
    def cost(self) -> float:
        """Of their choice against what is in place here, as a share of validation."""
        return (self.chosen - self.in_place) * self.gain

    @property
    def short_of_best(self) -> float:
        return self.chosen * self.gain - max(self.gain, 0.0)


def rules() -> list[Rule]:
    """Every rule that changes more than the length of training."""
    found = [
        Rule(name, kind)
        for name in ("dlr2", "sasrec", "bpr")
        for kind in models.get(name).general_by_kind
    ]
    return [rule for rule in found if rule.settings]


def read_runs(root: Path) -> list[dict[str, Any]]:
    """The runs of the exploration, with every setting of a rule named."""
    tried = read_json(root / EXPLORATION)
    sources = (ARMS, "dlr2-general", "pair-models")
    runs = [dict(run) for name in sources for run in tried[name]["runs"]]
    if (root / SEQUENCE_SETTINGS).is_file():
        sequences = read_json(root / SEQUENCE_SETTINGS)["runs"]
        # A split with the last item held out is not among the training parts that rules read.
        runs += [run for run in sequences if run["part"] == "valid" and "," not in run["dataset"]]
    # Batches of 512 on these two logs are in the leaderboard (see `about` of the exploration).
    for log in ("ml-100k", "movietweetings-100k"):
        for record in PackedResults(root).records(log, ["leaderboard"]):
            if record.model == "dlr2" and record.config["batch_size"] == 512:
                run: dict[str, Any] = {
                    "dataset": log,
                    "model": "dlr2",
                    "init": record.init,
                    "round": 11,
                }
                run |= {"seed": record.seed, "valid": record.valid_metrics}
                runs.append(run | {"settings": {"batch_size": 512}})
    for run in runs:
        unnamed = _UNNAMED.get(run.get("round", 0), {}) if run["model"] == "dlr2" else {}
        if run["model"] == "sasrec":
            unnamed = models.get("sasrec").config_class().to_dict()
            keys = ("max_history", "layers", "dropout", "batch_size", "dim", "hidden")
            unnamed = {key: unnamed[key] for key in keys}
        elif run.get("tag") == "K3":
            unnamed = {**_V4, **models.get("dlr2").general_by_kind["large without order"]}
        run["settings"] = {**unnamed, **present_settings(run["model"], run["settings"])}
    return [run for run in runs if METRIC in (run.get("valid") or {})]


def read_parts(root: Path) -> dict[str, _Part]:
    """The training parts by log; `-notime` is the same log without its order."""
    found = {}
    for about in read_json(root / "training-parts.json").values():
        size = about["interactions"], about["users"], about["items"]
        for log in (about["dataset"], f"{about['dataset']}-notime"):
            found[log] = _Part(*size, None if log.endswith(UNORDERED) else True)
    return found


def gains(rule: Rule, runs: Sequence[Mapping[str, Any]], parts: Mapping[str, _Part]) -> Any:
    """By log: (gain, exact) of each pair of runs, one a step towards the rule from the other."""
    keys, alike = list(rule.settings), defaultdict(list)
    for run in runs:
        if run["model"] == rule.model and all(key in run["settings"] for key in keys):
            rest = {k: v for k, v in run["settings"].items() if k not in (*keys, *_LENGTHS)}
            where = [run["dataset"], run.get("round"), run["init"], run["seed"], rest]
            alike[json.dumps(where, sort_keys=True)].append(run)
    found = defaultdict(list)
    for group in alike.values():
        log = group[0]["dataset"]
        if "order" in rule.kind and rule.kind.endswith("without order") == bool(parts[log].time):
            continue
        without = rule.values(parts[log], without=True)
        for one, other in permutations(group, 2):
            ends = [{key: run["settings"][key] for key in keys} for run in (one, other)]
            if _is_step(ends[0], ends[1], without, rule.settings):
                gain = other["valid"][METRIC] / one["valid"][METRIC] - 1
                found[log].append((gain, ends == [without, rule.settings]))
    return found


def _is_step(
    one: Mapping[str, Any],
    other: Mapping[str, Any],
    without: Mapping[str, Any],
    ruled: Mapping[str, Any],
) -> bool:
    """Whether each setting that differs goes from `without` towards `ruled` and not beyond."""
    moved = [key for key in one if one[key] != other[key]]
    for key in moved:
        span = float(ruled[key]) - float(without[key])
        if not span:
            return False
        begin, end = ((float(side[key]) - float(without[key])) / span for side in (one, other))
        if not 0 <= begin < end <= 1:
            return False
    return bool(moved)


def leave_one_out(root: str | Path) -> list[LeftOut]:
    """Every rule on every log that has runs for it."""
    root = Path(root)
    runs, parts, rows = read_runs(root), read_parts(root), []
    for rule in rules():
        by_log = gains(rule, runs, parts)
        counted = {log: _counted(pairs) for log, pairs in by_log.items()}
        mean = {log: fmean(values) for log, values in counted.items()}
        sides = {log: rule.values(parts[log]) == rule.settings for log in mean}
        for log, pairs in by_log.items():
            others = [other for other in mean if other != log]
            same = [other for other in others if sides[other] == sides[log]]
            # Without another log of its kind the rule would not be there: all others choose.
            votes = [mean[other] for other in same or others]
            chosen = bool(votes) and fmean(votes) > 0
            values = counted[log]
            error = stdev(values) / len(values) ** 0.5 if len(values) > 1 else None
            counts = len(pairs), sum(exact for _, exact in pairs), len(votes)
            found = LeftOut(rule, log, sides[log], mean[log], error, *counts, bool(same), chosen)
            rows.append(found)
    return rows


def _counted(pairs: Sequence[tuple[float, bool]]) -> list[float]:
    """The gains with the recipe's own values, where there are any, or all."""
    return [gain for gain, exact in pairs if exact] or [gain for gain, _ in pairs]


def rules_table(root: str | Path) -> str:
    """`leave_one_out` as Markdown."""
    lines = [
        "| rule | log | in place | rule on this log | pairs (exact) | chosen by | others choose "
        "| against in place | against best |",
        "|---|---|---|---:|---:|---|---|---:|---:|",
    ]
    for row in leave_one_out(root):
        by = f"{row.others} of its side" if row.alike else f"{row.others} others"
        words = [f"{row.rule.model}, {row.rule.kind}", row.log, _word(row.in_place)]
        spread = "" if row.error is None else f" ± {100 * row.error:.1f}"
        words += [
            _percent(row.gain) + spread,
            f"{row.pairs} ({row.exact})",
            by if row.others else "none",
        ]
        if row.others:
            words += [_word(row.chosen), _percent(row.cost), _percent(row.short_of_best)]
        else:
            words += ["cannot say", "", ""]
        lines.append("| " + " | ".join(words) + " |")
    return "\n".join(lines)


def _word(rule: bool) -> str:
    return "rule" if rule else "default"


def _percent(share: float) -> str:
    return f"{100 * share:+.1f}%" if abs(share) >= 0.0005 else "0"


def run_arms(rule: Rule, split: Split, log: str, seed: int) -> Iterator[dict[str, Any]]:
    """Both arms of a rule on one log from LEPORID vectors on a CPU: rows with validation alone."""
    cls = models.get(rule.model)
    default = {**cls.config_class().to_dict(), **cls.recipes["general"]}
    for settings in ({key: default[key] for key in rule.settings}, rule.settings):
        asked: dict[str, Any] = {"seed": seed, "recipe": "general", "metric": METRIC}
        with warnings.catch_warnings(), Meter() as meter:
            warnings.simplefilter("ignore", LeporidWarning)
            asked |= {"device": "cpu", "progress": False, **settings}
            fitted: Any = models.train(rule.model, split, "leporid", **asked)
        table = evaluate(fitted, split, at=(10,), part="valid", metrics=["NDCG", "HR"])
        yield {
            "dataset": log,
            "model": rule.model,
            "init": "leporid",
            "seed": seed,
            "settings": settings,
            "valid": {name: round(value, 5) for name, value in table.mean().items()},
            "seconds": round(meter.seconds, 1),
            "best_step": fitted.training_summary().get("best_step"),
        }


def add_runs(root: Path, data: Path, logs: Sequence[str], seed: int) -> None:
    """Run the arms of every rule on some logs of the leaderboard, and keep them in the records."""
    for spec in read_experiment(LEADERBOARD, data):
        if spec.dataset in logs:
            source = spec.source or spec.dataset
            split = load_split(source, spec.core, spec.protocol, spec.min_rating)
            for rule in rules():
                tried = read_json(root / EXPLORATION)
                tried[ARMS]["runs"] += run_arms(rule, split, spec.dataset, seed)
                write_json(root / EXPLORATION, tried)
