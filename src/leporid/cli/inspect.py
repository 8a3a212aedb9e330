"""`leporid inspect`: facts about embeddings, and what they alone predict."""

from typing import Annotated, Any

from leporid.cli.options import Json, SplitOptions, VectorSource, show
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

    if probe != (data is not None) or (data is not None and not is_split(data)):
        raise ConfigError(
            "--probe needs held-out items: give it with --data and a folder of `leporid data "
            "split`, whose training part the vectors were computed from"
        )
    vectors = read_any(source)
    sides: list[dict[str, Any]] = []
    for side, embedding, _ in vectors.sides():
        lengths = np.quantile(
            np.linalg.norm(embedding.vectors, axis=1), [0, 0.5, 1]
        ).tolist()
        row = {"side": side, "rows": embedding.n, "dim": embedding.dim}
        row |= {"isolated": int(embedding.isolated.sum())}
        sides.append(
            row | dict(zip(("shortest", "median", "longest"), lengths, strict=True))
        )
    tables, predicted = [("vectors and their lengths", sides)], []
    if data is not None:
        split = SplitOptions().split(data, quiet=json_output)
        predicted = evaluation.probe(vectors, split).rows()
        tables.append(("what the vectors alone predict", predicted))
    show(json_output, {"sides": sides, "probe": predicted}, *tables)
