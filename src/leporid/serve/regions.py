"""What a cluster of items is called: the genres, decades and title words it has more of."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

_WORDS = 2
_SHARE = 0.1
"""Of a cluster's items must have a term before it names the cluster."""
_YEAR = re.compile(r"\((\d{3})\d\)\s*$")
_WORD = re.compile(r"[^\W\d_]{4,}")


def name_clusters(
    cluster: NDArray[np.int32], titles: Sequence[str], genres: Sequence[tuple[str, ...]]
) -> tuple[str, ...]:
    """A name for each number in `cluster`, all different.

    A term counts by its share among the cluster's items times the logarithm of how much larger
    that is than its share among all (its part of the Kullback-Leibler divergence).
    """
    terms = [set(_terms(title, own)) for title, own in zip(titles, genres, strict=True)]
    everywhere = Counter(term for own in terms for term in own)
    names: list[str] = []
    for number in range(int(cluster.max(initial=-1)) + 1):
        members = np.flatnonzero(cluster == number)
        inside = Counter(term for i in members for term in terms[i])
        weight = {
            term: count / len(members) * math.log(count * len(terms) / len(members) / total)
            for term, count in inside.items()
            if count >= max(2, _SHARE * len(members))
            for total in [everywhere[term]]
        }
        best = sorted((t for t in weight if weight[t] > 1e-9), key=lambda t: (-weight[t], t))
        shown = min(_WORDS, len(best))
        while ", ".join(best[:shown]) in names and shown < len(best):
            shown += 1
        name = ", ".join(best[:shown])
        names.append(f"cluster {number + 1}" if not name or name in names else name)
    return tuple(names)


def _terms(title: str, genres: tuple[str, ...]) -> Iterator[str]:
    yield from genres
    if year := _YEAR.search(title):
        yield f"{year[1]}0s"
    yield from _WORD.findall(title)
