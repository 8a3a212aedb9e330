"""Item and user tables in `train`: validation decides, or the caller."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from leporid.data import (
    Interactions,
    ItemTable,
    Split,
    UserTable,
    synthesize,
    temporal_split,
)
from leporid.errors import ConfigError, DataError
from leporid.models import FitContext, train

QUICK: dict[str, Any] = {"dim": 8, "steps": 40, "eval_every": 10, "lr": 0.02, "recipe": None}
QUICK |= {"init": "none", "device": "cpu", "progress": False, "seed": 3}


@pytest.fixture(scope="module")
def split() -> Split:
    return temporal_split(synthesize(60, 40, 1500, seed=4))


def table(split: Split) -> dict[str, Any]:
    """The first user of an item says much about it; asymmetric between the items."""
    first = np.zeros(split.n_items, int)
    first[split.train.item[::-1]] = split.train.user[::-1] // 6
    return {"item_id": split.items.ids.to_pylist(), "kind": [f"kind {k}" for k in first]}


def test_validation_decides_and_both_values_are_kept(split: Split) -> None:
    items = table(split)
    with_features: Any = train("sasrec", split, items=items, features=True, **QUICK)
    without: Any = train("sasrec", split, items=items, features=False, **QUICK)
    auto: Any = train("sasrec", split, items=items, **QUICK)
    values = with_features.history.best_metric, without.history.best_metric
    assert values[0] != values[1]
    assert auto.training_summary()["features"] == dict(
        zip(("with", "without"), values, strict=True)
    )
    better = with_features if values[0] > values[1] else without
    np.testing.assert_array_equal(auto.score([0, 5]), better.score([0, 5]))
    assert bool(auto.config.item_table) == (better is with_features)
    assert "features" not in without.training_summary()


def test_features_change_nothing_before_they_are_trained(split: Split) -> None:
    still = QUICK | {"lr": 1e-12, "steps": 2, "eval_every": 0}
    plain = train("sasrec", split, **still)
    informed = train("sasrec", split, items=table(split), features=True, **still)
    np.testing.assert_allclose(informed.score([0, 5]), plain.score([0, 5]), rtol=1e-4, atol=1e-6)
    level: Any = train("sasrec", split, items=table(split), **(still | {"eval_every": 1}))
    both = level.training_summary()["features"]
    assert both["with"] == both["without"]
    assert level.config.item_table == "", "what brings nothing is left out"


def test_a_final_fit_reads_the_table_again(split: Split, tmp_path: Path) -> None:
    file = tmp_path / "films.parquet"
    pa.parquet.write_table(pa.table(table(split)), file)
    final: Any = train("sasrec", split, items=file, features=True, final=True, **QUICK)
    assert final.config.item_table == str(file)
    plain: Any = train("sasrec", split, final=True, **QUICK)
    assert not np.allclose(final.score([0]), plain.score([0]))
    file.unlink()
    with pytest.raises(DataError, match=r"films\.parquet"):
        final.refit(split)
    tables = {"items": ItemTable.load(table(split))}
    again = final.refit(split, context=FitContext(tables=tables))
    np.testing.assert_array_equal(again.score([0]), final.score([0]))


def test_users_have_tables_where_the_model_has_their_rows(split: Split) -> None:
    users = {"user": split.users.ids.to_pylist(), "age": list(range(split.n_users))}
    with pytest.raises(ConfigError, match="no table of users"):
        train("sasrec", split, users=users, features=True, **QUICK)
    plain = train("bpr", split, **QUICK)
    informed = train("bpr", split, users=UserTable.load(users), features=True, **QUICK)
    assert not np.allclose(plain.score([0]), informed.score([0]))
    with pytest.raises(DataError, match="a column of user ids"):
        train("bpr", split, users={"age": [1]}, **QUICK)


def test_what_cannot_be_used_is_refused(split: Split) -> None:
    with pytest.raises(ConfigError, match="ease reads no table of items"):
        train("ease", split, items=table(split), progress=False)
    nothing: Interactions = split.valid.select(np.empty(0, np.int64))
    blind = Split(split.train, nothing, split.test, "blind")
    with pytest.raises(ConfigError, match="needs a validation"):
        train("sasrec", blind, items=table(split), **QUICK)


def test_a_resumed_run_trains_neither_again(split: Split, tmp_path: Path) -> None:
    items, folder = table(split), tmp_path / "checkpoint"
    first: Any = train("sasrec", split, items=items, checkpoint=folder, **QUICK)
    again: Any = train("sasrec", split, items=items, checkpoint=folder, resume=True, **QUICK)
    assert again.training_summary()["features"] == first.training_summary()["features"]
    assert again.history.rows == first.history.rows
