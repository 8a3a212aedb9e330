"""Errors of models that cannot do what is asked: new users, new rows, item lists, vectors."""

from leporid.errors import ConfigError, LeporidError


class HistoryUnsupportedError(LeporidError, TypeError):
    """This model cannot score users who were not in its training data."""

    def __init__(self, model: str) -> None:
        super().__init__(
            f"{model} cannot recommend from a history alone; "
            f"refit it with these users, or choose a model that can (dlr2, sasrec, itemknn)"
        )


class ExtensionUnsupportedError(ConfigError, TypeError):
    """This model has no embedding tables that could get rows for new users and items."""

    def __init__(self, model: str) -> None:
        super().__init__(
            f"{model} has no embedding tables to extend: train it again instead"
        )


class ItemListsUnsupportedError(LeporidError, TypeError):
    """This model has no weights between items."""

    def __init__(self, model: str) -> None:
        super().__init__(
            f"{model} has no item-to-item weights: choose a model that has (transitions, slim, "
            f"ease, itemknn, p3alpha, rp3beta, turbocf), or ask any model for `similar_items`"
        )


class VectorsUnsupportedError(LeporidError, TypeError):
    """This model does not rank by dot products."""

    def __init__(self, model: str) -> None:
        super().__init__(
            f"{model} does not rank by the dot product of two vectors: serve it with "
            f"`leporid serve`, or choose a model that does (bpr, dgcf, hgn, ials, lightgcn, ngcf, "
            f"sasrec, or dlr2 with a trained G and its squared distance)"
        )
