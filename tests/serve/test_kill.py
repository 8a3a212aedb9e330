"""A real server process, killed in the middle of a stream of events."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from leporid.serve import open_store

SERVE = [sys.executable, "-m", "leporid", "serve"]


@contextlib.contextmanager
def server(
    run_dir: Path, store: Path | str, *more: str
) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A `leporid serve` process and its address."""
    process = subprocess.Popen(
        [*SERVE, str(run_dir), "--port", "0", "--store", str(store), "--public-reading", *more],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "LEPORID_TOKEN": "write"},
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        address = re.search(r"http://127\.0\.0\.1:\d+", line)
        assert address is not None, line
        yield process, address[0]
    finally:
        process.kill()
        process.wait()


def kill_and_count(run_dir: Path, store: str, item: int | str) -> None:
    """Send events, kill the server in the middle, and look for every one that was answered."""
    answered: list[str] = []
    with server(run_dir, store) as (process, address):

        def stream(writer: int) -> None:
            with httpx.Client(base_url=address, headers={"Authorization": "Bearer write"}) as http:
                for number in range(100_000):
                    user = f"{writer}-{number}"
                    try:
                        body = {"events": [{"user": user, "item": item}]}
                        answer = http.post("/events", json=body, timeout=300)
                    except httpx.HTTPError:
                        return
                    assert answer.status_code == 200
                    answered.append(user)

        writers = [threading.Thread(target=stream, args=(w,)) for w in range(4)]
        for writer in writers:
            writer.start()
        began = time.monotonic()
        while len(answered) < 60 and time.monotonic() - began < 300:
            time.sleep(0.002)
        os.kill(process.pid, signal.SIGKILL)
        for writer in writers:
            writer.join()
    assert len(answered) >= 60
    kept = {event.user for event in open_store(store).events()}
    assert set(answered) <= kept
    # At most the requests in flight were kept without an answer.
    assert len(kept - set(answered)) <= len(writers)


@pytest.mark.slow
def test_a_used_port_is_refused_in_words(run_dir: Path, tmp_path: Path) -> None:
    with server(run_dir, tmp_path / "events.db") as (_, address):
        port = address.rpartition(":")[2]
        told = subprocess.run(
            [*SERVE, str(run_dir), "--port", port], capture_output=True, text=True, timeout=120
        )
    assert told.returncode == 1
    assert f"cannot listen on 127.0.0.1:{port}" in told.stderr
