"""`leporid embed` for large data: landmarks, and what it says of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

import leporid
from leporid.cli.app import app
from leporid.errors import ConfigError

runner = CliRunner()


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    data = leporid.synthesize(users=400, items=120, interactions=9000, seed=3)
    path = tmp_path_factory.mktemp("log") / "log.csv"
    lines = [f"u{u},{i}" for u, i in zip(data.user.tolist(), data.item.tolist(), strict=True)]
    path.write_text("user_id,item_id\n" + "\n".join(lines) + "\n")
    return path


def embed(log: Path, out: Path, *more: str) -> str:
    arguments = ["embed", str(log), "-o", str(out), "--dim", "4", "--k", "8", "--no-cache", *more]
    result = runner.invoke(app, arguments)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.stdout


def test_landmarks_are_users_by_number_or_by_share(log: Path, tmp_path: Path) -> None:
    paper = ["--set", "row_norm=as-is", "--set", "fold_in_users=false", "--alpha", "0.5"]
    report = json.loads(embed(log, tmp_path / "a", "--landmarks", "0.25", "--json", *paper))
    assert [side["landmarks"] for side in report["sides"]] == [100, None]
    assert report["settings"]["landmarks"] == 0.25
    text = embed(log, tmp_path / "b", "--landmarks", "150")
    assert "landmarks" in text
    assert "150" in text
    with pytest.raises(ConfigError, match="landmarks must be"):
        embed(log, tmp_path / "c", "--landmarks", "-3")
