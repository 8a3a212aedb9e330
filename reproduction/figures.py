"""The paper's figures, drawn with matplotlib (the extra 'plots')."""

from __future__ import annotations

import html
import io
from collections.abc import Mapping, Sequence
from typing import Any

from leporid.errors import import_extra
from reproduction.simulations import EmbeddingChange, LeDimensions


def new_figure(width: float, height: float, columns: int = 1) -> tuple[Any, Any]:
    """A matplotlib figure of that size in inches, and its axes (an array of several)."""
    drawing = import_extra("matplotlib.figure", "drawing figures", "plots")
    figure = drawing.Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots(1, columns)


def draw_bars(
    labels: Sequence[str],
    values: Sequence[float],
    intervals: Sequence[tuple[float, float] | None],
    name: str,
) -> Any:
    """Horizontal bars with confidence intervals."""
    figure, axis = new_figure(6.4, 0.5 + 0.3 * len(labels))
    axis.barh(range(len(labels)), values, color="tab:blue", alpha=0.75)
    for row, interval in enumerate(intervals):
        if interval is not None:
            axis.plot(interval, [row, row], color="black", linewidth=1.2)
            axis.plot([values[row]], [row], marker="|", color="black")
    axis.set_yticks(range(len(labels)), labels)
    axis.set_ylim(len(labels) - 0.4, -0.6)
    axis.set_xlabel(name)
    axis.grid(visible=True, axis="x", alpha=0.3)
    return figure


def to_svg(figure: Any) -> str:
    """The figure as an `<svg>` element in the colour of the text; equal figures give equal text."""
    import matplotlib as mpl

    buffer = io.StringIO()
    with mpl.rc_context({"svg.hashsalt": "leporid"}):
        figure.savefig(buffer, format="svg", metadata={"Date": None}, transparent=True)
    text = buffer.getvalue().replace("#000000", "currentColor")
    # Black letters have no colour of their own: they inherit this one.
    return '<svg fill="currentColor"' + text[text.index("<svg") + len("<svg") :]


def figure_html(figure: Any, caption: str) -> str:
    """A matplotlib figure inside the page, with its caption."""
    return f"<figure>{to_svg(figure)}<figcaption>{html.escape(caption)}</figcaption></figure>"


def draw_le_dimensions(result: LeDimensions) -> Any:
    """Figure 1: one panel per dimension; bars up (red) and down (blue) on every node."""
    dimensions = result.values.shape[1]
    figure, axes = new_figure(3.2 * dimensions, 2.8, dimensions)
    for dimension, axis in enumerate(axes):
        for a, b in result.edges:
            axis.plot(*result.positions[[a, b]].T, color="0.6", linewidth=0.6, zorder=1)
        values = result.values[:, dimension]
        height = values / abs(values).max() * 0.9
        for (x, y), bar in zip(result.positions, height, strict=True):
            colour = "tab:red" if bar >= 0 else "tab:blue"
            axis.plot([x, x], [y, y + bar], color=colour, linewidth=2.2, zorder=2)
        axis.set_title(f"dimension {dimension + 1}")
        axis.set_axis_off()
    return figure


def draw_embedding_change(result: EmbeddingChange) -> Any:
    """Figure 2: change of the embedding against the degree before the insertion, log scale."""
    figure, axis = new_figure(5, 3.4)
    axis.semilogy(result.degree, result.change, marker="o", markersize=3, linewidth=1)
    axis.set(xlabel="degree before the insertion", ylabel="change of the node's embedding")
    axis.grid(visible=True, alpha=0.3)
    return figure


def draw_sensitivity(
    name: str, points: Sequence[tuple[float, Mapping[str, float]]], metrics: Sequence[str]
) -> Any:
    """Figures 4b and 4c: metrics against alpha or K, one panel per metric."""
    figure, axes = new_figure(3.6 * len(metrics), 3.0, len(metrics))
    for metric, axis in zip(metrics, axes, strict=True):
        axis.plot([p for p, _ in points], [m[metric] for _, m in points], marker="o")
        axis.set(xlabel=name, ylabel=metric)
        axis.grid(visible=True, alpha=0.3)
    return figure
