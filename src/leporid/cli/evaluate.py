"""`leporid evaluate`: metrics of a model or of given lists, and what rules cost."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument

from leporid.cli.options import (
    Json,
    OutputFile,
    SplitOptions,
    load_model,
    parse_list,
    parse_whole_numbers,
)
from leporid.cli.printing import Part, Row, show
from leporid.errors import ConfigError, LeporidWarning

if TYPE_CHECKING:
    from leporid.data import Split
    from leporid.evaluation import Comparison, MetricTable, Recommendations
    from leporid.models import Recommender
    from leporid.ranking import BoundRules


@dataclass(frozen=True)
class _Subject:
    """What is evaluated: a model, or lists that were made elsewhere."""

    model: Annotated[
        Path | None, Argument(help="Folder of a saved model, or of a run.")
    ] = None
    recommendations: Annotated[
        Path | None, "CSV or parquet file instead of a model."
    ] = None
    columns: Annotated[str, "Names of those columns, separated by commas."] = (
        "user,item,score"
    )

    def check(self) -> None:
        """Refuse both, and neither."""
        if (self.model is None) == (self.recommendations is None):
            raise ConfigError(
                "give either the folder of a model or --recommendations FILE"
            )

    def column_names(self) -> list[str]:
        """Return the names of the columns of users, items and scores."""
        names = parse_list(self.columns)
        if len(names) != 3:
            raise ConfigError(
                f"--columns takes three names, user,item,score, not {self.columns!r}"
            )
        return names


@dataclass(frozen=True)
class _Measures:
    """What is measured, on which part of the data, and where it is written."""

    part: Annotated[str, "test or valid."] = "test"
    at: Annotated[str, "Cut-offs, separated by commas."] = "1,5,10"
    metrics: Annotated[str | None, "Only these, for example HR,F1,NDCG [all]."] = None
    stratum: Annotated[
        list[str] | None, "Also over this group [tail-users, cold-users]."
    ] = None
    export: Annotated[
        Path | None, OutputFile("Write one row per user to this .csv or .parquet file.")
    ] = None

    def check(self) -> None:
        """Refuse a file of another format."""
        if self.export is not None and self.export.suffix not in (".csv", ".parquet"):
            raise ConfigError(
                f"--export writes .csv or .parquet files, not {self.export.name!r}"
            )

    def strata_of(self, table: MetricTable) -> list[str]:
        """Return the groups that were asked for, or the usual ones that have users."""
        if self.stratum:
            return self.stratum
        return [name for name in ("tail-users", "cold-users") if table.has_users(name)]


@dataclass(frozen=True)
class _RuleOptions:
    """Rules whose cost is measured."""

    rules: Annotated[
        Path | None, "Rules, .toml or .json: what each costs, and all."
    ] = None
    items: Annotated[Path | None, "Table with the columns that the rules name."] = None

    def costs(self, evaluation: _Evaluation, plain: MetricTable) -> list[Comparison]:
        """Compare lists with each kind of rule alone, and with all, against those without."""
        if self.rules is None:
            return []

        from leporid.evaluation import Recommendations, compare_all
        from leporid.ranking import Rules

        model = evaluation.ranked
        if isinstance(model, Recommendations):
            raise ConfigError(
                "lists are evaluated as given: --rules needs the folder of a model"
            )
        rules = Rules.read(self.rules)
        items = model.item_columns(self.items)
        kinds = rules.alone()
        if len(kinds) > 1:
            kinds["all"] = rules
        tables = {"none": plain}
        for name, kind in kinds.items():
            tables[name] = evaluation.table(kind.bind(items))
        return compare_all(tables, [*plain.intervals()], against="none")


@dataclass(frozen=True)
class _Evaluation:
    """A model or lists, with everything that their evaluation depends on."""

    ranked: Recommender | Recommendations
    """What is evaluated."""
    split: Split
    """Data with the items to find."""
    cutoffs: list[int]
    """Lengths of the lists."""
    part: str
    """Part of the split with the items to find."""
    metrics: list[str] | None
    """Names of the metrics; None: all."""
    progress: bool
    """Whether to show a bar."""

    def table(self, rules: BoundRules | None = None) -> MetricTable:
        """Evaluate, with rules for the lists if there are any."""
        from leporid.evaluation import evaluate

        return evaluate(
            self.ranked,
            self.split,
            at=self.cutoffs,
            part=self.part,  # type: ignore[arg-type]  # `evaluate` refuses others
            metrics=self.metrics,
            include_seen=self.split.include_seen,
            rules=rules,
            progress=self.progress,
        )


def evaluate(
    data: Annotated[
        str, "Interaction log: a file, a data set, or a folder of `data split`."
    ],
    log: SplitOptions,
    subject: _Subject,
    measures: _Measures,
    rules: _RuleOptions,
    json_output: Json = False,
) -> None:
    """Rank all items for every user and report HR, F1, NDCG and more, with 95% intervals.

    Give a saved MODEL, or --recommendations made elsewhere. DATA, --core and --protocol must be
    those the model was trained with; --include-seen is so by itself.
    """
    subject.check()
    measures.check()
    cutoffs = parse_whole_numbers(measures.at, "--at")
    columns = subject.column_names()

    from leporid.evaluation import Recommendations

    ranked: Recommender | Recommendations
    if subject.recommendations is not None:
        ranked = Recommendations.read(subject.recommendations, *columns)
    elif subject.model is not None:
        ranked = _load_validated(subject.model)
        if log.include_seen is None:
            log = replace(log, include_seen=ranked.fitting.include_seen or None)

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", LeporidWarning)
        evaluation = _Evaluation(
            ranked=ranked,
            split=log.split(data, quiet=json_output),
            cutoffs=cutoffs,
            part=measures.part,
            metrics=parse_list(measures.metrics or "") or None,
            progress=not json_output,
        )
        table = evaluation.table()
        costs = rules.costs(evaluation, table)
    notes = [
        str(warning.message)
        for warning in caught
        if issubclass(warning.category, LeporidWarning)
    ]
    for note in notes:
        typer.echo(f"warning: {note}", err=True)
    if measures.export is not None:
        if measures.export.suffix == ".csv":
            table.to_csv(measures.export)
        else:
            table.to_parquet(measures.export)

    strata = {name: table.mean(stratum=name) for name in measures.strata_of(table)}
    report = _report(table, strata, notes)
    if rules.rules is not None:
        report["rules"] = [cost.to_dict() for cost in costs]
    title = f"{measures.part}, {table.protocol}"
    parts: list[Part] = [(title, _metric_rows(table, strata))]
    if costs:
        rows = _cost_rows(costs, cutoffs[-1])
        parts.append(("lists with the rules and without", rows))
    parts += _sentences(table)
    if measures.export is not None:
        parts.append(f"wrote {measures.export}")
    show(json_output, report, *parts)


def _load_validated(path: Path) -> Recommender:
    """Load the model that has not seen the test part."""
    if (path / "validated" / "model.json").is_file():
        typer.echo(
            "the validated model is evaluated: the final one was fitted on test",
            err=True,
        )
    return load_model(path, validated=True)


def _report(
    table: MetricTable,
    strata: dict[str, dict[str, float]],
    notes: list[str],
) -> dict[str, object]:
    """Return an evaluation as JSON has it."""
    return {
        "users": len(table),
        "skipped": table.skipped,
        "cold": table.cold,
        "repeated": table.repeated,
        "part": table.part,
        "protocol": table.protocol,
        "metrics": table.mean(),
        "intervals": {
            name: [interval.low, interval.high]
            for name, interval in table.intervals().items()
        },
        "strata": strata,
        "warnings": notes,
    }


def _metric_rows(table: MetricTable, strata: dict[str, dict[str, float]]) -> list[Row]:
    """Return each metric over all users with its interval, and in each stratum."""
    intervals = table.intervals()
    rows: list[Row] = []
    for name, value in table.mean().items():
        interval = intervals.get(name)
        text = "" if interval is None else f"{interval.low:.4f} .. {interval.high:.4f}"
        row = {"metric": name, "all users": value, "95% interval": text}
        for stratum, means in strata.items():
            row[stratum] = means.get(name, "")
        rows.append(row)
    return rows


def _sentences(table: MetricTable) -> list[str]:
    """Return who was evaluated, and what was left out."""
    lines = [
        f"{len(table):,} users evaluated, {table.cold:,} of them cold (without training "
        f"interactions); {table.skipped:,} left out because they have no {table.part} items"
    ]
    if table.repeated:
        lines.append(
            f"{table.repeated:,} {table.part} items are not evaluated: "
            f"they are in the history of their users (--include-seen)"
        )
    return lines


def _cost_rows(costs: Sequence[Comparison], cutoff: int) -> list[Row]:
    """Return what rules cost under each metric with the largest cut-off."""
    return [
        {
            "rules": cost.name_a,
            "metric": cost.metric,
            "with": cost.mean_a,
            "without": cost.mean_b,
            "difference": f"{cost.difference:+.4f} ({cost.percent:+.1f}%)",
            "95% interval": cost.interval(),
        }
        for cost in costs
        if cost.metric.endswith(f"@{cutoff}")
    ]
