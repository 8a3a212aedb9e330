"""`leporid choose`: which model and initialisation for a log, ending in a run to deploy."""

import shlex
import time
from dataclasses import fields
from pathlib import Path
from typing import Annotated

import typer

from leporid.cli.interruption import stoppable
from leporid.cli.options import (
    Dataset,
    Device,
    Json,
    Output,
    Seed,
    SplitOptions,
    SplitSource,
    parse_list,
    show,
)

_clock = time.monotonic


def choose(  # noqa: PLR0913 (options are spelled out)
    data: SplitSource,
    output: Output,
    log: SplitOptions,
    budget: Annotated[str, "Time for everything: 90s, 10m, 1h30m."] = "10m",
    metric: Annotated[str, "What decides."] = "NDCG@10",
    models: Annotated[
        str | None, "The models that take part, separated by commas [all]."
    ] = None,
    seed: Seed = 0,
    device: Device = "auto",
    dataset: Dataset = None,
    items: Annotated[
        str | None, "Item table: models are tried with it too; titles [none]."
    ] = None,
    json_output: Json = False,
) -> None:
    """Search models and initialisations for DATA; the best, fitted on everything, is the output.

    Candidates are evaluated on an inner validation split; test is read once, at the end. Ctrl-C
    or SIGTERM ends the search and keeps the best so far. The same command goes on with a killed
    search. Then: leporid serve FOLDER.
    """
    begun = _clock()
    from leporid.selection import choose as run_search
    from leporid.selection import parse_duration

    seconds = parse_duration(budget)
    split = log.split(data, quiet=json_output)
    kept = f"finished trials are kept in {output}; the same command goes on"
    with stoppable(lambda: kept):
        chosen = run_search(
            split,
            seconds,
            metric,
            output=output,
            models=parse_list(models) if models else None,
            seed=seed,
            device=device,
            progress=not json_output,
            dataset=dataset or Path(data).stem,
            spent=_clock() - begun,
            items=items,
            source=_source(data, log),
            clock=_clock,
        )
    if chosen.note:
        typer.echo(chosen.note, err=True)
    rows = [
        {
            "model": row["model"],
            "init": row["init"],
            "settings": row["settings"],
            metric: row[metric],
            "memory": row["memory"],
            "seconds": f"{row['seconds']:.3g}",
            "ms per request": f"{row['ms per request']:.3g}",
        }
        for row in chosen.best
    ]
    lines = [
        "\n\n".join(chosen.why.splitlines()),
        f"wrote {output}",
        f"wrote {output}/report.html",
    ]
    lines += [f"reproduce with: {command}" for command in chosen.commands]
    title = f"{metric} on the inner validation split, the best of each model"
    show(json_output, chosen.to_dict(), (title, rows), *lines)


def _source(data: str, log: SplitOptions) -> str:
    """Return the log with every option that is not the default, as a command line has them."""
    words = [data]
    for option in fields(log):
        value = vars(log)[option.name]
        name = option.name.replace("_", "-")
        if value == option.default:
            continue
        if isinstance(value, bool):
            words.append(f"--{name}" if value else f"--no-{name}")
        else:
            words += [f"--{name}", str(value)]
    return shlex.join(words)
