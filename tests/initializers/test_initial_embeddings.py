"""`initial_embeddings`: by name, as given, or none; the cache; torch's threads kept."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from leporid.embeddings import (
    EmbeddingSpec,
    InitialEmbeddings,
    get,
    initial_embeddings,
    standardizes,
)
from leporid.embeddings.svd import SVD
from leporid.errors import ConfigError, UnknownNameError
from leporid.models import ModelSpec
from tests.initializers.helpers import planted


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LEPORID_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_a_name_is_fitted_with_the_settings_and_read_again(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train = planted()
    expected = SVD(dim=5, seed=3).fit(train)
    first = initial_embeddings("svd", train, dim=5, seed=3)
    assert first is not None
    assert len(list((cache / "initializers").iterdir())) == 1
    monkeypatch.setattr(SVD, "_fit", lambda *_: pytest.fail("fitted a second time"))
    again = initial_embeddings("svd", train, dim=5, seed=3)
    assert again is not None
    for vectors in (first, again):
        np.testing.assert_array_equal(vectors.users.vectors, expected.users.vectors)
        np.testing.assert_array_equal(vectors.items.vectors, expected.items.vectors)
        assert (vectors.user_ids, vectors.item_ids) == (train.users, train.items)


def test_without_the_cache_nothing_is_written(cache: Path) -> None:
    assert initial_embeddings("svd", planted(), cache=False, dim=3) is not None
    assert not cache.exists()


def test_vectors_pass_through_and_none_stays_none(cache: Path) -> None:
    train = planted()
    vectors = SVD(dim=4).fit(train)
    assert initial_embeddings(vectors, train, dim=64, seed=9) is vectors
    assert initial_embeddings(None, train, dim=64) is None
    assert initial_embeddings("none", train, dim=64) is None
    assert not cache.exists()


def test_a_wrong_name_or_setting_is_named(cache: Path) -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'svd'"):
        initial_embeddings("svdd", planted())
    with pytest.raises(ConfigError, match="did you mean 'dim'"):
        initial_embeddings("svd", planted(), dims=3)


def test_a_fit_that_changes_torchs_threads_is_undone(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch = pytest.importorskip("torch")
    plain = SVD._fit

    def careless(self: SVD, *arguments: object) -> InitialEmbeddings:
        torch.set_num_threads(torch.get_num_threads() + 1)
        return plain(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(SVD, "_fit", careless)
    before = torch.get_num_threads()
    initial_embeddings("svd", planted(), dim=3)
    assert torch.get_num_threads() == before


def test_who_standardizes() -> None:
    assert standardizes("leporid", otherwise=False) is True
    assert standardizes("random", otherwise=True) is False
    assert standardizes("somebody's", otherwise=True) is True
    assert standardizes(None, otherwise=False) is False


def test_a_spec_holds_every_setting_and_fits_what_the_name_fits(cache: Path) -> None:
    train = planted()
    spec = EmbeddingSpec.resolve("leporid", {"dim": 4, "k": 20})
    assert spec.method == "leporid"
    assert spec.settings.to_dict() == {**get("leporid")(dim=4, k=20).config.to_dict()}
    assert spec == EmbeddingSpec.resolve("leporid", {"dim": 4, "k": 20, "alpha": 0.5})
    made = spec.fit(train)
    expected = get("leporid")(dim=4, k=20).fit(train)
    np.testing.assert_array_equal(made.users.vectors, expected.users.vectors)
    np.testing.assert_array_equal(made.items.vectors, expected.items.vectors)
    assert not cache.exists()


def test_leporid_adapts_for_a_model_of_ones_own_alone() -> None:
    train = planted()
    asked = initial_embeddings("leporid", train, cache=False, dim=4, k=20)
    assert asked is not None
    adapted = {"alpha": "auto", "row_norm": "auto", "fold_in_users": True}
    expected = get("leporid")(dim=4, k=20, **adapted).fit(train)
    np.testing.assert_array_equal(asked.users.vectors, expected.users.vectors)
    np.testing.assert_array_equal(asked.items.vectors, expected.items.vectors)
    paper = {"alpha": 0.5, "row_norm": "as-is", "fold_in_users": False}
    given = initial_embeddings("leporid", train, cache=False, dim=4, k=20, **paper)
    assert given is not None
    by_class = get("leporid")(dim=4, k=20).fit(train)
    np.testing.assert_array_equal(given.users.vectors, by_class.users.vectors)
    assert by_class.users.provenance["parameters"].items() >= paper.items()
    of_model = ModelSpec.resolve("bpr", train, init="leporid").init
    assert isinstance(of_model, EmbeddingSpec)
    assert of_model.settings.to_dict().items() >= paper.items()


def test_a_spec_with_the_cache_is_read_again(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    train = planted()
    spec = EmbeddingSpec.resolve("svd", {"dim": 4}, use_cache=True)
    first = spec.fit(train)
    monkeypatch.setattr(SVD, "_fit", lambda *_: pytest.fail("fitted a second time"))
    np.testing.assert_array_equal(spec.fit(train).users.vectors, first.users.vectors)


def test_a_spec_refuses_unknown_methods_and_settings() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'svd'"):
        EmbeddingSpec.resolve("svdd", {})
    with pytest.raises(ConfigError, match="did you mean 'dim'"):
        EmbeddingSpec.resolve("svd", {"dims": 3})
    with pytest.raises(ConfigError, match="at least 1"):
        EmbeddingSpec.resolve("svd", {"dim": 0})


def test_a_cluster_is_refused_by_methods_that_cannot_use_one() -> None:
    initializer = SVD(dim=3)
    initializer.cluster = "a client"
    with pytest.raises(ConfigError, match="svd cannot be fitted with a cluster"):
        initializer.fit(planted())
