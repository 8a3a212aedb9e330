"""`Split`: train, validation and test parts with the same ids; and the protocols that make one.

Protocols by time rely on the order of `Interactions` (user, then time). Where a log has no order,
they choose at random, and say so. Any of them can keep some items out of training
(`cold_items_split`).
"""

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Literal, Self

import numpy as np
from numpy.typing import NDArray

from leporid.data.arrays import AnyArray, Mask
from leporid.data.event_kinds import with_negatives
from leporid.data.files import SPLIT_SUMMARY, is_split
from leporid.data.id_map import IdMap
from leporid.data.interactions import Interactions
from leporid.data.loading import as_log
from leporid.data.sequences import Sequences
from leporid.errors import ConfigError, DataError, UnknownNameError, warn
from leporid.foundation import JsonValue, artifacts, checks_arguments

Part = Literal["valid", "test"]
PROTOCOLS = ("temporal", "leave-last-out", "global-time", "random")
RARE_REPEATS = 0.01
"""Below this share of the interactions, showing items again costs more than it finds."""

_ARRAYS = "split.safetensors"
_SUMMARY = SPLIT_SUMMARY
_FORMAT = "leporid-split-3"


@dataclass(frozen=True, eq=False)
class HeldOut:
    """What an evaluation on one part of a split has to know of the data."""

    users: NDArray[np.int32]
    """int32[m]: the users with something to find, ascending."""
    to_find: Sequences
    """Held-out items of every user, each once."""
    repeated: int
    """Number of held-out items that are not to be found, because their users have them already."""
    known: Sequences
    """What is known of every user at that moment, in time order."""
    excluded: Sequences
    """What no list may show, one row for each of these users."""
    popularity: NDArray[np.int32]
    """int32[n_items]: training interactions of each item."""
    activity: NDArray[np.int32]
    """int32[n_users]: training interactions of each user."""


