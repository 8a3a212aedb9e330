"""What is searched: the problem, candidates (model, initialisation, settings) and trials."""

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from leporid import models
from leporid.config import Choice, Config, Int, SearchSpace, active, canonical_hash
from leporid.data import Split, inner_validation_split
from leporid.errors import MissingExtraError
from leporid.evaluation import combine, parse_metric
from leporid.selection.priors import NETWORKS, expected_shares, statistics

INITS, CONTENT_INITS = ("random", "svd", "leporid"), ("content", "leporid_content")
NETWORK_RECIPE = "general"
SMALL_LOG_INTERACTIONS, SMALL_LOG_MAX_STEPS = 200_000, 3_000
SMALL_CHANGE_SHARE_OF_RANGE = 0.15
EQUAL_IF_EXPECTED_WITHIN = 0.05
MAX_EVALUATED_USERS = 10_000


@dataclass(frozen=True)
class Problem:
    """A log, the inner validation split that candidates are evaluated on, and how."""

    split: Split
    inner: Split
    metric: str
    seed: int = 0
    device: str = "auto"
    items: str | None = None
    """The file of the item table."""

    @classmethod
    def of(cls, split: Split, metric: str, **how: Any) -> Self:
        """With an inner split, on a tiny log with validation alone, else with `split` itself.

        Candidates are evaluated on some of the users, drawn by the seed.
        """
        nothing = split.train.select(np.empty(0, np.int64))
        validation = replace(split, valid=nothing, test=split.valid)
        both = (inner_validation_split(split), validation)
        inner = (replace(part, test=part.targets("test")) for part in both)
        used = next(
            (part for part in inner if len(part.train) and len(part.test)), None
        )
        if used is None:
            return cls(split, split, metric, **how)
        users = np.random.default_rng(how.get("seed", 0)).permutation(
            np.unique(used.test.user)
        )
        some = used.test.select(np.isin(used.test.user, users[:MAX_EVALUATED_USERS]))
        return cls(split, replace(used, test=some), metric, **how)

    @property
    def baselines(self) -> tuple[str, ...]:
        """Models that are tried first, and always tested with their defaults."""
        return (
            "toppop",
            "itemknn",
            *(("frequency",) if self.split.include_seen else ()),
        )

    @property
    def inits(self) -> tuple[str, ...]:
        return INITS if self.items is None else (*INITS, *CONTENT_INITS)

    def network_settings(self, model: str, users: int) -> dict[str, Any]:
        """The settings of a network that validates on some users, before its steps are planned."""
        cls, train = models.get(model), self.inner.train
        recipe = NETWORK_RECIPE if NETWORK_RECIPE in cls.recipes else None
        settings = cls.recipe_settings(recipe, train)
        if len(train) < SMALL_LOG_INTERACTIONS:
            settings["steps"] = min(
                settings.get("steps", SMALL_LOG_MAX_STEPS), SMALL_LOG_MAX_STEPS
            )
        return {**settings, "metric": self.metric, "eval_users": users}

    @property
    def cutoff(self) -> int:
        """10 of NDCG@10."""
        return parse_metric(self.metric)[1]

    @cached_property
    def known(self) -> Split:
        """What is known before the test: models are refitted on train and validation."""
        return with_validation(self.split)

    @cached_property
    def statistics(self) -> dict[str, Any]:
        """Interactions per user, density, whether users have an order in time."""
        return {
            **statistics(self.split.train_valid),
            "include_seen": self.split.include_seen,
        }

    @cached_property
    def users_to_test(self) -> float:
        """Users of the test part for each one that candidates are evaluated on."""
        test, inner = (
            len(np.unique(part.test.user)) for part in (self.split, self.inner)
        )
        return test / max(inner, 1)


@dataclass(frozen=True, kw_only=True)
class Candidate(Config):
    """A model, its initialisation, and the settings that differ from its defaults."""

    model: str
    init: str | None = None
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def is_network(self) -> bool:
        """Whether it is trained from initial embeddings, step by step."""
        return self.init is not None

    @property
    def key(self) -> str:
        """Equal candidates have equal keys, in every process."""
        return canonical_hash([self.model, self.init, self.settings], 12)

    @property
    def changed(self) -> str:
        """The settings that nobody would expect: 'l2=300 window=5'."""
        cls = models.get(self.model)
        hidden = {"steps", "eval_every", "eval_users", "metric", "item_table"}
        recipes = [cls.recipes.get(NETWORK_RECIPE, {}), *cls.general_by_kind.values()]
        known = recipes if self.init else []
        features = (
            ["with features"] if self.init and "item_table" in self.settings else []
        )
        settings = (
            f"{key}={value:.4g}" if isinstance(value, float) else f"{key}={value}"
            for key, value in self.settings.items()
            if key not in hidden and all(recipe.get(key) != value for recipe in known)
        )
        return " ".join([*features, *settings])

    @property
    def label(self) -> str:
        """For users: 'sasrec from leporid', 'ease l2=300'."""
        init = f"from {self.init}" if self.init else ""
        return " ".join(filter(None, [self.model, init, self.changed]))


