"""`leporid inspect`: facts about embeddings, and what they alone predict."""

from typing import Annotated

from leporid.cli.options import Json, SplitOptions, VectorSource
from leporid.cli.printing import Part, Row, show
from leporid.errors import ConfigError


def inspect(
    source: VectorSource,
    data: Annotated[str | None, "Folder of `data split`, for --probe."] = None,
    probe: Annotated[
        bool, "How well the vectors alone predict validation of --data."
    ] = False,
    json_output: Json = False,
) -> None:
    """Show rows, columns and lengths of embeddings, and what they alone predict."""
    import numpy as np

    from leporid import evaluation
    from leporid.data import is_split
    from leporid.interop import read_any

    has_split = data is not None and is_split(data)
    if probe != has_split or (data is not None and not has_split):
        raise ConfigError(
            "--probe needs held-out items: give it with --data and a folder of `leporid data "
            "split`, whose training part the vectors were computed from"
        )
    vectors = read_any(source)
    sides: list[Row] = []
    for side, embedding, _ in vectors.sides():
        lengths = np.linalg.norm(embedding.vectors, axis=1)
        shortest, median, longest = np.quantile(lengths, [0, 0.5, 1]).tolist()
        row = {
            "side": side,
            "rows": embedding.n,
            "dim": embedding.dim,
            "isolated": int(embedding.isolated.sum()),
            "shortest": shortest,
            "median": median,
            "longest": longest,
        }
        sides.append(row)
    tables: list[Part] = [("vectors and their lengths", sides)]
    predicted: list[Row] = []
    if data is not None:
        split = SplitOptions().split(data, quiet=json_output)
        predicted = [*evaluation.probe(vectors, split).rows()]
        tables.append(("what the vectors alone predict", predicted))
    show(json_output, {"sides": sides, "probe": predicted}, *tables)
