"""Parameters the way scikit-learn's `clone` and pipelines expect them, without scikit-learn.

A parameter is an argument of `__init__`, kept under its own name and never changed by a fit.
"""

from __future__ import annotations

import inspect
from typing import Any, Self

from leporid.errors import UnknownNameError

__all__ = ["Parameters"]


class Parameters:
    """`get_params`, `set_params` and the tags scikit-learn asks for."""

    metric: str

    @classmethod
    def _parameter_names(cls) -> list[str]:
        return [name for name in inspect.signature(cls.__init__).parameters if name != "self"]

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters by name."""
        return {name: getattr(self, name) for name in self._parameter_names()}

    def set_params(self, **parameters: Any) -> Self:
        """Change parameters; an unknown name is an error that suggests the closest one."""
        known = self._parameter_names()
        for name in parameters:
            if name not in known:
                raise _UnknownParameterError(name, known)
        for name, value in parameters.items():
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={value!r}" for name, value in self.get_params().items())
        return f"{type(self).__name__}({shown})"

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "embedding_")

    def __sklearn_tags__(self) -> Any:
        """Only scikit-learn calls this, so only scikit-learn has to be there."""
        from sklearn.utils import InputTags, Tags, TargetTags, TransformerTags

        return Tags(
            estimator_type="transformer",
            target_tags=TargetTags(required=False),
            transformer_tags=TransformerTags(preserves_dtype=["float32"]),
            input_tags=InputTags(sparse=True, pairwise=self.metric == "precomputed"),
            requires_fit=True,
        )


class _UnknownParameterError(UnknownNameError, ValueError):
    """`set_params` was given a name the estimator does not have."""

    def __init__(self, name: str, known: list[str]) -> None:
        super().__init__("parameter", name, known)
