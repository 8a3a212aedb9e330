"""The paper's figures, drawn with matplotlib (the extra 'plots')."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import Any

from leporid.errors import MissingExtraError
from leporid.paper.simulations import EmbeddingChange, LeDimensions


def _figure(width: float, height: float, columns: int = 1) -> tuple[Any, Any]:
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtraError("drawing figures", "plots") from None
    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots(1, columns)


def to_svg(figure: Any) -> str:
    """The figure as an SVG element that can stand inside an HTML page."""
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None})
    return "<svg" + buffer.getvalue().partition("<svg")[2]


def draw_le_dimensions(result: LeDimensions) -> Any:
    """Figure 1: one panel per dimension; bars up (red) and down (blue) on every node."""
    dimensions = result.values.shape[1]
    figure, axes = _figure(3.2 * dimensions, 2.8, dimensions)
    for dimension, axis in enumerate(axes):
        for a, b in result.edges:
            axis.plot(*result.positions[[a, b]].T, color="0.8", linewidth=0.6, zorder=1)
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
    figure, axis = _figure(5, 3.4)
    axis.semilogy(result.degree, result.change, marker="o", markersize=3, linewidth=1)
    axis.set(xlabel="degree before the insertion", ylabel="change of the node's embedding")
    axis.grid(visible=True, alpha=0.3)
    return figure


def draw_sensitivity(
    name: str, points: Sequence[tuple[float, Mapping[str, float]]], metrics: Sequence[str]
) -> Any:
    """Figures 4b and 4c: metrics against alpha or K, one panel per metric."""
    figure, axes = _figure(3.6 * len(metrics), 3.0, len(metrics))
    for metric, axis in zip(metrics, [axes] if len(metrics) == 1 else axes, strict=True):
        ordered = sorted(points, key=lambda point: point[0])
        axis.plot([p for p, _ in ordered], [m[metric] for _, m in ordered], marker="o")
        axis.set(xlabel=name, ylabel=metric)
        axis.grid(visible=True, alpha=0.3)
    return figure


def draw_bars(
    labels: Sequence[str],
    values: Sequence[float],
    intervals: Sequence[tuple[float, float] | None],
    name: str,
) -> Any:
    """Horizontal bars with confidence intervals."""
    figure, axis = _figure(6.4, 0.5 + 0.3 * len(labels))
    places = list(range(len(labels)))
    axis.barh(places, values, color="tab:blue", alpha=0.75)
    for place, value, interval in zip(places, values, intervals, strict=True):
        if interval is not None:
            axis.plot(interval, [place, place], color="black", linewidth=1.2)
            axis.plot([value], [place], marker="|", color="black")
    axis.set_yticks(places, labels)
    axis.invert_yaxis()
    axis.set_xlabel(name)
    axis.grid(visible=True, axis="x", alpha=0.3)
    return figure
