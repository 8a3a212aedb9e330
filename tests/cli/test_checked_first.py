"""What a command is told is checked before it reads or computes anything."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from leporid.cli.app import app
from leporid.errors import LeporidError


def refused(*arguments: Any) -> str:
    result = CliRunner().invoke(app, list(map(str, arguments)))
    assert isinstance(result.exception, LeporidError), result.output
    return str(result.exception)


@pytest.mark.parametrize("command", ["train", "embed", "choose", "tune"])
def test_a_device_is_refused_before_the_log_is_read(command: str, tmp_path: Path) -> None:
    where = () if command == "tune" else ("-o", tmp_path / "out")
    named = ("bpr",) if command == "tune" else ()
    said = refused(command, *named, tmp_path / "no-such-log.csv", *where, "--device", "gpu")
    assert said == "there is no device 'gpu': did you mean 'cuda'?"


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        (["--model", "dlr3"], "unknown model 'dlr3': did you mean 'dlr2'?"),
        (["--set", "metric=NDGC@10"], "did you mean 'NDCG@10'?"),
        (["--set", "dimm=3"], "DLR2Config has no setting 'dimm': did you mean 'dim'?"),
        (["--init", "leprid"], "did you mean 'leporid'?"),
        (["--init-set", "kk=3"], "no setting 'kk'"),
        (["--recipe", "papr"], "did you mean 'paper'?"),
    ],
)
def test_a_wrong_setting_is_refused_before_the_log_is_read(
    typed: list[str], message: str, tmp_path: Path
) -> None:
    said = refused("train", tmp_path / "no-such-log.csv", "-o", tmp_path / "out", *typed)
    assert message in said


@pytest.mark.parametrize("command", ["train", "embed", "choose", "data split", "export", "extend"])
def test_a_file_in_place_of_a_folder_is_refused_before_the_log_is_read(
    command: str, tmp_path: Path
) -> None:
    file = tmp_path / "file"
    file.write_text("kept")
    said = refused(*command.split(), tmp_path / "no-such-log.csv", "-o", file)
    assert said == f"could not write {file}: it is a file, choose a folder"
    assert file.read_text() == "kept"


def test_a_folder_in_place_of_a_file(tmp_path: Path) -> None:
    for command in (("data", "synth"), ("recommend", tmp_path / "no-model", "--all")):
        said = refused(*command, "-o", tmp_path)
        assert said == f"could not write {tmp_path}: it is a folder, give the name of a file"


def test_vectors_may_replace_their_one_file(tmp_path: Path) -> None:
    log, vectors = tmp_path / "log.csv", tmp_path / "vectors.safetensors"
    vectors.write_text("older")
    done = CliRunner().invoke(
        app, ["data", "synth", "-o", str(log), "--users", "60", "--interactions", "900"]
    )
    assert done.exit_code == 0, done.output
    options = ["--method", "random", "--no-cache", "-o", str(vectors)]
    done = CliRunner().invoke(app, ["embed", str(log), *options])
    assert done.exit_code == 0, done.output
    assert vectors.read_bytes()[:5] != b"older"


def test_exclude_seen_is_still_an_option(tmp_path: Path) -> None:
    for option in ("--include-seen", "--exclude-seen", "--no-include-seen"):
        result = CliRunner().invoke(app, ["recommend", str(tmp_path), "--user", "1", option])
        assert "holds no trained model" in str(result.exception)
