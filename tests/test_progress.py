"""Bars for people, plain lines for logs, nothing where nobody asked."""

from __future__ import annotations

import sys

import pytest

import leporid
from leporid.progress import NullProgress, PlainProgress, RichProgress, make_progress
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
