"""What callbacks are told, in which order, and how they end a training."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import leporid
from leporid.data import Split
from leporid.errors import ConfigError, TrainingInterruptedError
from leporid.models import Callback, FitContext, StopWhen
from leporid.models.neural.dlr2.model import DLR2
from tests.training.test_loop import interrupt_at
from tests.training.toy import TINY, Dot, assert_same_bits, weights

DOT: dict[str, Any] = {"dim": 4, "batch_size": 12, "steps": 12, "eval_every": 5}


class Diary(Callback):
    """All that was told."""

    def __init__(self) -> None:
        self.events: list[tuple[str, Any]] = []

    def start(self, about: dict[str, Any]) -> None:
        self.events.append(("start", about))

    def step(self, step: int) -> None:
        self.events.append(("step", step))

    def log(self, row: dict[str, Any]) -> None:
        self.events.append(("log", row))

    def validation(self, row: dict[str, Any]) -> None:
        self.events.append(("validation", row))

    def end(self, summary: dict[str, Any]) -> None:
        self.events.append(("end", summary))

    def names(self) -> list[str]:
        return [name for name, _ in self.events]


def test_events_come_in_order_with_plain_values(split: Split) -> None:
    diary = Diary()
    model = Dot(**DOT).fit(split, context=FitContext(callbacks=(diary,)))
    step = ["step"]
    judged = ["validation", "log"]
    assert diary.names() == ["start", *step * 5, *judged, *step * 5, *judged, *step * 2, *judged,
                             "end"]  # fmt: skip
    about, summary = diary.events[0][1], diary.events[-1][1]
    assert (about["model"], about["steps"], about["step"]) == ("dot", 12, 0)
    assert about["config"]["dim"] == 4
    rows = [value for name, value in diary.events if name == "log"]
    assert rows == model.history.rows
    metrics = [value["metric"] for name, value in diary.events if name == "validation"]
    assert summary == {
        "steps": 12,
        "best_step": model.history.best_step,
        "best_metric": max(metrics),
        "error": None,
    }


def test_callbacks_change_nothing_unless_they_ask(split: Split) -> None:
    assert_same_bits(
        weights(Dot(**DOT).fit(split)),
        weights(Dot(**DOT).fit(split, context=FitContext(callbacks=(Diary(),)))),
    )


def test_a_callback_ends_the_training_after_a_step(split: Split, tmp_path: Path) -> None:
    """The step is then validated and kept as a last one is, and `resume` goes on from it."""
    diary = Diary()
    stopped = Dot(**DOT).fit(
        split,
        context=FitContext(
            checkpoint=tmp_path,
            callbacks=(
                StopWhen(lambda step: step >= 7),
                diary,
            ),
        ),
    )
    assert [row["step"] for row in stopped.history.rows] == [5, 7]
    assert "metric" in stopped.history.rows[-1]
    assert diary.events[-1][1]["steps"] == 7
    again = Diary()
    resumed = Dot(**DOT).fit(
        split, context=FitContext(checkpoint=tmp_path, resume=True, callbacks=(again,))
    )
    assert again.events[0][1]["step"] == 7
    assert [value for name, value in again.events if name == "step"] == [8, 9, 10, 11, 12]
    assert resumed.history.rows[-1]["step"] == 12


def test_a_callback_ends_the_training_at_a_validation(split: Split) -> None:
    class Enough(Callback):
        def validation(self, row: dict[str, Any]) -> bool:
            return bool(row["step"] >= 10)

    model = Dot(**DOT).fit(split, context=FitContext(callbacks=(Enough(),)))
    assert [row["step"] for row in model.history.rows] == [5, 10]


def test_the_end_is_told_when_the_training_breaks_off(
    split: Split, monkeypatch: pytest.MonkeyPatch
) -> None:
    diary, model = Diary(), DLR2(**TINY, steps=10)
    interrupt_at(monkeypatch, model, 3)
    with pytest.raises(TrainingInterruptedError):
        model.fit(split, context=FitContext(callbacks=(diary,)))
    assert diary.events[-1][0] == "end"
    assert diary.events[-1][1]["error"].startswith("training stopped at step 3")


def test_train_takes_callbacks_for_networks_only(split: Split) -> None:
    diary = Diary()
    settings = {"init": None, "recipe": None, "progress": False, "callbacks": [diary]}
    leporid.train("bpr", split, dim=4, steps=3, eval_every=0, final=True, **settings)
    assert diary.names().count("start") == 1
    with pytest.raises(ConfigError, match="ease has no training loop"):
        leporid.train("ease", split, progress=False, callbacks=[diary])
