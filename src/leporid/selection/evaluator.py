"""`TrialEvaluator`: fits a candidate and evaluates it on the inner validation split.

Nothing here reads the test part. Each trial leaves a file in the folder of the search: the metric
per user, for paired differences, and the lists of the last rung, for blends.
"""

from __future__ import annotations

import copy
import math
import shutil
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leporid import models
from leporid.artifacts import read_arrays, write_arrays
from leporid.data import Split, is_split
from leporid.errors import LeporidWarning
from leporid.evaluation import evaluate, ingredients
from leporid.initializers import InitialEmbeddings, initial_embeddings
from leporid.models import Recommender
from leporid.selection.budget import Guard, OutOfTimeError, Timer
from leporid.selection.candidates import FULL, RUNGS, Candidate, Outcome, Problem, Workers
from leporid.selection.runtime_estimates import SAFETY, RuntimeEstimates, request_milliseconds
from leporid.selection.subprocess_runner import run_in_subprocess
from leporid.training import StopWhen

LIST_LENGTH = 50
"""Items of each list that are kept for blends."""
_MIN_USERS = 500
"""Users of any rung at least, as far as there are so many."""


@dataclass
class TrialEvaluator:
    """Evaluates candidates of one search."""

    problem: Problem
    timer: Timer
    folder: Path
    workers: Workers | None = None
    estimates: RuntimeEstimates = field(init=False)
    _embeddings: dict[tuple[str, int], InitialEmbeddings | None] = field(default_factory=dict)
    _last_fit: tuple[Candidate, Recommender, float] | None = None
    """The last classical candidate, fitted, and its seconds: another window needs no other fit."""

    def __post_init__(self) -> None:
        self.estimates = RuntimeEstimates(self.problem, self.timer)

    @property
    def metric(self) -> str:
        """What candidates are evaluated by."""
        return self.problem.metric

    def part(self, rung: int) -> Split:
        """The inner split with the test part of the users of a rung."""
        inner, users = self.problem.inner, self.problem.users
        n = max(math.ceil(RUNGS[rung].users * len(users)), _MIN_USERS)
        return replace(inner, test=inner.test.select(np.isin(inner.test.user, users[:n])))

    def cost(self, candidate: Candidate, rung: int) -> float:
        """Estimated seconds of a trial."""
        return self.estimates.cost(candidate, rung, self._is_fitted(candidate))

    def finish(self, candidate: Candidate) -> float:
        """Estimated seconds from the end of the search to a deployed model."""
        return self.estimates.finish(candidate, is_trained_here=self.workers is None)

    def shorten(self, candidate: Candidate, rung: int) -> bool:
        """Plan the last rung of a network a tenth shorter; False where that is not possible."""
        is_network = candidate.kind == "neural" and self.workers is None
        return rung == FULL and is_network and self.estimates.shorten(candidate)

    def evaluate(self, candidate: Candidate, rung: int, until: float) -> Outcome:
        """Fit and evaluate one candidate at one rung."""
        can_stop = candidate.kind == "neural" or math.isinf(until) or self._is_fitted(candidate)
        if not can_stop and self.estimates.is_doubtful(candidate, until):
            return self._evaluate_in_subprocess(candidate, rung, until)
        guard = Guard(self.timer, until)
        with warnings.catch_warnings(action="ignore", category=LeporidWarning):
            model, fit_seconds = self.fit(candidate, rung, guard)
            guard.advance(0)
            begun = self.timer.clock()
            columns, lists = self._rank(model, rung, guard)
        facts = {
            "fit_seconds": fit_seconds,
            "ranking_seconds": self.timer.clock() - begun,
            "ms": request_milliseconds([model], self.timer.clock)[0],
            "bytes": model.nbytes,
        }
        if candidate.kind == "neural":
            facts["steps"] = self.estimates.stop_step(candidate, rung)
            facts["best_step"] = model.fitting.best_step
        arrays = {"columns": columns} | ({"lists": lists} if rung == FULL else {})
        write_arrays(self.file(candidate, rung), arrays, {k: str(v) for k, v in facts.items()})
        return self.recall(candidate, rung)

    def run_in_subprocess(
        self, task: Callable[..., object], until: float, model: str, /, **job: Any
    ) -> None:
        """Run a task on the split in a process that is killed at `until`."""
        left = until - self.timer.elapsed
        if left < self.estimates.process_seconds:
            raise OutOfTimeError("there is no time to begin a process")
        folder = self.folder / "split"
        if not is_split(folder):
            self.problem.split.save(folder)
        modules = [models.get(model).__module__]
        run_in_subprocess(task, left, modules, self.timer.clock, split=str(folder), **job)

    def _evaluate_in_subprocess(self, candidate: Candidate, rung: int, until: float) -> Outcome:
        begun = self.timer.clock()
        job = {"about": self._about, "candidate": candidate.to_dict(), "rung": rung}
        folder = str(self.folder)
        self.run_in_subprocess(evaluate_to_file, until, candidate.model, folder=folder, **job)
        outcome = self.recall(candidate, rung)
        self.estimates.process_seconds = max(self.timer.clock() - begun - outcome.seconds, 0.1)
        return outcome

    def order(self, candidate: Candidate, rung: int) -> tuple[Callable[..., Any], *tuple[Any, ...]]:
        """The task of a worker, which shares no disk with this process."""
        return evaluate_to_bytes, self.problem.split, self._about, candidate, rung

    def receive(self, candidate: Candidate, rung: int, task: Any) -> Outcome:
        """Keep the result of a worker as if it had been computed here; None: it came too late."""
        if task is None:
            raise OutOfTimeError("no answer in time")
        self.file(candidate, rung).write_bytes(task.result())
        return self.recall(candidate, rung)

    @property
    def _about(self) -> dict[str, Any]:
        about = self.problem
        return {"metric": about.metric, "seed": about.seed, "device": about.device}

    def recall(self, candidate: Candidate, rung: int) -> Outcome:
        """The outcome of an earlier trial."""
        arrays, facts = read_arrays(self.file(candidate, rung))
        numbers = {key: float(value) for key, value in facts.items()}
        self.estimates.update(candidate, rung, numbers)
        seconds = numbers["fit_seconds"] + numbers["ranking_seconds"]
        return Outcome(arrays["columns"], seconds, numbers)

    def lists(self, candidate: Candidate) -> NDArray[np.int32]:
        """int32[m, LIST_LENGTH]: the lists of a finished candidate."""
        return read_arrays(self.file(candidate, FULL))[0]["lists"].astype(np.int32)

    def _is_fitted(self, candidate: Candidate) -> bool:
        """Whether the last fit is of the same settings but for the window."""
        return self._last_fit is not None and self._last_fit[0].fit_key == candidate.fit_key

    def fit(self, candidate: Candidate, rung: int, guard: Guard) -> tuple[Recommender, float]:
        """The candidate fitted on the inner split, and the seconds of the fit."""
        begun = self.timer.clock()
        model = models.get(candidate.model)(**candidate.settings)
        if candidate.kind == "neural":
            self._train(model, candidate, rung, guard)
            return model, self.timer.clock() - begun
        if self._last_fit is not None and self._is_fitted(candidate):  # only the window differs
            config, (_, fitted, seconds) = model.config, self._last_fit
            model = copy.copy(fitted)
            model.config = config
            return model, seconds
        self._last_fit = None  # two large models would need twice the memory
        model.fit(self.problem.inner, seed=self.problem.seed, progress=guard)
        self._last_fit = candidate, model, self.timer.clock() - begun
        return model, self._last_fit[2]

    def _train(self, network: Any, candidate: Candidate, rung: int, guard: Guard) -> None:
        """Train a network to the end of a rung, from where its last rung left it."""
        last = self.estimates.stop_step(candidate, rung)
        folder = self.folder / "checkpoints" / candidate.key
        network.fit(
            self.problem.inner,
            seed=self.problem.seed,
            progress=guard,
            init=self.embeddings(candidate, guard),
            device=self.problem.device,
            checkpoint=folder,
            resume=True,
            callbacks=[StopWhen(lambda step: step >= last or guard.is_over())],
        )
        if rung == FULL:
            network.save(self._network(candidate))
            shutil.rmtree(folder, ignore_errors=True)

    def trained(self, candidate: Candidate) -> Recommender:
        """The network of the last rung; if a worker trained it, it is trained again here."""
        if not self._network(candidate).exists():
            self.fit(candidate, FULL, Guard(self.timer, self.timer.budget))
        return Recommender.load(self._network(candidate))

    def refitted(self, candidate: Candidate, guard: Guard) -> Recommender:
        """A finished candidate as it was evaluated."""
        neural = candidate.kind == "neural"
        return self.trained(candidate) if neural else self.fit(candidate, FULL, guard)[0]

    def refit_seconds(self, candidate: Candidate) -> float:
        """Estimated seconds of `refitted`."""
        if self._network(candidate).exists():
            return 0.0
        neural = candidate.kind == "neural"
        known = self.estimates.training_seconds if neural else self.estimates.fit_seconds
        return SAFETY * known(candidate)

    def embeddings(self, candidate: Candidate, guard: Guard) -> InitialEmbeddings | None:
        """Initial embeddings, computed once for all networks."""
        config: Any = models.get(candidate.model).config_class.from_dict(candidate.settings)
        name, train = str(candidate.init), self.problem.inner.train
        key = (name, int(config.dim))
        if key in self._embeddings:
            return self._embeddings[key]
        begun = self.timer.clock()
        with warnings.catch_warnings(action="ignore", category=LeporidWarning):
            self._embeddings[key] = initial_embeddings(
                name, train, dim=config.dim, seed=self.problem.seed, progress=guard
            )
        self.estimates.init_seconds[name] = self.timer.clock() - begun
        return self._embeddings[key]

    def _rank(
        self, model: Recommender, rung: int, guard: Guard
    ) -> tuple[NDArray[np.float64], NDArray[np.int32]]:
        """The metric per user, and the lists."""
        cutoff, names = self.problem.cutoff, ingredients(self.metric)
        cuts = tuple(sorted({cutoff, max(LIST_LENGTH, cutoff) if rung == FULL else cutoff}))
        families = sorted({name.partition("@")[0] for name in [self.metric, *names]})
        table = evaluate(model, self.part(rung), at=cuts, progress=guard, metrics=families)
        return np.column_stack([table.per_user(name) for name in names]), table.top

    def file(self, candidate: Candidate, rung: int) -> Path:
        """Where a trial is kept."""
        return self.folder / f"{candidate.key}-{rung}.safetensors"

    def _network(self, candidate: Candidate) -> Path:
        return self.folder / "networks" / candidate.key


def evaluate_to_file(
    split: str | Split, about: dict[str, Any], folder: str, candidate: dict[str, Any], rung: int
) -> Path:
    """Evaluate one candidate in this process; the file of the trial, in `folder`."""
    split = split if isinstance(split, Split) else Split.load(split)
    own, problem = Candidate.from_dict(candidate), Problem.of(split, **about)
    evaluator = TrialEvaluator(problem, Timer(math.inf), Path(folder))
    evaluator.evaluate(own, rung, math.inf)
    return evaluator.file(own, rung)


def evaluate_to_bytes(
    split: Split, about: dict[str, Any], candidate: Candidate, rung: int
) -> bytes:
    """Evaluate one candidate in this process; the bytes of the trial's file."""
    with tempfile.TemporaryDirectory() as folder:
        return evaluate_to_file(split, about, folder, candidate.to_dict(), rung).read_bytes()
