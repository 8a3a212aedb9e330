"""The cells of `initialisation-study.toml`: their data, their initial embeddings, one run.

$LEPORID_DATA is the folder of the logs, $LEPORID_CACHE keeps embeddings.
"""

from __future__ import annotations

import itertools
import os
import tomllib
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.probe_vectors import load_log
from leporid.data import Split, split_by
from leporid.embeddings import Embedding, EmbeddingSpec, InitialEmbeddings
from leporid.errors import LeporidWarning
from leporid.evaluation import evaluate
from leporid.models import train
from leporid.runs import Meter, RunRecord
from reproduction.activity import NAMES, packed

STUDY: dict[str, Any] = tomllib.loads(
    Path(__file__).with_name("initialisation-study.toml").read_text(encoding="utf-8")
)
EXPERIMENT = "initialisation-study"
METRICS = ("NDCG", "HR")
DRAWN = ("random", "shuffled")
"""Initialisations that differ from seed to seed."""


@dataclass(frozen=True, kw_only=True)
class StudyCell:
    """One run of the study."""

    log: str
    model: str
    recipe: str
    variant: str
    init: str
    seed: int
    expected_seconds: float
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def kind(self) -> str:
        """What its duration depends on."""
        return f"{self.log}/{self.model} {self.recipe} {self.variant}".strip()

    @property
    def key(self) -> str:
        """Its name."""
        return f"{self.kind}/{self.init}/{self.seed}"

    @property
    def vectors(self) -> tuple[str, str] | None:
        """Log and name of the embeddings that it reads; None where it draws its own."""
        name = "leporid" if self.init == "shuffled" else self.init
        return (self.log, name) if STUDY["inits"][name] else None


def cells() -> Iterator[StudyCell]:
    """All cells, in the order of their priority: seed by seed within a block and log."""
    for block in STUDY["blocks"]:
        inits = block.get("inits", list(STUDY["inits"]))
        for log, seed, init in itertools.product(block["logs"], STUDY["seeds"], inits):
            yield StudyCell(
                log=log,
                model=block["model"],
                recipe=block.get("recipe", "general"),
                variant=block.get("variant", ""),
                init=init,
                seed=seed,
                expected_seconds=block["seconds"],
                settings=block.get("settings", {}),
            )


@cache
def split_of(log: str) -> Split:
    """The split of a log, or of a share of its users."""
    about = STUDY["logs"][log]
    data = load_log(Path(os.environ["LEPORID_DATA"]), about["source"], about["core"])
    if "share" in about:
        draws = np.random.default_rng(0)
        count = round(about["share"] * data.n_users)
        chosen = draws.choice(data.n_users, count, replace=False)
        data = data.select(np.isin(data.user, chosen)).core(1)
    return split_by(data, about.get("protocol", "temporal"))


def fitted_vectors(log: str, init: str) -> InitialEmbeddings:
    """The embeddings of a method for the training part of a log, cached in $LEPORID_CACHE."""
    settings: dict[str, Any] = {} if init == "svd" else {"device": "cpu"}
    settings |= STUDY["inits"][init]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LeporidWarning)
        spec = EmbeddingSpec.resolve(settings.pop("method"), settings, use_cache=True)
        return spec.fit(split_of(log).train)


def vectors_of(log: str, init: str, seed: int) -> InitialEmbeddings:
    """The initial embeddings of a cell."""
    if init not in DRAWN:
        return fitted_vectors(log, init)
    draws, part = np.random.default_rng(seed), split_of(log).train
    if init == "shuffled":
        both = fitted_vectors(log, "leporid")
        sides = [shuffled(side.vectors, draws) for side in (both.users, both.items)]
    else:
        shapes = (part.n_users, 64), (part.n_items, 64)
        sides = [draws.standard_normal(shape, dtype=np.float32) for shape in shapes]
    # A name that no initialiser has: models then z-score these like all others.
    users, items = (Embedding(rows, None, {"method": f"{init} rows"}) for rows in sides)
    return InitialEmbeddings(users, items, part.users, part.items)


def shuffled(vectors: NDArray[np.float32], draws: np.random.Generator) -> NDArray[np.float32]:
    """The rows in random order; rows of zeros stay where they are."""
    known = np.flatnonzero(vectors.any(axis=1))
    result = vectors.copy()
    result[known] = vectors[draws.permutation(known)]
    return result


def run_cell(cell: StudyCell, device: str) -> dict[str, Any]:
    """Fit and test one cell: the fields of its record, with curve and hits per user in `extra`."""
    from reproduction.two_tower import TwoTower

    split = split_of(cell.log)
    model: Any = TwoTower if cell.model == "two_tower" else cell.model
    settings = {"metric": "NDCG@10", "eval_users": STUDY["eval_users"], **cell.settings}
    vectors = vectors_of(cell.log, cell.init, cell.seed)
    asked: dict[str, Any] = {"seed": cell.seed, "recipe": cell.recipe, "device": device}
    with warnings.catch_warnings(), Meter() as meter:
        warnings.simplefilter("ignore", LeporidWarning)
        fitted: Any = train(model, split, vectors, progress=False, **asked, **settings)
    test, valid = (
        evaluate(fitted, split, at=(10,), part=part, metrics=METRICS) for part in ("test", "valid")
    )
    rows = fitted.history.rows
    curve = [[row["step"], row["metric"], row["seconds"]] for row in rows if "metric" in row]
    extra = {
        "kind": cell.kind,
        "key": cell.key,
        "variant": cell.variant,
        "protocol": split.protocol,
        "data_digest": split.digest,
        "seen": "train and validation" if fitted.reads_history else "train only",
        "curve": curve,
        "training": fitted.training_summary(),
        "quartiles": {name: test.mean(name) for name in NAMES if test.has_users(name)},
        "hits": packed(test.hit_columns()["hits"]),
    }
    record = RunRecord(
        dataset=cell.log,
        experiment=EXPERIMENT,
        model=cell.model,
        init=cell.init,
        recipe=cell.recipe,
        seed=cell.seed,
        config=fitted.config.to_dict(),
        metrics=test.mean(),
        valid_metrics=valid.mean(),
        tail_metrics=test.mean("tail-users") if test.has_users("tail-users") else {},
        seconds=meter.seconds,
        peak_memory_mb=meter.peak_memory_mb,
        device=device_name(device),
        extra=extra,
    )
    return record.to_dict()


def device_name(device: str) -> str:
    """'cpu', or the name of the accelerator."""
    if device == "cpu":
        return device
    import torch

    return str(torch.cuda.get_device_name())
