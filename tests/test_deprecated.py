"""Old public names answer as the new ones, with a warning that names them."""

from __future__ import annotations

import importlib
import sys
import types

import pytest

from leporid._deprecated import deprecated_names


@pytest.mark.parametrize(
    ("module", "old", "new"),
    [
        ("leporid", "rehearsal", "inner_validation_split"),
        ("leporid.data", "rehearsal", "inner_validation_split"),
        ("leporid.data", "ItemColumns", "ItemTable"),
    ],
)
def test_an_old_name_is_the_new_object(module: str, old: str, new: str) -> None:
    package = importlib.import_module(module)
    with pytest.warns(DeprecationWarning, match=rf"{module}\.{old} is now {module}\.{new}"):
        found = getattr(package, old)
    assert found is getattr(package, new)
    assert old not in dir(package)


def test_other_names_are_looked_up_as_before() -> None:
    module = types.ModuleType("a_module_of_this_test")
    sys.modules[module.__name__] = module
    try:
        deprecated_names(module.__name__, {"old": "math.pi"})
        with pytest.warns(DeprecationWarning, match=r"a_module_of_this_test\.old is now math\.pi"):
            assert 3.1 < module.old < 3.2
        with pytest.raises(AttributeError, match="no attribute 'nope'"):
            _ = module.nope
        deprecated_names(module.__name__, {"older": "math.e"})
        with pytest.warns(DeprecationWarning, match=r"older is now math\.e"):
            assert module.old > module.older
    finally:
        del sys.modules[module.__name__]


@pytest.mark.parametrize(
    ("old", "new", "name"),
    [
        ("choosing", "selection", "choose"),
        ("ranking", "evaluation", "masked_top_k"),
        ("runs", "experiments", "RunRecord"),
        ("tuning", "experiments", "tune"),
    ],
)
def test_an_old_package_has_the_names_of_the_new_one(old: str, new: str, name: str) -> None:
    package = importlib.import_module(f"leporid.{old}")
    with pytest.warns(DeprecationWarning, match=rf"leporid\.{old} is now leporid\.{new}") as caught:
        found = getattr(package, name)
    assert caught[0].filename == __file__
    assert found is getattr(importlib.import_module(f"leporid.{new}"), name)
    with pytest.warns(DeprecationWarning, match="is now"), pytest.raises(AttributeError):
        _ = package.nope


def test_an_unknown_package_is_still_not_there() -> None:
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("leporid.chosing")


def test_an_old_limit_of_the_service_sets_the_new_one() -> None:
    serve = pytest.importorskip("leporid.serve", exc_type=ImportError)
    with pytest.warns(DeprecationWarning, match="people is now users"):
        assert serve.ServeLimits.from_dict({"people": 3, "n": 2}) == serve.ServeLimits(users=3, n=2)
