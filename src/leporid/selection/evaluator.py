"""`TrialEvaluator`: fits a candidate and evaluates it on the inner validation split.

Nothing here reads the test part. Each trial leaves a file in the folder of the search: the metric
per user, for paired differences, and the lists, for blends.
"""

import math
import shutil
import timeit
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
from leporid.embeddings import InitialEmbeddings, initial_embeddings
from leporid.errors import LeporidWarning
from leporid.evaluation import evaluate, ingredients
from leporid.models import FitContext, Recommender, StopWhen
from leporid.selection.budget import Guard, OutOfTimeError, Timer, format_duration
from leporid.selection.candidates import CONTENT_INITS, Candidate, Problem, Result
from leporid.selection.runtime_estimates import RuntimeEstimates
from leporid.selection.subprocess_runner import run_in_subprocess

KEPT_LIST_LENGTH = 50


@dataclass
class TrialEvaluator:
    """Evaluates candidates of one search."""

    problem: Problem
    timer: Timer
    folder: Path
    estimates: RuntimeEstimates = field(init=False)
    _embeddings: dict[tuple[str, int], InitialEmbeddings | None] = field(
        default_factory=dict
    )

    def __post_init__(self) -> None:
        self.estimates = RuntimeEstimates(self.problem, self.timer)

    def evaluate(self, candidate: Candidate, until: float) -> Result:
        can_stop = candidate.is_network or math.isinf(until)
        if not can_stop and self.estimates.is_doubtful(candidate, until):
            return self._evaluate_in_subprocess(candidate, until)
        guard, begun = Guard(self.timer, until), self.timer.clock()
        with warnings.catch_warnings(action="ignore", category=LeporidWarning):
            facts: dict[str, Any] = {}
            if candidate.is_network:
                model, steps = self.train(candidate, guard)
                facts = {"steps": steps, "best_step": model.fitting.best_step}
                guard = Guard(
                    self.timer, math.inf
                )  # what was learnt in time is evaluated
            else:
                model = models.get(candidate.model)(**candidate.settings)
                model.fit(self.problem.inner, seed=self.problem.seed, progress=guard)
            facts["fit_seconds"] = self.timer.clock() - begun
            guard.advance(0)
            # The quickest of five requests for one user; the first compiles what ranking needs.
            user, clock = np.zeros(1, np.int32), self.timer.clock
            requests = timeit.repeat(
                lambda: model.top_k(user, 10), timer=clock, number=1
            )
            facts["ms"] = 1000 * min(requests)
            begun = self.timer.clock()
            arrays = self._rank(model, guard)
        facts["ranking_seconds"] = self.timer.clock() - begun
        facts["bytes"] = model.nbytes
        write_arrays(
            self._file(candidate), arrays, {k: str(v) for k, v in facts.items()}
        )
        return self.recall(candidate)

    def run_in_subprocess(
        self, task: Callable[..., object], until: float, model: str, /, **job: Any
    ) -> None:
        """Run a task on the split in a process that is killed at `until`."""
        left = max(until - self.timer.elapsed, 0.0)
        if left < (needed := self.estimates.process_seconds):
            both = f"{format_duration(needed)}, and {format_duration(left)} were left"
            raise OutOfTimeError(
                f"there is no time to begin a process: that takes about {both}"
            )
        folder = self.folder / "split"
        if not is_split(folder):
            self.problem.split.save(folder)
        modules = [models.get(model).__module__]
        run_in_subprocess(
            task, left, modules, self.timer.clock, split=str(folder), **job
        )

    def _evaluate_in_subprocess(self, candidate: Candidate, until: float) -> Result:
        begun = self.timer.clock()
        job = {"candidate": candidate.to_dict(), "folder": str(self.folder)}
        job["about"] = {
            name: getattr(self.problem, name) for name in ("metric", "seed", "device")
        }
        self.run_in_subprocess(evaluate_to_file, until, candidate.model, **job)
        result = self.recall(candidate)
        self.estimates.process_seconds = max(
            self.timer.clock() - begun - result.seconds, 0.1
        )
        return result

    def recall(self, candidate: Candidate, at: float | None = None) -> Result:
        """The result of a trial, done now or `at` an earlier moment."""
        arrays, facts = read_arrays(self._file(candidate))
        numbers = {key: float(value) for key, value in facts.items()}
        self.estimates.update(candidate, numbers)
        at = self.timer.elapsed if at is None else at
        return Result(candidate, arrays["columns"], numbers, at)

    def lists(self, candidate: Candidate) -> NDArray[np.int32]:
        """int32[m, KEPT_LIST_LENGTH]: the lists of a finished candidate."""
        return read_arrays(self._file(candidate))[0]["lists"].astype(np.int32)

    def train(self, candidate: Candidate, guard: Guard) -> tuple[Recommender, int]:
        """A trained network, and its steps; at the deadline the training ends early."""
        at = [0]
        network: Any = models.get(candidate.model)(**candidate.settings)
        folder = self.folder / "checkpoints" / candidate.key

        def stop(step: int) -> bool:
            at.append(step)
            return guard.is_over()

        context = FitContext(
            init=self.embeddings(candidate, guard),
            device=self.problem.device,
            checkpoint=folder,
            resume=True,
            callbacks=(StopWhen(stop),),
        )
        network.fit(self.problem.inner, seed=self.problem.seed, context=context)
        network.save(self.network(candidate))
        shutil.rmtree(folder, ignore_errors=True)
        return network, at[-1] or network.config.steps

    def embeddings(
        self, candidate: Candidate, guard: Guard
    ) -> InitialEmbeddings | None:
        """Initial embeddings, computed once for all networks."""
        config: Any = models.get(candidate.model).config_class.from_dict(
            candidate.settings
        )
        key = name, dim = str(candidate.init), int(config.dim)
        if key not in self._embeddings:
            how: dict[str, Any] = {
                "dim": dim,
                "seed": self.problem.seed,
                "progress": guard,
            }
            how |= {"items": self.problem.items} if name in CONTENT_INITS else {}
            with warnings.catch_warnings(action="ignore", category=LeporidWarning):
                self._embeddings[key] = initial_embeddings(
                    name, self.problem.inner.train, **how
                )
        return self._embeddings[key]

    def _rank(self, model: Recommender, guard: Guard) -> dict[str, NDArray[Any]]:
        """The metric per user, and the lists."""
        cutoff, metric = self.problem.cutoff, self.problem.metric
        families = sorted({n.partition("@")[0] for n in [metric, *ingredients(metric)]})
        cuts = tuple(sorted({cutoff, max(KEPT_LIST_LENGTH, cutoff)}))
        table = evaluate(
            model, self.problem.inner, at=cuts, progress=guard, metrics=families
        )
        return {"columns": table.columns(metric), "lists": table.top}

    def _file(self, candidate: Candidate) -> Path:
        return self.folder / f"{candidate.key}.safetensors"

    def network(self, candidate: Candidate) -> Path:
        """Where the network of a trial is kept."""
        return self.folder / "networks" / candidate.key


def evaluate_to_file(
    split: str, about: dict[str, Any], folder: str, candidate: dict[str, Any]
) -> None:
    """Evaluate one candidate on a saved split, in this process."""
    problem = Problem.of(Split.load(split), **about)
    evaluator = TrialEvaluator(problem, Timer(math.inf), Path(folder))
    evaluator.evaluate(Candidate.from_dict(candidate), math.inf)