@dataclass(frozen=True, eq=False)
class Split:
    """Three parts of one log; every part has the same users and items in its id maps."""

    train: Interactions
    valid: Interactions
    test: Interactions
    protocol: str
    """How it was made: 'temporal(0.7, 0.1)', 'random(0.7, 0.1, seed=0)'."""
    include_seen: bool = False
    """Whether lists may show items that the user already has, so that repeats are targets too."""

    def __repr__(self) -> str:
        sizes = (f"{name} {len(part):,}" for name, part in self._parts().items())
        return (
            f"Split({self.protocol}: {self.n_users:,} users, {self.n_items:,} items; "
            f"{', '.join(sizes)})"
        )

    @property
    def users(self) -> IdMap:
        return self.train.users

    @property
    def items(self) -> IdMap:
        return self.train.items

    @property
    def n_users(self) -> int:
        return self.train.n_users

    @property
    def n_items(self) -> int:
        return self.train.n_items

    @cached_property
    def train_valid(self) -> Interactions:
        """Train followed by validation within each user: what is known when testing."""
        joined = Interactions.joined(self.train, self.valid)
        return joined.select(np.argsort(joined.user, kind="stable"))

    @checks_arguments()
    def known(self, part: Part) -> Interactions:
        """Return what a recommender tested on `part` may know, and must not recommend."""
        return self.train if part == "valid" else self.train_valid

    @checks_arguments()
    def part(self, part: Part) -> Interactions:
        """Return the held-out interactions of `part`."""
        return self.valid if part == "valid" else self.test

    @checks_arguments()
    def targets(self, part: Part, include_seen: bool | None = None) -> Interactions:
        """Return what is to be found in `part`, each item once.

        Targets are items of target events; repeats of what the user has already are among them
        only if included.
        """
        if include_seen is None:
            include_seen = self.include_seen
        events = self.part(part).target_events
        is_target = events.is_first
        if not include_seen:
            is_target = events.first_after(self.known(part).target_events)
        return events if is_target.all() else events.select(is_target)

    def held_out(self, part: Part, include_seen: bool) -> HeldOut:
        """Return what an evaluation on `part` looks for; a part without anything is refused."""
        # Models are evaluated on one split again and again.
        key = part, include_seen
        if key not in self._held_out:
            self._held_out[key] = self._to_evaluate(part, include_seen)
        return self._held_out[key]

    @cached_property
    def _held_out(self) -> dict[tuple[Part, bool], HeldOut]:
        return {}

    def _to_evaluate(self, part: Part, include_seen: bool) -> HeldOut:
        events = self.part(part)
        n_distinct = int(np.count_nonzero(events.target_events.is_first))
        if not n_distinct:
            what = "has no target event" if len(events) else "is empty"
            raise DataError(
                f"the {part} part of the split {what}: there is nothing to evaluate on"
            )
        to_find = self.targets(part, include_seen).sequences()
        n_targets = len(to_find.items)
        if not n_targets:
            raise DataError(
                f"the users have all their {part} items already: include_seen=True "
                f"(--include-seen) lets known items be recommended again"
            )
        known = self.known(part)
        users = np.flatnonzero(np.diff(to_find.indptr)).astype(np.int32)
        activity = np.diff(self.train.sequences().indptr)
        return HeldOut(
            users=users,
            to_find=to_find,
            repeated=n_distinct - n_targets,
            known=known.sequences(),
            excluded=known.excluded_items(include_seen).take(users),
            popularity=self.train.popularity,
            activity=activity.astype(np.int32),
        )

    @cached_property
    def digest(self) -> str:
        """A hash of the three parts, and of whether repeats are targets."""
        parts = (part.digest[:8] for part in self._parts().values())
        return "-".join(parts) + "-seen" * self.include_seen

    def summary(self) -> dict[str, JsonValue]:
        """Return what a record keeps of the data: protocol, digest, size of the training part."""
        facts: dict[str, JsonValue] = {
            "protocol": self.protocol,
            "data_digest": self.digest,
            "train": {**self.train.stats().as_dict()},
        }
        users = self.users
        items = self.items
        if users.core or items.core:
            facts["core"] = {
                "k": max(users.core, items.core),
                "dropped_users": len(users.dropped or ()),
                "dropped_items": len(items.dropped or ()),
            }
        if self.include_seen:
            facts["include_seen"] = True
        return facts

    def including_seen(self, include_seen: bool | None = True) -> Self:
        """Return the same parts with `include_seen` (None: as it is); warn if repeats are rare."""
        if include_seen is None or include_seen == self.include_seen:
            return self
        test = self.test.target_events
        total = len(self.train_valid.target_events) + len(test)
        repeats = self.train_valid.repeats + len(test) - len(self.targets("test"))
        if include_seen and repeats < RARE_REPEATS * total:
            warn(
                f"repeats are rare, {repeats:,} of {total:,} interactions: include_seen "
                f"(--include-seen) is for logs that have them, read with duplicates='all'"
            )
        return replace(self, include_seen=include_seen)

    @checks_arguments()
    def save(self, path: str | Path) -> Path:
        """Write the directory `path`, replaced as a whole: arrays, and the rest as JSON."""
        arrays = self.users.to_arrays("users.") | self.items.to_arrays("items.")
        for name, part in self._parts().items():
            arrays |= part.to_stored(name)
        summary = {
            "format": _FORMAT,
            "protocol": self.protocol,
            "include_seen": self.include_seen,
            "digest": self.digest,
            "interactions": {name: len(part) for name, part in self._parts().items()},
        }
        with artifacts.atomic_folder(path) as folder:
            artifacts.write_arrays(folder / _ARRAYS, arrays)
            artifacts.write_json(folder / _SUMMARY, summary)
            artifacts.write_manifest(folder, "split", _ARRAYS, _SUMMARY, beside=path)
        return Path(path)

    @classmethod
    @checks_arguments()
    def load(cls, path: str | Path) -> Self:
        """Read a directory that `save` wrote; files that do not belong together are refused."""
        folder = artifacts.recovered(path)
        if not is_split(folder):
            raise DataError(f"{folder} holds no split: there is no {_SUMMARY} in it")
        summary = artifacts.read_object(folder / _SUMMARY)
        if summary.get("format") != _FORMAT:
            raise DataError(
                f"{folder / _SUMMARY} has the format {summary.get('format')!r}, this release reads "
                f"{_FORMAT}: split the log again"
            )
        artifacts.check_manifest(folder, "split", _ARRAYS, _SUMMARY)
        arrays, _ = artifacts.read_arrays(folder / _ARRAYS)
        try:
            users = IdMap.from_arrays(arrays, "user", "users.")
            items = IdMap.from_arrays(arrays, "item", "items.")
            return cls(
                Interactions.from_stored(arrays, "train", users, items),
                Interactions.from_stored(arrays, "valid", users, items),
                Interactions.from_stored(arrays, "test", users, items),
                str(summary.get("protocol")),
                summary.get("include_seen") is True,
            )
        except DataError as error:
            raise DataError(
                f"{folder / _ARRAYS} is damaged: {error}; save it again"
            ) from None

    def _parts(self) -> dict[str, Interactions]:
        return {"train": self.train, "valid": self.valid, "test": self.test}


