"""The command as a whole: names, typos, errors, completion, documented options."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer.main
from typer.testing import CliRunner

from leporid.cli.app import COMMANDS, app

runner = CliRunner()
ISSUE = "data embed train evaluate recommend tune run compare inspect export doctor"


def leporid(*arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "leporid", *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "COLUMNS": "200", **env},
    )


def commands() -> dict[str, Any]:
    """Every command by its full name, groups opened."""
    root: Any = typer.main.get_command(app)
    found = {}
    for name, command in root.commands.items():
        if hasattr(command, "commands"):
            found |= {f"{name} {sub}": inner for sub, inner in command.commands.items()}
        else:
            found[name] = command
    return found


def test_every_command_is_there() -> None:
    root: Any = typer.main.get_command(app)
    assert set(ISSUE.split()) <= set(root.commands)
    assert set(root.commands) == COMMANDS.keys()


@pytest.mark.parametrize("name", sorted(commands()))
def test_every_command_speaks_json_and_explains_its_options(name: str) -> None:
    command = commands()[name]
    assert command.help
    spelled = [option for parameter in command.params for option in parameter.opts]
    assert "--json" in spelled or name == "serve"
    for parameter in command.params:
        assert parameter.help, f"{name} {parameter.name} has no help"
    shown = runner.invoke(app, [*name.split(), "--help"], env={"COLUMNS": "200"}).output
    for parameter in command.params:
        if isinstance(parameter.default, int | float | str) and not isinstance(
            parameter.default, bool
        ):
            assert f"{parameter.default}" in shown, f"{name} {parameter.name} hides its default"


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        (["trian"], "train"),
        (["data", "stast"], "stats"),
        (["train", "x.csv", "-o", "y", "--modle", "dlr2"], "--model"),
    ],
)
def test_typos_are_answered_with_the_closest_name(typed: list[str], meant: str) -> None:
    result = runner.invoke(app, typed)
    assert result.exit_code == 2
    assert re.search(rf"[Dd]id you mean '{meant}'|Possible options:.*{meant}", result.output)


def test_an_unknown_model_is_one_sentence(tmp_path: Path) -> None:
    done = leporid("train", "x.csv", "-o", str(tmp_path), "--model", "drl2")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "error: unknown model 'drl2': did you mean 'dlr2'?\n"


def test_debug_shows_the_traceback(tmp_path: Path) -> None:
    done = leporid("--debug", "train", "x.csv", "-o", str(tmp_path), "--model", "drl2")
    assert done.returncode == 1
    assert "Traceback" in done.stderr
    assert "UnknownNameError" in done.stderr


@pytest.mark.parametrize("debug", [False, True])
def test_a_bug_is_one_line_too(debug: bool) -> None:
    code = (
        "import sys, leporid.cli.app as module\n"
        f"sys.argv = ['leporid', *{['--debug'] if debug else []!r}, 'bug']\n"
        "@module.app.command('bug')\n"
        "def bug() -> None:\n    raise ZeroDivisionError('on purpose')\n"
        "module.run()"
    )
    env = {key: value for key, value in os.environ.items() if key != "LEPORID_DEBUG"}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, env=env
    )
    assert done.returncode == 1
    assert "ZeroDivisionError: on purpose" in done.stderr
    assert ("Traceback" in done.stderr) == debug
    if not debug:
        assert done.stderr.count("\n") == 1


def test_warnings_are_one_sentence() -> None:
    code = (
        "import warnings, leporid.cli.app as module, sys\n"
        "from leporid.errors import LeporidWarning\n"
        "sys.argv = ['leporid', 'w']\n"
        "@module.app.command('w')\n"
        "def w() -> None:\n"
        "    warnings.warn('3 rows were left out', LeporidWarning)\n"
        "    warnings.warn('internal', DeprecationWarning)\n"
        "module.run()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr == "warning: 3 rows were left out\n"


def test_the_shell_completes_commands_and_options() -> None:
    asked = {"_LEPORID_COMPLETE": "complete_bash", "_TYPER_COMPLETE_ARGS": "leporid ev"}
    done = leporid(COMP_WORDS="leporid ev", COMP_CWORD="1", **asked)
    assert "evaluate" in done.stdout.split()
    asked["_TYPER_COMPLETE_ARGS"] = "leporid train --mod"
    done = leporid(COMP_WORDS="leporid train --mod", COMP_CWORD="2", **asked)
    assert "--model" in done.stdout.split()


def test_the_version_is_the_packages() -> None:
    from leporid import __version__

    assert runner.invoke(app, ["--version"]).output == f"leporid {__version__}\n"
    assert re.fullmatch(r"\d+\.\d+\.\d+\S*", __version__)
