"""Kinds of events: which rows they become, which are targets, and what a list must not show."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import leporid
from leporid.data import IdMap, Interactions, Split, inner_validation_split, split_by, write_log
from leporid.errors import ConfigError, DataError
from leporid.models import everything
from tests.data.event_log import WEIGHTS, Row, frame, rows

TARGETS: Any = {"event": "kind", "weights": WEIGHTS, "target_events": "purchase"}


def events_of(data: Interactions) -> list[tuple[Any, ...]]:
    """(user, item, time, weight, whether it is a target) by external id, sorted."""
    assert data.time is not None
    assert data.weight is not None
    assert data.is_target is not None
    users, items = data.users.externals(data.user), data.items.externals(data.item)
    rest = data.time.tolist(), data.weight.tolist(), data.is_target.tolist()
    return sorted(zip(users, items, *rest, strict=True))


def disliked(log: list[Row]) -> set[tuple[int, int]]:
    return {(u, i) for u, i, kind, _ in log if kind == "dislike"}


def expected(log: list[Row], duplicates: str = "all") -> list[tuple[Any, ...]]:
    """What is to be loaded, by loops."""
    gone, found = disliked(log), {}
    for u, i, kind, t in sorted(log, key=lambda row: row[3]):
        if kind in ("spam", "dislike") or (u, i) in gone:
            continue
        key = (u, i, kind == "purchase", t if duplicates == "all" else None)
        if key not in found:
            found[key] = [t, 0.0]
        if found[key][1] == 0.0 or duplicates == "sum":
            found[key][1] += WEIGHTS[kind]
    return sorted((u, i, t, w, is_target) for (u, i, is_target, _), (t, w) in found.items())


@pytest.mark.parametrize("duplicates", ["first", "sum", "all"])
def test_rows_weights_and_targets_are_those_of_the_loops(duplicates: Any) -> None:
    log = rows()
    data = leporid.load(frame(log), **TARGETS, duplicates=duplicates, progress=False)
    assert events_of(data) == expected(log, duplicates)
    gone, kinds = disliked(log), Counter(kind for _, _, kind, _ in log)
    assert data.disliked is not None
    pairs = zip(
        data.users.externals(data.disliked.user),
        data.items.externals(data.disliked.item),
        strict=True,
    )
    assert sorted(pairs) == sorted(gone)
    assert data.dropped["event spam"] == kinds["spam"]
    assert len(data) + len(data.disliked) + sum(data.dropped.values()) == len(log)
    assert "target events" in repr(data)
    assert "disliked" in repr(data)


def test_the_weight_column_is_multiplied_and_without_weights_a_kind_counts_one() -> None:
    log = {"user": [1, 1, 2], "item": [1, 2, 1], "kind": ["a", "b", "a"], "w": [2.0, 3.0, 4.0]}
    data = leporid.load(log, weight="w", event="kind", weights={"a": 10, "b": 1}, progress=False)
    assert data.weight is not None
    assert data.weight.tolist() == [20.0, 3.0, 40.0]
    assert data.is_target is None  # every event is a target
    plain = leporid.load(log, event="kind", target_events=["b"], progress=False)
    assert plain.weight is None
    assert plain.is_target is not None
    assert plain.is_target.tolist() == [0, 1, 0]


@pytest.mark.parametrize(
    ("how", "error", "says"),
    [
        ({"target_events": "purchase"}, ConfigError, "--event"),
        ({"event": "kind"}, ConfigError, "--event-weights"),
        ({**TARGETS, "target_events": "dislike"}, ConfigError, "'dislike' has no weight above 0"),
        ({**TARGETS, "target_events": "order"}, ConfigError, "'order' has no weight above 0"),
        (
            {"event": "kind", "target_events": "order"},
            DataError,
            "cart, dislike, purchase, spam, view",
        ),
        ({"event": "kind", "weights": {"buy": 1}}, DataError, "no event 'buy'"),
        ({"event": "kind", "weights": {"view": float("nan")}}, ConfigError, "'view' is no number"),
        ({"event": "kind", "weights": {"dislike": -1}}, DataError, "disliked items"),
    ],
)
def test_what_cannot_be_meant_is_an_error(how: Any, error: Any, says: str) -> None:
    with pytest.raises(error, match=says):
        leporid.load(frame(rows()), **how, progress=False)


def known_before(log: list[Row], user: int, last: int) -> tuple[set[int], set[int]]:
    """The items that a user has bought up to a time, and those disliked."""
    before = [(i, kind) for u, i, kind, t in log if u == user and t <= last]
    gone = {i for u, i in disliked(log) if u == user}
    return {i for i, kind in before if kind == "purchase"} - gone, gone


@pytest.mark.parametrize("protocol", ["temporal", "leave-last-out", "global-time"])
@pytest.mark.parametrize("repeats", [False, True])
def test_targets_are_the_target_items_that_a_user_has_not(protocol: str, repeats: bool) -> None:
    log = rows()
    data = leporid.load(frame(log), **TARGETS, duplicates="all", progress=False)
    split = replace(split_by(data, protocol), include_seen=repeats)
    assert {(p.is_target is None, p.disliked is None) for p in (split.train, split.test)} == {
        (False, False)
    }
    found = 0
    for user in range(split.n_users):
        times = split.train_valid.time[split.train_valid.user == user]
        if not len(times):
            continue
        name, last = int(split.users.external(user)), int(times.max())
        bought, _ = known_before(log, name, last)
        later = known_before(log, name, len(log))[0] if not repeats else {
            i for u, i, kind, t in log
            if (u, kind) == (name, "purchase") and t > last and (u, i) not in disliked(log)
        }  # fmt: skip
        wanted = later if repeats else later - bought
        targets = split.targets("test")
        mine = split.items.externals(targets.item[targets.user == user])
        assert sorted(mine) == sorted(wanted)
        found += len(mine)
        excluded = split.train_valid.excluded_items().of(user)
        known = split.train_valid.disliked
        assert known is not None
        not_wanted = set(known.item[known.user == user])
        assert set(split.items.externals(excluded)) == bought | set(
            split.items.externals(np.array(sorted(not_wanted), np.int32))
        )
        assert set(split.train_valid.excluded_items(include_seen=True).of(user)) == not_wanted
    assert found >= 5


def test_dislikes_fall_into_the_part_of_their_time() -> None:
    log = rows()
    split = leporid.temporal_split(leporid.load(frame(log), **TARGETS, progress=False))
    seen = 0
    for part in ("train", "valid", "test"):
        negative = getattr(split, part).disliked
        for user, time in zip(negative.user, negative.time, strict=True):
            last = [
                getattr(split, name).time[getattr(split, name).user == user].max(initial=-1)
                for name in ("train", "valid")
            ]
            known = "train" if time <= last[0] else "valid" if time <= max(last) else "test"
            assert part == known
            seen += 1
    whole = everything(split).train
    assert whole.disliked is not None
    assert seen == len(whole.disliked) == len(disliked(log))
    random = leporid.random_split(leporid.load(frame(log), **TARGETS, progress=False))
    assert len(random.train.disliked or ()) == seen


def test_a_dislike_in_the_moment_of_the_last_training_event_is_known_in_training() -> None:
    log = [(0, item, "purchase", item) for item in range(10)]
    negative = [(0, 20, "dislike", 6), (0, 21, "dislike", 7), (0, 22, "dislike", 8)]
    how: Any = {"event": "kind", "weights": {"purchase": 1, "dislike": -1}, "progress": False}
    split = leporid.temporal_split(leporid.load(frame([*log, *negative]), **how))
    parts = (split.train, split.valid, split.test)
    assert [part.time.max() for part in parts] == [6, 7, 9]  # type: ignore[union-attr]
    assert [len(part.disliked or ()) for part in parts] == [1, 1, 1]


def test_what_was_only_viewed_is_not_hidden_where_nothing_is_disliked() -> None:
    log = [row for row in rows() if row[2] in ("view", "purchase")]
    how: Any = {"event": "kind", "target_events": "purchase", "progress": False}
    data = leporid.load(frame(log), **how)
    for user, name in enumerate(data.users.ids.to_pylist()):
        bought = {i for u, i, kind, _ in log if u == name and kind == "purchase"}
        assert set(data.items.externals(data.excluded_items().of(user))) == bought
        assert len(data.excluded_items(include_seen=True).of(user)) == 0


def test_nothing_is_lost_in_files_cores_and_inner_splits(tmp_path: Path) -> None:
    data = leporid.load(frame(rows()), **TARGETS, duplicates="all", progress=False)
    kinds: Any = {"target": 1, "other": 1, "disliked": -1}
    for ending in ("parquet", "csv", "inter"):
        file = write_log(data, tmp_path / f"log.{ending}")
        how: Any = {
            "event": "event",
            "weights": kinds,
            "target_events": "target",
            "weight": "weight",
        }
        again = leporid.load(file, **how, duplicates="all", progress=False)
        assert again.digest == data.digest
    split = leporid.temporal_split(data)
    split.save(tmp_path / "split")
    assert Split.load(tmp_path / "split").digest == split.digest
    inner = inner_validation_split(split)
    assert inner.train.is_target is not None
    assert len(everything(inner).train.disliked or ()) == len(split.train_valid.disliked or ())
    names = {replace(data, is_target=None).digest, replace(data, disliked=None).digest, data.digest}
    assert len(names) == 3


def test_a_core_counts_pairs_once_and_takes_the_dislikes_along() -> None:
    log = rows(users=60, items=50, n=500)
    data = leporid.load(frame(log), **TARGETS, progress=False)
    plain = replace(data, is_target=None, disliked=None).select(data.is_first)
    core, same = data.core(5), plain.core(5)
    assert core.users == same.users
    assert core.items == same.items
    assert core.disliked is not None
    assert 0 < len(core.disliked) < len(data.disliked or ())
    kept = {*core.users.ids.to_pylist()}, {*core.items.ids.to_pylist()}
    pairs = zip(
        core.users.externals(core.disliked.user), core.items.externals(core.disliked.item),
        strict=True,
    )  # fmt: skip
    inside = {(u, i) for u, i in disliked(log) if u in kept[0] and i in kept[1]}
    assert set(pairs) == inside


def test_a_view_and_a_purchase_of_a_pair_are_no_repeat() -> None:
    ids = IdMap.range(2, "user"), IdMap.range(3, "item")
    columns: Any = [0, 0, 0, 1], [1, 1, 1, 2], [1, 2, 3, 4]
    is_target = np.array([False, True, True, True])
    data = Interactions.from_arrays(
        *map(np.array, columns), *ids, is_target=is_target, duplicates="all"
    )
    assert data.repeats == 1
    once = Interactions.from_arrays(*map(np.array, columns), *ids, is_target=is_target)
    assert once.is_target is not None
    assert once.is_target.tolist() == [False, True, True]
    assert once.dropped == {"duplicate pair": 1}
