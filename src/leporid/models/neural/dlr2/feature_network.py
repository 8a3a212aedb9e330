"""The Feature Network of DLR2 in its four designs.

Its input is an image with one channel: row 0 the user's vector, then the last l items, oldest
first. Its output is the state s.
"""

from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional

from leporid.models.neural.dlr2.config import Architecture
from leporid.models.neural.layers import dropout


def _conv(
    inputs: int,
    outputs: int,
    size: int,
    stride: int = 1,
) -> nn.Conv2d:
    conv = nn.Conv2d(
        inputs,
        outputs,
        size,
        stride,
        padding=size // 2,
        bias=False,
    )
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
        """Return the widened image and its convolution, each [B, channels, rows, D].

        image: [B, rows, D].
        """
        weight = self.widen.weight.flatten()
        signs = _positive_and_negative(weight)
        with torch.autocast(image.device.type, enabled=False):
            kernel = torch.einsum("ochw,cs->oshw", self.conv.weight, signs)
        # Channels come last in memory, which is the layout convolutions are fastest in.
        halves = _positive_and_negative(image)
        widened = (halves @ signs.T).permute(0, 3, 1, 2)
        hidden = functional.conv2d(halves.permute(0, 3, 1, 2), kernel, padding=1)
        return widened, hidden


def _positive_and_negative(x: Tensor) -> Tensor:
    """Return [..., 2], the positive part and the size of the negative part of every entry."""
    return torch.stack([x.relu(), (-x).relu()], dim=-1)


class ResNet(nn.Module):
    """Two residual blocks; without their shortcuts it is the paper's only-conv."""

    def __init__(self, shortcuts: bool, channels: int = 64) -> None:
        super().__init__()
        doubled = 2 * channels
        self.shortcuts = shortcuts
        self.stem = Stem(channels)
        self.conv1 = _conv(channels, channels, 3)
        self.conv2 = _conv(
            channels,
            doubled,
            3,
            stride=2,
        )
        self.conv3 = _conv(doubled, doubled, 3)
        if shortcuts:
            self.down = nn.Sequential(
                _conv(channels, doubled, 1),
                nn.BatchNorm2d(doubled),
            )

    def forward(self, image: Tensor) -> Tensor:
        """Return [B, 2 * channels, ceil(rows / 2), ceil(D / 2)]; image: [B, rows, D]."""
        x, hidden = self.stem(image)
        hidden = self.conv1(hidden.relu())
        x = (hidden + x).relu() if self.shortcuts else hidden.relu()
        features: Tensor = self.conv3(self.conv2(x).relu())
        if self.shortcuts:
            # The stride is taken here: oneDNN's gradient of a strided 1x1 convolution writes beyond
            # its memory with fewer than eight channels in this layout and one thread (torch 2.13).
            # A slice would do, but its gradient has another layout, which slows all before it.
            features = features + self.down(functional.avg_pool2d(x, 1, stride=2))
        return features.relu()


class ReversibleBlock(nn.Module):
    """y1 = x1 + F(x2), y2 = x2 + G(y1), on the two halves of the channels."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        half = channels // 2
        self.f = _two_convolutions(half)
        self.g = _two_convolutions(half)

    def forward(self, x: Tensor) -> Tensor:
        """Return [B, channels, H, W], as x."""
        x1, x2 = x.chunk(2, dim=1)
        y1 = x1 + self.f(x2)
        return torch.cat([y1, x2 + self.g(y1)], dim=1)


def _two_convolutions(channels: int) -> nn.Sequential:
    return nn.Sequential(
        _conv(channels, channels, 3),
        nn.ReLU(),
        _conv(channels, channels, 3),
        nn.ReLU(),
    )


class RevNet(nn.Module):
    """Two reversible blocks with a strided convolution between them."""

    def __init__(self, channels: int = 64) -> None:
        super().__init__()
        self.widen = _conv(1, channels, 1)
        self.block1 = ReversibleBlock(channels)
        self.down = _conv(
            channels,
            2 * channels,
            3,
            stride=2,
        )
        self.block2 = ReversibleBlock(2 * channels)

    def forward(self, image: Tensor) -> Tensor:
        """Return [B, 2 * channels, ceil(rows / 2), ceil(D / 2)]; image: [B, rows, D]."""
        widened = self.widen(image.unsqueeze(1)).relu()
        x = self.block1(widened)
        features: Tensor = self.block2(self.down(x).relu())
        return features


class NoConv(nn.Module):
    """Four fully connected layers of 256 on the flattened image."""

    def __init__(self, rows: int, dim: int) -> None:
        super().__init__()
        sizes = [rows * dim, 256, 256, 256, 256]
        self.layers = nn.ModuleList(
            nn.Linear(before, after) for before, after in pairwise(sizes)
        )

    def forward(self, image: Tensor) -> Tensor:
        """Return [B, 256]; image: [B, rows, D]."""
        x = image.flatten(1)
        for layer in self.layers:
            x = layer(x).relu()
        return x


class FeatureNetwork(nn.Module):
    """Maps an image [B, rows, D] to the state s [B, D]."""

    def __init__(
        self,
        architecture: Architecture,
        rows: int,
        dim: int,
        dropout: float,
        channels: int = 64,
    ) -> None:
        super().__init__()
        if architecture == "no_conv":
            self.body: nn.Module = NoConv(rows, dim)
            n_features = 256
        else:
            if architecture == "revnet":
                self.body = RevNet(channels)
            else:
                self.body = ResNet(architecture == "resnet", channels)
            n_features = 2 * channels * -(-rows // 2) * -(-dim // 2)
        self.body.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.dropout = dropout
        self.output = nn.Linear(n_features, dim)

    def forward(self, image: Tensor) -> Tensor:
        """Return s, what S and G read."""
        features = self.body(image).flatten(1)
        features = dropout(features, self.dropout, self.training)
        s: Tensor = self.output(features)
        return s
