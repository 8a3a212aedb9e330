"""The service under load on loopback, against the same model called in a plain loop."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import leporid
from benchmarks.harness import write_record
from leporid.data.synthetic import synthesize
from leporid.models.base import Recommender

MODELS = ("dlr2", "sasrec")
CONNECTIONS = (1, 8, 32)
N = 10
HISTORY = 20
"""Items of a new person."""


@dataclass(frozen=True)
class Sizes:
    """How much is asked, and for how long at most."""

    users: int = 6_000
    items: int = 3_100
    interactions: int = 570_000
    requests: int = 2_000
    """Of each kind at each number of connections."""
    seconds: float = 20.0
    """Each measurement stops then."""
    memory_requests: int = 50_000
    memory_seconds: float = 400.0


QUICK = Sizes(300, 200, 9_000, requests=60, seconds=5, memory_requests=200, memory_seconds=5)


def run(sizes: Sizes = Sizes()) -> None:  # noqa: B008
    """Measure every model and write the record."""
    data = synthesize(sizes.users, sizes.items, sizes.interactions, seed=0)
    split = leporid.temporal_split(data)
    rows: list[dict[str, Any]] = []
    notes: list[str] = []
    for name in MODELS:
        with tempfile.TemporaryDirectory() as folder:
            settings = {"recipe": "softmax"} if name == "dlr2" else {}
            # The time of a score does not depend on how good the weights are.
            model = leporid.train(name, split, init="random", steps=1, device="cpu", **settings)
            model.save(Path(folder) / "model")
            found, told = measure(name, Recommender.load(Path(folder) / "model"), folder, sizes)
            rows += found
            notes += told
    for row in rows:
        print(row)
    if sizes == Sizes():
        write_record("serve", rows, sizes.__dict__, notes)


def measure(
    name: str, model: Recommender, folder: str, sizes: Sizes
) -> tuple[list[dict[str, Any]], list[str]]:
    """Rows of one model, and what happened to the server's memory."""
    rng = np.random.default_rng(0)
    users = [model.users.external(int(i)) for i in rng.integers(len(model.users), size=512)]
    histories = [
        [model.items.external(int(i)) for i in rng.choice(len(model.items), HISTORY, replace=False)]
        for _ in range(512)
    ]
    kinds: dict[str, tuple[list[dict[str, Any]], Callable[[int], Any]]] = {
        "known users": (
            [{"users": [user], "n": N} for user in users],
            lambda i: model.recommend(users[i % 512], n=N),
        ),
        "new histories": (
            [{"histories": [history], "n": N} for history in histories],
            lambda i: model.recommend_history(histories[i % 512], n=N),
        ),
    }
    rows, baseline = [], {}
    for kind, (_, call) in kinds.items():
        call(0)  # compile, and what the model prepares
        spent = loop(call, sizes)
        baseline[kind] = len(spent) / sum(spent)
        rows.append(_row(name, kind, "plain loop", spent, sum(spent), baseline[kind]))
    with Server(folder) as server:
        for kind, (bodies, _) in kinds.items():
            asyncio.run(server.load(bodies[:64], 4, 64, 60))
            for connections in CONNECTIONS:
                began = time.perf_counter()
                spent = asyncio.run(server.load(bodies, connections, sizes.requests, sizes.seconds))
                took = time.perf_counter() - began
                how = f"server, {connections} connections"
                rows.append(_row(name, kind, how, spent, took, baseline[kind]))
        mixed = [
            body for pair in zip(*(k[0] for k in kinds.values()), strict=True) for body in pair
        ]
        memory = server.memory_over(mixed, sizes)
    note = (
        f"{name}: resident memory of the server {memory[0][1]:.0f} MB after {memory[0][0]:,} and "
        f"{memory[-1][1]:.0f} MB after {memory[-1][0]:,} further requests at 8 connections."
    )
    print(note)
    return rows, [note]


def loop(call: Callable[[int], Any], sizes: Sizes) -> list[float]:
    """Seconds of each call, one after the other."""
    spent: list[float] = []
    end = time.perf_counter() + sizes.seconds
    while len(spent) < sizes.requests and time.perf_counter() < end:
        began = time.perf_counter()
        call(len(spent))
        spent.append(time.perf_counter() - began)
    return spent


class Server:
    """A `leporid serve` process on loopback."""

    def __init__(self, folder: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "leporid", "serve", folder, "--port", "0"],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        found = re.search(r"http://127\.0\.0\.1:(\d+)", line)
        if found is None:
            raise SystemExit(f"the server did not start: {line!r}")
        self._port = int(found[1])

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait(timeout=60)

    async def load(
        self, bodies: Sequence[dict[str, Any]], connections: int, requests: int, seconds: float
    ) -> list[float]:
        """Seconds of each request; each connection sends its next when the last is answered."""
        texts = [_request(json.dumps(body).encode()) for body in bodies]
        spent: list[float] = []
        sent = iter(range(requests))
        end = time.perf_counter() + seconds

        async def connection() -> None:
            reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
            for number in sent:
                began = time.perf_counter()
                writer.write(texts[number % len(texts)])
                await _answer(reader)
                now = time.perf_counter()
                spent.append(now - began)
                if now > end:
                    break
            writer.close()
            await writer.wait_closed()

        await asyncio.gather(*(connection() for _ in range(connections)))
        return spent

    def memory_over(
        self, bodies: Sequence[dict[str, Any]], sizes: Sizes
    ) -> list[tuple[int, float]]:
        """(requests sent, MB) ten times on the way."""
        seen, sent = [], 0
        end = time.perf_counter() + sizes.memory_seconds
        while sent < sizes.memory_requests and time.perf_counter() < end:
            part = sizes.memory_requests // 10
            sent += len(asyncio.run(self.load(bodies, 8, part, end - time.perf_counter())))
            seen.append((sent, asyncio.run(self._memory())))
        return seen

    async def _memory(self) -> float:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        writer.write(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
        text = (await _answer(reader)).decode()
        writer.close()
        found = re.search(r"^process_resident_memory_bytes (\S+)$", text, re.MULTILINE)
        assert found is not None
        return float(found[1]) / 2**20


def _request(body: bytes) -> bytes:
    head = f"POST /recommend HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n"
    return head.encode() + b"Content-Type: application/json\r\n\r\n" + body


async def _answer(reader: asyncio.StreamReader) -> bytes:
    head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
    found = re.search(r"content-length: (\d+)", head)
    assert found is not None, head
    body = await reader.readexactly(int(found[1]))
    if not head.startswith("http/1.1 200"):
        raise SystemExit(f"the server refused: {body[:200]!r}")
    return body


def _row(
    model: str, kind: str, how: str, spent: list[float], took: float, baseline: float
) -> dict[str, Any]:
    rate = len(spent) / took
    return {
        "model": model,
        "people": kind,
        "how": how,
        "requests": len(spent),
        "requests_per_s": rate,
        "p50_ms": 1000 * float(np.percentile(spent, 50)),
        "p99_ms": 1000 * float(np.percentile(spent, 99)),
        "ratio_to_loop": rate / baseline,
    }
