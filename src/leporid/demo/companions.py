"""Twenty famous films, the films that obviously go with them, and which lists have those."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

FAMOUS = (
    ("Star Wars (1977)|Star Wars: Episode IV", "Empire Strikes Back", "Return of the Jedi"),
    ("Godfather, The (1972)", "Godfather: Part II,"),
    ("Raiders of the Lost Ark", "Indiana Jones and the Last Crusade"),
    ("Alien (1979)", "Aliens (1986)"),
    ("Terminator, The (1984)", "Terminator 2"),
    ("Die Hard (1988)", "Die Hard 2", "Die Hard: With a Vengeance"),
    ("Star Trek: The Wrath of Khan", "Star Trek III", "Star Trek IV"),
    ("Batman (1989)", "Batman Returns", "Batman Forever"),
    ("Scream (1996)", "Scream 2"),
    ("Jaws (1975)", "Jaws 2"),
    ("Wrong Trousers, The", "Close Shave, A", "Grand Day Out, A"),
    ("Three Colors: Red", "Three Colors: Blue", "Three Colors: White"),
    ("Ace Ventura: Pet Detective", "Ace Ventura: When Nature Calls"),
    ("Monty Python and the Holy Grail", "Monty Python's Life of Brian"),
    ("Beauty and the Beast (1991)", "Aladdin (1992)", "Lion King, The"),
    ("Jurassic Park (1993)", "Lost World: Jurassic Park"),
    ("Snow White and the Seven Dwarfs", "Cinderella (1950)", "Pinocchio (1940)"),
    ("Clerks (1994)", "Chasing Amy", "Mallrats"),
    ("Rear Window (1954)", "Vertigo (1958)", "North by Northwest"),
    ("Jean de Florette", "Manon of the Spring"),
)
"""A film somebody has seen, then its companions, each by a part of its title in MovieLens; `|`
stands between the spellings of two releases."""


def famous_histories(titles: Sequence[str]) -> list[tuple[int, list[int]]]:
    """The seen item and its companions, by index, of each history of which `titles` has both."""

    def having(film: str) -> list[int]:
        spellings = film.split("|")
        return [i for i, title in enumerate(titles) if any(s in title for s in spellings)]

    histories = []
    for seen, *companions in FAMOUS:
        wanted = [item for film in companions for item in having(film)[:1]]
        if (own := having(seen)) and wanted:
            histories.append((own[0], wanted))
    return histories


def nearest_items(
    vectors: NDArray[np.float32], items: Sequence[int], n: int = 10
) -> NDArray[np.int64]:
    """int64[len(items), n]: the other items with the largest cosine."""
    directions = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    cosine = directions[items] @ directions.T
    cosine[np.arange(len(items)), items] = -np.inf
    return np.argsort(-cosine, axis=1, kind="stable")[:, :n]


def companion_table(
    histories: Sequence[tuple[int, Sequence[int]]],
    lists: Mapping[str, NDArray[Any]],
    titles: Sequence[str],
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Recall per kind of list, and per history how many of its companions each list has.

    `lists` has a row of item indices per history under each name.
    """
    found = {
        name: [len({*wanted} & {*row}) for (_, wanted), row in zip(histories, rows, strict=True)]
        for name, rows in ((name, items.tolist()) for name, items in lists.items())
    }
    sizes = [len(wanted) for _, wanted in histories]
    recall = [
        {
            "list": name,
            "recall@10": float(np.mean(np.divide(counts, sizes))),
            "histories with a companion": sum(map(bool, counts)),
            "with all": sum(count == size for count, size in zip(counts, sizes, strict=True)),
        }
        for name, counts in found.items()
    ]
    rows = [
        {
            "seen": titles[seen],
            "companions": "; ".join(titles[item] for item in wanted),
            **{name: f"{counts[place]} of {sizes[place]}" for name, counts in found.items()},
        }
        for place, (seen, wanted) in enumerate(histories)
    ]
    return recall, rows
