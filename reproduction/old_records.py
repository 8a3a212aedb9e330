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

_RENAMED_SETTINGS = {"passes": "epochs", "linear_gain": "linear_weight"}
"""New names of settings of every model by their old ones."""
_RENAMED_IN_MODEL: Mapping[str, Mapping[str, str]] = {
    "dlr2": {
        "frozen_starts": "freeze_init",
        "new_people": "new_users",
        "length": "max_history",
        "profile": "profile_items",
        "gain": "learn_input_scale",
    },
    "hgn": {"history": "max_history"},
    "sasrec": {"length": "max_history"},
    "sasrec_levers": {"length": "max_history"},
}
"""The same for the settings that one model has, by its name."""
_RENAMED_IN_INITIALISER: Mapping[str, Mapping[str, str]] = {
    "leporid": {"lengths": "row_norm"},
    "leporid_content": {"enough": "min_interactions"},
}
"""New names of settings of initialisers by their old ones."""
_RENAMED_CHOICES: Mapping[str, Mapping[str, str]] = {
    "padding": {"blank": "mask"},
    "new_users": {"blank": "mask", "placed": "neighbours"},
}
"""New names of values by the present name of their setting."""
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
    if "settings" in cell:
        extra["cell"] = _present_request(cell, filed.model)
        # Runs that were filed by hand, under another hash than their cell's, keep it.
        if spec_hash == canonical_hash(cell, _HASH_LENGTH):
            spec_hash = canonical_hash(extra["cell"], _HASH_LENGTH)
    config = present_settings(filed.model, filed.config)
    return filed.key, replace(filed, config=config, extra=extra, spec_hash=spec_hash)


def present_settings(model: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of a model by the names that they have now, and with the present names of values."""
    renamed = {**_RENAMED_SETTINGS, **_RENAMED_IN_MODEL.get(model, {})}
    present: dict[str, Any] = {}
    for stored_name, value in settings.items():
        name = renamed.get(stored_name, stored_name)
        choices = _RENAMED_CHOICES.get(name, {})
        present[name] = choices.get(value, value) if isinstance(value, str) else value
    return present


def present_init_settings(init: str | None, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of an initialiser by the names that they have now."""
    renamed = _RENAMED_IN_INITIALISER.get(init or "", {})
    return {renamed.get(name, name): value for name, value in settings.items()}


def _present_request(cell: Mapping[str, Any], model: str) -> dict[str, Any]:
    """The request of a cell as the same cell would say it now."""
    settings = present_settings(model, cell["settings"])
    present = {"metric": _METRIC, **cell, "settings": settings}
    if "init_settings" in cell:
        present["init_settings"] = present_init_settings(cell["init"], cell["init_settings"])
    return present