@checks_arguments({"seed": 0})
def temporal_split(
    data: Interactions | object,
    train: float = 0.7,
    valid: float = 0.1,
    *,
    seed: int = 0,
) -> Split:
    """Split each user's interactions in time order: `train` share, `valid` share, then test.

    `data` is `Interactions`, or what `load` makes them of: a frame, a path, a data set's name.
    The cut points of a user with n interactions are floor(train n) and floor((train + valid) n),
    computed in integers: 0.7 of 10 is 7, whatever binary fractions say. A log without an order
    (`Interactions.has_order`) gives `random_split` with `seed`, and a `LeporidWarning`.
    """
    data = as_log(data, "temporal_split(data)")
    if not data.has_order:
        _warn_no_order(
            data, f"each user's interactions are split at random (seed {seed})"
        )
        return random_split(data, train, valid, seed)
    return _by_share(data, train, valid, f"temporal({train:g}, {valid:g})")


@checks_arguments({"seed": 0})
def random_split(
    data: Interactions | object,
    train: float = 0.7,
    valid: float = 0.1,
    seed: int = 0,
) -> Split:
    """Split each user's interactions in an order drawn by `seed`, cut as in `temporal_split`.

    The split does not depend on the order of the rows in the file. Its parts have no times.
    """
    data = as_log(data, "random_split(data)")
    name = f"random({train:g}, {valid:g}, seed={seed})"
    return _by_share(_shuffled(data, seed), train, valid, name)


@checks_arguments({"seed": 0})
def leave_last_out(data: Interactions | object, *, seed: int = 0) -> Split:
    """Split off each user's last interaction as test, and the one before it as validation.

    A user with two interactions has one in train and one in test; a user with one has it in
    train. In a log without an order the two are drawn by `seed`, with a `LeporidWarning`.
    """
    data = as_log(data, "leave_last_out(data)")
    if not data.has_order:
        _warn_no_order(
            data, f"each user's two held-out interactions are drawn (seed {seed})"
        )
    return _leave_out(data, None if data.has_order else seed)


