"""`leporid reproduce`: a table or figure of the paper by one command."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from leporid.cli.output import JsonOption, print_json, show_progress
from leporid.cli.run import DeviceOption, RetryOption, RootOption, WorkersOption, run_with_view
from leporid.errors import UnknownNameError

_TABLES = ("table1", "table2", "table3", "table4", "table5", "table6")
_FIGURES = ("figure1", "figure2", "alpha", "neighbours", "timecost")


def register(app: typer.Typer) -> None:
    """Add the command to the application."""

    @app.command("reproduce")
    def reproduce(
        what: Annotated[str, typer.Argument(help=f"{', '.join((*_TABLES, *_FIGURES))} or all.")],
        dataset: Annotated[str, typer.Option(help="Data set name results are filed under.")] = (
            "ml-1m"
        ),
        source: Annotated[
            str | None, typer.Option(help="File to read, where the name alone is not enough.")
        ] = None,
        seeds: Annotated[str, typer.Option(help="Seeds, separated by commas.")] = "123",
        core: Annotated[int, typer.Option(help="Minimum interactions of a user or item.")] = 20,
        quick: Annotated[
            bool, typer.Option("--quick", help="Short training, no tuning: minutes on a laptop.")
        ] = False,
        render_only: Annotated[
            bool, typer.Option("--render-only", help="Run nothing, render the records there are.")
        ] = False,
        root: RootOption = Path("results"),
        out: Annotated[Path | None, typer.Option("--out", "-o", help="Output folder.")] = None,
        workers: WorkersOption = 1,
        device: DeviceOption = "auto",
        retry_failed: RetryOption = False,
        json_output: JsonOption = False,
    ) -> None:
        """Run what a table or figure needs, then write it with the paper's values beside ours."""
        from leporid.paper.outputs import write_outputs
        from leporid.paper.reproduce import QUICK_SUFFIX, paper_specs

        names = (*_TABLES, *_FIGURES) if what == "all" else (what,)
        for name in names:
            if name not in (*_TABLES, *_FIGURES):
                raise UnknownNameError("table or figure", name, (*_TABLES, *_FIGURES, "all"))
        specs = paper_specs(
            names, dataset, source=source, seeds=_seeds(seeds), core=core, quick=quick
        )
        if specs and not render_only:
            run_with_view(specs, root, workers, device, retry_failed, quiet=json_output)
        target = out or Path("reports") / dataset / what
        report = write_outputs(
            names,
            dataset,
            root,
            target,
            suffix=QUICK_SUFFIX if quick else "",
            stats=_stats(names, dataset, source, core),
            users=_users(names, dataset, source, core),
            skip_missing=what == "all",
            progress=show_progress(json_output),
        )
        if json_output:
            print_json({"report": str(report), "folder": str(target)})
            return
        for name in names:
            page = target / f"{name}.md"
            if page.is_file():
                typer.echo(page.read_text(encoding="utf-8"))
        typer.echo(f"report: {report}")


def _seeds(text: str) -> tuple[int, ...]:
    from leporid.errors import ConfigError

    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise ConfigError(
            f"--seeds takes whole numbers separated by commas, not {text!r}"
        ) from None


def _stats(
    names: tuple[str, ...], dataset: str, source: str | None, core: int
) -> dict[str, dict[str, Any]]:
    if "table1" not in names:
        return {}
    import leporid

    return {dataset: leporid.load(source or dataset).core(core).stats().as_dict()}


def _users(names: tuple[str, ...], dataset: str, source: str | None, core: int) -> Any:
    if "timecost" not in names:
        return None
    from leporid.runs.cell import load_split

    return load_split(source or dataset, core, "temporal").train.csr()
