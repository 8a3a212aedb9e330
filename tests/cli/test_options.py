"""Options that commands share: groups, the options of a log, NAME=VALUE."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any

import pytest
import typer
from typer.testing import CliRunner

from leporid.cli.app import app
from leporid.cli.options import LogOptions, SplitOptions, as_command, parse_settings
from leporid.errors import ConfigError


def test_values_are_toml_and_bare_words_are_text() -> None:
    pairs = ["lr=0.01", "steps=3", "deep=true", "layers=[8, 4]", "kind=no_conv", 'name="a=b"']
    assert parse_settings(pairs) == {
        "lr": 0.01,
        "steps": 3,
        "deep": True,
        "layers": [8, 4],
        "kind": "no_conv",
        "name": "a=b",
    }
    assert parse_settings(None) == {}


@pytest.mark.parametrize("option", ["--set", "--init-set"])
def test_the_option_that_is_wrong_is_named(option: str, tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["train", "any.csv", "-o", str(tmp_path), option, "=3"])
    assert isinstance(result.exception, ConfigError)
    assert str(result.exception) == f"{option} takes NAME=VALUE, not '=3'"


@dataclass(frozen=True)
class _Group:
    core: Annotated[int, "How many [none]."] = 0
    quick: Annotated[bool, "Be quick."] = False
    output: Annotated[Path | None, "Where to write."] = None


def _command(received: list[Any]) -> typer.Typer:
    def command(
        source: Annotated[str, typer.Argument(help="What.")],
        group: _Group = _Group(core=20),  # noqa: B008
        seed: Annotated[int, "A seed."] = 3,
    ) -> None:
        received.append((source, group, seed))

    small = typer.Typer(rich_markup_mode=None)
    small.command()(as_command(command))
    return small


def test_a_group_becomes_options_and_arrives_as_one() -> None:
    received: list[Any] = []
    small = _command(received)
    assert CliRunner().invoke(small, ["a.csv"]).exit_code == 0
    arguments = ["b.csv", "--core", "5", "--quick", "-o", "out", "--seed", "4"]
    assert CliRunner().invoke(small, arguments).exit_code == 0
    assert received == [
        ("a.csv", _Group(core=20), 3),
        ("b.csv", _Group(core=5, quick=True, output=Path("out")), 4),
    ]
    assert CliRunner().invoke(small, ["c.csv", "--no-quick"]).exit_code == 2
    shown = " ".join(CliRunner().invoke(small, ["--help"]).output.split())
    assert "How many [none]. [default: 20]" in shown


@pytest.mark.parametrize(
    "command", ["data stats", "data split", "embed", "train", "tune", "evaluate"]
)
def test_every_command_that_reads_a_log_has_the_options_of_a_log(command: str) -> None:
    shown = CliRunner().invoke(app, [*command.split(), "--help"], env={"COLUMNS": "200"}).output
    for field in fields(LogOptions):
        assert f"--{field.name.replace('_', '-')} " in shown


def test_words_in_brackets_are_shown() -> None:
    shown = " ".join(CliRunner().invoke(app, ["train", "--help"]).output.split())
    assert "or none [leporid]." in shown
    assert "in the record [the file's name]." in shown
    shown = " ".join(CliRunner().invoke(app, ["compare", "--help"]).output.split())
    assert "against this run [every pair]." in shown


def test_the_options_reach_the_log(tmp_path: Path) -> None:
    path = tmp_path / "log.txt"
    rows = ["x|y|z|r", *(f"b{u}|a{i}|{i}|{i % 2}" for u in range(3) for i in range(4))]
    path.write_text("\n".join([*rows, "b9|a0|1|1"]) + "\n")
    columns = {"user": "x", "item": "y", "time": "z", "rating": "r"}
    options = SplitOptions(
        **columns, separator="|", core=2, min_rating=1, protocol="leave-last-out"
    )
    split = options.split(str(path), quiet=True)
    assert split.protocol == "leave-last-out"
    assert split.train.users.ids.to_pylist() == ["b0", "b1", "b2"]
    assert split.train.items.ids.to_pylist() == ["a1", "a3"]


def test_training_takes_the_protocol(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text(
        "user,item,time\n" + "".join(f"{u},{i},{i}\n" for u in "abcd" for i in range(9))
    )
    arguments = ["train", str(path), "--model", "toppop", "-o", str(tmp_path / "run"), "--json"]
    result = CliRunner().invoke(app, [*arguments, "--protocol", "leave-last-out"])
    assert json.loads(result.stdout)["extra"]["protocol"] == "leave-last-out"
