"""Blend: several models as one, their rankings averaged (reciprocal rank fusion)."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from leporid.data import Interactions, Sequences, Split
from leporid.embeddings import InitialEmbeddings
from leporid.errors import ConfigError, DataError
from leporid.evaluation import (
    Comparison,
    combine,
    compare,
    evaluate,
    ingredients,
    parse_metric,
)
from leporid.foundation import (
    Config,
    ProgressLike,
    SettingValue,
    from_mapping,
    setting,
)
from leporid.models import registry as catalogue
from leporid.models.base import Recommender
from leporid.models.context import FitContext
from leporid.models.fitted_arrays import arrays_under
from leporid.models.fitting import Fitting
from leporid.models.spec import ModelSpec
from leporid.models.training import fit
from leporid.ranking import HistoryUnsupportedError, Indices, Scores, TopK, masked_top_k

_MAX_PICKS, _MAX_USERS = 5, 5_000
_MEMBER_PARTS = {"model", "settings", "init", "weight"}


@dataclass(frozen=True, kw_only=True)
class BlendMember(Config):
    """A model of a blend, and how much it counts."""

    model: str
    """Name in the registry."""
    settings: dict[str, SettingValue] = field(default_factory=dict)
    """Settings that differ from the defaults of the model."""
    init: str | None = None
    """Initialisation of the embedding tables; None for small random numbers."""
    weight: float = 1.0
    """Factor of the member's votes."""

    @classmethod
    def of(cls, entry: BlendMember | Mapping[str, SettingValue]) -> BlendMember:
        """Return a member from the mapping that a user typed or a file holds."""
        if isinstance(entry, BlendMember):
            return entry
        is_mapping = isinstance(entry, Mapping)
        if not is_mapping or not {"model"} <= entry.keys() <= _MEMBER_PARTS:
            raise ConfigError(
                f"a member of a blend has a model, settings, init and weight, not {entry!r}"
            )
        return cls.from_dict(entry)

    def spec(self, train: Interactions, seed: int) -> ModelSpec:
        """Return what to fit for this member on a training part."""
        return ModelSpec.resolve(
            self.model,
            train,
            init=self.init,
            recipe=None,
            seed=seed,
            settings=self.settings,
        )


@dataclass(frozen=True, kw_only=True)
class BlendConfig(Config):
    members: tuple[BlendMember, ...] = (
        BlendMember(model="itemknn"),
        BlendMember(model="ease"),
    )
    """Each has a `model`, and where they differ from the defaults `settings`, `init`, `weight`."""
    damping: float = setting(60.0, above=0)
    """How little the first ranks count more than the next ones."""
    depth: int = setting(200, at_least=1)
    """Ranks of a member's list that are told apart; all items behind them have the next one."""

    def __post_init__(self) -> None:
        # Files and users describe the members by mappings.
        if isinstance(self.members, list | tuple):
            members = tuple(BlendMember.of(entry) for entry in self.members)
            object.__setattr__(self, "members", members)
        super().__post_init__()
        if not self.members:
            raise ConfigError("a blend needs at least one member")


class Blend(Recommender):
    """The sum over members of weight / (damping + rank among the items that may be shown)."""

    name = "blend"
    config_class = BlendConfig
    config: BlendConfig
    reads_history = True
    combines: ClassVar[bool] = True
    members: tuple[Recommender, ...] = ()

    @classmethod
    def of(
        cls,
        members: Sequence[Recommender],
        described: Sequence[BlendMember | Mapping[str, SettingValue]],
    ) -> Self:
        """Return fitted members as one model; `described` are their entries in the settings."""
        entries = tuple(BlendMember.of(entry) for entry in described)
        blend = cls(BlendConfig(members=entries))
        blend._train, blend._known = members[0].train, members[0].known
        blend.members, blend.fitting = tuple(members), members[0].fitting
        return blend

    def _fit(self, split: Split, seed: int, context: FitContext) -> None:
        context = FitContext(device=context.device, progress=context.progress)
        specs = (member.spec(split.train, seed) for member in self.config.members)
        self.members = tuple(fit(spec, split, context) for spec in specs)

    def _refit(
        self,
        full_split: Split,
        init: InitialEmbeddings | Recommender | None,
        context: FitContext,
    ) -> Self:
        members = [member.refit(full_split, context=context) for member in self.members]
        return self.of(members, self.config.members)

    def score(self, users: Indices, history: Sequences | None = None) -> Scores:
        users = self._check_users(users)
        seen = (self.known.sequences() if history is None else history).take(users)
        return self._fuse(
            [m.score(users, history) for m in self.members], self._weights, seen
        )

    def score_histories(self, histories: Sequence[Indices]) -> Scores:
        pairs = zip(self.members, self._weights, strict=True)
        able = [
            (member, weight) for member, weight in pairs if member.supports_new_users()
        ]
        if not able:
            raise HistoryUnsupportedError(self.name)
        scores = [member.score_histories(histories) for member, _ in able]
        return self._fuse(scores, [w for _, w in able], Sequences.from_rows(histories))

    @property
    def _weights(self) -> list[float]:
        return [member.weight for member in self.config.members]

    def _fuse(
        self, scores: list[Scores], weights: Sequence[float], seen: Sequences
    ) -> Scores:
        fused, depth = (
            np.zeros_like(scores[0]),
            min(self.config.depth, scores[0].shape[1]),
        )
        excluded = None if self.fitting.include_seen else seen.target_events()
        behind = 1 / (self.config.damping + depth)
        votes = (1 / (self.config.damping + np.arange(depth)) - behind).astype(
            np.float32
        )
        for weight, member_scores in zip(weights, scores, strict=True):
            top = masked_top_k(member_scores, depth, seen=excluded).items
            rows, ranks = np.nonzero(top >= 0)
            fused[rows, top[rows, ranks]] += np.float32(weight) * votes[ranks]
            fused += np.float32(weight * behind)
        return fused

    def _arrays(self) -> dict[str, NDArray[Any]]:
        arrays = {
            f"{number}.{key}": array
            for number, member in enumerate(self.members)
            for key, array in member._arrays().items()
        }
        text = json.dumps(
            [{**asdict(m.fitting), "config": m.config.to_dict()} for m in self.members]
        )
        return {"fittings": np.frombuffer(text.encode(), np.uint8), **arrays}

    def _restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        members = []
        try:
            fittings = json.loads(arrays["fittings"].tobytes())
        except (ValueError, RecursionError) as error:
            raise DataError(f"fittings is not valid JSON: {error}") from None
        if not isinstance(fittings, list) or len(fittings) != len(self.config.members):
            raise DataError(
                f"fittings does not describe {len(self.config.members)} members"
            )
        for number, (entry, fitting) in enumerate(
            zip(self.config.members, fittings, strict=True)
        ):
            if not isinstance(fitting, dict) or "config" not in fitting:
                raise DataError(f"fittings does not describe member {number}")
            kind = catalogue.get(entry.model)
            member = kind(kind.config_class.from_dict(fitting.pop("config")))
            member._train, member._known = self._train, self._known
            member.fitting = from_mapping(Fitting, fitting)
            member._restore(arrays_under(arrays, f"{number}."))
            members.append(member)
        self.members = tuple(members)


