"""`python -m reproduction`: what it lists, prints and writes, and what it does not know."""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from leporid.errors import UnknownNameError
from reproduction import __main__ as command
from reproduction.leaderboard import leaderboard_page
from reproduction.specs import LEADERBOARD
from reproduction.verdict import verdict_page

ROOT = Path(__file__).parents[2]


def run(monkeypatch: pytest.MonkeyPatch, *words: Any) -> None:
    monkeypatch.setattr(sys, "argv", ["reproduction", *map(str, words)])
    command.main()


def test_without_a_name_it_lists_everything_it_makes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run(monkeypatch)
    listed = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert listed == [*command.OUTPUTS, *command.PAGES, *command.WORK]


def test_what_takes_long_says_so_before_it_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run(monkeypatch, "--results", ROOT / "results")
    lines = capsys.readouterr().out.splitlines()
    [table3] = [line for line in lines if line.startswith("table3")]
    assert re.search(r"\(40 runs, \d\d minutes on NVIDIA H200\)$", table3)
    assert "runs" not in next(line for line in lines if line.startswith("figure1"))
    monkeypatch.setattr(command, "run_grid", lambda *_, **__: None)
    monkeypatch.setattr(command, "write_outputs", lambda *_, **__: tmp_path / "report.html")
    run(monkeypatch, "table3", "--results", tmp_path / "none", "--out", tmp_path)
    said = "40 runs; those that are there already are not repeated"
    assert capsys.readouterr().out.splitlines()[0] == said


def test_an_unknown_name_is_answered_with_the_closest_one(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UnknownNameError, match="table3"):
        run(monkeypatch, "tabel3")


@pytest.mark.parametrize("name", ["verdict", "leaderboard"])
def test_a_page_is_printed(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run(monkeypatch, name, "--results", ROOT / "results")
    pages = {"verdict": verdict_page, "leaderboard": partial(leaderboard_page, LEADERBOARD)}
    page = pages[name](ROOT / "results")
    assert capsys.readouterr().out.rstrip() == page.rstrip()


def test_a_table_is_run_written_and_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    specs: list[Any] = []
    monkeypatch.setattr(command, "run_grid", lambda found, *_, **__: specs.extend(found))
    options = ["--dataset", "ml-1m-r3", "--results", ROOT / "results", "--out", tmp_path]
    run(monkeypatch, "table6", *options, "--seeds", 1, 2, "--source", "log.parquet")
    assert [(spec.name, spec.seeds, spec.source) for spec in specs] == [
        ("losses", (1, 2), "log.parquet")
    ]
    printed = capsys.readouterr().out
    assert (tmp_path / "table6.md").read_text(encoding="utf-8") in printed
    assert f"report: {tmp_path / 'report.html'}" in printed
    run(monkeypatch, "table6", *options, "--render-only")
    assert len(specs) == 1


def test_an_error_is_one_sentence(tmp_path: Path) -> None:
    words = ["table6", "--render-only", "--results", str(tmp_path)]
    done = subprocess.run(
        [sys.executable, "-m", "reproduction", *words],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )
    assert done.returncode == 1
    assert done.stderr.startswith("error: no records for table6 on ml-1m")
    assert done.stderr.count("\n") == 1


def test_a_folder_of_data_has_a_file_for_each_data_set() -> None:
    given = argparse.Namespace(source=None, data=Path("logs"), dataset="ml-1m")
    assert command._source(given) == "logs/ml-1m.parquet"
    assert command._source(argparse.Namespace(source=None, data=None, dataset="ml-1m")) == "ml-1m"
    assert (
        command._source(argparse.Namespace(source="a.csv", data=Path("logs"), dataset="x"))
        == "a.csv"
    )
