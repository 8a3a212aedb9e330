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
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

import leporid.artifacts as artifacts
from leporid.arguments import checks_arguments
from leporid.data.event_kinds import with_negatives
from leporid.data.files import SPLIT_SUMMARY, is_split
from leporid.data.id_map import IdMap
from leporid.data.interactions import Interactions
from leporid.data.loading import as_log
from leporid.errors import ConfigError, DataError, UnknownNameError, warn

Part = Literal["valid", "test"]
PROTOCOLS = ("temporal", "leave-last-out", "global-time", "random")
RARE_REPEATS = 0.01
"""Below this share of the interactions, showing items again costs more than it finds."""

_ARRAYS, _SUMMARY = "split.safetensors", SPLIT_SUMMARY
_FORMAT = "leporid-split-2"


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
        parts = ", ".join(
            f"{name} {len(part):,}" for name, part in self._parts().items()
        )
        return f"Split({self.protocol}: {self.n_users:,} users, {self.n_items:,} items; {parts})"

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
        both = Interactions.joined(self.train, self.valid)
        return both.select(np.argsort(both.user, kind="stable"))

    @checks_arguments()
    def known(self, part: Part) -> Interactions:
        """What a recommender may know of a user, and must not recommend, when tested on `part`."""
        return self.train if part == "valid" else self.train_valid

    @checks_arguments()
    def part(self, part: Part) -> Interactions:
        """The held-out interactions of `part`."""
        return self.valid if part == "valid" else self.test

    @checks_arguments()
    def targets(self, part: Part, include_seen: bool | None = None) -> Interactions:
        """What is to be found in `part`, each item once: goal events, repeats only if included."""
        key = part, self.include_seen if include_seen is None else include_seen
        if (
            key not in self._targets
        ):  # models are evaluated on one split again and again
            held_out, known = self.part(part).goals, self.known(part).goals
            first = held_out.is_first if key[1] else held_out.first_after(known)
            self._targets[key] = held_out if first.all() else held_out.select(first)
        return self._targets[key]

    @cached_property
    def _targets(self) -> dict[tuple[Part, bool], Interactions]:
        return {}

    @cached_property
    def digest(self) -> str:
        """A hash of the three parts, and of whether repeats are targets."""
        parts = (part.digest[:8] for part in self._parts().values())
        return "-".join(parts) + "-seen" * self.include_seen

    def including_seen(self, include_seen: bool | None = True) -> Self:
        """The same parts with `include_seen`, None for as it is; warns where repeats are rare."""
        if include_seen is None or include_seen == self.include_seen:
            return self
        test = self.test.goals
        total = len(self.train_valid.goals) + len(test)
        repeats = self.train_valid.repeats + len(test) - len(self.targets("test"))
        if include_seen and repeats < RARE_REPEATS * total:
            text = f"repeats are rare, {repeats:,} of {total:,} interactions: include_seen "
            warn(
                f"{text}(--include-seen) is for logs that have them, read with duplicates='all'"
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
            names = ("train", "valid", "test")
            parts = {
                name: Interactions.from_stored(arrays, name, users, items)
                for name in names
            }
        except DataError as error:
            raise DataError(
                f"{folder / _ARRAYS} is damaged: {error}; save it again"
            ) from None
        seen = summary.get("include_seen") is True
        return cls(**parts, protocol=str(summary.get("protocol")), include_seen=seen)

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
    """Per user, in time order: the first `train` share, the next `valid` share, then test.

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
    data: Interactions | object, train: float = 0.7, valid: float = 0.1, seed: int = 0
) -> Split:
    """Per user, in an order drawn by `seed`: the cut points of `temporal_split`.

    The split does not depend on the order of the rows in the file. Its parts have no times.
    """
    data = as_log(data, "random_split(data)")
    name = f"random({train:g}, {valid:g}, seed={seed})"
    return _by_share(_shuffled(data, seed), train, valid, name)


@checks_arguments({"seed": 0})
def leave_last_out(data: Interactions | object, *, seed: int = 0) -> Split:
    """Per user, the last interaction is test, the one before it validation, the rest train.

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
    """One clock for all users: train before `valid_time`, test from `test_time` on.

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
    ordered, last = np.sort(data.time), len(data) - 1
    at_shares = [
        int(ordered[min(len(data) * share.numerator // share.denominator, last)])
        for share in _shares(train, valid)
    ]
    valid_time = at_shares[0] if valid_time is None else valid_time
    test_time = at_shares[1] if test_time is None else test_time
    if valid_time > test_time:
        raise ConfigError(
            f"validation must begin before test, got valid_time={valid_time} and "
            f"test_time={test_time}"
        )
    name = f"global-time({valid_time}, {test_time})"
    return _parts(data, data.time < valid_time, data.time >= test_time, name)


def expect(value: Any, kind: type, call: str) -> None:
    """Refuse an argument of `call` that is no split, and say how one is made."""
    if not isinstance(value, kind):
        given = f"takes {kind.__name__}, not {type(value).__name__}"
        raise ConfigError(
            f"{call} {given}: give it leporid.temporal_split(leporid.load(...))"
        )


def inner_validation_split(split: Split) -> Split:
    """The same protocol once more, on what is known before test: train and validation.

    Its test part lies as far behind its training part as the real one does, so settings are chosen
    for that distance without a look at the test. All parts keep the id maps of `split`.
    """
    expect(split, Split, "inner_validation_split(split)")
    known = split.train_valid
    name, _, numbers = split.protocol.removesuffix(")").partition("(")
    if name == "temporal" and numbers:
        train, valid = map(float, numbers.split(", "))
        inner = _by_share(known, train, valid, split.protocol)
    elif name == "random" and numbers:
        first, second, seed = numbers.split(", ")
        inner = random_split(
            known, float(first), float(second), int(seed.removeprefix("seed="))
        )
    elif name in ("leave-last-out", "leave-random-out"):
        inner = _leave_out(
            known, int(numbers.removeprefix("seed=")) if numbers else None
        )
    elif name == "global-time" and numbers:
        # Times that tie may leave the training part empty; a share of it may not be.
        n = len(known) + len(split.test)
        train = max(len(split.train), 1) / n
        inner = global_time_split(
            known, train=train, valid=min(len(split.valid) / n, 1 - train)
        )
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
    """The split by the protocol of that name, one of `PROTOCOLS`; leave-last-out has no shares."""
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
    """A split by `protocol` in which a drawn share of the items occurs in the test part alone.

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
    cold = np.isin(np.arange(data.n_items), drawn)
    whole = split_by(data, protocol, train=train, valid=valid, seed=seed)
    first, then = (part.select(~cold[part.item]) for part in (whole.train, whole.valid))
    dropped = len(whole.train) + len(whole.valid) - len(first) - len(then)
    name = f"cold-items({share:g}, random, seed={seed}, left out {dropped}) of {whole.protocol}"
    return Split(first, then, whole.test, name)


def _warn_no_order(data: Interactions, instead: str) -> None:
    reason = (
        "the log has no times" if data.time is None else "most users have only one time"
    )
    advice = "load it with order='file' (--order file) if the rows of the file are in time order"
    warn(f"{reason}: {instead}; {advice}", 4)


def _shuffled(data: Interactions, seed: int) -> Interactions:
    """Each user's rows in an order drawn by the seed, whatever order they came in; no times."""
    by_item = np.lexsort((data.item, data.user))
    drawn = np.random.default_rng(seed).random(len(data))
    # Rows are sorted by user, so `by_item` leaves each position to the same user.
    return replace(data.select(by_item[np.lexsort((drawn, data.user))]), time=None)


def _by_share(data: Interactions, train: float, valid: float, protocol: str) -> Split:
    count, shares = np.diff(data.sequences().indptr), _shares(train, valid)
    train_end, valid_end = (
        count * share.numerator // share.denominator for share in shares
    )
    return _cut(data, train_end, valid_end, protocol)


def _leave_out(data: Interactions, seed: int | None) -> Split:
    """The last two of each user, or two drawn by the seed."""
    name = "leave-last-out" if seed is None else f"leave-random-out(seed={seed})"
    data = data if seed is None else _shuffled(data, seed)
    count = np.diff(data.sequences().indptr)
    train_end = np.where(count >= 3, count - 2, np.minimum(count, 1))
    valid_end = np.where(count >= 2, count - 1, count)
    return _cut(data, train_end, valid_end, name)


def _shares(train: float, valid: float) -> tuple[Fraction, Fraction]:
    """`train` and `train + valid` as the exact fractions the caller meant."""
    possible = 0 < train <= 1 and 0 <= valid <= 1
    first = Fraction(train if possible else 0).limit_denominator(1_000_000)
    second = first + Fraction(valid if possible else 0).limit_denominator(1_000_000)
    if first == 0 or second > 1:
        raise ConfigError(
            f"the shares must be train > 0, valid >= 0 and train + valid <= 1, "
            f"got train={train:g} and valid={valid:g}"
        )
    return first, second


def _cut(data: Interactions, train_end: Any, valid_end: Any, protocol: str) -> Split:
    """Cut each user's history, `int64[n_users]` positions each."""
    position = np.arange(len(data)) - data.sequences().indptr[data.user]
    return _parts(
        data,
        position < train_end[data.user],
        position >= valid_end[data.user],
        protocol,
    )


def _parts(
    data: Interactions, train: NDArray[np.bool_], test: NDArray[np.bool_], protocol: str
) -> Split:
    parts = [data.select(rows) for rows in (train, ~(train | test), test)]
    if data.disliked is not None:
        parts = with_negatives(parts, data.disliked, data, train, test)
    first, then, last = parts
    return Split(first, then, last, protocol)
