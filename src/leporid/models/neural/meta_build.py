"""Networks without memory for their weights: they tell the shapes that saved arrays must have."""

from collections.abc import Callable, Collection, Mapping

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from leporid.data import Interactions
from leporid.errors import DataError, LeporidError
from leporid.models.neural.tables import BuildContext

_DRAWING = (Tensor.normal_, Tensor.uniform_, nn.init.normal_, nn.init.uniform_)
"""Functions that fill a tensor with random numbers."""


class _NothingDrawn(TorchFunctionMode):
    """Leaves out random numbers: "meta" tensors hold none, yet torch prepares a lot."""

    def __torch_function__(
        self,
        func: Callable[..., object],
        types: Collection[type],
        args: tuple[object, ...] = (),
        kwargs: Mapping[str, object] | None = None,
    ) -> object:
        kwargs = kwargs or {}
        if func in _DRAWING:
            return args[0] if args else kwargs["tensor"]
        return func(*args, **kwargs)


def build_on_meta(
    build: Callable[[BuildContext], nn.Module],
    train: Interactions,
    dim: int,
) -> nn.Module | None:
    """Build a network without memory for its weights; None if `build` looks into them."""
    try:
        with torch.device("meta"), _NothingDrawn():
            return build(BuildContext(train, dim, shapes_only=True))
    except RuntimeError:
        return None
    except LeporidError:
        raise
    except (
        ArithmeticError,
        AssertionError,
        LookupError,
        TypeError,
        ValueError,
    ) as error:
        reason = str(error).partition("\n")[0]
        raise DataError(f"its settings do not give a network: {reason}") from None
