from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from leporid import (
    Interactions,
    Split,
    global_time_split,
    inner_validation_split,
    leave_last_out,
    load,
    random_split,
    temporal_split,
)
from leporid.data import IdMap, split_by, synthesize
from leporid.errors import ConfigError, DataError, LeporidWarning, UnknownNameError
from leporid.foundation import read_json, write_json
from tests.data.strategies import Row, external_rows, interactions_of, rows

Parts = tuple[list[object], list[object], list[object]]

quietly = pytest.mark.filterwarnings("ignore:.*only one time|.*no times")
"""For random logs, of which some happen to have no order."""


def by_user(data: object) -> dict[object, list[object]]:
    histories: dict[object, list[object]] = {}
    for row in external_rows(data):  # type: ignore[arg-type]
        histories.setdefault(row[0], []).append(row)
    return histories


def pairs(data: object) -> list[object]:
    return [row[:2] for row in external_rows(data)]  # type: ignore[arg-type]


def parts(split: Split) -> Parts:
    return external_rows(split.train), external_rows(split.valid), external_rows(split.test)


def in_the_order_of(data: Interactions, split: Split) -> Interactions:
    """The log itself, or where it has no order the rows as the split has drawn them."""
    if data.has_order:
        return data
    both, test = split.train_valid, split.test
    user, item = (np.concatenate([getattr(p, n) for p in (both, test)]) for n in ("user", "item"))
    return Interactions.from_arrays(user, item, None, data.users, data.items)


@quietly
@given(rows, st.integers(1, 20), st.integers(0, 19), st.booleans())
@settings(deadline=None, max_examples=150)
def test_cut_points_by_share(log: list[Row], train: int, valid: int, with_time: bool) -> None:
    valid = min(valid, 20 - train)
    data = interactions_of(log, with_time=with_time)
    split = temporal_split(data, train / 20, valid / 20)
    assert sorted(pairs(data)) == sorted(pairs(split.train_valid) + pairs(split.test))
    data = in_the_order_of(data, split)
    expected: Parts = ([], [], [])
    for history in by_user(data).values():
        first = math.floor(Fraction(train, 20) * len(history))
        second = math.floor(Fraction(train + valid, 20) * len(history))
        for part, piece in zip(
            expected, (history[:first], history[first:second], history[second:]), strict=True
        ):
            part.extend(piece)
    assert parts(split) == expected
    assert split.train.users is split.test.users
    assert sorted(external_rows(split.train_valid)) == sorted(expected[0] + expected[1])


