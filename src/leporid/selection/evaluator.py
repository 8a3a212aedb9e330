"""Judging candidates on a rehearsal of the test, and predicting what that costs.

Nothing here reads the test part. What was judged is kept in the race's folder: the metric of every
user, for paired differences, and the first places of every list, for blends.
"""

from __future__ import annotations

import copy
import math
import shutil
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leporid import models
from leporid.artifacts import read_arrays, write_arrays
from leporid.data import Split, inner_validation_split, is_split
from leporid.errors import LeporidError, LeporidWarning
from leporid.evaluation import evaluate, ingredients, parse_metric
from leporid.initializers import InitialEmbeddings, initial_embeddings
from leporid.models import Recommender
from leporid.selection.budget import Guard, OutOfTimeError, Timer
from leporid.selection.candidates import Candidate
from leporid.selection.runtime_estimates import predict_seconds, prepare_start, request_milliseconds
from leporid.selection.search import FULL, LONGEST, RUNGS, Outcome, Task, Workers
from leporid.selection.subprocess_runner import run_apart
from leporid.training import StopWhen

DEPTH = 50
"""Places of each list that are kept for blends."""
MOST_USERS, FEWEST_USERS = 10_000, 500
"""Users of the last rung at most, and of any rung at least (as far as there are so many)."""
_SAFETY = 1.2
"""Predictions are lengthened by this."""
_DOUBT = 3.0
"""A fit may take this much longer than one that was measured, or than its pilots say."""
_LONG = 0.02
"""Share of the budget: the final fits of a model that takes longer run apart, most likely."""
_APART_SECONDS = 4.0
"""What such a process takes to begin, until that has been measured."""
_COMPILING = 60.0
"""What compiling the loops behind starting vectors may take at worst, after an installation."""
GOES_ON = 1 / 3
"""Share of its steps that a network is trained on with more data, where it does not begin anew."""
_ANEW = 0.2
"""Share of the budget: a training that takes less is begun anew before the test."""


