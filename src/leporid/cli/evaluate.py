"""`leporid evaluate`: a saved model, or recommendations made elsewhere, on held-out data."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument

from leporid.cli.options import (
    Json,
    SplitOptions,
    load_model,
    parse_list,
    print_files,
    print_json,
    print_table,
)
from leporid.errors import ConfigError, LeporidWarning


def evaluate(
    data: Annotated[
        str, "Interaction log: a file, a data set's name, or a folder of `data split`."
    ],
    log: SplitOptions,
    model: Annotated[Path | None, Argument(help="Folder of a saved model, or of a run.")] = None,
    recommendations: Annotated[
        Path | None, "CSV or parquet file with columns user, item, score instead of a model."
    ] = None,
    columns: Annotated[str, "Names of those columns, separated by commas."] = "user,item,score",
    part: Annotated[str, "test or valid."] = "test",
    at: Annotated[str, "Cut-offs, separated by commas."] = "1,5,10",
    metrics: Annotated[str | None, "Only these, for example HR,F1,NDCG [all]."] = None,
    stratum: Annotated[
        list[str] | None, "Also average over this group; may be repeated [tail-users, cold-users]."
    ] = None,
    include_seen: Annotated[
        bool, "Also rank items of the history (for repeats, --duplicates all)."
    ] = False,
    export: Annotated[Path | None, "Write one row per user to this .csv or .parquet file."] = None,
    json_output: Json = False,
) -> None:
    """Rank all items for every user and report HR, F1, NDCG and more, with 95% intervals.

    Give a saved MODEL, or --recommendations made elsewhere. DATA, --core and --protocol must be
    those the model was trained with.
    """
    if (model is None) == (recommendations is None):
        raise ConfigError("give either the folder of a model or --recommendations FILE")
    if export is not None and export.suffix not in (".csv", ".parquet"):
        raise ConfigError(f"--export writes .csv or .parquet files, not {export.name!r}")
    cuts, names = parse_list(at, "--at"), parse_list(columns)
    if len(names) != 3:
        raise ConfigError(f"--columns takes three names, user,item,score, not {columns!r}")

    from leporid.evaluation import Recommendations
    from leporid.evaluation import evaluate as evaluate_model

    if model is not None and (model / "validated" / "model.json").is_file():
        typer.echo("the validated model is evaluated: the final one was fitted on test", err=True)
    ranked: Any = Recommendations.read(recommendations, *names) if recommendations else None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", LeporidWarning)
        table = evaluate_model(
            load_model(model, validated=True) if model is not None else ranked,
            log.split(data, quiet=json_output),
            at=cuts,
            part=part,  # type: ignore[arg-type]
            progress=not json_output,
            metrics=parse_list(metrics or "") or None,
            exclude_seen=not include_seen,
        )
    notes = [str(w.message) for w in caught if issubclass(w.category, LeporidWarning)]
    for note in notes:
        typer.echo(f"warning: {note}", err=True)
    if export is not None:
        (table.to_csv if export.suffix == ".csv" else table.to_parquet)(export)
    # By default the paper's tail users and cold users, where there are any.
    usual = [name for name in ("tail-users", "cold-users") if table.has_users(name)]
    strata = {name: table.mean(stratum=name) for name in stratum or usual}
    means, intervals = table.mean(), table.intervals()
    if json_output:
        about = ("skipped", "cold", "repeated", "part", "protocol")
        report = {"users": len(table), **{name: getattr(table, name) for name in about}}
        bounds = {name: [of.low, of.high] for name, of in intervals.items()}
        report |= {"metrics": means, "intervals": bounds, "strata": strata, "warnings": notes}
        print_json(report)
        return
    rows = []
    for name, value in means.items():
        of = intervals.get(name)
        row = {"metric": name, "all users": value}
        row["95% interval"] = "" if of is None else f"{of.low:.4f} .. {of.high:.4f}"
        rows.append(row | {stratum: own.get(name, "") for stratum, own in strata.items()})
    print_table(f"{part}, {table.protocol}", rows)
    typer.echo(
        f"{len(table):,} users evaluated, {table.cold:,} of them cold (without training "
        f"interactions); {table.skipped:,} left out because they have no {part} items"
    )
    if table.repeated:
        typer.echo(
            f"{table.repeated:,} {part} items are not evaluated: they are in the history of their "
            f"users (--include-seen)"
        )
    print_files([] if export is None else [export])
