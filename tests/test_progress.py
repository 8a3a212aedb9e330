"""Bars for people, plain lines for logs, nothing where nobody asked."""

from __future__ import annotations

import io
import sys

import pytest
from rich.console import Console

import leporid
from leporid.foundation.progress import NullProgress, PlainProgress, RichProgress, make_progress
from tests.test_contract import make_split


@pytest.fixture(autouse=True)
def loud(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LEPORID_PROGRESS", raising=False)


def test_a_log_gets_one_line_per_stage_and_one_every_ten_seconds(
    capsys: pytest.CaptureFixture[str],
) -> None:
    now = 0.0
    progress = PlainProgress(clock=lambda: now)
    progress.start("reading")
    progress.start("training", 100)
    for step in range(1, 101):
        now = 0.25 * step
        progress.advance(1, loss=0.5)
    progress.close()
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.splitlines() == [
        "reading",
        "training",
        "training: 40 of 100, about 15 s left, 10 s so far, loss 0.5",
        "training: 80 of 100, about 5 s left, 20 s so far, loss 0.5",
    ]


def test_a_stage_that_may_end_early_says_between_what(capsys: pytest.CaptureFixture[str]) -> None:
    now = 0.0
    progress = PlainProgress(clock=lambda: now)
    progress.start("training", 600)
    now = 10.0
    progress.advance(100, can_end_at=150, loss=0.5)
    now = 20.0
    progress.advance(100, can_end_at=600)
    assert capsys.readouterr().err.splitlines()[1:] == [
        "training: 100 of 600, about 5 to 50 s left, 10 s so far, loss 0.5",
        "training: 200 of 600, about 40 s left, 20 s so far",
    ]


def test_a_bar_shows_where_its_stage_can_end() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=200)
    progress = RichProgress(console)
    progress.start("training", 600)
    progress.advance(100, can_end_at=150)
    progress.close()
    assert "can end at 150" in console.file.getvalue()


def test_true_is_a_bar_on_a_terminal_and_lines_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(make_progress(True), PlainProgress)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    assert isinstance(make_progress(True), RichProgress)
    monkeypatch.setenv("LEPORID_PROGRESS", "off")
    for asked in (True, False, None):
        assert type(make_progress(asked)) is NullProgress
    own = PlainProgress()
    assert make_progress(own) is own


def test_train_says_what_it_does_unless_told_not_to(capsys: pytest.CaptureFixture[str]) -> None:
    split = make_split()
    leporid.train("ease", split)
    assert capsys.readouterr().err == "ease\n"
    leporid.train("ease", split, progress=False)
    leporid.tune("ease", split, trials=1)
    assert capsys.readouterr().err == ""
