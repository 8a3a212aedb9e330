"""`start`: the one way by which training, grids, tuning, the demo and the service get vectors."""

from __future__ import annotations

from typing import Any

from leporid.data import Interactions
from leporid.initializers.base import InitialEmbeddings
from leporid.initializers.cache import cached_fit
from leporid.initializers.catalogue import get
from leporid.progress import ProgressLike
from leporid.threads import kept_torch_threads


def start(
    source: str | InitialEmbeddings | None,
    train: Interactions,
    *,
    cache: bool = True,
    progress: bool | ProgressLike | None = None,
    **settings: Any,
) -> InitialEmbeddings | None:
    """Starting vectors for the users and items of `train`.

    `source` is the name of an initialiser, vectors that exist already (returned as they are), or
    None or "none", which leave the model to draw small random numbers. `settings` are the
    initialiser's, `dim` and `seed` among them. With `cache` vectors fitted before are read again.
    """
    if source is None or source == "none":
        return None
    if not isinstance(source, str):
        return source
    with kept_torch_threads():
        return cached_fit(get(source)(**settings), train, use_cache=cache, progress=progress)
