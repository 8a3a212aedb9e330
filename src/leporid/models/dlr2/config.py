"""Settings of DLR2 and its recipes."""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from leporid.config import setting
from leporid.errors import ConfigError
from leporid.models.shared.catalogue import GENERAL
from leporid.training import TrainingConfig

Architecture = Literal["resnet", "revnet", "only_conv", "no_conv"]
Branch = Literal["discriminative", "generative", "mixture"]


@dataclass(frozen=True, kw_only=True)
class DLR2Config(TrainingConfig):
    """The defaults are the paper's recipe, with the margin that works."""

    renamed: ClassVar[dict[str, str]] = {"frozen_starts": "freeze_init", "new_people": "new_users"}
    removed = TrainingConfig.removed | {
        "negative_power": 0.75, "hard_pool": 8, "item_dropout": 0.0, "generative_weight": 1.0,
        "temperature": 1.0, "neighbours": 100,
    }  # fmt: skip
    removed_choices = (
        *TrainingConfig.removed_choices,
        *(("negative_kind", "popularity"), ("negative_kind", "in_batch")),
    )
    passes: float = setting(3.0, at_least=0)
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
    length: int = setting(5, at_least=1)
    """l, the number of recent items read."""
    padding: Literal["repeat", "blank", "none"] = "repeat"
    """A history shorter than l repeats its first item, leaves rows blank, or is not trained on."""
    circular: bool = False
    """For logs without order: an example reads the items after it as well as those before."""
    profile: int = setting(0, at_least=0)
    """One more row of the image: the scaled sum of this many recent items; 0 leaves it out."""
    gain: bool = False
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
    """How they are found: `hard` takes those G ranks highest among eight times as many draws."""
    image_dropout: float = setting(0.0, at_least=0, below=1)
    """Dropout on the input image."""
    feature_dropout: float = setting(0.0, at_least=0, below=1)
    """Dropout before the linear layer of the Feature Network."""
    user_dropout: float = setting(0.0, at_least=0, below=1)
    """Augmentation: share of examples whose user row is blanked."""
    item_bias: bool = False
    """Softmax: a learnt bias for each item in G's scores."""
    label_smoothing: float = setting(0.0, at_least=0, below=1)
    """Softmax: smoothing of L_G's targets."""
    mixture: float = setting(0.5, at_least=0, at_most=1)
    """Weight of S when `inference` is `mixture`; G has the rest."""
    linear_gain: float | Literal["auto"] = setting(0.0, at_least=0)
    """Weight of a linear model of the whole profile (SLIM) beside the network; `auto` is the
    smallest that validation cannot tell from the best."""
    linear_repeats: float | Literal["auto"] = setting("auto", at_least=0)
    """`repeats` of that SLIM: what known items get where lists may show them."""
    linear_penalties: tuple[float, float] | None = None
    """L1 and L2 penalty of that SLIM; None takes the better of two pairs on validation."""
    new_users: Literal["auto", "blank", "placed"] = "auto"
    """The row of a new user: blank, as `user_dropout` trains it, or placed: the mean of similar
    fitted users. `auto` is blank where half of the examples or more were."""

    def validate(self) -> None:
        if self.relu_on_negatives and not self.last_relu:
            raise ConfigError(
                "relu_on_negatives=True needs last_relu=True: there is no ReLU to read"
            )
        if self.circular and self.padding != "blank":
            raise ConfigError("circular=True needs padding='blank': a circle repeats no item")
        if self.shortcut and self.objective != "softmax":
            raise ConfigError("shortcut=True needs objective='softmax': G's tanh would bend it")
        if self.losses != "both" and self.inference != self.losses:
            raise ConfigError(
                f"inference={self.inference!r} needs a branch that losses={self.losses!r} "
                f"does not train: choose inference={self.losses!r}"
            )


RECIPES: dict[str, dict[str, Any]] = {
    "paper": {"init_scale": 1.0, "metric": "F1@10"},
    "authors": {
        "last_relu": False, "margin": 0.5, "freeze_init": True, "padding": "none", "length": 5,
        "ranking_distance": "absolute", "batch_size": 32, "steps": 5000,
        "metric": "Precision@1", "eval_every": 100,
    },
    "softmax": {
        "objective": "softmax", "length": 10, "inference": "mixture", "mixture": 0.3,
        "negatives": 64, "negative_kind": "hard", "item_bias": True,
        "image_dropout": 0.2, "feature_dropout": 0.3, "init_scale": 0.3,
        "optimizer": "adamw", "weight_decay": 0.01, "schedule": "one-cycle",
        "clip_norm": 1.0, "ema_decay": 0.999, "batch_size": 512, "steps": 10000,
        "metric": "F1@10",
    },
    "general": GENERAL | {
        "objective": "softmax", "losses": "generative", "inference": "generative",
        "channels": 8, "length": 5, "padding": "blank", "profile": 50, "gain": True,
        "shortcut": True, "item_bias": True, "label_smoothing": 0.2, "linear_gain": "auto",
        "image_dropout": 0.3, "feature_dropout": 0.5, "user_dropout": 0.95,
        "optimizer": "adamw", "lr": 3e-3, "weight_decay": 0.3, "clip_norm": 1.0, "batch_size": 512,
        "precision": "bf16",
    },
}  # fmt: skip

GENERAL_BY_KIND: dict[str, dict[str, Any]] = {
    "small": {"batch_size": 256},
    "large": {"channels": 32, "eval_every": 250},
    "large with long histories in order": {
        "length": 20, "user_dropout": 0.5, "label_smoothing": 0.0, "weight_decay": 0.1,
    },
    "large without order": {"circular": True, "channels": 8, "length": 1, "profile": 200},
}  # fmt: skip
