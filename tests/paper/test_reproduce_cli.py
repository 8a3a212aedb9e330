"""`leporid reproduce` from records alone: numbers, what is missing, and old names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from leporid.cli.app import app
from leporid.errors import ConfigError
from leporid.paper.outputs import write_outputs
from leporid.paper.tables import NOT_FETCHED, build_table

runner = CliRunner()


def reproduce(*words: Any) -> Any:
    return runner.invoke(app, ["reproduce", *map(str, words)])


def test_everything_renders_without_a_record_and_says_how_to_run_it(tmp_path: Path) -> None:
    names = ["table2", "table3", "table5", "table7", "figure4a", "alpha", "neighbours", "authors"]
    stats = {"anime-5k": {"users": 5, "items": 7}}
    page = write_outputs(
        names, "anime-5k", tmp_path, tmp_path / "out", stats=stats, skip_missing=True
    )
    table = (tmp_path / "out" / "table3.md").read_text(encoding="utf-8")
    assert "| dlr2 | leporid | - | not run yet | " in table
    assert "`leporid reproduce table3 --dataset anime-5k`" in table
    assert "| dlr2 | node2vec | - | not run yet | - |" in table
    text = page.read_text(encoding="utf-8")
    for name in ("figure4a", "alpha", "neighbours"):
        assert f"<code>leporid reproduce {name} --dataset anime-5k</code>" in text
    assert NOT_FETCHED in text
    assert (tmp_path / "out" / "table2.json").is_file()
    assert build_table("table3", [], "steam").missing == NOT_FETCHED


def test_a_name_that_changed_its_meaning_says_so(tmp_path: Path) -> None:
    done = reproduce("table1")
    assert isinstance(done.exception, ConfigError)
    assert "are table2 now" in str(done.exception)
    done = reproduce("table6", "--root", tmp_path, "--render-only", "-o", tmp_path / "out")
    assert "table6 is the paper's Table 6, losses" in done.output
    assert "architectures, table6 in earlier versions, are table7 now" in done.output


@pytest.mark.parametrize("words", [[], ["table3", "--all"]])
def test_one_of_a_name_and_all_is_needed(words: list[str]) -> None:
    done = reproduce(*words)
    assert isinstance(done.exception, ConfigError)
    assert "--all" in str(done.exception)
