"""The schedule of a search, to be read from `run_schedule` down.

Every quick classical model gets its first trial, the networks get their share of the time, then the
slow classical models, and what is left goes to variants of the models with the highest upper
confidence bound.
"""

from __future__ import annotations

from collections.abc import Sequence

from leporid.selection.budget import format_duration
from leporid.selection.candidates import (
    Candidate,
    classical_candidates,
    neural_models,
)
from leporid.selection.init_ranking import ranked_inits
from leporid.selection.network_plan import plan_networks
from leporid.selection.priors import NETWORKS, expected_shares
from leporid.selection.search import Search
from leporid.selection.variant_rounds import vary

SLOW_FIT_SHARE = 0.03
MAX_VARIANT_ROUNDS = 60
NETWORK_SHARE = 0.5
NETWORK_SHARE_WITH_ORDER_OR_GPU = 0.85
MIN_NETWORK_SECONDS = 15.0
MIN_SHARE_OF_BEST_EXPECTED = 0.75


def run_schedule(search: Search, only: Sequence[str] | None = None) -> None:
    """Try everything there is time for; `only` names the models that take part, None for all."""
    task = search.task
    classical = classical_candidates(task.statistics, only, task.items)
    baselines = [each for each in classical if each.model in task.baselines]
    search.round(baselines)

    networks = promising_networks(search, only)
    has_gpu = bool(networks) and is_gpu(task.device)
    share = NETWORK_SHARE
    if has_gpu or task.statistics.has_order:
        share = NETWORK_SHARE_WITH_ORDER_OR_GPU
    if has_gpu:
        train_networks(search, networks, share)

    slow = [each for each in classical if search.has_time and is_slow(search, each)]
    search.round(candidate for candidate in classical if candidate not in slow)
    if networks and not has_gpu:
        train_networks(search, networks, share)
    search.round(slow)

    for place in range(MAX_VARIANT_ROUNDS):
        if not vary(search, place):
            break


def is_slow(search: Search, candidate: Candidate) -> bool:
    """Tell whether the fit of a classical model takes a large share of the budget."""
    limit = SLOW_FIT_SHARE * search.timer.budget
    return search.estimates.fit_seconds(candidate) > limit


def promising_networks(search: Search, only: Sequence[str] | None) -> list[str]:
    """Return the networks that take part, if there is time for any.

    Networks that do much worse on logs like this one take part only if `only` names them.
    """
    takes_part = only is None or bool({*only} & {*NETWORKS})
    if not takes_part or not has_network_time(search):
        return []
    log = search.task.statistics
    names = neural_models(log, only)
    if only is not None:
        return names
    expected = expected_shares(log)
    best = max((expected.get(name, 0.0) for name in names), default=0.0)
    least = MIN_SHARE_OF_BEST_EXPECTED * best
    return [name for name in names if expected.get(name, 1.0) >= least]


def has_network_time(search: Search) -> bool:
    """Tell whether a network can be trained; if not, the journal says so."""
    left = max(search.timer.left - search.reserve(), 0.0)
    if left >= MIN_NETWORK_SECONDS or search.journal.of("plan"):
        return True
    why = f"{format_duration(left)} were left, too little to train one"
    search.leave_out("networks", why)
    return False


def train_networks(search: Search, names: Sequence[str], share: float) -> None:
    """Train the planned networks from the best initialisation."""
    if not has_network_time(search):
        return
    planned = plan_networks(search, names, share)
    if not planned:
        return
    init = next(iter(ranked_inits(search)))
    search.round(
        Candidate(model=name, init=init, settings=settings)
        for name, settings in planned.items()
    )


def is_gpu(device: str) -> bool:
    """Tell whether networks are trained on an accelerator."""
    from leporid.models import resolve_device  # loads torch

    return bool(resolve_device(device).type != "cpu")
