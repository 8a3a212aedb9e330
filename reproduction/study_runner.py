"""Runs the cells of the study on several processes until the time is over.

The parent gives out work and writes what comes back. Embeddings come first; a cell starts when its
own are there, and while the longest cell of its kind still fits into the time that is left.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import shutil
import subprocess
import sys
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from reproduction.study_cells import StudyCell, fitted_vectors, run_cell

_SLOWEST = ("adapted", "le", "leporid", "svd")
"""Embeddings in the order in which they are computed."""
_SAFETY = 1.15
"""A cell is expected to take this much longer than the longest of its kind."""
Vectors = tuple[str, str]
Task = StudyCell | Vectors


def run_all(
    todo: list[StudyCell], out: Path, workers: int, seconds: float, device: str, share_gpu: bool
) -> None:
    """Run cells in order until the time is over; `out/cells.jsonl` gets a line for each."""
    end = time.monotonic() + seconds
    out.mkdir(parents=True, exist_ok=True)
    os.environ.setdefault("LEPORID_CACHE", str(out.parent / "study-cache"))
    os.environ.setdefault("NUMBA_NUM_THREADS", "1")
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(name, "1")
    with _shared_gpu(share_gpu and device != "cpu") as shared:
        print(f"{len(todo)} cells, {workers} workers, MPS: {shared}", flush=True)
        _run(_Queue(todo, end), out, workers, device)


def _run(queue: _Queue, out: Path, workers: int, device: str) -> None:  # noqa: C901 (one branch for each command)
    context = multiprocessing.get_context("spawn")
    pipes: dict[Connection, Any] = {}
    for _ in range(workers):
        here, there = context.Pipe()
        pipes[here] = context.Process(target=_work, args=(there, device), daemon=True)
        pipes[here].start()
        there.close()
    working: dict[Connection, tuple[Task, float]] = {}
    with open(out / "cells.jsonl", "a", encoding="utf-8") as lines:
        while True:
            for pipe in [pipe for pipe in pipes if pipe not in working]:
                task = queue.next()
                if task is not None:
                    pipe.send(task)
                    working[pipe] = task, time.monotonic()
            if not working or not (ready := wait(list(working), timeout=queue.left())):
                break
            for pipe in [pipe for pipe in working if pipe in ready]:
                task, begun = working.pop(pipe)
                try:
                    found, error = pipe.recv()
                except (EOFError, OSError):
                    found, error = None, "the process ended"
                    pipes.pop(pipe)
                queue.finished(task, time.monotonic() - begun, failed=bool(error))
                if error:
                    print(f"{_name(task)}: {error}", file=sys.stderr, flush=True)
                elif found is not None:
                    lines.write(json.dumps(found, separators=(",", ":")) + "\n")
                    lines.flush()
                print(f"{queue.left():5.0f} s left: {_name(task)}", flush=True)
    for process in pipes.values():
        process.terminate()
    print(f"{queue.done} cells done, {len(queue.todo)} not begun, {len(working)} cut off")


@dataclass
class _Queue:
    """What is to be done, in order, and how long each kind of cell took."""

    todo: list[StudyCell]
    end: float
    embeddings: list[Vectors] = field(default_factory=list)
    ready: set[Vectors] = field(default_factory=set)
    longest: dict[str, float] = field(default_factory=dict)
    done: int = 0

    def __post_init__(self) -> None:
        needed = dict.fromkeys(cell.vectors for cell in self.todo if cell.vectors)
        logs = list(dict.fromkeys(log for log, _ in needed))
        both = ((log, init) for log in logs for init in _SLOWEST)
        self.embeddings = [pair for pair in both if pair in needed]

    def left(self) -> float:
        return max(self.end - time.monotonic(), 0.0)

    def next(self) -> Task | None:
        """Embeddings while there are some to compute, then the first cell that can be run."""
        if self.embeddings:
            return self.embeddings.pop(0)
        for position, cell in enumerate(self.todo):
            expected = self.longest.get(cell.kind, cell.expected_seconds) * _SAFETY
            if (cell.vectors is None or cell.vectors in self.ready) and expected < self.left():
                return self.todo.pop(position)
        return None

    def finished(self, task: Task, seconds: float, *, failed: bool) -> None:
        if not isinstance(task, StudyCell):
            if not failed:
                self.ready.add(task)
        elif not failed:
            self.longest[task.kind] = max(seconds, self.longest.get(task.kind, 0.0))
            self.done += 1


def _name(task: Task) -> str:
    return task.key if isinstance(task, StudyCell) else f"{task[0]}: vectors {task[1]}"


def _work(pipe: Connection, device: str) -> None:
    """A worker: a task in, a record or an error out."""
    import torch

    torch.set_num_threads(1)
    while True:
        task = pipe.recv()
        try:
            if isinstance(task, StudyCell):
                pipe.send((run_cell(task, device), ""))
            else:
                fitted_vectors(*task)
                pipe.send((None, ""))
        except Exception:
            pipe.send((None, traceback.format_exc()))


@contextmanager
def _shared_gpu(asked: bool) -> Iterator[bool]:
    """NVIDIA's MPS, which lets kernels of several processes run at once, where it works."""
    control = shutil.which("nvidia-cuda-mps-control") if asked else None
    if control is None:
        yield False
        return
    started = subprocess.run([control, "-d"], check=False, timeout=30).returncode == 0
    test = [sys.executable, "-c", "import torch; torch.ones(9).cuda().sum().item()"]
    try:
        works = started and subprocess.run(test, check=False, timeout=60).returncode == 0
    except subprocess.TimeoutExpired:
        works = False
    if not works:
        subprocess.run([control], input=b"quit\n", check=False, timeout=30)
    try:
        yield works
    finally:
        if works:
            subprocess.run([control], input=b"quit -t 1\n", check=False, timeout=30)
