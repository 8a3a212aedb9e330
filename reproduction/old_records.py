"""Packed records of earlier versions of leporid, read as the present version would write them.

The package knows no earlier version; the records in `results` are those of every version since the
first. What has changed since they were written is in this module alone: settings that got another
name, requests that did not yet say their metric, and records that did not yet say what their model
had seen.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from leporid.foundation import canonical_hash
from leporid.runs import RunRecord

_RENAMED_SETTINGS = {"frozen_starts": "freeze_init", "new_people": "new_users"}
"""New names of settings of DLR2 by their old ones."""
_METRIC = "F1@10"
"""What every grid maximised while a request did not name its metric."""
_READ_HISTORIES = ("dlr2", "hgn", "sasrec")
"""The models that read validation items on test while records did not say who did."""
_HASH_LENGTH = 12


def read_record(stored: Mapping[str, Any]) -> tuple[str, RunRecord]:
    """The key that a packed record was filed under, and the record in its present form.

    The key of the present form differs where the request of its cell does.
    """
    filed = RunRecord.from_dict(stored)
    extra, spec_hash = dict(filed.extra), filed.spec_hash
    if "seen" not in extra:
        extra["seen"] = "train and validation" if filed.model in _READ_HISTORIES else "train only"
    cell = extra.get("cell", {})
    if "settings" in cell and "metric" not in cell:
        extra["cell"] = _present_request(cell)
        # Runs that were filed by hand, under another hash than their cell's, keep it.
        if spec_hash == canonical_hash(cell, _HASH_LENGTH):
            spec_hash = canonical_hash(extra["cell"], _HASH_LENGTH)
    if extra == filed.extra:
        return filed.key, filed
    return filed.key, replace(filed, extra=extra, spec_hash=spec_hash)


def _present_request(cell: Mapping[str, Any]) -> dict[str, Any]:
    """The request of a cell that does not name its metric, as the same cell would say it now."""
    settings = {
        _RENAMED_SETTINGS.get(name, name): value for name, value in cell["settings"].items()
    }
    return {**cell, "metric": _METRIC, "settings": settings}
