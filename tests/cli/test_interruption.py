"""Ctrl-C and SIGTERM, sent to real processes of the command line."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

import leporid
from leporid.data import write_log
from leporid.models import Recommender
from leporid.runs import RunRecord

pytestmark = pytest.mark.functional

SIGNALS = pytest.mark.parametrize(("kind", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
LONG = ["--model", "bpr", "--init", "none", "--device", "cpu", "--steps", "1000000"]
LONG += ["--set", "dim=4", "--set", "eval_every=20", "--set", "patience=0"]


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "log.parquet"
    write_log(leporid.synthesize(60, 40, 1200, seed=2, min_activity=8), path)
    return path


def started(
    *arguments: object, program: Sequence[str] = ("-m", "leporid")
) -> subprocess.Popen[str]:
    """A `leporid` process whose stderr is read line by line."""
    return subprocess.Popen(
        [sys.executable, *program, *map(str, arguments)],
        env={**os.environ, "LEPORID_PROGRESS": "", "LEPORID_CACHE": "off"},
        cwd=Path(__file__).parents[2],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=hear_ctrl_c,
    )


def hear_ctrl_c() -> None:
    """Undo what a shell does to processes in the background: they ignore Ctrl-C."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def stopped(process: subprocess.Popen[str], kind: signal.Signals, sign: str) -> tuple[str, str]:
    """Send a signal when a line with `sign` comes; return what was printed until the end."""
    assert process.stderr is not None
    seen = ""
    for line in process.stderr:
        seen += line
        if sign in line:
            break
    process.send_signal(kind)
    out, err = process.communicate(timeout=300)
    return out, seen + err


@SIGNALS
def test_a_training_is_tested_and_saved(
    log: Path, tmp_path: Path, kind: signal.Signals, code: int
) -> None:
    run = tmp_path / "run"
    process = started("train", log, "-o", run, *LONG, "--log-every", 10)
    out, err = stopped(process, kind, '"metric"')
    assert process.returncode == code, err
    assert "NDCG@10" in out
    assert f"leporid train {log} -o {run}" in err
    assert "--resume" in err
    record = RunRecord.read(run / "record.json")
    assert record.extra["training"]["ended"] == kind.name
    assert kind.name in record.extra["interrupted"]
    assert Recommender.load(run).name == "bpr"
    events = [json.loads(line) for line in err.splitlines() if line.startswith("{")]
    assert events[-1]["ended"] == kind.name
    assert events[-1]["best_metric"] == record.extra["training"]["best_metric"]


DURING = """
import os, signal, sys
from leporid.{module} import {name} as owner
plain = owner.{method}
def interrupted(*arguments, **words):
    owner.{method} = plain
    os.kill(os.getpid(), signal.{kind})
    return plain(*arguments, **words)
owner.{method} = interrupted
from leporid.cli.app import run
sys.argv[0] = "leporid"
run()
"""


@SIGNALS
@pytest.mark.parametrize(
    ("module", "name", "method"),
    [
        ("models.closed_form.itemknn", "ItemKNN", "_fit"),
        ("embeddings.svd", "SVD", "_fit"),
    ],
)
def test_before_the_first_step_a_command_ends_with_a_sentence(
    log: Path, tmp_path: Path, kind: signal.Signals, code: int, module: str, name: str, method: str
) -> None:
    program = DURING.format(module=module, name=name, method=method, kind=kind.name)
    run = tmp_path / "run"
    options = [*LONG, "--init", "svd"]
    process = started("train", log, "-o", run, *options, program=("-c", program))
    _, err = process.communicate(timeout=300)
    assert process.returncode == code, err
    assert "Traceback" not in err
    last = err.splitlines()[-1]
    assert last.startswith("interrupted: no step of a training was done")
    assert str(run) in last
    assert not (run / "record.json").exists()


@SIGNALS
def test_a_search_ends_with_its_best_so_far(
    log: Path, tmp_path: Path, kind: signal.Signals, code: int
) -> None:
    module, name = "models.closed_form.itemknn", "ItemKNN"
    program = DURING.format(module=module, name=name, method="_fit", kind=kind.name)
    folder = tmp_path / "chosen"
    options = ["--budget", "10m", "--models", "toppop,itemknn", "-o", folder]
    process = started("choose", log, *options, program=("-c", program))
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    assert "interrupted" in out.lower()
    assert Recommender.load(folder).name == "toppop"
