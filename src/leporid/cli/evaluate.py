"""`leporid evaluate`: a saved model, or recommendations from elsewhere, against held-out data."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from leporid.cli.output import JsonOption, print_json, print_table, show_progress
from leporid.errors import ConfigError, DataError, LeporidWarning, UnknownNameError

if TYPE_CHECKING:
    from leporid.data.split import Split
    from leporid.evaluation.metric_table import MetricTable

__all__ = ["register"]

_PROTOCOLS = ("temporal", "leave-last-out", "global-time")


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("evaluate")(evaluate)


def evaluate(
    data: Annotated[str, typer.Option(help="Interaction log: a file, or a dataset's name.")],
    model: Annotated[
        Path | None, typer.Argument(help="Folder of a saved model, or of a run that holds one.")
    ] = None,
    recommendations: Annotated[
        Path | None,
        typer.Option(help="CSV or parquet file with columns user, item, score instead of a model."),
    ] = None,
    columns: Annotated[
        str, typer.Option(help="Names of those three columns, separated by commas.")
    ] = "user,item,score",
    core: Annotated[
        int, typer.Option(help="Keep users and items with at least this many interactions.")
    ] = 0,
    protocol: Annotated[str, typer.Option(help=f"{', '.join(_PROTOCOLS)}.")] = "temporal",
    part: Annotated[str, typer.Option(help="test or valid.")] = "test",
    at: Annotated[str, typer.Option(help="Cut-offs, separated by commas.")] = "1,5,10",
    metrics: Annotated[
        str | None, typer.Option(help="Only these, for example HR,F1,NDCG [all].")
    ] = None,
    stratum: Annotated[
        list[str] | None,
        typer.Option(help="Also average over this group; may be repeated [tail-users]."),
    ] = None,
    resamples: Annotated[int, typer.Option(help="Resamples behind the intervals.")] = 1000,
    seed: Annotated[int, typer.Option(help="Seed of the resamples.")] = 0,
    export: Annotated[
        Path | None, typer.Option(help="Write one row a user to this .csv or .parquet file.")
    ] = None,
    user: Annotated[str | None, typer.Option(help="Name of the user column of DATA.")] = None,
    item: Annotated[str | None, typer.Option(help="Name of the item column of DATA.")] = None,
    time: Annotated[str | None, typer.Option(help="Name of the time column of DATA.")] = None,
    json_output: JsonOption = False,
) -> None:
    """Rank all items for every user and report HR, F1, NDCG and more, with 95% intervals.

    Give a saved MODEL, or --recommendations made elsewhere. DATA, --core and --protocol must be
    those the model was trained with.
    """
    if (model is None) == (recommendations is None):
        raise ConfigError("give either the folder of a model or --recommendations FILE")
    if export is not None and export.suffix not in (".csv", ".parquet"):
        raise ConfigError(f"--export writes .csv or .parquet files, not {export.name!r}")
    if protocol not in _PROTOCOLS:
        raise UnknownNameError("protocol", protocol, _PROTOCOLS)
    cuts = _numbers(at)

    from leporid.data.loading import load
    from leporid.evaluation.evaluator import evaluate as evaluate_model

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", LeporidWarning)
        log = load(data, user=user, item=item, time=time)
        split = _split(log.core(core) if core else log, protocol)
        table = evaluate_model(
            _lists(recommendations, columns) if recommendations else _load_model(model),
            split,
            at=cuts,
            part=part,  # type: ignore[arg-type]
            progress=show_progress(json_output),
            metrics=metrics.split(",") if metrics else None,
        )
    notes = [str(w.message) for w in caught if issubclass(w.category, LeporidWarning)]
    for note in notes:
        typer.echo(f"warning: {note}", err=True)
    if export is not None:
        (table.to_csv if export.suffix == ".csv" else table.to_parquet)(export)
    report = _report(table, stratum or _default_strata(table), resamples, seed)
    if json_output:
        print_json({**report, "warnings": notes})
        return
    _print(report)
    if export is not None:
        typer.echo(f"wrote {export}")


def _report(table: MetricTable, strata: list[str], resamples: int, seed: int) -> dict[str, Any]:
    intervals = table.intervals(resamples=resamples, seed=seed)
    return {
        "users": len(table),
        "skipped": table.skipped,
        "part": table.part,
        "protocol": table.protocol,
        "metrics": table.mean(),
        "intervals": {name: [found.low, found.high] for name, found in intervals.items()},
        "strata": {name: table.mean(stratum=name) for name in strata},
    }


def _default_strata(table: MetricTable) -> list[str]:
    """The paper's tail users, unless there are too few users to have any."""
    from leporid.evaluation.strata import user_stratum

    tail = user_stratum("tail-users", table.activity)[table.user]
    return ["tail-users"] if tail.any() else []


def _print(report: dict[str, Any]) -> None:
    rows = []
    for name, value in report["metrics"].items():
        low, high = report["intervals"].get(name, (None, None))
        row = {"metric": name, "all users": value}
        row["95% interval"] = "" if low is None else f"{low:.4f} .. {high:.4f}"
        for stratum, means in report["strata"].items():
            row[stratum] = means.get(name, "")
        rows.append(row)
    print_table(f"{report['part']}, {report['protocol']}", rows)
    typer.echo(
        f"{report['users']:,} users evaluated, {report['skipped']:,} left out because they have "
        f"no {report['part']} items"
    )


def _numbers(text: str) -> list[int]:
    try:
        return [int(number) for number in text.split(",")]
    except ValueError:
        raise ConfigError(f"--at takes whole numbers such as 1,5,10, not {text!r}") from None


def _split(data: Any, protocol: str) -> Split:
    from leporid.data import splitting

    made: Split = {
        "temporal": splitting.temporal_split,
        "leave-last-out": splitting.leave_last_out,
        "global-time": splitting.global_time_split,
    }[protocol](data)
    return made


def _lists(path: Path, columns: str) -> Any:
    from leporid.evaluation.recommendations import Recommendations

    names = columns.split(",")
    if len(names) != 3:
        raise ConfigError(f"--columns takes three names, user,item,score, not {columns!r}")
    return Recommendations.read(path, *names)


def _load_model(path: Path | None) -> Any:
    from leporid.models.shared.base import Recommender

    folder = Path(path or "")
    for place in (folder, folder / "model"):
        if (place / "model.json").is_file():
            return Recommender.load(place)
    raise DataError(f"{folder} holds no saved model: there is no model.json in it")
