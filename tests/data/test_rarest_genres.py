"""`rarest_genres` of data/item_table.py: one genre per item, the one that says most."""

from __future__ import annotations

from leporid.data import rarest_genres


def test_the_rarest_of_the_common_genres_is_an_items_own() -> None:
    genres = [("Drama", "War"), ("Drama",), ("Comedy", "Drama"), ("Comedy",), ("Musical",), ()]
    names, index = rarest_genres(genres, 2)
    assert names == ("Drama", "Comedy", "other")
    assert index.tolist() == [0, 0, 1, 1, 2, 2]
    names, index = rarest_genres(genres[:4], 3)
    assert names == ("Drama", "Comedy", "War")
    assert index.tolist() == [2, 0, 1, 1]


def test_items_without_genres_have_none() -> None:
    names, index = rarest_genres([(), ()], 5)
    assert names == ()
    assert index.tolist() == [-1, -1]
