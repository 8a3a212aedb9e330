"""The run record: what is written is what is read, and its name says what it is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from leporid._version import __version__
from leporid.errors import DataError
from leporid.foundation import versions
from leporid.runs import Meter, Results, RunRecord


def _fields(**changes: Any) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "dataset": "toy",
        "experiment": "unit",
        "model": "ease",
        "init": None,
        "recipe": None,
        "seed": 7,
        "config": {"l2": 10.0},
        "metrics": {"HR@10": 0.5},
        "valid_metrics": {"HR@10": 0.4},
        "tail_metrics": {"HR@10": 0.3},
        "seconds": 1.5,
        "peak_memory_mb": 100.0,
        "device": "cpu",
    }
    return fields | changes


def test_write_and_read_are_inverse_and_the_path_is_the_documented_one(tmp_path: Path) -> None:
    record = RunRecord(**_fields())
    path = Results(tmp_path).add(record)
    assert path == tmp_path / "toy" / "unit" / f"ease-none-7-{record.spec_hash}.json"
    assert RunRecord.read(path) == record
    assert record.versions == versions()
    # What runs, not what pip once installed: an editable installation keeps its first number.
    assert record.versions["leporid"] == __version__
    assert set(_fields()) | {"versions", "spec_hash"} <= set(json.loads(path.read_text()))


def test_the_hash_depends_on_the_spec_and_not_on_the_outcome() -> None:
    one = RunRecord(**_fields())
    assert RunRecord(**_fields(metrics={"HR@10": 0.9}, seconds=9.0)).spec_hash == one.spec_hash
    for changes in ({"seed": 8}, {"config": {"l2": 11.0}}, {"init": "leporid"}, {"recipe": "x"}):
        assert RunRecord(**_fields(**changes)).spec_hash != one.spec_hash


def test_an_unknown_or_missing_field_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="'metrcs': did you mean 'metrics'"):
        RunRecord.from_dict(RunRecord(**_fields()).to_dict() | {"metrcs": {}})
    fields = RunRecord(**_fields()).to_dict()
    del fields["device"]
    with pytest.raises(DataError, match="device"):
        RunRecord.from_dict(fields)
    broken = tmp_path / "x.json"
    broken.write_text("[]")
    with pytest.raises(DataError, match=r"x\.json must hold a JSON object"):
        RunRecord.read(broken)


def test_a_name_cannot_leave_the_folder(tmp_path: Path) -> None:
    for experiment in ("../../up", "..", ""):
        record = RunRecord(**_fields(experiment=experiment, model="a/b"))
        path = Results(tmp_path).add(record)
        assert len(path.resolve().relative_to(tmp_path.resolve()).parts) == 3


def test_the_meter_sees_an_allocation() -> None:
    with Meter() as small:
        np.ones(10)
    with Meter() as large:
        np.ones(64_000_000)  # 488 MiB: what other tests free meanwhile is less
    assert large.peak_memory_mb > small.peak_memory_mb + 60
    assert large.seconds > 0
