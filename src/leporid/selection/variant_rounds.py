"""Rounds of variants: the models that may still improve most get another trial."""

from __future__ import annotations

import math
from collections import Counter
from itertools import islice

from leporid import models
from leporid.selection.candidates import Candidate
from leporid.selection.events import rounds_of
from leporid.selection.init_ranking import ranked_inits
from leporid.selection.search import Search
from leporid.selection.variants import variant

DRAWN_VARIANTS = 20
TIMED_VARIANTS = 8
VARIED_MODELS_PER_ROUND = 3
POSSIBLE_GAIN = 0.1


def vary(search: Search, place: int) -> bool:
    """Try a variant of each of the models with the highest bounds; tell whether there was time.

    A round is in the journal before it begins, so that a killed search goes on with the same.
    """
    rounds = rounds_of(search.journal)
    if place < len(rounds):
        candidates = rounds[place]
    else:
        candidates = new_round(search)
        if not candidates:
            return False
        search.note("round", candidates=[each.to_dict() for each in candidates])
    search.round(candidates)
    return any(search.is_settled(candidate) for candidate in candidates)


def new_round(search: Search) -> list[Candidate]:
    """Return a variant of each of the models that may still improve most."""
    best = search.best_of_each()
    bounds = upper_bounds(search)
    ranked = sorted(bounds, key=lambda model: -bounds[model])
    variants = (
        new_variant(search, best[model].candidate)
        for model in ranked
        if search.has_time
    )
    return list(islice(filter(None, variants), VARIED_MODELS_PER_ROUND))


def upper_bounds(search: Search) -> dict[str, float]:
    """Return what each model may still reach: its best, and the more the less time it had.

    A trial that took long counts as several.
    """
    unit = 0.05 * search.timer.budget
    trials: Counter[str] = Counter()
    for result in search.results.values():
        trials[result.candidate.model] += 1 + int(result.seconds / unit)
    total = math.log(1 + sum(trials.values()))
    return {
        name: best.value * (1 + POSSIBLE_GAIN * math.sqrt(total / trials[name]))
        for name, best in search.best_of_each().items()
        if models.get(name).search_space
    }


def new_variant(search: Search, best: Candidate) -> Candidate | None:
    """Return a variant of a candidate that was not tried and that there is time for, if any."""
    planned = [each for field in rounds_of(search.journal) for each in field]
    evaluated = [result.candidate for result in search.results.values()]
    tried = {
        candidate.key
        for candidate in (*planned, *evaluated)
        if candidate.model == best.model
    }
    others = other_inputs(search, best)
    first = DRAWN_VARIANTS * len(tried)
    for place in range(first, first + DRAWN_VARIANTS):
        settings = variant(best.model, best.settings, place, search.task.seed)
        others.append(best.replace(settings=settings))
    untried = [candidate for candidate in others if candidate.key not in tried]
    for candidate in untried[:TIMED_VARIANTS]:
        if not search.obstacle(candidate):
            return candidate
    return None


def other_inputs(search: Search, best: Candidate) -> list[Candidate]:
    """Return a network with the item table, and from each other initialisation."""
    if not best.is_network:
        return []
    others = [best.replace(init=init) for init in ranked_inits(search)]
    items = search.task.items
    if items is not None:
        with_features = {**best.settings, "item_table": items}
        others.insert(0, best.replace(settings=with_features))
    return others
