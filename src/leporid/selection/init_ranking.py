"""Which initial embeddings networks are trained from: those that predict well by themselves."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from leporid.evaluation import probe
from leporid.selection.budget import Deadline
from leporid.selection.candidates import Candidate
from leporid.selection.events import probed_inits
from leporid.selection.search import REASONS_TO_LEAVE_OUT, Search
from leporid.selection.task import Settings

MAX_INIT_SHARE = 0.15
PROBED_USERS = 2_000
FIRST_INIT = "leporid"
FIRST_INIT_MIN_SHARE_OF_BEST = 0.5


def ranked_inits(search: Search) -> dict[str, float]:
    """Return the initialisations with what their vectors alone predict.

    The first one is the first to train from: LEPORID unless its vectors predict little.
    """
    values = probed_inits(search.journal)
    trusted = values.get(FIRST_INIT, 0.0)
    best = max(values.values(), default=1.0)
    if trusted < FIRST_INIT_MIN_SHARE_OF_BEST * best:
        return values
    return {FIRST_INIT: trusted, **values}


def rank_inits(search: Search, model: str, settings: Settings) -> dict[str, float]:
    """Probe the initialisations: how well their vectors predict without any training."""
    timer = search.timer
    inner = search.task.inner
    users = np.unique(inner.test.user)
    probed = users[:: -(-len(users) // PROBED_USERS)]
    part = replace(inner, test=inner.test.select(np.isin(inner.test.user, probed)))
    values: dict[str, float] = {}
    for init in search.task.inits:
        share = MAX_INIT_SHARE * (timer.left - search.reserve())
        deadline = Deadline(timer, timer.elapsed + share)
        candidate = Candidate(model=model, init=init, settings=settings)
        try:
            vectors = search.evaluator.embeddings(candidate, deadline)
            values[init] = round(probe(vectors, part, part="test").value()["both"], 4)
        except REASONS_TO_LEAVE_OUT as error:
            search.leave_out(f"initialisation {init}", str(error))
    values = dict(sorted(values.items(), key=lambda pair: -pair[1]))
    search.note("inits", values=values)
    return values