@pytest.mark.parametrize("n", [1, 5, 10, 20, 30, 70, 90, 1000])
def test_seven_tenths_of_ten_is_seven(n: int) -> None:
    split = temporal_split(interactions_of([(0, item, item) for item in range(n)]))
    sizes = (len(split.train), len(split.valid), len(split.test))
    assert sizes == (7 * n // 10, 8 * n // 10 - 7 * n // 10, n - 8 * n // 10)
    assert split.protocol == "temporal(0.7, 0.1)"


@quietly
@given(rows)
@settings(deadline=None, max_examples=80)
def test_leave_last_out(log: list[Row]) -> None:
    data = interactions_of(log)
    split = leave_last_out(data)
    data = in_the_order_of(data, split)
    train, valid, test = (by_user(part) for part in (split.train, split.valid, split.test))
    for user, history in by_user(data).items():
        n = len(history)
        assert test.get(user, []) == (history[-1:] if n >= 2 else [])
        assert valid.get(user, []) == (history[-2:-1] if n >= 3 else [])
        assert train[user] == history[: max(n - 2, 1)]


@given(rows, st.integers(-3, 12), st.integers(-3, 12))
@settings(deadline=None, max_examples=80)
def test_global_time_at_given_times(log: list[Row], one: int, other: int) -> None:
    data = interactions_of(log)
    low, high = sorted((one, other))
    everything = external_rows(data)
    split = global_time_split(data, low, high)
    assert parts(split) == (
        [row for row in everything if row[2] < low],
        [row for row in everything if low <= row[2] < high],
        [row for row in everything if row[2] >= high],
    )


def test_global_time_by_share_of_the_log() -> None:
    data = interactions_of([(item % 3, item, item) for item in range(20)])
    split = global_time_split(data)
    assert [len(part) for part in (split.train, split.valid, split.test)] == [14, 2, 4]
    assert split.protocol == "global-time(14, 16)"


def test_impossible_splits_are_refused() -> None:
    data = interactions_of([(0, 0, 0), (0, 1, 1)])
    for train, valid in ((0.0, 0.1), (0.9, 0.2), (0.5, -0.1), (math.nan, 0.1)):
        with pytest.raises(ConfigError, match="shares"):
            temporal_split(data, train, valid)
    with pytest.raises(ConfigError, match="begin before"):
        global_time_split(data, 5, 2)
    with pytest.raises(DataError, match="needs times"):
        global_time_split(interactions_of([(0, 0, 0)], with_time=False))
    with pytest.raises(UnknownNameError, match="leave-last-out"):
        split_by(data, "leave-last")


@pytest.mark.parametrize("text_ids", [False, True])
@pytest.mark.parametrize("with_time", [False, True])
def test_saved_splits_come_back(tmp_path: Path, text_ids: bool, with_time: bool) -> None:
    rng = np.random.default_rng(5)
    columns = {"user": rng.integers(0, 9, 90).tolist(), "item": rng.integers(0, 30, 90).tolist()}
    if text_ids:
        columns = {name: [f"é{value}" for value in values] for name, values in columns.items()}
    if with_time:
        columns["time"] = rng.integers(0, 50, 90).tolist()
    split = temporal_split(load(columns)) if with_time else random_split(load(columns))
    again = Split.load(split.save(tmp_path / "split"))
    assert again.digest == split.digest
    assert again.protocol == split.protocol
    assert parts(again) == parts(split)


def test_files_that_do_not_belong_together_are_refused(tmp_path: Path) -> None:
    one = temporal_split(interactions_of([(0, item, item) for item in range(10)]))
    two = temporal_split(interactions_of([(0, item, -item) for item in range(10)]))
    one.save(tmp_path / "one")
    two.save(tmp_path / "two")
    arrays = tmp_path / "two" / "split.safetensors"
    (tmp_path / "one" / "split.safetensors").write_bytes(arrays.read_bytes())
    with pytest.raises(DataError, match="is from another split"):
        Split.load(tmp_path / "one")
    arrays.write_bytes(b"nonsense")
    with pytest.raises(DataError, match="not the file that was saved"):
        Split.load(tmp_path / "two")
    with pytest.raises(DataError, match="holds no split"):
        Split.load(tmp_path / "three")
    summary = read_json(tmp_path / "one" / "split.json")
    write_json(tmp_path / "one" / "split.json", {**summary, "format": "other"})
    with pytest.raises(DataError, match="reads leporid-split-3"):
        Split.load(tmp_path / "one")


@quietly
@example(log=[(0, 0, 2), (0, 1, 2), (0, 2, 2), (0, 3, 3)], protocol="global-time")
@given(rows, st.sampled_from(["temporal", "leave-last-out", "global-time", "random"]))
@settings(deadline=None, max_examples=80)
def test_an_inner_split_is_the_protocol_on_what_is_known_before_test(
    log: list[Row], protocol: str
) -> None:
    split = split_by(interactions_of(log), protocol)
    if len(split.train_valid) == 0:
        return
    again = inner_validation_split(split)
    train, valid, test = parts(again)
    assert sorted(train + valid + test) == sorted(external_rows(split.train_valid))
    assert again.users is split.users
    assert again.items is split.items
    # Whether there is an order is asked once, of the whole log.
    if protocol != "global-time" and split.train_valid.has_order == interactions_of(log).has_order:
        expected = split_by(split.train_valid, protocol)
        assert parts(again) == parts(expected)


def test_an_inner_split_keeps_the_shares_and_the_distance() -> None:
    split = temporal_split(interactions_of([(0, item, item) for item in range(100)]), 0.5, 0.2)
    again = inner_validation_split(split)
    assert again.protocol == "temporal(0.5, 0.2)"
    assert (len(again.train), len(again.valid), len(again.test)) == (35, 14, 21)
    clock = inner_validation_split(
        global_time_split(interactions_of([(0, i, i) for i in range(100)]))
    )
    assert (len(clock.train), len(clock.valid), len(clock.test)) == (56, 8, 16)
    drawn = random_split(interactions_of([(0, item, item) for item in range(100)]), 0.5, 0.2, 7)
    assert inner_validation_split(drawn).protocol == drawn.protocol == "random(0.5, 0.2, seed=7)"


@pytest.mark.parametrize("protocol", ["by hand", "temporal"])
def test_an_inner_split_of_an_unknown_protocol_is_refused(protocol: str) -> None:
    split = temporal_split(interactions_of([(0, item, item) for item in range(10)]))
    strange = Split(split.train, split.valid, split.test, protocol)
    with pytest.raises(ConfigError, match=f"'{protocol}' is none of temporal"):
        inner_validation_split(strange)


def sorted_by_item(order: str) -> dict[str, list[int]]:
    """20 users with 10 of 40 items each, in a file sorted by item or shuffled; no times."""
    log = [(user, (user * 7 + place * 3) % 40) for user in range(20) for place in range(10)]
    log.sort(key=lambda row: row[1])
    if order == "shuffled":
        np.random.default_rng(0).shuffle(log)
    return {"user": [int(row[0]) for row in log], "item": [int(row[1]) for row in log]}


def test_without_times_the_split_is_random_and_the_same_for_any_order_of_the_rows() -> None:
    splits = {}
    for order in ("sorted", "shuffled"):
        data = load(sorted_by_item(order))
        with pytest.warns(
            LeporidWarning, match=r"no times.*random \(seed 0\).*order='file'"
        ) as seen:
            splits[order] = temporal_split(data)
        assert len(seen) == 1
        assert random_split(data).digest == splits[order].digest
    assert splits["sorted"].digest == splits["shuffled"].digest
    assert splits["sorted"].protocol == "random(0.7, 0.1, seed=0)"
    assert splits["sorted"].train.time is None
    assert np.bincount(splits["sorted"].train.item).max() <= 5 * 7
    # Test items come from the whole catalogue, not from its end.
    assert splits["sorted"].test.item.mean() < 30
    assert random_split(load(sorted_by_item("sorted")), seed=1).digest != splits["sorted"].digest
    with pytest.raises(ConfigError, match="seed"):
        random_split(load(sorted_by_item("sorted")), seed=-1)


def test_the_order_of_the_file_can_be_time() -> None:
    columns = sorted_by_item("sorted")
    split = temporal_split(load(columns, order="file"))
    assert split.protocol == "temporal(0.7, 0.1)"
    for user in range(20):
        assert split.train.sequences().of(user).max() < split.test.sequences().of(user).min()
    # Over a time column as well.
    backwards = {**columns, "time": list(range(len(columns["user"]), 0, -1))}
    assert load(backwards, order="file").digest == load(columns, order="file").digest
    assert load(backwards, order="file").source.columns["time"] == "row number"  # type: ignore[union-attr]
    with pytest.raises(ConfigError, match="exclude each other"):
        load(backwards, time="time", order="file")
    with pytest.raises(UnknownNameError, match="unknown order 'rows'"):
        load(columns, order="rows")  # type: ignore[arg-type]


@pytest.mark.parametrize(("constant", "random"), [(10, False), (11, True)])
def test_one_time_for_most_users_is_no_order(constant: int, random: bool) -> None:
    log = [(u, i, 0 if u < constant else i) for u in range(20) for i in range(10)]
    data = interactions_of([*log, (99, 0, 5)])
    assert data.has_order is not random
    if not random:
        assert temporal_split(data).protocol == "temporal(0.7, 0.1)"
        return
    with pytest.warns(LeporidWarning, match="most users have only one time"):
        split = temporal_split(data, seed=3)
    assert split.protocol == "random(0.7, 0.1, seed=3)"
    assert split.train.time is None


def test_leave_last_out_without_times_draws() -> None:
    data = load(sorted_by_item("sorted"))
    with pytest.warns(LeporidWarning, match="drawn"):
        split = leave_last_out(data, seed=2)
    assert split.protocol == inner_validation_split(split).protocol == "leave-random-out(seed=2)"
    assert [len(part) for part in (split.train, split.valid, split.test)] == [160, 20, 20]
    with pytest.raises(DataError, match="--order file"):
        global_time_split(data)


@pytest.mark.parametrize("far", [1, 2**52])
def test_equal_times_keep_the_order_of_the_file(far: int) -> None:
    """Four days with fifty purchases each, near each other and too far apart for one sort key."""
    rng = np.random.default_rng(5)
    users, time = np.repeat(np.arange(30), 200), np.tile(np.repeat(np.arange(4), 50), 30) * far
    items = np.concatenate([rng.permutation(400)[:200] for _ in range(30)])
    log = rng.permutation(np.stack([users, items, time], axis=1))
    split = leave_last_out(load(dict(zip(("user", "item", "time"), log.T, strict=True))))
    histories = [by_user(part) for part in (split.train, split.valid, split.test)]
    for user in range(30):
        # Python's sort is stable.
        ours = sorted((tuple(row) for row in log.tolist() if row[0] == user), key=lambda r: r[2])
        assert [h[user] for h in histories] == [ours[:-2], ours[-2:-1], ours[-1:]]


def test_a_split_folder_is_no_log(tmp_path: Path) -> None:
    random_split(load(sorted_by_item("sorted"))).save(tmp_path / "sp")
    with pytest.raises(DataError, match=r"is a split, not a log: leporid\.Split\.load reads it"):
        load(tmp_path / "sp")


def test_swapped_arguments_are_answered_with_the_names_of_the_protocols() -> None:
    data = synthesize(30, 20, 300)
    with pytest.raises(UnknownNameError, match=r"unknown protocol Interactions.*leave-last-out"):
        split_by("temporal", data)  # type: ignore[arg-type]


@pytest.mark.parametrize("include_seen", [False, True])
@pytest.mark.parametrize("part", ["valid", "test"])
def test_what_is_held_out_by_brute_force(part: str, include_seen: bool) -> None:
    # User 7 has nothing, and pairs occur again.
    rng = np.random.default_rng(4)
    user, item = rng.integers(0, 40, 700), rng.integers(0, 15, 700)
    user[user == 7] = 8
    ids = IdMap.range(40, "user"), IdMap.range(15, "item")
    log = Interactions.from_arrays(user, item, np.arange(700), *ids, duplicates="all")
    split = temporal_split(log)
    known_parts = [split.train] if part == "valid" else [split.train, split.valid]
    known: dict[int, list[int]] = {user: [] for user in range(40)}
    for each in known_parts:
        for who, what in zip(each.user.tolist(), each.item.tolist(), strict=True):
            known[who].append(what)
    events = split.valid if part == "valid" else split.test
    distinct = dict.fromkeys(zip(events.user.tolist(), events.item.tolist(), strict=True))
    to_find: dict[int, list[int]] = {}
    for who, what in distinct:
        if include_seen or what not in known[who]:
            to_find.setdefault(who, []).append(what)

    held_out = split.held_out(part, include_seen)  # type: ignore[arg-type]
    assert held_out.users.tolist() == sorted(to_find)
    for row, who in enumerate(held_out.users.tolist()):
        assert held_out.to_find.of(who).tolist() == to_find[who]
        excluded = [] if include_seen else known[who]
        assert held_out.excluded.of(row).tolist() == excluded
    for who, items in known.items():
        assert held_out.known.of(who).tolist() == items
    assert held_out.repeated == len(distinct) - sum(map(len, to_find.values()))
    assert (held_out.repeated == 0) == include_seen
    assert held_out.popularity.tolist() == np.bincount(split.train.item, minlength=15).tolist()
    assert held_out.activity.tolist() == np.bincount(split.train.user, minlength=40).tolist()
    assert split.held_out(part, include_seen) is held_out  # type: ignore[arg-type]
