"""`DLR2Config`: the settings of DLR2."""

from dataclasses import dataclass
from typing import Literal

from leporid.errors import ConfigError
from leporid.foundation import setting
from leporid.models.neural.settings import TrainingConfig

Architecture = Literal["resnet", "revnet", "only_conv", "no_conv"]
Branch = Literal["discriminative", "generative", "mixture"]


@dataclass(frozen=True, kw_only=True)
class DLR2Config(TrainingConfig):
    """The defaults are the paper's recipe, with the margin that works."""

    epochs: float = setting(3.0, at_least=0)
    """A small log needs fewer than 5,000 steps."""
    architecture: Architecture = "resnet"
    """Design of the Feature Network."""
    losses: Literal["both", "discriminative", "generative"] = "both"
    """L_S + L_G, or one of them."""
    inference: Branch = "discriminative"
    """Rank by S, by G, or by a mixture of both; a branch must have been trained."""
    objective: Literal["margin", "softmax"] = "margin"
    """`margin`: square-square and hinge losses (Eq. 10, 11). `softmax`: cross-entropy."""
    channels: int = setting(64, at_least=2)
    """Channels of the first residual block; the second has twice as many."""
    max_history: int = setting(5, at_least=1)
    """l, the number of recent items read."""
    padding: Literal["repeat", "mask", "none"] = "repeat"
    """A history shorter than l repeats its first item, leaves rows zero (`mask`), or is not trained
    on."""
    circular: bool = False
    """For logs without order: an example reads the items after it as well as those before."""
    profile_items: int = setting(0, at_least=0)
    """One more row of the image: the scaled sum of this many recent items; 0 leaves it out."""
    learn_input_scale: bool = False
    """Multiply the image by a learnt number, which at first gives item rows unit size."""
    shortcut: bool = False
    """Softmax: G corrects a learnt average of the rows it reads."""
    margin: float = setting(0.5, at_least=0)
    """m_S = m_G. The paper prints 0, with which L_S is zero for a network that outputs zero."""
    relu_on_negatives: bool = False
    """Apply the last ReLU of S to negatives in L_S too, as printed; some seeds then end without
    a gradient."""
    last_relu: bool = True
    """S ends in a ReLU, as printed; in the authors' program it does not."""
    ranking_distance: Literal["squared", "absolute"] = "squared"
    """Margin: G ranks by the mean squared difference, or the absolute (authors' program)."""
    freeze_init: bool = False
    """Keep the initial embeddings of every initialiser but `random` (`freeze_steps=-1`)."""
    negatives: int = setting(1, at_least=1)
    """Negative items for each example in L_S (and in L_G of the margin objective)."""
    negative_kind: Literal["uniform", "hard"] = "uniform"
    """How negatives are found: `hard` takes those G ranks highest among eight times as many
    draws."""
    image_dropout: float = setting(0.0, at_least=0, below=1)
    """Dropout on the input image."""
    feature_dropout: float = setting(0.0, at_least=0, below=1)
    """Dropout before the linear layer of the Feature Network."""
    user_dropout: float = setting(0.0, at_least=0, below=1)
    """Augmentation: share of examples whose user row is masked (zero)."""
    item_bias: bool = False
    """Softmax: a learnt bias for each item in G's scores."""
    label_smoothing: float = setting(0.0, at_least=0, below=1)
    """Softmax: smoothing of L_G's targets."""
    mixture: float = setting(0.5, at_least=0, at_most=1)
    """Weight of S when `inference` is `mixture`; G has the rest."""
    new_users: Literal["auto", "mask", "neighbours"] = "auto"
    """The row of a new user: zero (`mask`), as `user_dropout` trains it, or the mean of similar
    fitted users (`neighbours`). `auto` masks where half of the examples or more were masked."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.relu_on_negatives and not self.last_relu:
            raise ConfigError(
                "relu_on_negatives=True needs last_relu=True: there is no ReLU to read"
            )
        if self.circular and self.padding != "mask":
            raise ConfigError(
                "circular=True needs padding='mask': a circle repeats no item"
            )
        if self.shortcut and self.objective != "softmax":
            raise ConfigError(
                "shortcut=True needs objective='softmax': G's tanh would bend it"
            )
        if self.losses != "both" and self.inference != self.losses:
            raise ConfigError(
                f"inference={self.inference!r} needs a branch that losses={self.losses!r} "
                f"does not train: choose inference={self.losses!r}"
            )
