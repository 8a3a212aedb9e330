"""Feature tables of items and users: how they are read, and whether they help on validation."""

from collections.abc import Mapping
from dataclasses import replace

from leporid.data import TABLES, ItemTable, Split
from leporid.errors import ConfigError
from leporid.foundation import SettingValue
from leporid.models.base import Recommender
from leporid.models.context import FitContext
from leporid.models.spec import ModelSpec


def load_tables(items: object, users: object) -> dict[str, ItemTable]:
    """Read the feature tables that were given, by side."""
    sources = {"items": items, "users": users}
    return {
        side: TABLES[side].load(source)
        for side, source in sources.items()
        if source is not None
    }


def table_settings(tables: Mapping[str, ItemTable]) -> dict[str, SettingValue]:
    """Return the settings that make a model read these tables."""
    return {f"{table.kind}_table": table.name for table in tables.values()}


def can_compare_features(
    spec: ModelSpec,
    split: Split,
    context: FitContext,
) -> bool:
    """Tell whether a network reads feature tables; then there must be a validation."""
    if not (context.tables and spec.model_class.takes_initial_vectors):
        return False
    if not (len(split.valid) and spec.settings.to_dict()["eval_every"]):
        raise ConfigError(
            'features="auto" needs a validation: say features=True or False'
        )
    return True


def better_without_features(
    with_features: Recommender,
    split: Split,
    context: FitContext,
) -> Recommender:
    """Train once more without feature tables and return the better model on validation.

    The summary of the returned model keeps both values under "features". Nothing is compared where
    somebody interrupts: the history of the model with features then says so.
    """
    assert with_features.history is not None
    if with_features.history.interrupted_by is not None:
        return with_features
    checkpoint = context.checkpoint
    if checkpoint is not None:
        checkpoint = checkpoint / "without features"
    settings = with_features.requested.replace(item_table="", user_table="")
    plain = type(with_features)(settings)
    plain.fit(
        split,
        seed=with_features.fitting.seed,
        context=replace(context, checkpoint=checkpoint, tables={}),
    )
    assert plain.history is not None
    if plain.history.interrupted_by is not None:
        with_features.history.ended = plain.history.ended
        return with_features
    values = {
        "with": best_on_validation(with_features),
        "without": best_on_validation(plain),
    }
    better = with_features if values["with"] > values["without"] else plain
    better.summary["features"] = values
    words = " and ".join(
        f"{value:.4f} {name} features" for name, value in values.items()
    )
    metric = with_features.config.to_dict()["metric"]
    context.progress.say(f"{metric} on validation: {words}")
    return better


def best_on_validation(model: Recommender) -> float:
    """Return the best validation metric of a trained network."""
    assert model.history is not None
    assert model.history.best_metric is not None
    return model.history.best_metric