def with_validation(split: Split) -> Split:
    """The split with validation in its training part."""
    nothing = split.train.select(np.empty(0, np.int64))
    return replace(split, train=split.train_valid, valid=nothing)


def classical_candidates(
    about: Mapping[str, Any],
    only: Sequence[str] | None = None,
    items: str | None = None,
) -> list[Candidate]:
    """All classical models (or only some) with their defaults: the baselines, then by the prior.

    With an item table ItemKNN also has neighbours by content, half of the weight and all of it.
    """
    expected = {
        **expected_shares(about),
        "toppop": 2.0,
        "frequency": 1.6,
        "itemknn": 1.5,
    }
    names = [
        n
        for n in models.available()
        if n not in NETWORKS and (only is None or n in only)
    ]
    if not about.get("include_seen") and only is None:
        names.remove("frequency")  # it would be TopPop
    if not about.get("has_order") and only is None:
        names.remove("transitions")  # nothing follows anything
    classes = {name: models.get(name) for name in names}
    alone = [
        n for n, c in classes.items() if not (c.takes_initial_vectors or c.combines)
    ]
    ranked = sorted(alone, key=lambda name: -expected.get(name, 0.0))
    found = [Candidate(model=name) for name in ranked]
    if items is not None and "itemknn" in ranked:
        place = ranked.index("itemknn") + 1
        shares = ({"item_table": items, "content": share} for share in (0.5, 1.0))
        found[place:place] = [
            Candidate(model="itemknn", settings=own) for own in shares
        ]
    return found


def neural_models(
    about: Mapping[str, Any], only: Sequence[str] | None = None
) -> list[str]:
    """The networks, by the prior; none where torch is not installed.

    Of those that are close to the best the first of `NETWORKS` comes first: it learns fastest.
    """
    expected = {
        n: share for n, share in expected_shares(about).items() if n in NETWORKS
    }
    best = max(expected.values(), default=0.0)
    names = [name for name in NETWORKS if name in expected]
    names.sort(key=lambda name: int((best - expected[name]) / EQUAL_IF_EXPECTED_WITHIN))
    names += [name for name in NETWORKS if only is not None and name not in names]
    try:
        named = (n for n in names if only is None or n in only)
        return [n for n in named if n in models.available() and models.get(n)]
    except MissingExtraError:
        return []


def variant(
    model: str, base: Mapping[str, Any], place: int, seed: int
) -> dict[str, Any]:
    """Settings near `base`, or far from them: the `place`-th of a fixed sequence per model."""
    cls = models.get(model)
    rng = np.random.default_rng([seed, place, zlib.crc32(model.encode())])
    config = cls.config_class.from_dict(base).to_dict()
    space = cls.search_space
    moved = [name for name in space if rng.random() < 0.5]
    moved = moved or ([str(rng.choice(list(space)))] if space else [])
    settings = dict(base)
    for name in moved:
        settings[name] = config[name] = _drawn(space, name, config[name], rng)
    plain = cls.config_class().to_dict()
    return {
        name: value
        for name, value in settings.items()
        if name not in space or (active(space[name], config) and value != plain[name])
    }


def _drawn(space: SearchSpace, name: str, now: Any, rng: np.random.Generator) -> Any:
    dimension = space[name]
    if isinstance(dimension, Choice):
        return dimension.options[int(rng.integers(len(dimension.options)))]
    ends = np.array([dimension.low, dimension.high], np.float64)
    low, high = np.log(ends) if dimension.log else ends
    if rng.random() < 0.5 and now in dimension:
        centre = np.log(now) if dimension.log else now
        near = rng.normal(centre, SMALL_CHANGE_SHARE_OF_RANGE * (high - low))
        drawn = float(np.clip(near, low, high))
    else:
        drawn = float(rng.uniform(low, high))
    value = float(np.exp(drawn)) if dimension.log else drawn
    value = min(max(value, dimension.low), dimension.high)
    return round(value) if isinstance(dimension, Int) else float(f"{value:.3g}")


@dataclass(frozen=True, eq=False)
class Result:
    """What a trial of a candidate gave."""

    candidate: Candidate
    columns: NDArray[np.float64]
    """float64[m, c]: the metric per user, or what it is made of (F1)."""
    facts: dict[str, Any]
    """Seconds of the fit and of the ranking, milliseconds per request, bytes, steps."""
    at: float
    """When it was done, in seconds of the search."""

    @cached_property
    def value(self) -> float:
        return float(combine(list(self.columns.mean(axis=0))))

    @property
    def seconds(self) -> float:
        """Of the whole trial."""
        return float(self.facts["fit_seconds"] + self.facts["ranking_seconds"])


def by_value(result: Result) -> tuple[float, int, str]:
    """Sorts the best first; of equals the one with fewer settings, then the lower key."""
    return -result.value, len(result.candidate.settings), result.candidate.key
