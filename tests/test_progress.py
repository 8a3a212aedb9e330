"""Bars for people, plain lines for logs, nothing where nobody asked."""

from __future__ import annotations

import io
import sys

import pytest
from rich.console import Console

import leporid
from leporid.foundation.progress import (
    NullProgress,
    PlainProgress,
    RichProgress,
    duration,
    make_progress,
)
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


def test_a_stage_with_a_note_says_that_and_results_are_never_held_back(
    capsys: pytest.CaptureFixture[str],
) -> None:
    now = 0.0
    progress = PlainProgress(clock=lambda: now)
    progress.start("training", 600)
    progress.say("EASE 0.1")
    progress.advance(100, note="too soon")
    progress.say("ItemKNN 0.2")
    now = 10.0
    progress.advance(100, note="step 200")
    lines = capsys.readouterr().err.splitlines()
    assert lines == ["training", "EASE 0.1", "ItemKNN 0.2", "training: step 200"]


@pytest.mark.parametrize("width", [80, 200])
def test_a_bar_shows_its_note_whole_and_no_estimate_of_its_own(width: int) -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=width)
    progress = RichProgress(console)
    progress.start("training", 600)
    progress.say("EASE [0.1]")
    note = "step 100, best 0.0924 at step 80; stops at 150 if nothing improves, at most 600"
    progress.advance(100, note=note)
    progress.close()
    shown = console.file.getvalue()
    assert "EASE [0.1]" in shown
    assert note in shown


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.2, "0 s"),
        (19.6, "20 s"),
        (99.4, "99 s"),
        (100, "2 min"),
        (660, "11 min"),
        (5400, "90 min"),
        (9000, "2.5 h"),
    ],
)
def test_an_estimate_is_said_as_people_say_it(seconds: float, words: str) -> None:
    assert duration(seconds) == words


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
