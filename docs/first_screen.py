"""The README's sentences on when LEPORID helps, from the records behind them."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Sequence

from docs.start_tables import StartCell
from reproduction.leaderboard import Difference


def first_screen(found: list[Difference], cells: Sequence[StartCell]) -> str:
    """When LEPORID helps and when not: your own model, the default model, DLR2's own network."""
    stopped = [cell for cell in cells if "60 iterations" not in cell.model]
    random = Counter(cell.against_random for cell in stopped)
    svd = Counter(cell.against_svd for cell in stopped)
    gains = sorted(cell.gain_over_svd for cell in stopped if cell.against_svd == "better")
    seconds = [cell.seconds for cell in stopped]
    sasrec, classical = (
        Counter(d.gain.outcome for d in found if d.family == name)
        for name in ("sasrec as it comes from leporid", "best classical model")
    )
    pairs = [d for d in found if d.same_model and d.second.init == "random"]
    ours = Counter(d.gain.outcome for d in pairs)
    own_model = (
        f"**Your own model: yes, if you choose when to stop on validation.** In implicit's BPR and "
        f"a two-tower model, adapted LEPORID beats random numbers on {random['better']} of "
        f"{random.total()} pairs of model and data set and SVD on {svd['better']} (by "
        f"{gains[0]:.0%} to {gains[-1]:.0%}), and loses on "
        f"{_none(random['worse'] + svd['worse'])}. "
        f"It takes {min(seconds):.0f} to {max(seconds):.0f} seconds. A fixed, long training takes "
        f"the gain away."
    )
    default_model = (
        f"**The default model.** DLR2 beats the best tuned closed-form model, transition counts "
        f"included, on {classical['better']} of {classical.total()} data sets and loses on "
        f"{_none(classical['worse'])}. It beats SASRec on {sasrec['better']} and loses on "
        f"{_none(sasrec['worse'])}."
    )
    trained = (
        f"**Inside a fully trained neural model the start matters little.** Over eight models with "
        f"their own early stopping, LEPORID is better than random numbers in {ours['better']} of "
        f"{ours.total()} pairs of data set and model, and worse in {_none(ours['worse'])}."
    )
    return "\n".join(
        textwrap.fill(f"- {sentence}", 120, subsequent_indent="  ", break_on_hyphens=False)
        for sentence in (own_model, default_model, trained)
    )


def _none(count: int) -> str:
    return str(count or "none")
