"""What a run folder may hold is checked before it is served."""

from __future__ import annotations

from pathlib import Path

import pytest

import leporid
from leporid.errors import DataError
from leporid.serve.loaded_run import load_run
from tests.training.toy import make_split


def test_what_takes_long_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    leporid.train("toppop", make_split(), progress=False).save(tmp_path / "model")
    load_run(tmp_path)
    assert capsys.readouterr().err == ""
    monkeypatch.delenv("LEPORID_PROGRESS")
    load_run(tmp_path)
    assert capsys.readouterr().err.splitlines() == [
        f"reading the model in {tmp_path / 'model'}",
        "finding the neighbours of 14 items",
        "drawing the map of 14 items",
    ]


def test_a_record_that_is_no_object_is_refused_in_one_sentence(tmp_path: Path) -> None:
    leporid.train("toppop", make_split(), progress=False).save(tmp_path / "model")
    (tmp_path / "record.json").write_text("[1]")
    with pytest.raises(DataError, match=r"record\.json"):
        load_run(tmp_path)
