"""Matrix factorisation with the BPR criterion.

Rendle, Freudenthaler, Gantner, Schmidt-Thieme: BPR: Bayesian Personalized Ranking from Implicit
Feedback. UAI 2009.

    x_ui = <w_u, h_i>                                              (Section 4.3.1)
    loss = -ln sigmoid(x_ui - x_uj) + lambda / 2 (|w_u|^2 + |h_i|^2 + |h_j|^2)     (BPR-OPT)

for an item i the user has and an item j the user has not, drawn uniformly.
"""

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor, nn

from leporid.foundation import Float, OneOf, SearchSpace, setting
from leporid.models.neural.base import NeuralRecommender
from leporid.models.neural.bpr_loss import table_bpr_loss
from leporid.models.neural.sampler import Batch, Sampling
from leporid.models.neural.settings import Recipes, TrainingConfig
from leporid.models.neural.tables import BuildContext
from leporid.models.registry import GENERAL


@dataclass(frozen=True, kw_only=True)
class BPRConfig(TrainingConfig):
    batch_size: int = setting(2048, at_least=1)
    steps: int = setting(3000, at_least=1)
    lr: float = setting(3e-3, above=0)
    regularization: float = setting(0.01, at_least=0)
    """lambda, on the vectors of the batch."""
    negatives: int = setting(1, at_least=1)
    """Items j for every (u, i)."""


class BPRNetwork(nn.Module):
    """A table of users and a table of items."""

    def __init__(self, context: BuildContext, config: BPRConfig) -> None:
        super().__init__()
        self.users = context.user_table()
        self.items = context.item_table()


class BPR(NeuralRecommender):
    """Matrix factorisation trained to rank."""

    name = "bpr"
    config_class = BPRConfig
    config: BPRConfig
    network_class = BPRNetwork
    net: BPRNetwork
    supports_cuda_graph = True
    recipes: ClassVar[Recipes] = {
        "general": GENERAL,
        "paper": {"metric": "F1@10"},
        "tuned": {
            "batch_size": 8192,
            "steps": 3000,
            "lr": 0.005,
            "regularization": 0.02,
            "init_scale": 0.1,
            "metric": "F1@10",
        },
    }
    general_by_kind: ClassVar[Recipes] = {
        "short histories": {"regularization": 0.03},
    }
    search_space: ClassVar[SearchSpace] = {
        "lr": Float(1e-4, 1e-2, log=True),
        "regularization": Float(1e-4, 1e-1, log=True),
        "init_scale": OneOf(0.01, 0.03, 0.1, 0.3),
    }

    def sampling(self) -> Sampling:
        return Sampling("pairs", negatives=self.config.negatives)

    def loss(self, batch: Batch) -> Tensor:
        return table_bpr_loss(
            self.net.users.weight,
            self.net.items.weight,
            batch.users,
            batch.positives,
            batch.negatives,
            penalty=self.config.regularization,
        )

    def encode(self, rows: Tensor | None, recent: Tensor | None) -> Tensor:
        assert rows is not None
        return rows

    def item_outputs(self) -> Tensor:
        return self.net.items.weight