@checks_arguments()
def global_time_split(
    data: Interactions | object,
    valid_time: int | None = None,
    test_time: int | None = None,
    *,
    train: float = 0.7,
    valid: float = 0.1,
) -> Split:
    """Split by one clock for all users: train before `valid_time`, test from `test_time` on.

    Times are in the unit of `data.time`. A bound that is not given is the time of the
    interaction at that share of the whole log (`train`, and `train + valid`). Interactions with
    the same time are never separated.
    """
    data = as_log(data, "global_time_split(data)")
    if data.time is None:
        raise DataError(
            "a global time split needs times: name the time column when loading, or order='file' "
            "(--order file) if the rows of the file are in time order, or split at random"
        )
    if len(data) == 0:
        raise DataError("a global time split needs at least one interaction")
    train_share, known_share = _shares(train, valid)
    if valid_time is None:
        valid_time = _time_at(data.time, train_share)
    if test_time is None:
        test_time = _time_at(data.time, known_share)
    if valid_time > test_time:
        raise ConfigError(
            f"validation must begin before test, got valid_time={valid_time} and "
            f"test_time={test_time}"
        )
    name = f"global-time({valid_time}, {test_time})"
    return _parts(data, data.time < valid_time, data.time >= test_time, name)


def _time_at(time: NDArray[np.int64], share: Fraction) -> int:
    """Return the time of the interaction at a share of the log."""
    position = min(len(time) * share.numerator // share.denominator, len(time) - 1)
    return int(np.partition(time, position)[position])


@checks_arguments()
def inner_validation_split(split: Split) -> Split:
    """Split what is known before test, train and validation, once more by the same protocol.

    Its test part lies as far behind its training part as the real one does, so settings are chosen
    for that distance without a look at the test. All parts keep the id maps of `split`.
    """
    known = split.train_valid
    name, _, numbers = split.protocol.removesuffix(")").partition("(")
    if name == "temporal" and numbers:
        train, valid = map(float, numbers.split(", "))
        inner = _by_share(known, train, valid, split.protocol)
    elif name == "random" and numbers:
        train_share, valid_share, named_seed = numbers.split(", ")
        seed = int(named_seed.removeprefix("seed="))
        inner = random_split(known, float(train_share), float(valid_share), seed)
    elif name == "leave-last-out":
        inner = _leave_out(known, None)
    elif name == "leave-random-out" and numbers:
        inner = _leave_out(known, int(numbers.removeprefix("seed=")))
    elif name == "global-time" and numbers:
        # Times that tie may leave the training part empty; a share of it may not be.
        n = len(known) + len(split.test)
        train = max(len(split.train), 1) / n
        valid = min(len(split.valid) / n, 1 - train)
        inner = global_time_split(known, train=train, valid=valid)
    else:
        raise ConfigError(
            f"an inner validation split repeats the protocol of the split, and {split.protocol!r} "
            f"is none of {', '.join(PROTOCOLS)}"
        )
    return replace(inner, include_seen=split.include_seen)


def split_by(
    data: Interactions | object,
    protocol: str,
    *,
    train: float = 0.7,
    valid: float = 0.1,
    seed: int = 0,
) -> Split:
    """Split by the protocol of that name, one of `PROTOCOLS`; leave-last-out has no shares."""
    if protocol == "temporal":
        return temporal_split(data, train, valid, seed=seed)
    if protocol == "random":
        return random_split(data, train, valid, seed)
    if protocol == "leave-last-out":
        return leave_last_out(data, seed=seed)
    if protocol == "global-time":
        return global_time_split(data, train=train, valid=valid)
    raise UnknownNameError("protocol", protocol, PROTOCOLS)


@checks_arguments({"seed": 0})
def cold_items_split(
    data: Interactions | object,
    share: float = 0.1,
    *,
    protocol: str = "temporal",
    seed: int = 0,
    train: float = 0.7,
    valid: float = 0.1,
) -> Split:
    """Split by `protocol`, so that a drawn share of the items occurs in the test part alone.

    Their interactions in the training and validation parts are left out; the name of the protocol
    says how many. All parts keep the ids of all items, so that cold items are candidates. Evaluate
    with the strata 'cold-items' and 'warm-items' of a `MetricTable`.
    """
    data = as_log(data, "cold_items_split(data)")
    count = round(share * data.n_items) if math.isfinite(share) else 0
    if not 0 < share < 1 or count == 0:
        raise ConfigError(
            f"the share of cold items must be above 0 and below 1, and {share:g} of "
            f"{data.n_items} items at least one"
        )
    drawn = np.random.default_rng(seed).permutation(data.n_items)[:count]
    is_cold = np.isin(np.arange(data.n_items), drawn)
    split = split_by(data, protocol, train=train, valid=valid, seed=seed)
    warm_train = split.train.select(~is_cold[split.train.item])
    warm_valid = split.valid.select(~is_cold[split.valid.item])
    left_out = len(split.train) + len(split.valid) - len(warm_train) - len(warm_valid)
    name = f"cold-items({share:g}, random, seed={seed}, left out {left_out}) of {split.protocol}"
    return Split(warm_train, warm_valid, split.test, name)


def _warn_no_order(data: Interactions, instead: str) -> None:
    reason = "most users have only one time"
    if data.time is None:
        reason = "the log has no times"
    advice = "load it with order='file' (--order file) if the rows of the file are in time order"
    warn(f"{reason}: {instead}; {advice}", 4)


def _shuffled(data: Interactions, seed: int) -> Interactions:
    """Put each user's rows in an order drawn by the seed, whatever order they came in; no times."""
    by_item = np.lexsort((data.item, data.user))
    drawn = np.random.default_rng(seed).random(len(data))
    # Rows are sorted by user, so `by_item` leaves each position to the same user.
    order = by_item[np.lexsort((drawn, data.user))]
    return replace(data.select(order), time=None)


def _by_share(
    data: Interactions,
    train: float,
    valid: float,
    protocol: str,
) -> Split:
    count = np.diff(data.sequences().indptr)
    train_share, known_share = _shares(train, valid)
    train_end = count * train_share.numerator // train_share.denominator
    valid_end = count * known_share.numerator // known_share.denominator
    return _cut(data, train_end, valid_end, protocol)


def _leave_out(data: Interactions, seed: int | None) -> Split:
    """Hold out the last two interactions of each user, or two drawn by the seed."""
    name = "leave-last-out"
    if seed is not None:
        name = f"leave-random-out(seed={seed})"
        data = _shuffled(data, seed)
    count = np.diff(data.sequences().indptr)
    train_end = np.where(count >= 3, count - 2, np.minimum(count, 1))
    valid_end = np.where(count >= 2, count - 1, count)
    return _cut(data, train_end, valid_end, name)


def _shares(train: float, valid: float) -> tuple[Fraction, Fraction]:
    """Return `train` and `train + valid` as the exact fractions the caller meant."""
    if 0 < train <= 1 and 0 <= valid <= 1:
        train_share = Fraction(train).limit_denominator(1_000_000)
        known_share = train_share + Fraction(valid).limit_denominator(1_000_000)
        if train_share > 0 and known_share <= 1:
            return train_share, known_share
    raise ConfigError(
        f"the shares must be train > 0, valid >= 0 and train + valid <= 1, "
        f"got train={train:g} and valid={valid:g}"
    )


def _cut(
    data: Interactions,
    train_end: AnyArray,
    valid_end: AnyArray,
    protocol: str,
) -> Split:
    """Cut each user's history at `train_end` and `valid_end`, int64[n_users]."""
    position = np.arange(len(data)) - data.sequences().indptr[data.user]
    is_train = position < train_end[data.user]
    is_test = position >= valid_end[data.user]
    return _parts(data, is_train, is_test, protocol)


def _parts(
    data: Interactions,
    is_train: Mask,
    is_test: Mask,
    protocol: str,
) -> Split:
    parts = [
        data.select(is_train),
        data.select(~(is_train | is_test)),
        data.select(is_test),
    ]
    if data.disliked is not None:
        parts = with_negatives(parts, data.disliked, data, is_train, is_test)
    train, valid, test = parts
    return Split(train, valid, test, protocol)
