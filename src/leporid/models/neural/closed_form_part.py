"""`ClosedFormPart`: what SLIM and transition counts say of a user's items, beside a network.

SLIM reads the whole profile, where a network reads a few recent items; transitions count what came
after the newest items, which a network learns from few examples. Scores are those of the network
plus a weight times those of each. Both models are fitted on their own in seconds; the training of
the network is the same with and without them.
"""

import json
from collections.abc import Callable
from typing import Literal, NamedTuple, Self, TypeVar

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from leporid.data import Interactions, Sequences, Split
from leporid.errors import DataError, LeporidError, warn
from leporid.graph import canonical
from leporid.models.closed_form.history_window import (
    choose_history_window,
    ndcg_per_user,
    sample_validation_users,
)
from leporid.models.closed_form.profiles import ItemWeights
from leporid.models.closed_form.slim import SLIM, SLIMConfig
from leporid.models.closed_form.transitions import Transitions, TransitionsConfig
from leporid.models.fitted_arrays import Arrays, arrays_under
from leporid.models.neural.component_weights import choose_weights
from leporid.models.neural.settings import TrainingConfig
from leporid.ranking import Indices, Scores

Model = TypeVar("Model", bound=ItemWeights)
Weights = tuple[float, ...]

LINEAR_WEIGHTS = (0.0, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0)
"""The weights of SLIM that are tried."""
TRANSITIONS_WEIGHTS = (0.0, 0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
"""The weights of transitions that are tried."""
PENALTIES = ((1.0, 100.0), (3.0, 30.0))
"""L1 and L2 of the SLIMs that are tried: for sparse logs, and for dense ones without order."""
_PAIRS = 50_000_000
"""Largest number of item pairs whose counts are held in memory."""
_PREFIX = "closed_form."
"""Beginning of the names of the saved arrays."""
_SETTINGS = "settings"
"""Name of the saved settings of a component."""


class Component(NamedTuple):
    """A fitted closed-form model, and the weight of its scores."""

    model: ItemWeights
    weight: float


class ClosedFormPart(NamedTuple):
    """The closed-form models beside a network."""

    components: tuple[Component, ...]

    def weight(self, name: str) -> float:
        """Return the weight of the model called `name`; 0 if it is not here."""
        weights = (each.weight for each in self.components if each.model.name == name)
        return sum(weights, 0.0)

    def add(self, scores: Tensor, histories: Sequences) -> Tensor:
        """Add to the network's scores of the same users, in place; nothing without a history."""
        for model, weight in self.components:
            closed_form = torch.from_numpy(model.score_profile(histories))
            scores.add_(closed_form.to(scores.device).mul_(weight))
        return scores

    def extended(
        self,
        merged: Interactions,
        shares: sparse.csr_array | None = None,
    ) -> Self:
        """Return the part for interactions with more users and items.

        shares: csr[items, merged.n_items], of which items a new one is the mean; None gives new
        items no weights.
        """
        components = [
            each._replace(model=_extended(each.model, merged, shares))
            for each in self.components
        ]
        return self._replace(components=tuple(components))

    def arrays(self) -> Arrays:
        """Return what a saved model keeps, beside the weights among its settings."""
        arrays: Arrays = {}
        for model, _ in self.components:
            settings = json.dumps(model.config.to_dict()).encode()
            stored = {_SETTINGS: np.frombuffer(settings, np.uint8), **model._arrays()}
            prefix = f"{_PREFIX}{model.name}."
            arrays |= {prefix + name: array for name, array in stored.items()}
        return arrays

    @classmethod
    def taken_from(
        cls, arrays: Arrays, train: Interactions, config: TrainingConfig
    ) -> Self | None:
        """Take out of `arrays` what `arrays()` gave; None if there is nothing."""
        names = [name for name in arrays if name.startswith(_PREFIX)]
        stored = {name: arrays.pop(name) for name in names}
        components = []
        for unfitted, weight in (
            (SLIM(), config.linear_weight),
            (Transitions(), config.transitions_weight),
        ):
            own = arrays_under(stored, f"{_PREFIX}{unfitted.name}.")
            if own and weight != "auto":
                components.append(Component(_restored(unfitted, own, train), weight))
        return cls(tuple(components)) if components else None


def _extended(
    model: ItemWeights, merged: Interactions, shares: sparse.csr_array | None
) -> ItemWeights:
    """Return a model with the same weights for more items."""
    n_items = len(model.items)
    place = merged.items.encode(model.items.ids)
    ones = np.ones(n_items, np.float32)
    moved = sparse.csr_array(
        (ones, (np.arange(n_items), place)),
        (n_items, len(merged.items)),
    )
    columns = model.weights @ (moved if shares is None else moved + shares)
    extended = _for_interactions(type(model)(model.config), merged)
    extended._remember(merged)
    extended.weights = canonical(sparse.csr_array(moved.T @ columns))
    return extended


def _restored(
    unfitted: ItemWeights, stored: Arrays, train: Interactions
) -> ItemWeights:
    """Return a model like `unfitted` with the settings and weights that are `stored`."""
    try:
        settings = json.loads(stored.pop(_SETTINGS).tobytes())
        config = unfitted.config_class.from_dict(settings)
    except (KeyError, ValueError, LeporidError) as error:
        raise DataError(
            f"the settings of its {unfitted.name} are damaged: {error}"
        ) from None
    model = _for_interactions(type(unfitted)(config), train)
    model._restore(stored)
    return model


def _for_interactions(model: Model, train: Interactions) -> Model:
    """Return a model of these interactions whose weights are still to be set."""
    model._train = train
    model._known = train
    return model


def fit_closed_form_part(
    network: Callable[[Indices, Sequences], Scores],
    config: TrainingConfig,
    split: Split,
) -> ClosedFormPart | None:
    """Fit the models beside a trained network.

    Their weights are numbers, or "auto": chosen on validation, and 0 without it.
    """
    candidates = _fit_candidates(config, split)
    if not candidates:
        return None
    histories = split.train.sequences()
    weights = choose_weights(
        lambda users: network(users, histories),
        [_scores_of(model, histories) for model, _ in candidates],
        [tried for _, tried in candidates],
        split,
    )
    components = [
        Component(model, weight)
        for (model, _), weight in zip(candidates, weights, strict=True)
        if weight
    ]
    return ClosedFormPart(tuple(components)) if components else None


def _scores_of(model: ItemWeights, histories: Sequences) -> Callable[[Indices], Scores]:
    """Return the function from users to the scores of their histories."""
    return lambda users: model.score_profile(histories.take(users))


def _fit_candidates(
    config: TrainingConfig, split: Split
) -> list[tuple[ItemWeights, Weights]]:
    """Fit the models that may get a weight above 0, each with the weights to try."""
    linear = config.linear_weight
    transitions = config.transitions_weight
    validates = len(split.valid.target_events) > 0
    if linear == "auto" and (not validates or _has_too_many_pairs(split)):
        linear = 0.0
    if transitions == "auto" and not (validates and split.train.has_order):
        transitions = 0.0
    candidates: list[tuple[ItemWeights, Weights]] = []
    if linear:
        tried = _tried(linear, LINEAR_WEIGHTS)
        candidates.append((_fit_slim(config, split), tried))
    if transitions:
        tried = _tried(transitions, TRANSITIONS_WEIGHTS)
        candidates.append((_fit_transitions(split), tried))
    return candidates


def _tried(weight: float | Literal["auto"], grid: Weights) -> Weights:
    """Return the weights to try: those of the grid, or the one that was asked for."""
    return grid if weight == "auto" else (weight,)


def _has_too_many_pairs(split: Split) -> bool:
    """Tell, with a warning, whether SLIM would hold too many item pairs that share a user."""
    lengths = np.bincount(split.train.user).astype(np.float64)
    by_user = float(np.square(lengths).sum())
    if min(by_user, split.n_items**2) <= _PAIRS:
        return False
    warn(
        f"{split.n_items:,} items with long histories are too many for a linear part in "
        f"passing: linear_weight is 0, compare with SLIM"
    )
    return True


def _fit_transitions(split: Split) -> Transitions:
    """Fit transitions without popularity, of which the network knows enough.

    Of very many items each keeps its largest counts.
    """
    most = max(1, _PAIRS // split.n_items)
    top_k = most if most < split.n_items else None
    config = TransitionsConfig(popularity=0.0, top_k=top_k)
    return Transitions(config).fit(split, progress=False)


def _fit_slim(config: TrainingConfig, split: Split) -> SLIM:
    """Fit SLIM with the penalties of the settings, or with those that validation prefers."""
    tried: tuple[tuple[float, float], ...] = PENALTIES
    if config.linear_penalties is not None:
        tried = (config.linear_penalties,)
    elif not len(split.valid.target_events):
        tried = PENALTIES[:1]
    window = choose_history_window(split.train)
    models = []
    for l1, l2 in tried:
        slim_config = SLIMConfig(l1=l1, l2=l2, window=window)
        models.append(SLIM(slim_config).fit(split, progress=False))
    if len(models) == 1:
        return models[0]
    users, part = sample_validation_users(split)
    histories = split.train.sequences().take(users)
    return max(
        models,
        key=lambda slim: ndcg_per_user(
            slim.score_profile(histories), users, part
        ).mean(),
    )


def resolved_config(
    config: TrainingConfig, part: ClosedFormPart | None
) -> TrainingConfig:
    """Return the settings with what was chosen: a refit has no validation to choose by."""
    if part is None:
        return config.replace(linear_weight=0.0, transitions_weight=0.0)
    penalties = config.linear_penalties
    for model, _ in part.components:
        if isinstance(model, SLIM):
            penalties = (model.config.l1, model.config.l2)
    return config.replace(
        linear_weight=part.weight(SLIM.name),
        transitions_weight=part.weight(Transitions.name),
        linear_penalties=penalties,
    )
