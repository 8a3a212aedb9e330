"""Repeated events: kept, added up or left out, and what the room makes of those it keeps."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import leporid
from leporid.cli.app import app
from leporid.data import Interactions, first_of_pairs, write_log
from leporid.errors import UnknownNameError

COLUMNS = {
    "user": ["b", "a", "a", "b", "a", "a", "b"],
    "item": [2, 1, 2, 2, 1, 1, 3],
    "time": [5, 1, 2, 6, 3, 0, 9],
}


def test_the_first_of_a_pair_as_a_set_would_find_it() -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        n_users, n_items = int(rng.integers(1, 9)), int(rng.integers(1, 7))
        indptr, known_ptr = (
            np.concatenate([[0], np.cumsum(rng.integers(0, 9, n_users))]) for _ in range(2)
        )
        items, known = (
            rng.integers(0, n_items, p[-1]).astype(np.int32) for p in (indptr, known_ptr)
        )
        expected = []
        for user in range(n_users):
            seen = set(known[known_ptr[user] : known_ptr[user + 1]].tolist())
            for item in items[indptr[user] : indptr[user + 1]].tolist():
                expected.append(item not in seen)
                seen.add(item)
        found = first_of_pairs(indptr, items, (known_ptr, known), n_items)
        np.testing.assert_array_equal(found, np.array(expected, bool))


def test_three_policies() -> None:
    first = leporid.load(COLUMNS)
    assert first.dropped == {"duplicate pair": 3}
    assert (len(first), first.repeats, first.weight) == (4, 0, None)
    every = leporid.load(COLUMNS, duplicates="all")
    assert every.dropped == {}
    assert (len(every), every.repeats, every.weight) == (7, 3, None)
    assert every.items.externals(every.sequences().of(0)).tolist() == [1, 1, 2, 1]
    assert every.items.externals(every.sequences().of(1)).tolist() == [2, 2, 3]
    summed = leporid.load(COLUMNS, duplicates="sum")
    assert summed.dropped == {"duplicate pair (added up)": 3}
    np.testing.assert_array_equal(summed.item, first.item)
    np.testing.assert_array_equal(summed.time, first.time)
    assert summed.weight is not None
    assert summed.weight.tolist() == [3, 1, 2, 1]
    plays = leporid.load(COLUMNS | {"n": [1, 2, 3, 4, 5, 6, 7]}, duplicates="sum", weight="n")
    assert plays.weight is not None
    assert plays.weight.tolist() == [13, 3, 5, 7]
    with pytest.raises(UnknownNameError, match="first, sum"):
        leporid.load(COLUMNS, duplicates="last")


def test_matrices_see_a_pair_once_or_with_its_weights() -> None:
    every = leporid.load(COLUMNS, duplicates="all")
    assert every.csr().toarray().tolist() == [[1, 1, 0], [0, 1, 1]]
    assert every.csr().has_canonical_format
    assert every.csr(weighted=True).toarray().tolist() == [[3, 1, 0], [0, 2, 1]]


def events(n: int = 4000) -> Interactions:
    rng = np.random.default_rng(4)
    item = (rng.pareto(1.2, n) * 3).astype(int).clip(0, 80)
    columns = {"user": rng.integers(0, 60, n), "item": item, "time": np.arange(n)}
    return leporid.load(columns, duplicates="all")


def test_the_core_is_that_of_distinct_pairs() -> None:
    every = events()
    assert every.repeats > len(every) / 5
    once = every.select(every.is_first)
    inner, outer = every.core(12), once.core(12)
    assert inner.n_items < every.n_items
    assert (inner.users, inner.items) == (outer.users, outer.items)
    assert (inner.csr() != outer.csr()).nnz == 0
    assert len(inner) > len(outer)


def test_figures_say_how_much_is_repeated(tmp_path: Path) -> None:
    every = events()
    stats = every.stats()
    assert stats.interactions == len(every)
    assert stats.density == pytest.approx(every.csr().nnz / (every.n_users * every.n_items))
    assert stats.repeat_share == pytest.approx(1 - every.csr().nnz / len(every))
    assert "repeat_share" not in every.select(every.is_first).stats().as_dict()
    file = write_log(every, tmp_path / "log.csv")
    options = ["--duplicates", "all", "--json"]
    shown = json.loads(CliRunner().invoke(app, ["data", "stats", str(file), *options]).output)
    assert shown["repeat_share"] == stats.repeat_share
    assert leporid.load(file, duplicates="all").digest == every.digest
