"""DLR2 fast enough for a request: G retrieves some items, and only those are ranked in full."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from leporid.data.interactions import Sequences
from leporid.models.new_users import NewUserRows

if TYPE_CHECKING:
    from leporid.models.base import Recommender
    from leporid.models.dlr2 import DLR2

__all__ = ["two_stage_scores", "wants_two_stages"]


def wants_two_stages(model: Recommender, candidates: int) -> bool:
    """Whether the model ranks by S, and has more items than the first stage would keep."""
    if model.name != "dlr2" or not 0 < candidates < len(model.items):
        return False
    config = cast("DLR2", model).config
    return config.losses == "both" and config.inference != "generative"


def two_stage_scores(
    model: Recommender,
    candidates: int,
    seen: Sequences,
    *,
    users: NDArray[np.int32] | None = None,
    histories: Sequences | None = None,
) -> NDArray[np.float32]:
    """float32[m, n_items]: the model's own scores of the items G retrieves, -inf elsewhere.

    Exactly one of `users` (indices) and `histories` is given; `seen` are the items of each of
    the m people that are not to be retrieved.
    """
    import torch

    from leporid.evaluation.ranking import masked_top_k

    dlr2 = cast("DLR2", model)
    net, config = dlr2.network, dlr2.config
    with dlr2._scoring():
        rows: Any
        if users is not None:
            recent = dlr2._recent(dlr2.known.sequences(), users)
            rows = net.users(torch.from_numpy(users.astype(np.int64)).to(dlr2.device))
        else:
            assert histories is not None
            recent = dlr2._recent(histories, np.arange(len(histories), dtype=np.int32))
            rows = torch.from_numpy(_new_rows(dlr2).place(histories)).to(net.users.weight)
        s = dlr2._states(rows, recent)
        made = dlr2._scores(s, "generative").float().cpu().numpy()
        picked = masked_top_k(made, candidates, seen=seen).items.astype(np.int64)
        safe = np.maximum(picked, 0)
        judged = net.discriminative(s, net.items(torch.from_numpy(safe).to(dlr2.device)))
        ranked = judged.float().cpu().numpy()
    ranked = -ranked if config.objective == "margin" else ranked
    if config.inference == "mixture":
        kept = np.take_along_axis(made, safe, axis=1)
        ranked = config.mixture * ranked + (1 - config.mixture) * kept
    # One column more takes what pads the rows.
    scores = np.full((len(made), made.shape[1] + 1), -np.inf, np.float32)
    np.put_along_axis(scores, np.where(picked < 0, made.shape[1], picked), ranked, axis=1)
    return np.ascontiguousarray(scores[:, :-1])


def _new_rows(dlr2: DLR2) -> NewUserRows:
    """The model's own placement of new people, made at the first of them."""
    if dlr2._new_users is None:
        table = dlr2.network.users.weight.detach().float().cpu().numpy()
        dlr2._new_users = NewUserRows(dlr2.train, table, dlr2.config.neighbours)
    return dlr2._new_users
