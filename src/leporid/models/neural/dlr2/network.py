"""`DLR2Network`: the tables, the Feature Network and the two heads."""

import torch
from torch import Tensor, nn

from leporid.models.neural.dlr2.config import DLR2Config
from leporid.models.neural.dlr2.feature_network import FeatureNetwork
from leporid.models.neural.dlr2.heads import Discriminative, generative
from leporid.models.neural.layers import dropout
from leporid.models.neural.tables import BuildContext


class DLR2Network(nn.Module):
    """Tables, Feature Network and both heads."""

    def __init__(self, context: BuildContext, config: DLR2Config) -> None:
        super().__init__()
        self.config = config
        self.users = context.user_table()
        self.items = context.item_table()
        self.kept_size: Tensor | None = None
        self.features = FeatureNetwork(
            config.architecture,
            1 + bool(config.profile_items) + config.max_history,
            config.dim,
            config.feature_dropout,
            config.channels,
        )
        self.discriminative = Discriminative(config.dim)
        self.generative = generative(config.dim)
        if config.objective == "margin" and config.last_relu:
            # Small vectors give every pair nearly the same S; were it negative, the last ReLU
            # would be dead at once. Half the margin is the best constant distance.
            nn.init.constant_(self.discriminative.last.bias, config.margin / 2)
        if config.objective == "softmax":
            self.log_temperature = nn.Parameter(torch.tensor(0.0))
            bias = torch.zeros(context.train.n_items)
            self.bias = nn.Parameter(bias, requires_grad=config.item_bias)
        # On "meta", where only shapes count, arithmetic would import torch's compiler.
        shapes_only = self.items.weight.is_meta
        if config.learn_input_scale:
            input_scale = torch.ones(()) if shapes_only else 1 / self.item_size()
            self.input_scale = nn.Parameter(input_scale)
        if config.shortcut:
            self.history_weights = nn.Parameter(_first_history_weights(config))

    def item_size(self) -> Tensor:
        """Return the root mean square of the item table.

        Outside training it is kept until weights change.
        """
        # A recorded step of a GPU would go on with a size that was kept.
        if self.kept_size is None or self.training:
            weight = self.items.weight.detach().float()
            size = weight.square().mean().sqrt()
            self.kept_size = size.clamp(min=1e-6)
        return self.kept_size

    def state(self, user_rows: Tensor, recent: Tensor) -> Tensor:
        """Return s, [B, D]; `shortcut` adds G's average.

        user_rows: [B, D]; recent: int64[B, l].
        """
        config = self.config
        image = self._drop_users(self._image(user_rows, recent))
        image = dropout(image, config.image_dropout, self.training)
        scaled = image * self.input_scale if config.learn_input_scale else image
        s: Tensor = self.features(scaled)
        if not config.shortcut:
            return s
        weighted = image[:, 1:] * self.history_weights.unsqueeze(1)
        average = weighted.sum(dim=1)
        return torch.cat([s, average / self.item_size()], dim=1)

    def _image(self, user_rows: Tensor, recent: Tensor) -> Tensor:
        """Return [B, rows, D]: the user, the profile if the settings ask for it, the last items."""
        is_item = (recent >= 0).unsqueeze(-1)
        rows = self.items(recent.clamp(min=0)) * is_item
        parts = [user_rows.unsqueeze(1)]
        if self.config.profile_items:
            count = is_item.sum(dim=1, keepdim=True).clamp(min=1)
            total = rows.sum(dim=1, keepdim=True)
            parts.append(total / count.sqrt())
        parts.append(rows[:, -self.config.max_history :])
        return torch.cat(parts, dim=1)

    def _drop_users(self, image: Tensor) -> Tensor:
        """Set the user row of a share of the examples to zero in training."""
        if not self.training or not self.config.user_dropout:
            return image
        share = torch.zeros(image.shape[:2], device=image.device)
        share[:, 0] = self.config.user_dropout
        return image * (torch.rand_like(share) >= share).unsqueeze(-1)

    def target(self, s: Tensor) -> Tensor:
        """Return G(s), the vector of the next item; tanh belongs to the margin objective."""
        dim = self.config.dim
        g: Tensor = self.generative(s[:, :dim])
        if self.config.shortcut:
            g = g + s[:, dim:]
        return g.tanh() if self.config.objective == "margin" else g

    def generative_scores(self, g: Tensor) -> Tensor:
        """Return [B, n_items], without gradients: minus the distance that ranks, or logits.

        g: [B, D].
        """
        items = self.items.weight
        if self.config.objective == "softmax":
            scores = (g @ items.T).float()
            return scores.mul_(self.log_temperature.exp()).add_(self.bias)
        if self.config.ranking_distance == "absolute":
            distance = torch.cdist(g.float(), items.float(), p=1)
            return -distance / g.shape[1]
        item_squares = (items * items).mean(dim=1)
        squares = item_squares + (g * g).mean(dim=1, keepdim=True)
        return 2 / g.shape[1] * (g @ items.T) - squares


def _first_history_weights(config: DLR2Config) -> Tensor:
    """Return the weights of G's average before training, float32[rows without the user's].

    The newest item weighs most; the profile, if there is one, comes first.
    """
    with torch.device("cpu"):
        weights = 0.5 ** torch.arange(config.max_history, 0.0, -1)
        profile = torch.full((int(config.profile_items > 0),), 0.3)
        return torch.cat([profile, weights / weights.sum()])
