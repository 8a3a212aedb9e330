"""Strata: groups of users and items that metrics are asked of.

Strata are by activity (users) and by popularity (items), from training counts: all users or items
of the data, also those without test items, are put in order by (training interactions, index). Of n
in that order, tail users are the first floor(n / 4), quartile i the positions floor((i - 1) n / 4)
.. floor(i n / 4), deciles likewise. Ties go to the smaller index, so a stratum never depends on
chance. Cold users have no training interaction (they are tail users too), warm users have some;
cold and warm items likewise.
"""

import numpy as np
from numpy.typing import NDArray

from leporid.errors import UnknownNameError
from leporid.evaluation.metrics import Counts

USER_STRATA: dict[str, tuple[int, int]] = {
    "tail-users": (1, 4),
    **{f"activity-q{i}": (i, 4) for i in range(1, 5)},
    **{f"activity-d{i}": (i, 10) for i in range(1, 11)},
}
"""Name -> (i, parts): the i-th of that many equal parts, least active first."""

ITEM_STRATA = ("tail-items", "mid-items", "head-items")
"""The least popular quarter of the items, the middle half, the most popular quarter."""

COLD_USERS = "cold-users"
"""Users without a training interaction."""
WARM_USERS = "warm-users"
COLD_ITEMS = "cold-items"
"""Items without a training interaction."""
WARM_ITEMS = "warm-items"
STRATA_OF_ITEMS = (*ITEM_STRATA, WARM_ITEMS, COLD_ITEMS)


def user_stratum(
    name: str,
    activity: Counts,
) -> NDArray[np.bool_]:
    """Return bool[n_users]: who belongs to the stratum, from int[n_users] training interactions."""
    if name == COLD_USERS:
        return np.asarray(activity == 0)
    if name == WARM_USERS:
        return np.asarray(activity != 0)
    if name not in USER_STRATA:
        known = [*USER_STRATA, COLD_USERS, WARM_USERS, *STRATA_OF_ITEMS]
        raise UnknownNameError("stratum", name, known)
    i, parts = USER_STRATA[name]
    n = len(activity)
    by_activity = np.argsort(activity, kind="stable")
    is_member = np.zeros(n, dtype=np.bool_)
    is_member[by_activity[(i - 1) * n // parts : i * n // parts]] = True
    return is_member


def popularity_class(popularity: Counts) -> NDArray[np.int8]:
    """Return int8[n_items]: the position in `ITEM_STRATA`, from training interactions."""
    n = len(popularity)
    order = np.argsort(popularity, kind="stable")
    classes = np.ones(n, dtype=np.int8)
    classes[order[: n // 4]] = 0
    classes[order[3 * n // 4 :]] = 2
    return classes
