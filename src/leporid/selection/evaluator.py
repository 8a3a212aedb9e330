"""`TrialEvaluator`: fits a candidate and evaluates it on the inner validation split.

Nothing here reads the test part. Each trial leaves a file in the folder of the search: the metric
per user, for paired differences, and the lists of the last rung, for blends.
"""

from __future__ import annotations

import math
import shutil
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
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
from leporid.selection.candidates import FULL, Candidate, Problem, Result
from leporid.selection.runtime_estimates import RuntimeEstimates
from leporid.selection.subprocess_runner import run_in_subprocess
from leporid.training import StopWhen

LIST_LENGTH = 50
"""Items of each list that are kept for blends."""


@dataclass
class TrialEvaluator:
    """Evaluates candidates of one search."""

    problem: Problem
    timer: Timer
    folder: Path
    estimates: RuntimeEstimates = field(init=False)
    _embeddings: dict[tuple[str, int], InitialEmbeddings | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.estimates = RuntimeEstimates(self.problem, self.timer)

    @property
    def metric(self) -> str:
        """What candidates are evaluated by."""
        return self.problem.metric

    def evaluate(self, candidate: Candidate, rung: int, until: float) -> Result:
        """Fit and evaluate one candidate at one rung."""
        neural = candidate.kind == "neural"
        can_stop = neural or math.isinf(until)
        if not can_stop and self.estimates.is_doubtful(candidate, until):
            return self._evaluate_in_subprocess(candidate, rung, until)
        guard, begun = Guard(self.timer, until), self.timer.clock()
        with warnings.catch_warnings(action="ignore", category=LeporidWarning):
            facts: dict[str, Any] = {}
            if neural:
                model, steps = self.train(candidate, rung, guard)
                facts = {"steps": steps, "best_step": model.fitting.best_step}
                guard = Guard(self.timer, math.inf)  # what was learnt in time is evaluated
            else:
                model = models.get(candidate.model)(**candidate.settings)
                model.fit(self.problem.inner, seed=self.problem.seed, progress=guard)
            facts["fit_seconds"] = self.timer.clock() - begun
            guard.advance(0)
            facts["ms"] = self._request_milliseconds(model)  # compiles what ranking needs
            begun = self.timer.clock()
            arrays = self._rank(model, guard)
        facts["ranking_seconds"] = self.timer.clock() - begun
        facts["bytes"] = model.nbytes
        write_arrays(self._file(candidate, rung), arrays, {k: str(v) for k, v in facts.items()})
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

    def _evaluate_in_subprocess(self, candidate: Candidate, rung: int, until: float) -> Result:
        begun = self.timer.clock()
        job = {"candidate": candidate.to_dict(), "rung": rung, "folder": str(self.folder)}
        job["about"] = {name: getattr(self.problem, name) for name in ("metric", "seed", "device")}
        self.run_in_subprocess(evaluate_to_file, until, candidate.model, **job)
        result = self.recall(candidate, rung)
        self.estimates.process_seconds = max(self.timer.clock() - begun - result.seconds, 0.1)
        return result

    def recall(self, candidate: Candidate, rung: int, at: float | None = None) -> Result:
        """The result of a trial, done now or `at` an earlier moment."""
        arrays, facts = read_arrays(self._file(candidate, rung))
        numbers = {key: float(value) for key, value in facts.items()}
        self.estimates.update(candidate, numbers)
        at = self.timer.elapsed if at is None else at
        return Result(candidate, rung, arrays["columns"], numbers, at)

    def lists(self, candidate: Candidate) -> NDArray[np.int32]:
        """int32[m, LIST_LENGTH]: the lists of a finished candidate."""
        return read_arrays(self._file(candidate, FULL))[0]["lists"].astype(np.int32)

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

    def _rank(self, model: Recommender, guard: Guard) -> dict[str, NDArray[Any]]:
        """The metric per user, and the lists."""
        cutoff, names = self.problem.cutoff, [self.metric, *ingredients(self.metric)]
        families = sorted({name.partition("@")[0] for name in names})
        cuts = tuple(sorted({cutoff, max(LIST_LENGTH, cutoff)}))
        table = evaluate(model, self.problem.inner, at=cuts, progress=guard, metrics=families)
        return {"columns": table.columns(self.metric), "lists": table.top}

    def _request_milliseconds(self, model: Recommender) -> float:
        """The quickest of five requests: ten items for one user."""
        times = []
        for _ in range(5):
            begun = self.timer.clock()
            model.top_k(np.zeros(1, np.int32), 10)
            times.append(1000 * (self.timer.clock() - begun))
        return min(times)

    def _file(self, candidate: Candidate, rung: int) -> Path:
        return self.folder / f"{candidate.key}-{rung}.safetensors"

    def _network(self, candidate: Candidate) -> Path:
        return self.folder / "networks" / candidate.key


def evaluate_to_file(
    split: str, about: dict[str, Any], folder: str, candidate: dict[str, Any], rung: int
) -> None:
    """Evaluate one candidate on a saved split, in this process."""
    problem = Problem.of(Split.load(split), **about)
    evaluator = TrialEvaluator(problem, Timer(math.inf), Path(folder))
    evaluator.evaluate(Candidate.from_dict(candidate), rung, math.inf)