def pick_blend(
    lists: Sequence[NDArray[np.int32]],
    part: Split,
    metric: str,
    progress: ProgressLike | None = None,
) -> tuple[dict[int, int], Comparison] | None:
    """Which models to blend, by their lists, the best model first: place -> weight, and the gain.

    Members are picked greedily, with repetition, on the test items of `part`; `lists` are those of
    its users in their order. The gain over the best model is cross-validated: each half of the
    users evaluates the blend that the other half picks. None where no second member helps.
    """
    users = np.unique(part.test.user)
    sample = slice(None, None, -(-len(users) // _MAX_USERS))
    part = replace(part, test=part.test.select(np.isin(part.test.user, users[sample])))
    lists = [top[sample] for top in lists]
    even = np.arange(len(lists[0])) % 2 == 0
    known: dict[tuple[int, ...], NDArray[np.float64]] = {}

    def columns(picked: Sequence[int]) -> NDArray[np.float64]:
        key = tuple(sorted(picked))
        if key not in known:
            if progress is not None:
                progress.advance()
            known[key] = _evaluated(
                fuse([lists[member] for member in key]), part, metric
            )
        return known[key]

    picked = _pick(columns, len(lists), slice(None))
    if len(set(picked)) < 2 or len(even) < 2:
        return None
    single, crosswise = columns([0]), np.empty_like(columns([0]))
    for half in (even, ~even):
        crosswise[~half] = columns(_pick(columns, len(lists), half))[~half]
    gain = compare(
        crosswise, single, metric, name_a="the blend", name_b="its best member"
    )
    return dict(Counter(picked)), gain


def _pick(
    columns: Callable[[Sequence[int]], NDArray[np.float64]], finalists: int, users: Any
) -> list[int]:
    """Members one by one, with repetition, as long as these users gain."""
    picked = [0]
    best = _value(columns(picked)[users])
    while len(picked) < _MAX_PICKS:
        trials = [(_value(columns([*picked, i])[users]), -i) for i in range(finalists)]
        value, member = max(trials)
        if value <= best:
            break
        best, picked = value, [*picked, -member]
    return picked


def fuse(lists: Sequence[NDArray[np.int32]]) -> NDArray[np.int32]:
    """int32[m, k]: the items of several lists of k by the sum of 1 / (damping + rank)."""
    k = lists[0].shape[1]
    weight = 1 / (BlendConfig.damping + np.arange(k))
    items = np.hstack(lists)
    votes = np.where(items < 0, -np.inf, np.tile(weight, len(lists))[None, :])
    order = np.argsort(items, axis=1, kind="stable")
    items, votes = (np.take_along_axis(a, order, axis=1) for a in (items, votes))
    total = votes.copy()
    for shift in range(1, len(lists)):
        same = items[:, :-shift] == items[:, shift:]
        total[:, :-shift] += np.where(same, votes[:, shift:], 0)
    total[:, 1:][items[:, 1:] == items[:, :-1]] = -np.inf  # counted once
    best = np.argsort(-total, axis=1, kind="stable")[:, :k]
    fused = np.take_along_axis(items, best, axis=1)
    return np.where(
        np.isinf(np.take_along_axis(total, best, axis=1)), -1, fused
    ).astype(np.int32)


def _evaluated(
    lists: NDArray[np.int32], part: Split, metric: str
) -> NDArray[np.float64]:
    """float64[m, c]: what the metric is made of, per user."""
    cut = parse_metric(metric)[1]
    top = np.full((part.n_users, cut), -1, np.int32)
    top[np.unique(part.test.user)] = lists[:, :cut]
    families = [name.partition("@")[0] for name in ingredients(metric)]
    ranking = TopK(top, np.zeros(top.shape, np.float32))
    return evaluate(ranking, part, at=(cut,), metrics=families).columns(metric)


def _value(columns: NDArray[np.float64]) -> float:
    return float(combine(list(columns.mean(axis=0))))
