"""Names resolve on first use, and a missing extra is named rather than a missing module."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from leporid.errors import ConfigError, MissingExtraError, UnknownNameError
from leporid.foundation import Registry


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Registry[object]:
    (tmp_path / "needs_torch.py").write_text("import torch\n\nclass Model: ...\n")
    (tmp_path / "needs_other.py").write_text("import no_such_module\n\nclass Model: ...\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    entries = {"neural": "needs_torch:Model", "broken": "needs_other:Model"}
    return Registry("model", entries)


def test_without_torch_the_extra_is_named(
    registry: Registry[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingExtraError, match=r"the model 'neural' .*pip install .*\[torch\]"):
        registry.get("neural")


def test_another_missing_module_is_not_blamed_on_torch(registry: Registry[object]) -> None:
    with pytest.raises(ModuleNotFoundError, match="no_such_module"):
        registry.get("broken")


def test_unknown_and_repeated_names_are_refused(registry: Registry[object]) -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'neural'"):
        registry.get("nueral")
    with pytest.raises(ConfigError, match="exists already"):
        registry.register("neural", object)
