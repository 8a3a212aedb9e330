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
from leporid.selection.candidates import FULL, RUNGS, Candidate, Outcome, Problem
from leporid.selection.runtime_estimates import RuntimeEstimates
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
    workers: Any = None
    """What evaluates classical candidates elsewhere: it has `submit(function, *arguments)`."""
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

    def users(self, rung: int) -> NDArray[np.int32]:
        """int32[m]: the users that a rung evaluates on, ascending."""
        n = max(math.ceil(RUNGS[rung] * len(self.problem.users)), _MIN_USERS)
        return np.sort(self.problem.users[:n])

    def part(self, rung: int) -> Split:
        """The inner split with the test part of the users of a rung."""
        inner = self.problem.inner
        chosen = np.isin(inner.test.user, self.users(rung))
        return replace(inner, test=inner.test.select(chosen))

    def cost(self, candidate: Candidate, rung: int) -> float:
        """Estimated seconds of a trial."""
        return self.estimates.cost(candidate, rung, self._is_fitted(candidate))

    def finish(self, candidate: Candidate) -> float:
        """Estimated seconds from the end of the search to a deployed model."""
        return self.estimates.validated(candidate) + self.estimates.final(candidate)

    def evaluate(self, candidate: Candidate, rung: int, until: float) -> Outcome:
        """Fit and evaluate one candidate at one rung."""
        neural = candidate.kind == "neural"
        can_stop = neural or math.isinf(until) or self._is_fitted(candidate)
        if not can_stop and self.estimates.is_doubtful(candidate, until):
            return self._evaluate_in_subprocess(candidate, rung, until)
        guard, begun = Guard(self.timer, until), self.timer.clock()
        with warnings.catch_warnings(action="ignore", category=LeporidWarning):
            if neural:
                model, steps = self.train(candidate, rung, guard)
                facts: dict[str, Any] = {"steps": steps, "best_step": model.fitting.best_step}
                facts["fit_seconds"] = self.timer.clock() - begun
                guard = Guard(self.timer, math.inf)  # what was learnt in time is evaluated
            else:
                model, seconds = self.fit(candidate, guard)
                facts = {"fit_seconds": seconds}
            guard.advance(0)
            facts["ms"] = self._request_milliseconds(model)  # compiles what ranking needs
            begun = self.timer.clock()
            columns, lists = self._rank(model, rung, guard)
        facts["ranking_seconds"] = self.timer.clock() - begun
        facts["bytes"] = model.nbytes
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
        return {name: getattr(self.problem, name) for name in ("metric", "seed", "device")}

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

    def fit(self, candidate: Candidate, guard: Guard) -> tuple[Recommender, float]:
        """A classical candidate fitted on the inner split, and the seconds of the fit."""
        model = models.get(candidate.model)(**candidate.settings)
        if self._last_fit is not None and self._is_fitted(candidate):  # only the window differs
            config, (_, fitted, seconds) = model.config, self._last_fit
            model = copy.copy(fitted)
            model.config = config
            return model, seconds
        self._last_fit = None  # two large models would need twice the memory
        begun = self.timer.clock()
        model.fit(self.problem.inner, seed=self.problem.seed, progress=guard)
        self._last_fit = candidate, model, self.timer.clock() - begun
        return model, self._last_fit[2]

    def train(self, candidate: Candidate, rung: int, guard: Guard) -> tuple[Recommender, int]:
        """A network trained to the end of a rung, from where its last rung left it; its steps.

        At the deadline the training ends early.
        """
        last, at = self.estimates.stop_step(candidate, rung), [0]
        network: Any = models.get(candidate.model)(**candidate.settings)
        folder = self.folder / "checkpoints" / candidate.key

        def stop(step: int) -> bool:
            at.append(step)
            return step >= last or guard.is_over()

        network.fit(
            self.problem.inner,
            seed=self.problem.seed,
            init=self.embeddings(candidate, guard),
            device=self.problem.device,
            checkpoint=folder,
            resume=True,
            callbacks=[StopWhen(stop)],
        )
        if rung == FULL:
            network.save(self._network(candidate))
            shutil.rmtree(folder, ignore_errors=True)
        return network, at[-1] or last

    def trained(self, candidate: Candidate) -> Recommender:
        """The network of the last rung; trained again where its file is gone."""
        if not self._network(candidate).exists():
            self.train(candidate, FULL, Guard(self.timer, self.timer.budget))
        return Recommender.load(self._network(candidate))

    def embeddings(self, candidate: Candidate, guard: Guard) -> InitialEmbeddings | None:
        """Initial embeddings, computed once for all networks."""
        config: Any = models.get(candidate.model).config_class.from_dict(candidate.settings)
        name = str(candidate.init)
        settings: dict[str, Any] = {"dim": int(config.dim), "seed": self.problem.seed}
        key = (name, settings["dim"])
        if key not in self._embeddings:
            settings |= self.problem.init_settings(name)
            with warnings.catch_warnings(action="ignore", category=LeporidWarning):
                self._embeddings[key] = initial_embeddings(
                    name, self.problem.inner.train, progress=guard, **settings
                )
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

    def _request_milliseconds(self, model: Recommender) -> float:
        """The quickest of five requests: ten items for one user."""
        times = []
        for _ in range(5):
            begun = self.timer.clock()
            model.top_k(np.zeros(1, np.int32), 10)
            times.append(1000 * (self.timer.clock() - begun))
        return min(times)

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
