"""The folder of a run: `save_run` writes it in one step, `read_run` reads it.

RUN/model/               what `Recommender.load` reads: the final model if there is one
RUN/validated/           the model that was tested, if RUN/model is the final one
RUN/record.json          a `RunRecord`
RUN/record.users.parquet hits per user (`MetricTable.save_hits`), to compare runs
RUN/history.csv          loss and validation over the steps (neural models)
RUN/report.html          the same as a page
RUN/manifest.json        digests of all of these, so that a mixture of two runs is refused
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from leporid.data import ItemTable, Split
from leporid.errors import ConfigError, DataError, TrainingInterruptedError
from leporid.evaluation import MetricTable
from leporid.foundation import (
    MANIFEST,
    Progress,
    atomic_folder,
    check_device,
    check_manifest,
    check_output_folder,
    recovered,
    reporting,
    write_json,
    write_manifest,
)
from leporid.models import Callback, FitContext
from leporid.runs.execution import Run, RunSpec, add_final_fit, execute
from leporid.runs.record import RunRecord, record_of
from leporid.runs.report import write_train_report

RECORD = "record.json"
USERS = ".users.parquet"
HISTORY = "history.csv"
REPORT = "report.html"
_PARTS = ("record.users.parquet", HISTORY, f"model/{MANIFEST}", f"validated/{MANIFEST}")
"""What belongs to a record; a model's own manifest stands for its files."""
OF_EARLIER_RUN = ("validated", HISTORY, REPORT)
"""What an earlier run may have left in a folder and this one may not replace."""


@dataclass(frozen=True)
class SavedRun:
    """A record and, if it was kept, what each user got."""

    name: str
    """The folder or file that it was read from."""
    record: RunRecord
    outcomes: MetricTable | None
    """Hits per user; None if the run did not keep them."""


def save_run(run: Run, folder: str | Path) -> RunRecord:
    """Write everything that a run found out into a folder, with its page, in one step.

    An earlier run in the folder is replaced; a crash leaves either the earlier run or this one.
    """
    record = record_of(run)
    with atomic_folder(folder, without=OF_EARLIER_RUN) as fresh:
        write_run_files(run, record, fresh)
        write_train_report(fresh / REPORT, run, record, Path(folder))
    return record


def write_run_files(run: Run, record: RunRecord, fresh: Path) -> None:
    """Write models, record, outcomes and history of a run into a new folder."""
    deployed = run.deployed
    if run.model.history is not None:
        run.model.history.to_csv(fresh / HISTORY)
    deployed.save(fresh / "model")
    if run.final is not None:
        run.model.save(fresh / "validated")
    write_json(fresh / RECORD, record.to_dict())
    run.test.save_hits(fresh / f"record{USERS}")
    parts = [part for part in _PARTS if (fresh / part).is_file()]
    write_manifest(fresh, "run", RECORD, *parts)


def execute_to_folder(
    spec: RunSpec,
    split: Split,
    folder: str | Path,
    *,
    device: str = "auto",
    resume: bool = False,
    tables: Mapping[str, ItemTable] | None = None,
    callbacks: Sequence[Callback] = (),
    progress: Progress = None,
) -> tuple[Run, RunRecord]:
    """Carry out a run whose checkpoints and results lie in one folder.

    A run that the folder holds finished is not trained again when a final fit is asked for. Ctrl-C
    or SIGTERM ends a training with its best weights so far. They are tested and saved, and the
    record says so; then comes a `TrainingInterruptedError` whose `so_far` is the run. `resume` goes
    on from there.
    """
    folder = Path(folder)
    check_device(device)
    check_output_folder(folder)
    with reporting(progress) as reporter:
        context = FitContext(
            device=device,
            progress=reporter,
            checkpoint=folder / "checkpoint",
            resume=resume,
            callbacks=tuple(callbacks),
            tables=tables or {},
            keep_interrupted=True,
        )
        is_tested = spec.final and not resume and holds_whole_training(folder)
        test_spec = replace(spec, final=False)
        run = None
        if is_tested:
            with suppress(ConfigError, DataError):  # the checkpoint is of another run
                run = execute(test_spec, split, replace(context, resume=True))
        run = run or execute(test_spec, split, context)
        if spec.final and not run.interruption:
            try:
                add_final_fit(run, context)
            except BaseException as error:
                if isinstance(error, KeyboardInterrupt | TrainingInterruptedError):
                    run.interruption = "the fit on everything was interrupted"
                if isinstance(error, TrainingInterruptedError):
                    error.so_far = run
                save_run(run, folder)  # the tested model is not lost
                raise
        record = save_run(run, folder)
    if run.interrupted_by is not None:
        raise TrainingInterruptedError(
            f"{run.interruption}; {folder} holds it, and resume=True goes on",
            run.interrupted_by,
            run,
        )
    return run, record


def holds_whole_training(folder: Path) -> bool:
    """Tell whether a folder has the record of a training that nobody interrupted."""
    try:
        record = RunRecord.read(folder / RECORD)
    except DataError:
        return False
    ended = record.extra.get("training", {}).get("ended", "")
    return not str(ended).startswith("SIG")


def read_run(path: str | Path) -> SavedRun:
    """Read a run folder, or the JSON file of a record."""
    path = recovered(path)
    file = path / RECORD if path.is_dir() else path
    if not file.is_file():
        raise DataError(f"{path} is not a run: there is no {file}")
    if path.is_dir():
        # A model with a manifest was written together with its run, which then has one too.
        required = (path / "model" / MANIFEST).is_file()
        check_manifest(path, "run", RECORD, required=required)
    beside = file.with_suffix(USERS)
    outcomes = MetricTable.load_hits(beside) if beside.is_file() else None
    return SavedRun(str(path), RunRecord.read(file), outcomes)
