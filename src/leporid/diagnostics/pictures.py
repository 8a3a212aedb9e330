"""The diagnostics as pictures (matplotlib, from the extra `plots`)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leporid.diagnostics.measures import Movement, SideSummary
from leporid.html import new_figure, to_svg

_MOST_POINTS = 20_000
"""A map shows at most this many rows, evenly taken: more would be one blot."""


def _axes(title: str) -> tuple[Any, Any]:
    figure, axes = new_figure(5.2, 3.6)
    axes.set_title(title, fontsize=11)
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


def draw_spectrum(summary: SideSummary, side: str) -> Any:
    """Eigenvalues or singular values, in order."""
    figure, axes = _axes(f"{side}: {summary.spectrum_name}")
    axes.plot(np.arange(1, len(summary.spectrum) + 1), summary.spectrum, ".-", markersize=4)
    axes.set(xlabel="column", ylim=(min(0.0, float(summary.spectrum.min(initial=0.0))), None))
    return figure


def draw_norms(vectors: NDArray[np.float32], degrees: NDArray[Any], side: str) -> Any:
    """Length of each row against its number of interactions."""
    figure, axes = _axes(f"{side}: norm against degree")
    rows = _sample(len(vectors))
    lengths = np.linalg.norm(vectors[rows], axis=1)
    axes.scatter(np.maximum(degrees[rows], 0.5), lengths, s=3, alpha=0.35, linewidths=0)
    axes.set(xscale="log", xlabel="interactions", ylabel="norm")
    return figure


def draw_map(flat: NDArray[np.float32], degrees: NDArray[Any] | None, side: str) -> Any:
    """The 2-D map; colour is the logarithm of the degree where it is known."""
    figure, axes = _axes(f"{side}: map (two principal components)")
    rows = _sample(len(flat))
    colour = None if degrees is None else np.log10(np.maximum(degrees[rows], 1))
    points = axes.scatter(flat[rows, 0], flat[rows, 1], s=4, c=colour, alpha=0.5, linewidths=0)
    if colour is not None:
        figure.colorbar(points, ax=axes, label="log10 interactions")
    axes.set(xticks=[], yticks=[])
    return figure


def draw_movement(moved: Movement, side: str) -> Any:
    """Mean distance from the start by group, tail first."""
    figure, axes = _axes(f"{side}: distance from the start after training")
    axes.bar([g["group"] for g in moved.groups], [g["moved"] for g in moved.groups])
    axes.set_ylabel("mean distance / mean start norm")
    axes.tick_params(axis="x", labelsize=7)
    return figure


def save_picture(figure: Any, folder: Path, name: str) -> None:
    """Write `name.png` and `name.svg`."""
    figure.savefig(folder / f"{name}.png", dpi=150)
    (folder / f"{name}.svg").write_text(to_svg(figure), encoding="utf-8")


def _sample(n: int) -> NDArray[np.int64]:
    return np.linspace(0, n - 1, min(n, _MOST_POINTS)).astype(np.int64)
