"""What callbacks are told, in which order, and how they end a training."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import leporid
from leporid.data import Split
from leporid.errors import ConfigError, TrainingInterruptedError
from leporid.models import BestBaseline, Callback, FitContext, JsonLines, StopWhen
from leporid.models.neural.dlr2.model import DLR2
from tests.training.test_loop import DLR2_RUN, interrupt_at
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
        "ended": "steps",
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


def read_lines(text: str) -> list[dict[str, Any]]:
    """Lines of JSON; constants that JSON does not have are refused."""

    def refused(name: str) -> None:
        raise AssertionError(name)

    return [json.loads(line, parse_constant=refused) for line in text.splitlines()]


def test_lines_of_json_agree_with_the_history(
    split: Split, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "log.jsonl"
    file.write_text("an earlier training\n")
    baseline = BestBaseline("EASE", "NDCG@10", 0.25)
    callbacks = (JsonLines(file, every=2), JsonLines(every=4))
    model = Dot(**DOT).fit(split, context=FitContext(callbacks=callbacks, baseline=baseline))
    start, *rows, end = read_lines(file.read_text())
    assert (start["event"], start["model"], start["steps"]) == ("start", "dot", 12)
    assert start["baseline"] == {"name": "EASE", "metric": "NDCG@10", "value": 0.25}
    assert [row["step"] for row in rows] == [2, 4, 5, 6, 8, 10, 12]
    assert [row["step"] for row in model.history.rows] == [2, 4, 5, 6, 8, 10, 12]
    best = None
    for row, of_history in zip(rows, model.history.rows, strict=True):
        best = max(filter(None, [best, of_history.get("metric")]), default=None)
        assert (row.pop("event"), row.pop("baseline")) == ("log", 0.25)
        assert row.pop("best_metric") == best
        assert row.pop("best_step") in (0, 5, 10, 12)
        assert row == of_history
    summary = {"steps": 12, "best_step": model.history.best_step, "best_metric": best}
    assert end == {"event": "end", **summary, "ended": "steps", "error": None}
    told = read_lines(capsys.readouterr().err)
    assert [line["step"] for line in told if line["event"] == "log"] == [4, 5, 8, 10, 12]


def test_a_resumed_training_continues_its_file(
    split: Split, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "log.jsonl"
    broken, settings = DLR2(**DLR2_RUN), {"checkpoint": tmp_path}
    interrupt_at(monkeypatch, broken, 6)
    with pytest.raises(TrainingInterruptedError):
        broken.fit(split, context=FitContext(callbacks=(JsonLines(file, 2),), **settings))
    context = FitContext(callbacks=(JsonLines(file, 2),), resume=True, **settings)
    model = DLR2(**DLR2_RUN).fit(split, context=context)
    lines = read_lines(file.read_text())
    assert [line["event"] for line in lines if line["event"] != "log"] == [
        "start", "end", "start", "end",
    ]  # fmt: skip
    assert [line["step"] for line in lines if line["event"] == "log"] == [2, 4, 6, 8, 10]
    assert [row["step"] for row in model.history.rows] == [2, 4, 6, 8, 10]
    first, second = (line for line in lines if line["event"] == "start")
    assert (first["step"], first["best_metric"]) == (0, None)
    assert second["step"] == 6
    assert second["best_metric"] == max(line["metric"] for line in lines if line.get("step") == 4)


def test_a_loss_that_is_no_number_is_null(tmp_path: Path) -> None:
    lines = JsonLines(tmp_path / "log.jsonl", every=1)
    about: dict[str, Any] = {"step": 0, "best_metric": None, "best_step": 0, "baseline": None}
    lines.start(about)
    lines.log({"step": 1, "loss": float("nan")})
    assert read_lines((tmp_path / "log.jsonl").read_text())[1]["loss"] is None
    with pytest.raises(ConfigError, match="every 1 or more"):
        JsonLines(every=0)
