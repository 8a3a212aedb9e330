"""The map: neighbours stay neighbours, regions have names; its cache, damaged or absent."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from importlib import resources
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from benchmarks.map_layouts import kept, principal
from leporid.serve import item_map as module
from leporid.serve.item_map import item_map, lay_out, name_clusters


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LEPORID_CACHE", str(tmp_path))
    return tmp_path / "maps"


@pytest.fixture(scope="module")
def families() -> NDArray[np.float32]:
    """25 families of 11 in 30 dimensions: two components lay them upon each other."""
    rng = np.random.default_rng(3)
    centres = np.repeat(rng.normal(size=(25, 30)), 11, axis=0)
    return (centres + 0.4 * rng.normal(size=centres.shape)).astype(np.float32)


def test_neighbours_stay_neighbours_and_the_second_time_is_read(
    families: NDArray[np.float32], cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("sklearn")
    places, words = lay_out(families)
    assert words == module.NEIGHBOURS
    assert places.shape == (275, 2)
    assert np.abs(places).max() <= 1
    assert kept(families, places, 10) > 0.9 > 0.5 > kept(families, principal(families), 10)
    [file] = cache.iterdir()

    def never(vectors: object) -> None:
        raise AssertionError("computed again")

    with monkeypatch.context() as patch:
        patch.setattr(module, "_tsne", never)
        np.testing.assert_array_equal(lay_out(families)[0], places)
        with pytest.raises(AssertionError, match="computed again"):
            lay_out(families[::-1])
    file.write_bytes(file.read_bytes()[:-8] + bytes(8))
    np.testing.assert_array_equal(lay_out(families)[0], places)


def test_without_scikit_learn_or_for_few_and_many_rows_it_is_principal_components(
    families: NDArray[np.float32], cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_TSNE_MOST", 150)
    assert [lay_out(rows)[1] for rows in (families, families[:9])] == [module.PRINCIPAL] * 2
    assert lay_out(families[:120, :1])[1] == module.PRINCIPAL
    monkeypatch.setitem(sys.modules, "sklearn.manifold", None)
    places, words = lay_out(families[:120])
    assert words == module.PRINCIPAL
    # Apart from the sign and the scale of each axis, the oracle's coordinates.
    expected = principal(families[:120])
    for axis in range(2):
        assert abs(np.corrcoef(places[:, axis], expected[:, axis])[0, 1]) > 0.99
    assert not cache.exists()


def test_a_folder_that_cannot_be_written_only_costs_the_saving(
    families: NDArray[np.float32], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("sklearn")
    (tmp_path / "file").touch()
    monkeypatch.setenv("LEPORID_CACHE", str(tmp_path / "file"))
    assert lay_out(families[:40])[1] == module.NEIGHBOURS


def test_clusters_are_called_by_what_they_have_more_of() -> None:
    films = [
        ("Alien (1979)", ("Horror", "Sci-Fi")),
        ("Aliens (1986)", ("Sci-Fi", "War")),
        ("Blade Runner (1982)", ("Sci-Fi",)),
        ("Scream (1996)", ("Horror",)),
        ("Toy Story (1995)", ("Comedy",)),
        ("Clerks (1994)", ("Comedy",)),
        ("Star Trek: Generations (1994)", ()),
        ("Star Trek: Insurrection (1998)", ()),
    ]
    titles, genres = zip(*films, strict=True)
    cluster = np.array([0, 0, 0, 1, 2, 2, 3, 3], np.int32)
    names = name_clusters(cluster, titles, genres)
    # One film alone says nothing of a cluster; half of all are of the nineties.
    assert names == ("Sci-Fi, 1980s", "cluster 2", "Comedy, 1990s", "Star, Trek")
    assert name_clusters(np.zeros(2, np.int32), ["item 1", "item 2"], [(), ()]) == ("cluster 1",)


def test_equal_clusters_do_not_share_a_name() -> None:
    cluster = np.repeat(np.arange(3, dtype=np.int32), 4)
    genres = [("Drama",)] * 8 + [("War",)] * 4
    names = name_clusters(cluster, ["x"] * 12, genres)
    assert names == ("Drama", "cluster 2", "War")


def test_the_map_does_not_depend_on_the_length_of_vectors(
    families: NDArray[np.float32], cache: Path
) -> None:
    nothing: list[tuple[str, ...]] = [()] * 275
    longer = families * np.linspace(1, 3, 275, dtype=np.float32)[:, None]
    first, second = (item_map(v, ["x"] * 275, nothing) for v in (families, longer))
    assert first["genres"] == ()
    assert len(first["clusters"]) == max(first["cluster"]) + 1
    assert first["cluster"] == second["cluster"]


def palettes() -> Iterator[dict[str, str]]:
    """The colours of the page in light and in dark."""
    style = resources.files("leporid.serve").joinpath("static/style.css").read_text("utf-8")
    light, dark = re.findall(r":root \{(.*?)\}", style, re.DOTALL)
    colours = dict(re.findall(r"--([\w-]+): (#\w+);", light))
    yield colours
    yield colours | dict(re.findall(r"--([\w-]+): (#\w+);", dark))


def luminance(colour: str) -> float:
    """Relative luminance as WCAG defines it."""
    digits = colour[1:] if len(colour) == 7 else "".join(2 * digit for digit in colour[1:])
    parts = np.array([int(digits[i : i + 2], 16) / 255 for i in (0, 2, 4)])
    linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


def contrast(one: str, other: str) -> float:
    """From 1 to 21."""
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("colours", list(palettes()), ids=["light", "dark"])
def test_the_colours_are_legible(colours: dict[str, str]) -> None:
    for back in ("back", "card"):  # WCAG 2.2, 1.4.3: text
        assert contrast(colours["text"], colours[back]) >= 4.5
        assert contrast(colours["soft"], colours[back]) >= 4.5
        assert contrast(colours["accent"], colours[back]) >= 4.5
    assert contrast(colours["bad"], colours["bad-back"]) >= 4.5
    groups = [colours[f"group-{i}"] for i in range(13)]  # 1.4.11: graphical objects
    assert min(contrast(group, colours["card"]) for group in groups) >= 3
    assert all(one != other for one, other in combinations(groups, 2))
