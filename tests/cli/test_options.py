"""NAME=VALUE on the command line."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from leporid.cli.app import app
from leporid.cli.options import parse_settings
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
