"""Three ways to hold out the future: per user by share, per user by one, and by the clock.

All of them rely on the order of `Interactions` (user, then time, then order in the file). Data
without times is split in file order.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leporid.data.interactions import Interactions
from leporid.data.split import Split
from leporid.errors import ConfigError, DataError, UnknownNameError

PROTOCOLS = ("temporal", "leave-last-out", "global-time")


def temporal_split(data: Interactions, train: float = 0.7, valid: float = 0.1) -> Split:
    """Per user, in time order: the first `train` share, the next `valid` share, then test.

    The cut points of a user with n interactions are floor(train n) and floor((train + valid) n),
    computed in integers: 0.7 of 10 is 7, whatever binary fractions say. A user with very few
    interactions may have none in train. Without times, the order in the file counts.
    """
    shares = _shares(train, valid)
    count = _history_lengths(data)
    train_end, valid_end = (count * share.numerator // share.denominator for share in shares)
    return _cut(data, train_end, valid_end, f"temporal({train:g}, {valid:g})")


def leave_last_out(data: Interactions) -> Split:
    """Per user, the last interaction is test, the one before it validation, the rest train.

    A user with two interactions has one in train and one in test; a user with one has it in
    train.
    """
    count = _history_lengths(data)
    train_end = np.where(count >= 3, count - 2, np.minimum(count, 1))
    valid_end = np.where(count >= 2, count - 1, count)
    return _cut(data, train_end, valid_end, "leave-last-out")


def global_time_split(
    data: Interactions,
    valid_time: int | None = None,
    test_time: int | None = None,
    *,
    train: float = 0.7,
    valid: float = 0.1,
) -> Split:
    """One clock for everybody: train before `valid_time`, test from `test_time` on.

    Times are in the unit of `data.time`. A bound that is not given is the time of the
    interaction at that share of the whole log (`train`, and `train + valid`). Interactions with
    the same time are never separated. Users whose first interaction is late have nothing in
    train.
    """
    if data.time is None:
        raise DataError("a global time split needs times: give the time column when loading")
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


def rehearsal(split: Split) -> Split:
    """The same protocol once more, on what is known before test: train and validation.

    Its test part lies as far behind its training part as the real one does, so choosing settings
    on it rehearses the test without a look at it. All parts keep the id maps of `split`.
    """
    known = split.train_valid
    name, _, numbers = split.protocol.removesuffix(")").partition("(")
    if name == "temporal" and numbers:
        train, valid = map(float, numbers.split(", "))
        return temporal_split(known, train, valid)
    if name == "leave-last-out":
        return leave_last_out(known)
    if name == "global-time" and numbers:
        n = len(known) + len(split.test)
        return global_time_split(known, train=len(split.train) / n, valid=len(split.valid) / n)
    raise ConfigError(
        f"a rehearsal repeats the protocol of the split, and {split.protocol!r} is none of "
        f"{', '.join(PROTOCOLS)}"
    )


def split_by(data: Interactions, protocol: str, *, train: float = 0.7, valid: float = 0.1) -> Split:
    """The split by the protocol of that name, one of `PROTOCOLS`.

    `train` and `valid` are shares; leave-last-out has none.
    """
    if protocol == "temporal":
        return temporal_split(data, train, valid)
    if protocol == "leave-last-out":
        return leave_last_out(data)
    if protocol == "global-time":
        return global_time_split(data, train=train, valid=valid)
    raise UnknownNameError("protocol", protocol, PROTOCOLS)


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


def _history_lengths(data: Interactions) -> NDArray[np.int64]:
    """int64[n_users]."""
    return np.diff(data.sequences().indptr)


def _cut(
    data: Interactions, train_end: NDArray[Any], valid_end: NDArray[Any], protocol: str
) -> Split:
    """Cut each user's history, `int64[n_users]` places each."""
    place = np.arange(len(data)) - data.sequences().indptr[data.user]
    return _parts(data, place < train_end[data.user], place >= valid_end[data.user], protocol)


def _parts(
    data: Interactions, train: NDArray[np.bool_], test: NDArray[np.bool_], protocol: str
) -> Split:
    return Split(data.select(train), data.select(~(train | test)), data.select(test), protocol)
