"""Named groups of users (by activity) and of items (by popularity), from training counts.

Everything is put in order by (training interactions, index), all users or items of the data,
also those without test items. Of n in that order, tail users are the first floor(n / 4),
quartile i the positions floor((i - 1) n / 4) .. floor(i n / 4), deciles likewise. Ties go to
the smaller index, so a stratum never depends on chance. Cold users have no training interaction
(they are tail users too), warm users have some; cold and warm items likewise.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from leporid.errors import UnknownNameError

USER_STRATA: dict[str, tuple[int, int]] = {
    "tail-users": (1, 4),
    **{f"activity-q{i}": (i, 4) for i in range(1, 5)},
    **{f"activity-d{i}": (i, 10) for i in range(1, 11)},
}
"""Name -> (i, parts): the i-th of that many equal parts, least active first."""

ITEM_STRATA = ("tail-items", "mid-items", "head-items")
"""The least popular quarter of the items, the middle half, the most popular quarter."""

COLD, WARM = "cold-users", "warm-users"
"""Users without, and with, a training interaction."""

COLD_ITEMS = ("warm-items", "cold-items")
"""Items with, and without, a training interaction."""

STRATA_OF_ITEMS = (*ITEM_STRATA, *COLD_ITEMS)


def check_stratum(name: str) -> None:
    """An unknown name is answered with the closest one."""
    known = [*USER_STRATA, COLD, WARM, *STRATA_OF_ITEMS]
    if name not in known:
        raise UnknownNameError("stratum", name, known)


def user_stratum(name: str, activity: NDArray[Any]) -> NDArray[np.bool_]:
    """bool[n_users]: who belongs to the stratum, from int[n_users] training interactions."""
    if name in (COLD, WARM):
        return np.asarray((activity == 0) == (name == COLD))
    i, parts = USER_STRATA[name]
    n = len(activity)
    member = np.zeros(n, dtype=np.bool_)
    member[np.argsort(activity, kind="stable")[(i - 1) * n // parts : i * n // parts]] = True
    return member


def popularity_class(popularity: NDArray[Any]) -> NDArray[np.int8]:
    """int8[n_items]: position in `ITEM_STRATA`, from int[n_items] training interactions."""
    n = len(popularity)
    order = np.argsort(popularity, kind="stable")
    classes = np.ones(n, dtype=np.int8)
    classes[order[: n // 4]] = 0
    classes[order[3 * n // 4 :]] = 2
    return classes
