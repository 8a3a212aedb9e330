"""Rules against a slow, obvious oracle; what they refuse."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

import leporid
from leporid.data import Interactions, Sequences, synthesize
from leporid.errors import ConfigError, DataError, LeporidError, UnknownIdError, UnknownNameError
from leporid.ranking import BoundRules, ItemColumns, Rules

N_ITEMS = 40
SHELVES = ("Clothing", "Clothing|Shoes", "Clothing|Shoes|Boots", "Clothing|Hats")
GENRES = ("Drama", "War|Drama", "Comedy", "Comedy|War", "")
DRAW = np.random.default_rng(5)
VECTORS = DRAW.standard_normal((N_ITEMS, 6)).astype(np.float32)


@pytest.fixture(scope="module")
def known() -> Interactions:
    return synthesize(60, N_ITEMS, 900, seed=2)


@pytest.fixture(scope="module")
def item_columns(known: Interactions) -> ItemColumns:
    """Rows in another order than the items; the last item has none."""
    ids = known.items.ids.to_pylist()[:-1][::-1]
    count = np.arange(len(ids))
    columns = {
        "item_id": ids,
        "genres": [GENRES[i % 5] for i in count],
        "shelf": [SHELVES[i % 4] for i in count],
        "price": [None if i % 7 == 0 else float(i) for i in count],
        "in_stock": [bool(i % 3) for i in count],
        "added": pa.array(count * 86_400, pa.timestamp("s")),
        "year": [str(1980 + i) for i in count],
    }
    return ItemColumns(known, pa.table(columns), lambda: VECTORS)


def row_of(item: int) -> int | None:
    """The row of the table that an item has."""
    return None if item == N_ITEMS - 1 else N_ITEMS - 2 - item


def scores_of(users: int) -> NDArray[np.float32]:
    return np.random.default_rng(1).standard_normal((users, N_ITEMS)).astype(np.float32)


def genres_of(item: int) -> list[str]:
    row = row_of(item)
    return [] if row is None else [g for g in GENRES[row % 5].split("|") if g]


def shelf_of(item: int) -> list[str]:
    """The most specific shelf."""
    row = row_of(item)
    return [] if row is None else SHELVES[row % 4].split("|")[-1:]


def oracle(
    scores: NDArray[Any], excluded: set[int], n: int, allowed: list[int], **rules: Any
) -> Any:
    """One list, item by item; every item is in the pool, since there are fewer than 200."""
    left = [i for i in allowed if i not in excluded]
    values = {i: float(scores[i]) for i in left}
    deviation = np.std(list(values.values()))
    for i in left:
        values[i] += deviation * rules.get("boost", np.zeros(N_ITEMS))[i]
    low, high = min(values.values()), max(values.values())
    unit = VECTORS / np.linalg.norm(VECTORS, axis=1, keepdims=True)
    d, chosen, of = rules.get("diversity", 0.0), list[int](), rules.get("of", genres_of)
    while len(chosen) < n:
        best = None
        for i in sorted(left, key=lambda i: -scores[i]):
            full = any(sum(g in of(c) for c in chosen) >= rules.get("cap", 99) for g in of(i))
            near = max([0.0, *(float(unit[i] @ unit[c]) for c in chosen)])
            worth = (1 - d) * (values[i] - low) / (high - low) - d * near
            if i not in chosen and not full and (best is None or worth > best[0] + 1e-9):
                best = worth, i
        if best is None:
            break
        chosen.append(best[1])
    return chosen


CASES: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"max_per": {"genre": 2}}, {"cap": 2}),
    ({"max_per_rarest": {"shelf": 2}}, {"cap": 2, "of": shelf_of}),
    ({"diversity": 0.4}, {"diversity": 0.4}),
    ({"diversity": 0.7, "max_per": {"genres": 1}}, {"diversity": 0.7, "cap": 1}),
    ({"boost": {"added": 0.5}}, {"boost": "added"}),
    ({"boost": {"price": -2.0}, "diversity": 0.2}, {"boost": "price", "diversity": 0.2}),
]


@pytest.mark.parametrize(("rules", "expected"), CASES, ids=[str(case[0]) for case in CASES])
def test_lists_are_those_of_the_oracle(
    item_columns: ItemColumns, rules: dict[str, Any], expected: dict[str, Any]
) -> None:
    expected = dict(expected)
    if column := expected.get("boost"):
        rows = [row_of(i) for i in range(N_ITEMS)]
        there = [r is not None and (column == "added" or r % 7 != 0) for r in rows]
        value = np.asarray([float(r or 0) for r in rows])
        z = (value - value[there].mean()) / value[there].std()
        expected["boost"] = rules["boost"][column] * np.where(there, z, 0)
    scores, excluded = scores_of(9), [set(range(u, N_ITEMS, 6)) for u in range(9)]
    seen = Sequences.from_rows([np.asarray(sorted(h), np.int32) for h in excluded])
    top = Rules(**rules).bind(item_columns).top_k(scores, 8, seen=seen)
    for user in range(9):
        wanted = oracle(scores[user], excluded[user], 8, [*range(N_ITEMS)], **expected)
        assert top.items[user][: len(wanted)].tolist() == wanted
        assert (top.items[user][len(wanted) :] == -1).all()
        np.testing.assert_array_equal(top.scores[user][: len(wanted)], scores[user][wanted])


def price(item: int) -> float | None:
    row = row_of(item)
    return None if row is None or row % 7 == 0 else float(row)


@pytest.mark.parametrize(
    ("rules", "may"),
    [
        ({"only": {"genre": "drama"}}, lambda i: "Drama" in genres_of(i)),
        ({"only": {"genre": ["War", "Comedy"]}}, lambda i: {"War", "Comedy"} & set(genres_of(i))),
        ({"only": {"genre": "War|Drama"}}, lambda i: genres_of(i) == ["War", "Drama"]),
        ({"exclude": {"Genres": "War"}}, lambda i: "War" not in genres_of(i)),
        ({"only": {"price": {"below": 20}}}, lambda i: (price(i) or 99) < 20),
        ({"only": {"price": {"at_least": 3, "at_most": 9}}}, lambda i: 3 <= (price(i) or 0) <= 9),
        ({"exclude": {"price": {"above": 5}}}, lambda i: not (price(i) or 0) > 5),
        ({"only": {"in_stock": True}}, lambda i: (row_of(i) or 0) % 3),
        ({"only": {"year": [1985, 1986]}}, lambda i: row_of(i) in (5, 6)),
        ({"only": {"year": "1985"}}, lambda i: row_of(i) == 5),
        ({"only": {"added": {"below": 86_400}}}, lambda i: row_of(i) == 0),
        (
            {"only": {"genre": "drama", "in_stock": True}, "exclude": {"price": 11}},
            lambda i: "Drama" in genres_of(i) and (row_of(i) or 0) % 3 and price(i) != 11,
        ),
    ],
    ids=lambda value: "" if callable(value) else str(value),
)
def test_conditions_allow_and_deny_by_column(
    item_columns: ItemColumns, rules: dict[str, Any], may: Any
) -> None:
    bound = Rules(**rules).bind(item_columns)
    expected = [bool(may(item)) for item in range(N_ITEMS)]
    assert any(expected)
    assert not all(expected)
    assert bound.allowed is not None
    assert bound.allowed.tolist() == expected
    listed = bound.top_k(scores_of(3), N_ITEMS).items
    assert set(listed[0]) - {-1} == set(np.flatnonzero(expected))


def test_slots_fix_ranks_for_users_who_do_not_have_the_item(
    item_columns: ItemColumns, known: Interactions
) -> None:
    first, second = known.items.external(7), known.items.external(30)
    bound = Rules(slots={"3": second, 1: first}).bind(item_columns)
    scores = scores_of(2)
    plain = [i for i in np.argsort(-scores[0]) if i not in (7, 30)]
    seen = Sequences.from_rows([np.empty(0, np.int32), np.asarray([7], np.int32)])
    top = bound.top_k(scores, 5, seen=seen)
    assert top.items[0].tolist() == [7, plain[0], 30, plain[1], plain[2]]
    assert top.scores[0][2] == scores[0, 30]
    assert 7 not in top.items[1]
    assert top.items[1][2] == 30
    few = np.zeros(N_ITEMS, bool)
    few[[30, 2]] = True
    assert bound.top_k(scores, 5, allowed=few).items[0].tolist() == [2, 30, -1, -1, -1]
    with pytest.raises(ConfigError, match=r"slots\.3 is beyond the list of 2"):
        bound.top_k(scores, 2)


def test_a_slot_may_be_the_last_rank_and_skips_an_item_without_a_score(
    item_columns: ItemColumns, known: Interactions
) -> None:
    bound = Rules(slots={3: known.items.external(7)}).bind(item_columns)
    scores = scores_of(2)
    scores[1, 7] = -np.inf
    top = bound.top_k(scores, 3)
    assert top.items[0, 2] == 7
    assert 7 not in top.items[1]


def test_equal_scores_go_to_the_smaller_item_under_rules_too(item_columns: ItemColumns) -> None:
    scores = np.zeros((1, N_ITEMS), np.float32)
    scores[0, 20] = 1.0
    top = Rules(max_per={"genre": N_ITEMS}).bind(item_columns).top_k(scores, 6)
    assert top.items[0].tolist() == [20, 0, 1, 2, 3, 4]


def test_a_longer_list_looks_further_down_for_items_within_the_cap() -> None:
    known = synthesize(60, 300, 4000, seed=2)
    items = np.arange(known.n_items)
    genres = ["a" if item < 240 else f"b{item}" for item in items]
    table = pa.table({"item_id": known.items.ids, "genre": genres})
    bound = Rules(max_per={"genre": 1}).bind(ItemColumns(known, table, lambda: VECTORS))
    scores = -items[None].astype(np.float32)
    # The best 200 items have one genre; of a list of 25, the best 250 are looked at.
    for n, found in ((20, 1), (25, 11)):
        listed = bound.top_k(scores, n).items[0]
        assert listed[listed >= 0].tolist() == [0, *range(240, 240 + found - 1)]


def test_lists_of_numbers_are_values_and_a_missing_one_hides_no_other(known: Interactions) -> None:
    cells = [[i % 3, None, 10 + i % 2] for i in range(N_ITEMS)]
    table = pa.table({"item_id": known.items.ids, "shelves": pa.array(cells, pa.list_(pa.int32()))})
    item_columns = ItemColumns(known, table, lambda: VECTORS)
    assert Rules(only={"shelves": [2]}).bind(item_columns).allowed.sum() == N_ITEMS // 3
    listed = Rules(max_per={"shelves": 1}).bind(item_columns).top_k(scores_of(1), 9).items[0]
    kept = [item for item in listed if item >= 0]
    assert sorted(i % 2 for i in kept) == [0, 1], "one of each parity"


def test_recency_is_the_first_interaction(known: Interactions) -> None:
    boosted = Rules(boost={"recency": 100}).bind(ItemColumns(known, None, lambda: VECTORS))
    assert known.time is not None
    first = [known.time[known.item == item].min() for item in range(N_ITEMS)]
    top = boosted.top_k(scores_of(1), 3).items[0]
    assert top[0] == np.argmax(first)


def test_a_list_does_not_depend_on_other_users(item_columns: ItemColumns) -> None:
    bound = Rules(max_per={"genre": 2}, diversity=0.5).bind(item_columns)
    scores = scores_of(20)
    together = bound.top_k(scores, 6).items
    for user in range(20):
        np.testing.assert_array_equal(bound.top_k(scores[[user]], 6).items[0], together[user])


@pytest.mark.parametrize(
    ("rules", "says"),
    [
        ({"onyl": {}}, "did you mean 'only'"),
        ({"only": ["drama"]}, "must be dict"),
        ({"only": {"genre": []}}, r"only\.genre must be a value"),
        ({"only": {"genre": None}}, r"only\.genre must be a value"),
        ({"only": {"genre": [["Drama"]]}}, r"only\.genre must be a value"),
        ({"only": {"price": {}}}, r"only\.price must be a value"),
        ({"only": {"price": {"under": 20}}}, r"at_least, above, at_most, below, not"),
        ({"only": {"price": {"below": "20"}}}, r"only\.price must be a value"),
        ({"only": {"price": {"below": float("nan")}}}, r"only\.price"),
        ({"only": {"price": 10**400}}, r"only\.price"),
        ({"only": {"x" * 201: 1}}, "too long a name"),
        ({"only": {str(i): 1 for i in range(21)}}, "more than 20 entries"),
        ({"max_per": {"genre": 0}}, r"max_per\.genre must be a whole number"),
        ({"max_per": {"genre": True}}, r"max_per\.genre must be a whole number"),
        ({"max_per": {"genre": 2.5}}, r"max_per\.genre must be a whole number"),
        ({"max_per_rarest": {"genre": 0}}, r"max_per_rarest\.genre must be a whole number"),
        ({"diversity": 1.5}, "diversity must be at least 0 and at most 1"),
        ({"diversity": "high"}, "Rules.diversity must be float"),
        ({"boost": {"price": 1000}}, r"boost\.price must be a number within"),
        ({"boost": {"price": "high"}}, r"boost\.price must be a number within"),
        ({"slots": {"first": 1}}, "slots are ranks from 1"),
        ({"slots": {0: 1}}, "slots are ranks from 1"),
        ({"slots": {1: 5, 2: "5"}}, "each rank and each item once"),
        ({"slots": {1: None}}, r"slots\.1 must be the id of an item"),
    ],
    ids=lambda value: str(value)[:50],
)
def test_wrong_rules_are_refused_in_one_sentence(rules: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says) as caught:
        Rules.from_dict(rules)
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize(
    ("rules", "kind", "says"),
    [
        ({"only": {"colour": "red"}}, UnknownNameError, "unknown column of the item table"),
        ({"only": {"genre": "Dramma"}}, DataError, "no item has such a genre: 'Dramma'"),
        ({"only": {"genre": {"below": 3}}}, ConfigError, "'genre' holds text"),
        ({"boost": {"genres": 1}}, ConfigError, "'genres' holds text"),
        ({"max_per": {"colour": 1}}, UnknownNameError, "colour"),
        ({"only": {"price": {"above": 1e6}}}, DataError, "no item is left"),
        ({"slots": {1: "nobody"}}, UnknownIdError, "nobody"),
    ],
    ids=str,
)
def test_rules_that_do_not_fit_the_items_are_refused(
    item_columns: ItemColumns, rules: dict[str, Any], kind: type[LeporidError], says: str
) -> None:
    with pytest.raises(kind, match=says):
        Rules(**rules).bind(item_columns)


def test_a_slot_that_the_rules_forbid_is_refused(item_columns: ItemColumns) -> None:
    last = item_columns.known.items.external(N_ITEMS - 1)  # has no row: never in stock
    with pytest.raises(ConfigError, match="rules out"):
        Rules(only={"in_stock": True}, slots={1: last}).bind(item_columns)


def test_without_a_table_columns_are_refused_and_the_rest_works(known: Interactions) -> None:
    bare = ItemColumns(known, None, lambda: VECTORS)
    assert Rules(diversity=0.3).bind(bare).top_k(scores_of(2), 4).items.min() >= 0
    with pytest.raises(DataError, match="--items"):
        Rules(max_per={"genre": 1}).bind(bare)
    strange = ItemColumns(known, {"item_id": ["x"], "genre": ["y"]}, lambda: VECTORS)
    with pytest.raises(DataError, match="none of the 40 items"):
        Rules(max_per={"genre": 1}).bind(strange)


def test_files_and_dicts_say_the_same(tmp_path: Path) -> None:
    rules = Rules(only={"price": {"below": 20}}, max_per={"genre": 3}, slots={2: "a"})
    (tmp_path / "rules.json").write_text(json.dumps(rules.to_dict()))
    (tmp_path / "rules.toml").write_text(
        'max_per.genre = 3\nslots.2 = "a"\n[only.price]\nbelow = 20\n'
    )
    assert Rules.read(tmp_path / "rules.json") == rules == Rules.read(tmp_path / "rules.toml")
    assert list(rules.alone()) == ["only", "max_per", "slots"]
    with pytest.raises(ConfigError, match=r"\.toml or a \.json"):
        Rules.read(tmp_path / "rules.yaml")


def test_evaluation_ranks_by_the_rules(known: Interactions) -> None:
    split = leporid.temporal_split(known)
    model = leporid.train("itemknn", split)
    allowed = known.items.externals(np.arange(0, N_ITEMS, 2)).tolist()
    table = {"item_id": allowed, "kind": ["even"] * len(allowed)}
    bound: BoundRules = Rules(only={"kind": "even"}).bind(model.item_columns(table))
    top = leporid.evaluate(model, split, at=(5,), rules=bound).top
    assert (top % 2 == 0).all()
    given = leporid.ranking.TopK(np.zeros((60, 5), np.int32), np.zeros((60, 5), np.float32))
    with pytest.raises(ConfigError, match="evaluated as given"):
        leporid.evaluate(given, split, at=(5,), rules=bound)
