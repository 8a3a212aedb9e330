"""`Initializer`: training interactions in, initial embeddings of users and items out."""

import abc
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from leporid.data import Interactions, StoredInteractions, as_log
from leporid.embeddings.arrays import Float32Array
from leporid.embeddings.isolated import with_empty_rows
from leporid.embeddings.vectors import Embedding, InitialEmbeddings
from leporid.errors import ConfigError, DataError, article
from leporid.foundation import (
    Config,
    JsonValue,
    Progress,
    ProgressLike,
    SettingValue,
    check_device,
    make_progress,
    setting,
)

if TYPE_CHECKING:
    from distributed import Client


@dataclass(frozen=True, kw_only=True)
class InitializerConfig(Config):
    """Settings every initialiser has."""

    dim: int = setting(64, at_least=1)
    """Number of columns D."""
    seed: int = 0
    """Seeds every random choice the method makes."""


class Initializer(abc.ABC):
    """Base class of all initialisers."""

    name: ClassVar[str]
    config_class: ClassVar[type[InitializerConfig]]
    standardize_by_default: ClassVar[bool] = True
    """Whether models should z-score the vectors (random vectors are used as drawn)."""
    leaves_unknown_rows_empty: ClassVar[bool] = True
    """Whether rows without data are zero (random vectors are drawn for all rows)."""
    runs_on_cluster: ClassVar[bool] = False
    """Whether a fit can run on the Dask cluster `cluster`."""
    version: ClassVar[int] = 2
    """Raised whenever a change of the code changes the vectors: old cache entries then expire."""
    cluster: "Client | None" = None
    """The Dask cluster to fit on; None for this machine. The vectors are the same, so it is not a
    setting."""

    def __init__(
        self,
        config: InitializerConfig | None = None,
        **settings: SettingValue,
    ) -> None:
        if config is None:
            config = self.config_class.from_dict(settings)
        elif not isinstance(config, self.config_class):
            raise ConfigError(
                f"{self.name} takes {article(self.config_class.__name__)}, not {config!r}"
            )
        elif settings:
            config = config.replace(**settings)
        self.config = config

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.config.changed_words()})"

    def check_device(self) -> None:
        """Refuse a device that is not there, of a method that has this setting."""
        device = vars(self.config).get("device")
        if device is not None:
            check_device(device)

    def fit(
        self,
        train: Interactions,
        *,
        progress: Progress = None,
    ) -> InitialEmbeddings:
        """Fit the initial embeddings for `train`; the same data and seed give the same bits.

        Rows without interactions (and, where the method reads content, without content) are
        zero. `provenance["isolated"]` counts the rows of zeros of each side.
        """
        train = as_log(train, f"{type(self).__name__}.fit(train)")
        self.check_device()
        if self.cluster is not None and not self.runs_on_cluster:
            raise ConfigError(
                f"{self.name} cannot be fitted with a cluster: leave it out"
            )
        if len(train) == 0:
            raise DataError(
                f"the training data is empty: {self.name} has nothing to fit on"
            )
        reporter = make_progress(progress)
        embeddings = self._fit(train, reporter)
        reporter.close()
        users = embeddings.users
        items = embeddings.items
        if self.leaves_unknown_rows_empty:
            known_users = np.bincount(train.user, minlength=users.n) > 0
            known_items = train.popularity > 0
            if items.provenance.get("content"):
                known_items[:] = True
            users = with_empty_rows(users, known_users)
            items = with_empty_rows(items, known_items)
        return InitialEmbeddings(users, items, train.users, train.items)

    @abc.abstractmethod
    def _fit(self, train: Interactions, progress: ProgressLike) -> InitialEmbeddings:
        """Do the work."""

    def provenance(
        self, data: Interactions | StoredInteractions
    ) -> dict[str, JsonValue]:
        """Describe where vectors come from: method, parameters, data hash, version of the code."""
        digest = data.digest
        return {
            "method": self.name,
            "parameters": self.config.to_dict(),
            "data": digest,
            "code": self.version,
        }

    def _embeddings(
        self,
        train: Interactions,
        users: Float32Array,
        items: Float32Array,
    ) -> InitialEmbeddings:
        """Put the float32[n, D] vectors of each side together with their provenance."""
        provenance = self.provenance(train)
        return InitialEmbeddings(
            Embedding(users, None, provenance),
            Embedding(items, None, provenance),
        )