@dataclass
class Rehearsal:
    """The judge of a race on one log."""

    split: Split
    stage: Split
    metric: str
    timer: Timer
    folder: Path
    seed: int = 0
    device: str = "auto"
    workers: Workers | None = None
    speeds: dict[str, float] = field(default_factory=dict)
    """Seconds per step of each network."""
    start_seconds: dict[str, float] = field(default_factory=dict)
    _vectors: dict[tuple[str, int], InitialEmbeddings | None] = field(default_factory=dict)
    _seconds: dict[str, dict[str, float]] = field(default_factory=dict)
    """Fit and ranking of each candidate, and of the last of each model, for all users."""
    _steps_done: dict[str, int] = field(default_factory=dict)
    _best_steps: dict[str, int] = field(default_factory=dict)
    _shortened: dict[str, int] = field(default_factory=dict)
    _pilots: dict[tuple[str, str], tuple[float, float]] = field(default_factory=dict)
    _apart_seconds: float = _APART_SECONDS
    _held: tuple[Candidate, Recommender, float] | None = None
    """The last classical candidate, fitted, and its seconds: another window needs no other fit."""

    @cached_property
    def users(self) -> NDArray[np.int32]:
        """int32[m]: the judged users in an order drawn by the seed; each rung takes the first."""
        users = np.unique(self.stage.test.user)
        return np.random.default_rng(self.seed).permutation(users)[:MOST_USERS].astype(np.int32)

    def part(self, rung: int) -> Split:
        """The stage with the test part of the users of a rung."""
        return self._among(max(math.ceil(RUNGS[rung].users * len(self.users)), FEWEST_USERS))

    def _among(self, first: int) -> Split:
        """The stage with the test part of the first users."""
        test = self.stage.test
        return replace(self.stage, test=test.select(np.isin(test.user, self.users[:first])))

    def cost(self, candidate: Candidate, rung: int) -> float:
        """Predicted seconds; from the last fit of the same model where there was one."""
        before = self._before(candidate)
        ranking = before.get("ranking", 0.0) * RUNGS[rung].users
        if candidate.kind == "neural":
            steps = self.stop_step(candidate, rung) - self._steps_done.get(candidate.key, 0)
            name = str(candidate.init)
            known = any(name == made for made, _ in self._vectors)
            waiting = 0.0 if known else self.start_seconds.get(name, 0.0)
            return _SAFETY * (self.speeds.get(candidate.model, 0.0) * steps + waiting) + ranking
        return _SAFETY * (0.0 if self._holds(candidate) else self.fit_seconds(candidate)) + ranking

    def fit_seconds(self, candidate: Candidate) -> float:
        """Predicted seconds of the fit of a classical model on the stage."""
        before = self._before(candidate)
        return before["fit"] if "fit" in before else self._pilot(candidate)[0]

    def finish(self, candidate: Candidate) -> float:
        """Two fits (before the test, on everything), a test and a save."""
        before = self._before(candidate)
        everyone = len(np.unique(self.split.test.user)) / max(len(self.users), 1)
        ranking = 1.5 * everyone * before.get("ranking", 0.0) + 0.2
        if candidate.kind == "neural":
            whole = self._whole_seconds(candidate)
            first = whole if self.begins_anew(candidate) else GOES_ON * whole
            again = 0.0 if self.workers is None else whole  # what a worker trained is not here
            return _SAFETY * (first + GOES_ON * whole + again + 1.0) + ranking
        fit = self.fit_seconds(candidate)
        apart = 2 * self._apart_seconds if fit > _LONG * self.timer.budget else 0.0
        # How much longer the whole log is than what candidates learn from.
        whole = len(self.split.train_valid) + len(self.split.test)
        growth = whole / max(len(self.stage.train), 1)
        return _SAFETY * fit * (1 + growth) + ranking + apart

    def begins_anew(self, candidate: Candidate) -> bool:
        """Whether a network that is to be tested begins anew, or goes on from the race."""
        return self._whole_seconds(candidate) < _ANEW * self.timer.budget

    def _whole_seconds(self, candidate: Candidate) -> float:
        """Of a network's vectors and of the steps it needs, as far as that is known."""
        steps = self._best_steps.get(candidate.key) or self.stop_step(candidate, FULL)
        begin = self.start_seconds.get(str(candidate.init), 0.0)
        return self.speeds.get(candidate.model, 0.0) * steps + begin

    def _before(self, candidate: Candidate) -> dict[str, float]:
        """Seconds of this candidate, or of the last one of the same model; empty for a new one."""
        return self._seconds.get(candidate.key) or self._seconds.get(candidate.model, {})

    def stop_step(self, candidate: Candidate, rung: int) -> int:
        """The step at which a rung judges a network."""
        if rung == FULL and candidate.key in self._shortened:
            return self._shortened[candidate.key]
        config: Any = models.get(candidate.model).config_class.from_dict(candidate.settings)
        return math.ceil(RUNGS[rung].steps * int(config.steps))

    def shorten(self, candidate: Candidate, rung: int) -> bool:
        """Plan the last rung of a network a tenth shorter; False where it has come that far."""
        if rung < FULL or candidate.kind == "classical" or self.workers is not None:
            return False
        last = math.floor(0.9 * self.stop_step(candidate, rung))
        if last >= self._steps_done.get(candidate.key, last + 1):
            self._shortened[candidate.key] = last
            return True
        self._shortened.pop(candidate.key, None)
        return False

    def evaluate(self, candidate: Candidate, rung: int, until: float) -> Outcome:
        """Fit and judge one candidate at one rung."""
        stoppable = candidate.kind == "neural" or math.isinf(until)
        if not stoppable and not self._holds(candidate) and self.is_doubtful(candidate, until):
            return self._evaluate_apart(candidate, rung, until)
        self._warm  # noqa: B018 (computed once)
        begun, guard = self.timer.clock(), Guard(self.timer, until)
        with warnings.catch_warnings(action="ignore", category=LeporidWarning):
            model, fitted = self.fit(candidate, rung, guard)
            guard.advance(0)
            ranking = self.timer.clock()
            columns, lists = self._rank(model, rung, guard)
        seconds = self.timer.clock() - begun
        facts = {
            "fit_seconds": fitted,
            "ranking_seconds": self.timer.clock() - ranking,
            "ms": request_milliseconds([model], self.timer.clock)[0],
            "bytes": model.nbytes,
        }
        if candidate.kind == "neural":
            facts["steps"] = self.stop_step(candidate, rung)
            facts["best_step"] = model.fitting.best_step
        arrays = {"columns": columns} | ({"lists": lists} if rung == FULL else {})
        write_arrays(self._file(candidate, rung), arrays, {k: str(v) for k, v in facts.items()})
        self._learn(candidate, rung, facts)
        return Outcome(columns, seconds, facts)

    def is_doubtful(self, candidate: Candidate, until: float) -> bool:
        """Whether a fit that cannot be stopped might end too late."""
        left = until - self.timer.elapsed
        if known := self._seconds.get(candidate.key):
            return _DOUBT * known["fit"] > left
        worst = self._pilot(candidate)[1]
        return worst > left or _DOUBT * worst > self.timer.left

    def apart(self, task: Callable[..., object], until: float, model: str, /, **job: Any) -> None:
        """Run a task on the split in a process that is killed at `until`."""
        left = until - self.timer.elapsed
        if left < self._apart_seconds:
            raise OutOfTimeError("there is no time to begin a process")
        where = self.folder / "split"
        if not is_split(where):
            self.split.save(where)
        modules = [models.get(model).__module__]
        run_apart(task, left, modules, self.timer.clock, split=str(where), **job)

    def _evaluate_apart(self, candidate: Candidate, rung: int, until: float) -> Outcome:
        begun = self.timer.clock()
        job = {"about": self._shared, "folder": str(self.folder), "rung": rung}
        self.apart(evaluate_alone, until, candidate.model, candidate=candidate.to_dict(), **job)
        outcome = self.recall(candidate, rung)
        self._apart_seconds = max(self.timer.clock() - begun - outcome.seconds, 0.1)
        return outcome

    def order(self, candidate: Candidate, rung: int) -> tuple[Callable[..., Any], *tuple[Any, ...]]:
        """What a worker, who shares no disk with this process, is asked to do."""
        return judge_elsewhere, self.split, self._shared, candidate, rung

    def receive(self, candidate: Candidate, rung: int, task: Task | None) -> Outcome:
        """Keep what a worker found as if it had been found here."""
        if task is None:
            raise OutOfTimeError("no answer in time")
        self._file(candidate, rung).write_bytes(task.result())
        return self.recall(candidate, rung)

    @property
    def _shared(self) -> dict[str, Any]:
        return {"metric": self.metric, "seed": self.seed, "device": self.device}

    def recall(self, candidate: Candidate, rung: int) -> Outcome:
        """An outcome of an earlier sitting."""
        arrays, facts = read_arrays(self._file(candidate, rung))
        numbers = {key: float(value) for key, value in facts.items()}
        self._learn(candidate, rung, numbers)
        seconds = numbers["fit_seconds"] + numbers["ranking_seconds"]
        return Outcome(arrays["columns"], seconds, numbers)

    def lists(self, candidate: Candidate) -> NDArray[np.int32]:
        """int32[m, DEPTH]: what a finished candidate recommends to the users of the last rung."""
        return read_arrays(self._file(candidate, FULL))[0]["lists"].astype(np.int32)

    def _holds(self, candidate: Candidate) -> bool:
        """Whether the last fit is of the same settings but for the window."""
        return self._held is not None and self._held[0].unwindowed == candidate.unwindowed

    def fit(self, candidate: Candidate, rung: int, guard: Guard) -> tuple[Recommender, float]:
        """The candidate fitted on the stage, and the seconds of that.

        A network goes on from its last rung. What a model learns does not depend on its window.
        """
        begun = self.timer.clock()
        model = models.get(candidate.model)(**candidate.settings)
        if candidate.kind == "classical":
            if self._held is not None and self._holds(candidate):
                config, (_, fitted, seconds) = model.config, self._held
                model = copy.copy(fitted)
                model.config = config
                return model, seconds
            self._held = None  # two large models would need twice the memory
            model.fit(self.stage, seed=self.seed, progress=guard)
            self._held = candidate, model, self.timer.clock() - begun
            return model, self._held[2]
        last, folder = self.stop_step(candidate, rung), self.folder / "checkpoints" / candidate.key
        how: dict[str, Any] = {
            "init": self.vectors(candidate, guard),
            "device": self.device,
            "checkpoint": folder,
            "resume": True,
            "callbacks": [StopWhen(lambda step: step >= last or guard.is_over())],
        }
        network: Any = model
        network.fit(self.stage, seed=self.seed, progress=guard, **how)
        if rung == FULL:
            model.save(self._network(candidate))
            shutil.rmtree(folder, ignore_errors=True)
        return model, self.timer.clock() - begun

    def trained(self, candidate: Candidate) -> Recommender:
        """The network as the race left it; where a worker trained it, that is done again here."""
        if not self._network(candidate).exists():
            self.fit(candidate, FULL, Guard(self.timer, self.timer.budget))
        return Recommender.load(self._network(candidate))

    def refitted(self, candidate: Candidate, guard: Guard) -> Recommender:
        """A finished candidate as it was judged."""
        neural = candidate.kind == "neural"
        return self.trained(candidate) if neural else self.fit(candidate, FULL, guard)[0]

    def refit_seconds(self, candidate: Candidate) -> float:
        """Predicted seconds of that."""
        if candidate.kind == "classical":
            return _SAFETY * self.fit_seconds(candidate)
        saved = self._network(candidate).exists()
        return 0.0 if saved else _SAFETY * self._whole_seconds(candidate)

    def vectors(self, candidate: Candidate, guard: Guard) -> InitialEmbeddings | None:
        """Starting vectors, computed once for all networks."""
        config: Any = models.get(candidate.model).config_class.from_dict(candidate.settings)
        name, train = str(candidate.init), self.stage.train
        key = (name, int(config.dim))
        if key in self._vectors:
            return self._vectors[key]
        with warnings.catch_warnings(action="ignore", category=LeporidWarning):
            if name not in self.start_seconds:
                # Loading or compiling the loops is not what the next fit will take, and compiling
                # cannot be stopped here.
                if name != "random" and guard.until - self.timer.elapsed < _COMPILING:
                    self.apart(prepare_start, guard.until, candidate.model, name=name)
                prepare_start(train, name)
            begun = self.timer.clock()
            self._vectors[key] = initial_embeddings(
                name, train, dim=config.dim, seed=self.seed, progress=guard
            )
            self.start_seconds[name] = self.timer.clock() - begun
        return self._vectors[key]

    @property
    def cut(self) -> int:
        """10 of NDCG@10."""
        return parse_metric(self.metric)[1]

    def _pilot(self, candidate: Candidate) -> tuple[float, float]:
        """Expected and worst seconds of settings that have not been fitted yet."""
        key = candidate.unwindowed
        if key not in self._pilots:
            try:
                with warnings.catch_warnings(action="ignore", category=LeporidWarning):
                    seconds = predict_seconds(
                        lambda part: models.get(candidate.model)(**candidate.settings).fit(part),
                        self.stage,
                        LONGEST * self.timer.budget,
                        self.timer.clock,
                    )
            except LeporidError:  # so few items are none to this model
                seconds = 0.0, 0.0
            self._pilots[key] = seconds
        return self._pilots[key]

    @cached_property
    def _warm(self) -> None:
        """Load the compiled loops of the evaluation, which no candidate should pay for."""
        model, family = models.get("toppop")().fit(self.stage), parse_metric(self.metric)[0]
        evaluate(model, self._among(1), at=(self.cut,), metrics=[family])

    def _rank(
        self, model: Recommender, rung: int, guard: Guard
    ) -> tuple[NDArray[np.float64], NDArray[np.int32]]:
        """The metric of every user, and the lists."""
        depth = DEPTH if rung == FULL else self.cut
        cuts = tuple(sorted({self.cut, max(depth, self.cut)}))
        families = sorted({n.partition("@")[0] for n in [self.metric, *ingredients(self.metric)]})
        table = evaluate(model, self.part(rung), at=cuts, progress=guard, metrics=families)
        columns = [table.per_user(name) for name in ingredients(self.metric)]
        return np.column_stack(columns), table.top

    def _learn(self, candidate: Candidate, rung: int, facts: dict[str, Any]) -> None:
        """Keep the seconds for later predictions."""
        if candidate.kind == "neural":
            steps = int(facts["steps"]) - self._steps_done.get(candidate.key, 0)
            if steps > 0:  # with its validations: better than the few steps it was planned with
                self.speeds[candidate.model] = facts["fit_seconds"] / steps
            self._steps_done[candidate.key] = int(facts["steps"])
            if rung == FULL:
                self._best_steps[candidate.key] = int(facts["best_step"])
        ranking = facts["ranking_seconds"] / RUNGS[rung].users
        seconds = {"fit": facts["fit_seconds"], "ranking": ranking}
        self._seconds[candidate.key] = self._seconds[candidate.model] = seconds

    def _file(self, candidate: Candidate, rung: int) -> Path:
        return self.folder / f"{candidate.key}-{rung}.safetensors"

    def _network(self, candidate: Candidate) -> Path:
        return self.folder / "networks" / candidate.key


def stage_of(split: Split) -> Split:
    """What a race is run on: a rehearsal, on a tiny log validation alone; `split` if neither is."""
    nothing = split.train.select(np.empty(0, np.int64))
    validation = Split(split.train, nothing, split.valid, split.protocol)
    stages = (inner_validation_split(split), validation)
    return next((stage for stage in stages if len(stage.train) and len(stage.test)), split)


def evaluate_alone(
    split: str | Split, about: dict[str, Any], folder: str, candidate: dict[str, Any], rung: int
) -> Path:
    """Judge one candidate in this process; the file that came out, in the folder of the race."""
    split = split if isinstance(split, Split) else Split.load(split)
    own, timer = Candidate.from_dict(candidate), Timer(math.inf)
    judge = Rehearsal(split, stage_of(split), timer=timer, folder=Path(folder), **about)
    judge.evaluate(own, rung, math.inf)
    return judge._file(own, rung)


def judge_elsewhere(split: Split, about: dict[str, Any], candidate: Candidate, rung: int) -> bytes:
    """Judge one candidate in this process; the file that came out."""
    with tempfile.TemporaryDirectory() as folder:
        return evaluate_alone(split, about, folder, candidate.to_dict(), rung).read_bytes()
