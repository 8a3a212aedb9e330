"""`TrialEvaluator`: fits a candidate and evaluates it on the inner validation split.

Nothing here reads the test part. Each trial leaves a file in the folder of the search: the metric
per user, for paired differences, and the lists, for blends.
"""

from __future__ import annotations

import math
import shutil
import timeit
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from leporid import models
from leporid.data import Split, is_split
from leporid.embeddings import InitialEmbeddings
from leporid.errors import LeporidWarning
from leporid.evaluation import evaluate, ingredients
from leporid.foundation import SettingValue, read_arrays, write_arrays
from leporid.models import FitContext, Recommender, StopWhen, fit, fit_init
from leporid.selection.budget import Deadline, OutOfTimeError, Timer, format_duration
from leporid.selection.candidates import Candidate
from leporid.selection.runtime_estimates import RuntimeEstimates
from leporid.selection.subprocess_runner import run_in_subprocess
from leporid.selection.task import SearchTask
from leporid.selection.trials import TrialCost, TrialResult

STORED_LIST_LENGTH = 50


@dataclass
class TrialEvaluator:
    """Evaluates candidates of one search."""

    task: SearchTask
    timer: Timer
    folder: Path
    estimates: RuntimeEstimates = field(init=False)
    _embeddings: dict[tuple[str, int], InitialEmbeddings | None] = field(
        default_factory=dict
    )
    """Initial embeddings by method and dimension."""

    def __post_init__(self) -> None:
        self.estimates = RuntimeEstimates(self.task, self.timer)

    def evaluate(self, candidate: Candidate, until: float) -> TrialResult:
        """Fit and evaluate a candidate; `OutOfTimeError` if it takes longer than `until`."""
        can_stop = candidate.is_network or math.isinf(until)
        if not can_stop and self.estimates.is_doubtful(candidate, until):
            return self._evaluate_in_subprocess(candidate, until)
        with warnings.catch_warnings(action="ignore", category=LeporidWarning):
            self._evaluate_here(candidate, Deadline(self.timer, until))
        return self.recall(candidate)

    def _evaluate_here(self, candidate: Candidate, deadline: Deadline) -> None:
        """Fit and evaluate a candidate in this process, and write the file of the trial."""
        clock = self.timer.clock
        fit_begun = clock()
        steps = best_step = None
        if candidate.is_network:
            model, steps = self.train(candidate, deadline)
            best_step = model.fitting.best_step
            # What was learnt in time is evaluated, whatever that takes.
            deadline = Deadline(self.timer, math.inf)
        else:
            context = FitContext(progress=deadline)
            model = fit(candidate.trial_spec(self.task), self.task.inner, context)
        fit_seconds = clock() - fit_begun
        deadline.advance(0)
        milliseconds = 1000 * request_seconds(model, clock)
        ranking_begun = clock()
        arrays = self._rank(model, deadline)
        cost = TrialCost(
            fit_seconds=fit_seconds,
            ranking_seconds=clock() - ranking_begun,
            ms=milliseconds,
            bytes=model.nbytes,
            steps=steps,
            best_step=best_step,
        )
        write_arrays(self._file(candidate), arrays, cost.to_text())

    def run_in_subprocess(
        self,
        task: Callable[..., object],
        until: float,
        candidate: Candidate,
        /,
        **job: str | int | bool,
    ) -> None:
        """Run a task on the split in a process that is killed at `until`.

        The task gets `split` (a folder), `candidate` (a mapping) and what the `job` names.
        """
        left = max(until - self.timer.elapsed, 0.0)
        needed = self.estimates.process_seconds
        if left < needed:
            raise OutOfTimeError(
                f"there is no time to begin a process: that takes about "
                f"{format_duration(needed)}, and {format_duration(left)} were left"
            )
        folder = self.folder / "split"
        if not is_split(folder):
            self.task.split.save(folder)
        run_in_subprocess(
            task,
            left,
            [models.get(candidate.model).__module__],
            self.timer.clock,
            split=str(folder),
            candidate=candidate.to_dict(),
            **job,
        )

    def _evaluate_in_subprocess(
        self, candidate: Candidate, until: float
    ) -> TrialResult:
        begun = self.timer.clock()
        self.run_in_subprocess(
            evaluate_to_file,
            until,
            candidate,
            folder=str(self.folder),
            metric=self.task.metric,
            seed=self.task.seed,
            device=self.task.device,
        )
        result = self.recall(candidate)
        seconds = self.timer.clock() - begun
        self.estimates.process_seconds = max(seconds - result.seconds, 0.1)
        return result

    def recall(self, candidate: Candidate, at: float | None = None) -> TrialResult:
        """Read the result of a trial that was done now, or `at` an earlier moment."""
        arrays, facts = read_arrays(self._file(candidate))
        cost = TrialCost.from_text(facts)
        self.estimates.update(candidate, cost)
        if at is None:
            at = self.timer.elapsed
        return TrialResult(candidate, arrays["columns"], cost, at)

    def lists(self, candidate: Candidate) -> NDArray[np.int32]:
        """Return int32[m, STORED_LIST_LENGTH]: the lists of a finished candidate."""
        arrays, _ = read_arrays(self._file(candidate))
        return arrays["lists"].astype(np.int32)

    def train(
        self, candidate: Candidate, deadline: Deadline
    ) -> tuple[Recommender, int]:
        """Train a network and save it; return it and its steps.

        At the deadline the training ends early.
        """
        step = 0

        def is_over(done: int) -> bool:
            nonlocal step
            step = done
            return deadline.is_over()

        vectors = self.embeddings(candidate, deadline)
        checkpoint = self.folder / "checkpoints" / candidate.key
        context = FitContext(
            device=self.task.device,
            checkpoint=checkpoint,
            resume=True,
            callbacks=(StopWhen(is_over),),
        )
        spec = replace(candidate.trial_spec(self.task), init=vectors)
        network = fit(spec, self.task.inner, context)
        network.save(self.network(candidate))
        shutil.rmtree(checkpoint, ignore_errors=True)
        return network, step or int(network.config.to_dict()["steps"])

    def embeddings(
        self, candidate: Candidate, deadline: Deadline
    ) -> InitialEmbeddings | None:
        """Return the initial embeddings of a candidate, computed once for all networks."""
        key = (str(candidate.init), candidate.training.dim)
        if key not in self._embeddings:
            context = FitContext(progress=deadline)
            with warnings.catch_warnings(action="ignore", category=LeporidWarning):
                self._embeddings[key] = fit_init(
                    candidate.trial_spec(self.task), self.task.inner, context
                )
        return self._embeddings[key]

    def _rank(
        self, model: Recommender, deadline: Deadline
    ) -> dict[str, NDArray[np.generic]]:
        """Return the metric per user, and the lists."""
        metric = self.task.metric
        cutoff = self.task.cutoff
        names = [metric, *ingredients(metric)]
        table = evaluate(
            model,
            self.task.inner,
            at=tuple(sorted({cutoff, max(STORED_LIST_LENGTH, cutoff)})),
            progress=deadline,
            metrics=sorted({name.partition("@")[0] for name in names}),
        )
        return {"columns": table.columns(metric), "lists": table.top}

    def _file(self, candidate: Candidate) -> Path:
        return self.folder / f"{candidate.key}.safetensors"

    def network(self, candidate: Candidate) -> Path:
        """Return the folder of the network that a trial has trained."""
        return self.folder / "networks" / candidate.key


def request_seconds(model: Recommender, clock: Callable[[], float]) -> float:
    """Return the seconds of the quickest of five requests for one user.

    The first one compiles what ranking needs.
    """
    user = np.zeros(1, np.int32)
    return min(timeit.repeat(lambda: model.top_k(user, 10), timer=clock, number=1))


def evaluate_to_file(
    split: str,
    candidate: Mapping[str, SettingValue],
    folder: str,
    metric: str,
    seed: int,
    device: str,
) -> None:
    """Evaluate one candidate on a saved split, in this process."""
    task = SearchTask.of(Split.load(split), metric, seed=seed, device=device)
    evaluator = TrialEvaluator(task, Timer(math.inf), Path(folder))
    evaluator.evaluate(Candidate.from_dict(candidate), math.inf)
