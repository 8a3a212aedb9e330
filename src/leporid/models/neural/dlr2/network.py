"""DLR2's settings and network: the Feature Network, the two heads, and the tables they read.

The input of the Feature Network is an image with one channel: row 0 the user's vector, then the
last l items, oldest first. Of the heads, S scores an item and G says what the next item looks like.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from leporid.config import setting
from leporid.errors import ConfigError
from leporid.models.neural.layers import dropout
from leporid.models.neural.settings import TrainingConfig
from leporid.models.neural.tables import BuildContext

Architecture = Literal["resnet", "revnet", "only_conv", "no_conv"]
Branch = Literal["discriminative", "generative", "mixture"]
_TILE = 1024
"""Items scored at once for one user: their hidden layers stay in the processor's cache."""
_DEVICE_PAIRS = 1 << 19
"""Pairs scored at once on a GPU."""


@dataclass(frozen=True, kw_only=True)
class DLR2Config(TrainingConfig):
    """The defaults are the paper's recipe, with the margin that works."""

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
    new_users: Literal["auto", "blank", "placed"] = "auto"
    """The row of a new user: blank, as `user_dropout` trains it, or placed: the mean of similar
    fitted users. `auto` is blank where half of the examples or more were."""

    def validate(self) -> None:
        if self.relu_on_negatives and not self.last_relu:
            raise ConfigError(
                "relu_on_negatives=True needs last_relu=True: there is no ReLU to read"
            )
        if self.circular and self.padding != "blank":
            raise ConfigError(
                "circular=True needs padding='blank': a circle repeats no item"
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


def _conv(inputs: int, outputs: int, size: int, stride: int = 1) -> nn.Conv2d:
    conv = nn.Conv2d(inputs, outputs, size, stride, padding=size // 2, bias=False)
    nn.init.kaiming_normal_(conv.weight, mode="fan_out", nonlinearity="relu")
    return conv


class Stem(nn.Module):
    """1x1 convolution of one channel to many, ReLU, and the 3x3 convolution after it.

    Without a bias, relu(w x) is |w| relu(x) or |w| relu(-x): all channels are multiples of two,
    and the 3x3 convolution is computed on those, with its kernel summed accordingly.
    """

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.widen = _conv(1, channels, 1)
        self.conv = _conv(channels, channels, 3)

    def forward(self, image: Tensor) -> tuple[Tensor, Tensor]:
        """[B, rows, D] -> the widened image and its convolution, each [B, channels, rows, D]."""
        weight = self.widen.weight.flatten()
        signs = torch.stack([weight.relu(), (-weight).relu()], dim=1)
        with torch.autocast(image.device.type, enabled=False):
            kernel = torch.einsum("ochw,cs->oshw", self.conv.weight, signs)
        # Channels come last in memory, which is the layout convolutions are fastest in.
        both = torch.stack([image.relu(), (-image).relu()], dim=-1)
        wide, both = (both @ signs.T).permute(0, 3, 1, 2), both.permute(0, 3, 1, 2)
        return wide, functional.conv2d(both, kernel, padding=1)


class ResNet(nn.Module):
    """Two residual blocks; without their shortcuts it is the paper's only-conv."""

    def __init__(self, shortcuts: bool, channels: int = 64) -> None:
        super().__init__()
        self.shortcuts, wide = shortcuts, 2 * channels
        self.stem = Stem(channels)
        self.conv1 = _conv(channels, channels, 3)
        self.conv2 = _conv(channels, wide, 3, stride=2)
        self.conv3 = _conv(wide, wide, 3)
        if shortcuts:
            self.down = nn.Sequential(_conv(channels, wide, 1), nn.BatchNorm2d(wide))

    def forward(self, image: Tensor) -> Tensor:
        """[B, rows, D] -> [B, 2 * channels, ceil(rows / 2), ceil(D / 2)]."""
        x, hidden = self.stem(image)
        hidden = self.conv1(hidden.relu())
        x = (hidden + x).relu() if self.shortcuts else hidden.relu()
        hidden = self.conv3(self.conv2(x).relu())
        if self.shortcuts:
            # The stride is taken here: oneDNN's gradient of a strided 1x1 convolution writes beyond
            # its memory with fewer than eight channels in this layout and one thread (torch 2.13).
            # A slice would do, but its gradient has another layout, which slows all before it.
            hidden = hidden + self.down(functional.avg_pool2d(x, 1, stride=2))
        return cast(Tensor, hidden.relu())


class ReversibleBlock(nn.Module):
    """y1 = x1 + F(x2), y2 = x2 + G(y1), on the two halves of the channels."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        half = channels // 2
        self.f = nn.Sequential(
            _conv(half, half, 3), nn.ReLU(), _conv(half, half, 3), nn.ReLU()
        )
        self.g = nn.Sequential(
            _conv(half, half, 3), nn.ReLU(), _conv(half, half, 3), nn.ReLU()
        )

    def forward(self, x: Tensor) -> Tensor:
        """[B, channels, H, W] -> the same shape."""
        x1, x2 = x.chunk(2, dim=1)
        y1 = x1 + self.f(x2)
        return torch.cat([y1, x2 + self.g(y1)], dim=1)


class RevNet(nn.Module):
    """Two reversible blocks with a strided convolution between them."""

    def __init__(self, channels: int = 64) -> None:
        super().__init__()
        self.widen = _conv(1, channels, 1)
        self.block1 = ReversibleBlock(channels)
        self.down = _conv(channels, 2 * channels, 3, stride=2)
        self.block2 = ReversibleBlock(2 * channels)

    def forward(self, image: Tensor) -> Tensor:
        """[B, rows, D] -> [B, 2 * channels, ceil(rows / 2), ceil(D / 2)]."""
        x = self.block1(self.widen(image.unsqueeze(1)).relu())
        return cast(Tensor, self.block2(self.down(x).relu()))


class NoConv(nn.Module):
    """Four fully connected layers of 256 on the flattened image."""

    def __init__(self, rows: int, dim: int) -> None:
        super().__init__()
        sizes = [rows * dim, 256, 256, 256, 256]
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(sizes))

    def forward(self, image: Tensor) -> Tensor:
        """[B, rows, D] -> [B, 256]."""
        x = image.flatten(1)
        for layer in self.layers:
            x = layer(x).relu()
        return x


class FeatureNetwork(nn.Module):
    """Image [B, rows, D] -> s [B, D]."""

    def __init__(
        self,
        architecture: Architecture,
        rows: int,
        dim: int,
        dropout: float,
        channels: int = 64,
    ) -> None:
        super().__init__()
        size = 2 * channels * -(-rows // 2) * -(-dim // 2)
        if architecture == "no_conv":
            self.body: nn.Module = NoConv(rows, dim)
            size = 256
        elif architecture == "revnet":
            self.body = RevNet(channels)
        else:
            self.body = ResNet(architecture == "resnet", channels)
        self.body.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.dropout = dropout
        self.output = nn.Linear(size, dim)

    def forward(self, image: Tensor) -> Tensor:
        """s, what S and G read."""
        features = dropout(self.body(image).flatten(1), self.dropout, self.training)
        return cast(Tensor, self.output(features))


def generative(dim: int) -> nn.Sequential:
    """G: s -> 256 -> 256 -> 128 -> D."""
    first, second, third = nn.Linear(dim, 256), nn.Linear(256, 256), nn.Linear(256, 128)
    relu = nn.ReLU
    return nn.Sequential(
        first, relu(), second, relu(), third, relu(), nn.Linear(128, dim)
    )


class Discriminative(nn.Module):
    """S: [s; e_j] -> 256 -> 256 -> 128 -> 1, given before its last ReLU.

    The first layer is a sum of a user half and an item half, each computed once.
    """

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dim = dim
        self.first = nn.Linear(2 * dim, 256)
        self.second = nn.Linear(256, 256)
        self.third = nn.Linear(256, 128)
        self.last = nn.Linear(128, 1)

    def user_half(self, s: Tensor) -> Tensor:
        """[..., D or more] -> [..., 256]: what follows the first D belongs to G."""
        return functional.linear(s[..., : self.dim], self.first.weight[:, : self.dim])

    def item_half(self, items: Tensor) -> Tensor:
        """[..., D] -> [..., 256], with the layer's bias."""
        return functional.linear(
            items, self.first.weight[:, self.dim :], self.first.bias
        )

    def forward(self, s: Tensor, items: Tensor) -> Tensor:
        """S of some items each: s [B, D], items [B, k, D] -> [B, k]."""
        return self.some_items(s, self.item_half(items))

    def some_items(self, s: Tensor, halves: Tensor) -> Tensor:
        """`forward` on item halves that are known already: [B, k, 256] -> [B, k]."""
        return self._after((self.user_half(s).unsqueeze(1) + halves).relu())

    def _after(self, hidden: Tensor) -> Tensor:
        return cast(
            Tensor, self.last(self.third(self.second(hidden).relu()).relu()).squeeze(-1)
        )

    def all_items(self, s: Tensor, items: Tensor) -> Tensor:
        """S of every item for every user: s [m, D], item halves [n, 256] -> [m, n]."""
        users = self.user_half(s)
        if s.is_cuda:
            step = max(1, _DEVICE_PAIRS // len(items))
            parts = [
                self._after((u.unsqueeze(1) + items).relu())
                for u in torch.split(users, step)
            ]
            return torch.cat(parts) if parts else users.new_empty((0, len(items)))
        return self._tiles(users, items)

    def _tiles(self, users: Tensor, items: Tensor) -> Tensor:
        """`all_items` on a CPU: buffers are reused, biases and ReLUs applied in place."""
        second, third = (
            self.second.weight.T.contiguous(),
            self.third.weight.T.contiguous(),
        )
        last, shift = self.last.weight[0], self.last.bias
        out = users.new_empty((len(users), len(items)))
        buffers = [users.new_empty((_TILE, width)) for width in (256, 256, 128)]
        for row, user in zip(out, users, strict=True):
            for first in range(0, len(items), _TILE):
                tile = items[first : first + _TILE]
                a, b, c = (buffer[: len(tile)] for buffer in buffers)
                torch.add(tile, user, out=a).relu_()
                torch.addmm(self.second.bias, a, second, out=b).relu_()
                torch.addmm(self.third.bias, b, third, out=c).relu_()
                torch.addmv(
                    shift.expand(len(tile)), c, last, out=row[first : first + len(tile)]
                )
        return out


class DLR2Network(nn.Module):
    """Tables, Feature Network and both heads."""

    def __init__(self, context: BuildContext, config: DLR2Config) -> None:
        super().__init__()
        self.config = config
        self.users, self.items = context.user_table(), context.item_table()
        self.kept_size: Tensor | None = None
        rows = 1 + bool(config.profile) + config.length
        self.features = FeatureNetwork(
            config.architecture,
            rows,
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
        # On "meta", a sketch, arithmetic would import torch's compiler.
        sketch = self.items.weight.is_meta
        if config.gain:
            self.gain = nn.Parameter(torch.ones(()) if sketch else 1 / self.item_size())
        if config.shortcut:
            # The newest item weighs most; the profile, where there is one, comes first.
            with torch.device("cpu"):
                weights = 0.5 ** torch.arange(config.length, 0.0, -1)
                profile = torch.full((rows - 1 - config.length,), 0.3)
                self.history_weights = nn.Parameter(
                    torch.cat([profile, weights / weights.sum()])
                )

    def item_size(self) -> Tensor:
        """The root mean square of the item table; outside training kept until weights change."""
        # A recorded step of a GPU would go on with a size that was kept.
        if self.kept_size is None or self.training:
            weight = self.items.weight.detach().float()
            self.kept_size = weight.square().mean().sqrt().clamp(min=1e-6)
        return self.kept_size

    def state(self, user_rows: Tensor, recent: Tensor) -> Tensor:
        """s: user_rows [B, D], recent int64[B, l] -> [B, D]; `shortcut` adds G's average."""
        known = (recent >= 0).unsqueeze(-1)
        rows = self.items(recent.clamp(min=0)) * known
        parts = [user_rows.unsqueeze(1), rows[:, -self.config.length :]]
        if self.config.profile:
            count = known.sum(dim=1, keepdim=True).clamp(min=1)
            parts.insert(1, rows.sum(dim=1, keepdim=True) / count.sqrt())
        image = torch.cat(parts, dim=1)
        if (
            self.training and self.config.user_dropout
        ):  # a share of the user rows is zero
            share = torch.zeros(image.shape[:2], device=image.device)
            share[:, 0] = self.config.user_dropout
            image = image * (torch.rand_like(share) >= share).unsqueeze(-1)
        image = dropout(image, self.config.image_dropout, self.training)
        s = self.features(image * self.gain if self.config.gain else image)
        if not self.config.shortcut:
            return cast(Tensor, s)
        average = (image[:, 1:] * self.history_weights.unsqueeze(1)).sum(dim=1)
        return torch.cat([s, average / self.item_size()], dim=1)

    def target(self, s: Tensor) -> Tensor:
        """G(s): the vector of the next item; tanh belongs to the margin objective."""
        dim = self.config.dim
        g: Tensor = self.generative(s[:, :dim])
        if self.config.shortcut:
            g = g + s[:, dim:]
        return g.tanh() if self.config.objective == "margin" else g

    def generative_scores(self, g: Tensor) -> Tensor:
        """[B, D] -> [B, n_items], without gradients: minus the distance that ranks, or logits."""
        items = self.items.weight
        if self.config.objective == "softmax":
            return (
                (g @ items.T).float().mul_(self.log_temperature.exp()).add_(self.bias)
            )
        if self.config.ranking_distance == "absolute":
            return -torch.cdist(g.float(), items.float(), p=1) / g.shape[1]
        squares = (items * items).mean(dim=1) + (g * g).mean(dim=1, keepdim=True)
        return 2 / g.shape[1] * (g @ items.T) - squares
