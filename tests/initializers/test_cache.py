"""The cache: read when nothing changed, and only then."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from leporid.data import Interactions
from leporid.embeddings import InitialEmbeddings, cached_fit
from leporid.embeddings.fit import cache_path
from leporid.embeddings.svd import SVD
from leporid.errors import LeporidWarning
from leporid.foundation import ProgressLike, cache_directory
from tests.initializers.helpers import planted


class Counting(SVD):
    """An initialiser that counts how often it really worked."""

    fits = 0

    def _fit(self, train: Interactions, progress: ProgressLike) -> InitialEmbeddings:
        type(self).fits += 1
        return super()._fit(train, progress)


@pytest.fixture(autouse=True)
def _fresh_counter() -> None:
    Counting.fits = 0


def test_second_run_reads_the_cache_to_the_bit(tmp_path: Path) -> None:
    train = planted(string_items=True)
    first = cached_fit(Counting(dim=5), train, cache_dir=tmp_path)
    second = cached_fit(Counting(dim=5), train, cache_dir=tmp_path)
    assert Counting.fits == 1
    np.testing.assert_array_equal(first.users.vectors, second.users.vectors)
    np.testing.assert_array_equal(first.items.vectors, second.items.vectors)
    assert second.item_ids == train.items
    assert first.users.provenance == second.users.provenance


def test_any_change_of_data_settings_or_code_misses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train = planted()
    cached_fit(Counting(dim=5), train, cache_dir=tmp_path)
    cached_fit(Counting(dim=6), train, cache_dir=tmp_path)
    cached_fit(Counting(dim=5, seed=1), train, cache_dir=tmp_path)
    fewer = train.select(np.arange(len(train) - 1))
    cached_fit(Counting(dim=5), fewer, cache_dir=tmp_path)
    renamed = replace(train, users=planted(91).users.take(np.arange(1, 91)))
    cached_fit(Counting(dim=5), renamed, cache_dir=tmp_path)
    monkeypatch.setattr(Counting, "version", Counting.version + 1)
    cached_fit(Counting(dim=5), train, cache_dir=tmp_path)
    assert Counting.fits == 6
    assert len(list((tmp_path / "initializers").iterdir())) == 6


@pytest.mark.parametrize("damage", ["truncate", "flip", "foreign"])
def test_a_damaged_entry_is_fitted_again(tmp_path: Path, damage: str) -> None:
    train = planted()
    expected = cached_fit(Counting(dim=5), train, cache_dir=tmp_path)
    path = cache_path(Counting(dim=5), train, tmp_path)
    content = bytearray(path.read_bytes())
    if damage == "truncate":
        path.write_bytes(content[: len(content) // 2])
    elif damage == "flip":
        content[-3] ^= 0x40
        path.write_bytes(content)
    else:
        cached_fit(Counting(dim=5, seed=9), train, cache_dir=tmp_path)
        cache_path(Counting(dim=5, seed=9), train, tmp_path).replace(path)
    Counting.fits = 0
    with pytest.warns(LeporidWarning, match="fitted again"):
        made = cached_fit(Counting(dim=5), train, cache_dir=tmp_path)
    assert Counting.fits == 1
    np.testing.assert_array_equal(made.users.vectors, expected.users.vectors)
    cached_fit(Counting(dim=5), train, cache_dir=tmp_path)
    assert Counting.fits == 1


def test_opt_out_and_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    train = planted()
    monkeypatch.setenv("LEPORID_CACHE", str(tmp_path / "here"))
    cached_fit(Counting(dim=5), train, use_cache=False)
    assert not (tmp_path / "here").exists()
    cached_fit(Counting(dim=5), train)
    assert len(list((tmp_path / "here" / "initializers").iterdir())) == 1
    monkeypatch.setenv("LEPORID_CACHE", "off")
    assert cache_directory() is None
    cached_fit(Counting(dim=5), train)
    assert Counting.fits == 3


def test_a_cache_that_cannot_be_written_costs_only_the_saving(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    with pytest.warns(LeporidWarning, match="not cached"):
        made = cached_fit(Counting(dim=5), planted(), cache_dir=blocked)
    assert made.users.dim == 5


def test_an_entry_with_missing_rows_or_nan_is_fitted_again(tmp_path: Path) -> None:
    """Also where somebody has given it a checksum that fits."""
    train = planted()
    whole = cached_fit(Counting(dim=5), train, cache_dir=tmp_path)
    path = cache_path(Counting(dim=5), train, tmp_path)
    bad = whole.users.vectors.copy()
    bad[3, 2] = np.nan
    for vectors, ids, says in (
        (bad, whole.user_ids, "NaN or infinite"),
        (bad[:3], None, "does not have one vector per user and item"),
    ):
        users = replace(whole.users, vectors=vectors)
        replace(whole, users=users, user_ids=ids).save(path)
        with pytest.warns(LeporidWarning, match=says):
            again = cached_fit(Counting(dim=5), train, cache_dir=tmp_path)
        np.testing.assert_array_equal(again.users.vectors, whole.users.vectors)
    assert Counting.fits == 3
