"""`ModelSpec`: what to fit. Every default is resolved here, once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from leporid.data import Interactions
from leporid.embeddings import EmbeddingSpec, InitialEmbeddings
from leporid.errors import ConfigError
from leporid.foundation import Config, SettingValue, described
from leporid.models import registry
from leporid.models.base import Recommender

Init: TypeAlias = str | InitialEmbeddings | None
"""The name of an initialisation, vectors that exist already, or None ("none") for small random
numbers."""


class DefaultName(str):
    """A name that nobody typed: models that have no use for it ignore it."""


DEFAULT_INIT = DefaultName("leporid")
"""LEPORID for models with embedding tables, nothing for models without them."""
DEFAULT_RECIPE = DefaultName("general")
"""`general` for models that have this recipe, the defaults of the settings for all others."""


@dataclass(frozen=True, eq=False)
class ModelSpec:
    """A model, all of its settings, where its embeddings start, and the seed."""

    model_class: type[Recommender]
    settings: Config
    init: EmbeddingSpec | InitialEmbeddings | None = None
    seed: int = 123
    recipe: str | None = None
    """Name of the recipe that the settings come from; None if there is none."""

    @property
    def model(self) -> str:
        """Name of the model in the registry."""
        return self.model_class.name

    @property
    def init_name(self) -> str | None:
        """Name of the initialisation; None for small random numbers and closed-form models."""
        if isinstance(self.init, InitialEmbeddings):
            return str(self.init.items.provenance["method"])
        return None if self.init is None else self.init.method

    @classmethod
    def resolve(
        cls,
        model: str | type[Recommender],
        train: Interactions | None,
        *,
        init: Init = DEFAULT_INIT,
        recipe: str | None = DEFAULT_RECIPE,
        seed: int = 123,
        settings: Mapping[str, SettingValue] | None = None,
        init_settings: Mapping[str, SettingValue] | None = None,
        cache: bool = False,
    ) -> ModelSpec:
        """Look up names and fill in every default, some of which depend on the training part.

        Parameters
        ----------
        model : name in the registry, or a class of your own
        train : what the model will be fitted on; the recipe `general` adapts to it. None checks
            everything else before the data is read.
        init : initialisation of the embedding tables
        recipe : a named set of settings, or None for the defaults of the settings
        seed : seeds the initialisation and the training
        settings : settings that win over those of the recipe
        init_settings : settings of the initialisation; its `dim` is by default that of the model
        cache : whether initial embeddings are kept on disk and read again
        """
        model_class = model_named(model)
        check_init(model_class, init, init_settings)
        recipe = named_recipe(model_class, recipe)
        all_settings = model_class.recipe_settings(recipe, train)
        if isinstance(init, InitialEmbeddings):
            all_settings["dim"] = init.users.dim
        all_settings |= settings or {}
        config = model_class.config_class.from_dict(all_settings)
        vectors: EmbeddingSpec | InitialEmbeddings | None = None
        if isinstance(init, InitialEmbeddings):
            vectors = init
        elif model_class.takes_initial_vectors and init not in (None, "none"):
            embedding_settings: dict[str, SettingValue] = {
                "dim": vars(config)["dim"],
                "seed": seed,
            }
            embedding_settings |= init_settings or {}
            use_cache = bool(embedding_settings.pop("cache", cache))
            vectors = EmbeddingSpec.resolve(
                init,
                embedding_settings,
                use_cache=use_cache,
            )
        return cls(model_class, config, vectors, seed, recipe)


def model_named(model: str | type[Recommender]) -> type[Recommender]:
    """Return the class of a model's name, or the class itself if it is one of the user's own."""
    if isinstance(model, type) and issubclass(model, Recommender):
        return model
    if isinstance(model, str):
        return registry.get(model)
    raise ConfigError(
        f"the model must be a name such as 'dlr2' or a class of models, not {described(model)}"
    )


def named_recipe(model_class: type[Recommender], recipe: str | None) -> str | None:
    """Return the recipe that is meant: nobody asked a model without recipes for `general`."""
    if recipe is DEFAULT_RECIPE and recipe not in model_class.recipes:
        return None
    return recipe


def check_init(
    model_class: type[Recommender],
    init: Init,
    init_settings: Mapping[str, SettingValue] | None,
) -> None:
    """Refuse an initialisation, or settings of one, that the model has no use for."""
    if init is not None and not isinstance(init, str | InitialEmbeddings):
        raise ConfigError(
            f"init must be the name of an initialiser, InitialEmbeddings or None, not "
            f"{described(init)}: leporid.initializers.InitialEmbeddings(users, items) puts two "
            f"Embedding together"
        )
    if init_settings and (init == "none" or not isinstance(init, str)):
        raise ConfigError(
            "init_settings (--init-set) are those of an initialiser: name one as init (--init)"
        )
    if model_class.takes_initial_vectors:
        return
    is_asked_for = init not in (None, "none") and init is not DEFAULT_INIT
    if is_asked_for or init_settings:
        raise ConfigError(
            f"{model_class.name} has no embedding tables to fill: leave out init and init_settings "
            f"(--init, --init-set)"
        )
