"""How large the initial vectors should be: validation on ML-100K, each model at five scales.

LEPORID vectors are z-scored and multiplied by the scale. Within a model every scale gets the same
seed, the same short training and the same settings, its defaults; nothing is read from test.
DLR2 runs with its fully connected network, whose step is a tenth of the ResNet's on a CPU.
"""

from __future__ import annotations

import sys
from typing import Any

from benchmarks.harness import RECORDS, write_record
from leporid.foundation import read_json

SCALES = (0.01, 0.03, 0.1, 0.3, 1.0)
MODELS: dict[tuple[str, str | None], dict[str, Any]] = {
    ("bpr", None): {"steps": 1000},
    ("ncf", None): {"steps": 800},
    ("ngcf", None): {"steps": 300},
    ("dgcf", None): {"steps": 150},
    ("hgn", None): {"steps": 300},
    ("lightgcn", None): {"steps": 500},
    ("sasrec", None): {"steps": 80},
    ("dlr2", "paper"): {"steps": 300, "architecture": "no_conv"},
    ("dlr2", "softmax"): {"steps": 100, "architecture": "no_conv", "ema_decay": 0.9},
}
"""Steps of about a quarter of a minute each, and what differs from the defaults: an average over
the last thousand steps would still be the start after 100."""


def run(names: list[str] | None = None, seed: int = 1) -> None:
    """Train every model at every scale and write the record."""
    import torch

    import leporid

    # One thread: a batch is small, and a busy machine makes two wait for each other.
    torch.set_num_threads(1)
    split = leporid.temporal_split(leporid.load("ml-100k").core(20))
    vectors = leporid.initializers.get("leporid")(seed=0).fit(split.train)
    # Models that were not asked for keep their rows.
    path = RECORDS / "scales.json"
    rows = read_json(path)["rows"] if names and path.is_file() else []
    for (name, recipe), settings in MODELS.items():
        if names and name not in names:
            continue
        found = [
            _validated(name, recipe, split, vectors, seed, {**settings, "init_scale": scale})
            for scale in SCALES
        ]
        label = f"{name} ({recipe})" if recipe else name
        rows = [row for row in rows if row["model"] != label]
        rows.append(
            {
                "model": label,
                "default": _default_scale(name, recipe),
                **{str(scale): value for scale, value in zip(SCALES, found, strict=True)},
                "steps": settings["steps"],
            }
        )
        print(rows[-1], flush=True)
        # After every model: what is measured is kept if a later one is stopped.
        _write(rows, seed)


def _write(rows: list[dict[str, Any]], seed: int) -> None:
    write_record(
        "scales",
        rows,
        {"data": "ml-100k, 20-core, 70/10/20 by time", "metric": "F1@10 on validation",
         "init": "leporid", "seed": seed},
        [
            "F1@10 on validation of the weights after the last step, one seed, short equal "
            "training within a row: differences of a few thousandths are noise.",
            "DLR2 with its fully connected network (no_conv).",
        ],
    )  # fmt: skip


def _default_scale(name: str, recipe: str | None) -> float:
    from leporid import models

    cls: Any = models.get(name)
    model = cls.from_recipe(recipe)
    scale = model.config.init_scale
    return float(model.init_size if scale == "auto" else scale)


def _validated(
    name: str, recipe: str | None, split: Any, vectors: Any, seed: int, settings: dict[str, Any]
) -> float:
    import leporid

    model = leporid.train(
        name, split, init=vectors, seed=seed, recipe=recipe, device="cpu",
        eval_every=0, **settings,
    )  # fmt: skip
    return float(leporid.evaluate(model, split, at=(10,), part="valid").mean()["F1@10"])


if __name__ == "__main__":
    run(sys.argv[1:] or None)
