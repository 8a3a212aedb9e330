"""The Feature Network of DLR2: (user, last items) in, one state vector out.

The input is an image with one channel: row 0 the user's vector, then the last l items, oldest
first. Four designs, as in the paper's appendix.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Literal, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from leporid.models.shared.masks import dropout as masked

Architecture = Literal["resnet", "revnet", "only_conv", "no_conv"]


def _conv(inputs: int, outputs: int, size: int, stride: int = 1) -> nn.Conv2d:
    conv = nn.Conv2d(inputs, outputs, size, stride, padding=size // 2, bias=False)
    nn.init.kaiming_normal_(conv.weight, mode="fan_out", nonlinearity="relu")
    return conv


class Stem(nn.Module):
    """1x1 convolution of one channel to many, ReLU, and the 3x3 convolution after it.

    Without a bias, relu(w x) is |w| relu(x) or |w| relu(-x), by the sign of w: all channels are
    multiples of two. The 3x3 convolution over them is computed on those two, with its kernel
    summed accordingly: the same function with a thirty-second of the work.
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
        both = torch.stack([image.relu(), (-image).relu()], dim=-1).permute(0, 3, 1, 2)
        wide = (image.unsqueeze(-1) * weight).relu().permute(0, 3, 1, 2)
        hidden = functional.conv2d(both, kernel, padding=1)
        return wide.to(hidden.dtype), hidden


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
            hidden = hidden + self.down(x[..., ::2, ::2])
        return cast(Tensor, hidden.relu())


class ReversibleBlock(nn.Module):
    """y1 = x1 + F(x2), y2 = x2 + G(y1), on the two halves of the channels."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        half = channels // 2
        self.f = nn.Sequential(_conv(half, half, 3), nn.ReLU(), _conv(half, half, 3), nn.ReLU())
        self.g = nn.Sequential(_conv(half, half, 3), nn.ReLU(), _conv(half, half, 3), nn.ReLU())

    def forward(self, x: Tensor) -> Tensor:
        """[B, channels, H, W] -> the same shape."""
        x1, x2 = x.chunk(2, dim=1)
        y1 = x1 + self.f(x2)
        return torch.cat([y1, x2 + self.g(y1)], dim=1)

    def inverse(self, y: Tensor) -> Tensor:
        """The input that gave `y`."""
        y1, y2 = y.chunk(2, dim=1)
        x2 = y2 - self.g(y1)
        return torch.cat([y1 - self.f(x2), x2], dim=1)


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
        self, architecture: Architecture, rows: int, dim: int, dropout: float, channels: int = 64
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
        features = masked(self.body(image).flatten(1), self.dropout, self.training)
        return cast(Tensor, self.output(features))
