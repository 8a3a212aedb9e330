"""Matrix factorisation with the BPR criterion.

Rendle, Freudenthaler, Gantner, Schmidt-Thieme: BPR: Bayesian Personalized Ranking from Implicit
Feedback. UAI 2009.

    x_ui = <w_u, h_i>                                              (Section 4.3.1)
    loss = -ln sigmoid(x_ui - x_uj) + lambda / 2 (|w_u|^2 + |h_i|^2 + |h_j|^2)     (BPR-OPT)

for an item i the user has and an item j the user has not, drawn uniformly.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor, nn

from leporid.data.interactions import Sequences
from leporid.errors import ConfigError
from leporid.models.shared.neural import BuildContext, NeuralRecommender
from leporid.models.shared.new_users import NewUserRows
from leporid.models.shared.ranking_loss import table_bpr_loss
from leporid.space import Choice, Float, SearchSpace
from leporid.training.config import TrainingConfig
from leporid.training.sampler import Batch, Sampling

__all__ = ["BPR", "BPRConfig"]


@dataclass(frozen=True, kw_only=True)
class BPRConfig(TrainingConfig):
    """Settings of BPR."""

    batch_size: int = 2048
    steps: int = 3000
    lr: float = 3e-3
    regularization: float = 0.01
    """lambda, on the vectors of the batch."""
    negatives: int = 1
    """Items j for every (u, i)."""

    def validate(self) -> None:
        """Refuse values outside their range."""
        super().validate()
        if self.regularization < 0:
            raise ConfigError(f"regularization must not be negative, it is {self.regularization}")
        if self.negatives < 1:
            raise ConfigError(f"negatives must be at least 1, not {self.negatives}")


class BPRNetwork(nn.Module):
    """Two tables and their dot product."""

    def __init__(self, users: nn.Embedding, items: nn.Embedding) -> None:
        super().__init__()
        self.users, self.items = users, items


class BPR(NeuralRecommender):
    """Matrix factorisation trained to rank."""

    name = "bpr"
    config_class = BPRConfig
    config: BPRConfig
    default_init_scale: ClassVar[float] = 0.1
    recordable: ClassVar[bool] = True
    recipes: ClassVar[dict[str, dict[str, Any]]] = {
        "paper": {},
        "tuned": {
            "batch_size": 8192,
            "steps": 3000,
            "lr": 0.005,
            "regularization": 0.02,
        },
    }
    search_space: ClassVar[SearchSpace] = {
        "lr": Float(1e-4, 1e-2, log=True),
        "regularization": Float(1e-4, 1e-1, log=True),
        "init_scale": Choice(0.01, 0.03, 0.1, 0.3),
    }

    def build(self, context: BuildContext) -> nn.Module:
        """User and item vectors, nothing else."""
        return BPRNetwork(context.user_table(), context.item_table())

    def sampling(self) -> Sampling:
        """(u, i) with items the user has not."""
        return Sampling("pairs", negatives=self.config.negatives)

    def loss(self, batch: Batch) -> Tensor:
        """BPR-OPT on the batch."""
        net: Any = self.net
        return table_bpr_loss(
            net.users.weight,
            net.items.weight,
            batch.users,
            batch.positives,
            batch.negatives,
            self.config.regularization,
        )

    def prepare(self) -> NewUserRows:
        """Places new people in the user table."""
        net: Any = self.net
        return NewUserRows(self.train, net.users.weight)

    def scores(self, users: Tensor, recent: Tensor | None) -> Tensor:
        """x_ui for every item."""
        net: Any = self.net
        result: Tensor = net.users(users) @ net.items.weight.T
        return result

    def history_scores(self, recent: Tensor | None, histories: Sequences) -> Tensor:
        """A new user's row is extended from the rows of similar users."""
        net: Any = self.net
        result: Tensor = self.prepared()(histories) @ net.items.weight.T
        return result
