"""What one or two hostile addresses do to everybody else; on loopback, bounded in count and time.

`python -m tests.attack.one_client` trains two small runs, serves them, attacks each in turn and
prints a table. Attackers are 127.0.0.2 and 127.0.0.4, honest clients 127.0.0.3; /health is asked
from the attacker's address.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import multiprocessing
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

import httpx
import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq

import leporid
from leporid.data import synthesize
from leporid.models import Recommender
from tests.attack.hostile_requests import Target, read_status, request
from tests.serve.test_kill import server

ATTACKERS, HONEST = ("127.0.0.2", "127.0.0.4"), "127.0.0.3"
_TITLE = "The quick brown fox jumps over the lazy dog of film"
_WORDS = " ".join(dict.fromkeys(_TITLE.lower().replace(" ", ""))) + " a" * 100


@dataclass
class Outcome:
    """What happened beside one attack."""

    attacker: Counter[int] = field(default_factory=Counter)
    """Statuses that the attacker got; 0 is a closed connection."""
    honest: Counter[int] = field(default_factory=Counter)
    health: Counter[int] = field(default_factory=Counter)
    seconds: list[float] = field(default_factory=list)
    """Of honest requests, each on a connection of its own."""
    grown: float = 0.0
    """MB by which the server grew at most."""

    def milliseconds(self, percent: float) -> float:
        """A percentile of the honest requests."""
        return float(np.percentile(self.seconds, percent)) * 1e3

    def row(self) -> str:
        """A line of the table, without the name of the attack."""
        counts = (
            " ".join(f"{status}:{count}" for status, count in sorted(found.items()))
            for found in (self.attacker, self.honest, self.health)
        )
        times = f"{self.milliseconds(50):.0f} | {self.milliseconds(99):.0f}"
        return f"{' | '.join(counts)} | {times} | {self.grown:.0f}"


async def ask(target: Target, source: str, sent: bytes) -> int:
    """The status of one request on a connection of its own; 0 where it was closed."""
    try:
        reader, writer = await target.connect(source)
    except OSError:
        return 0
    try:
        writer.write(sent)
        return await read_status(reader)
    except (OSError, asyncio.IncompleteReadError):
        return 0
    finally:
        writer.close()


def get(path: str) -> bytes:
    """A GET request as bytes."""
    return f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode()


async def repeat(
    target: Target, sent: bytes, seconds: float, at_once: int, sources: tuple[str, ...]
) -> Counter[int]:
    """The same request again and again, `at_once` at a time from each address."""
    statuses, until = Counter[int](), time.perf_counter() + seconds

    async def one(source: str) -> None:
        while time.perf_counter() < until:
            status = await ask(target, source, sent)
            statuses[status] += 1
            if status != 200:
                await asyncio.sleep(0.02)  # a client in a hurry, but not a busy loop

    await asyncio.gather(*(one(source) for source in sources for _ in range(at_once)))
    return statuses


async def errors(target: Target, seconds: float) -> Counter[int]:
    """Bodies of 1 MiB in which everything is wrong, ten at once."""
    body = b'{"histories":[[' + b",".join([b"{}"] * 349_000) + b"]]}"
    return await repeat(target, request("/recommend", body), seconds, 10, ATTACKERS[:1])


async def extra_keys(target: Target, seconds: float) -> Counter[int]:
    """Bodies of 1 MiB of names that no request has, ten at once."""
    body = json.dumps({f"{i:x}": 1 for i in range(85_000)}).encode()
    return await repeat(target, request("/recommend", body), seconds, 10, ATTACKERS[:1])


async def connections(target: Target, seconds: float) -> Counter[int]:
    """500 connections, held open."""
    links = []
    for _ in range(500):
        with contextlib.suppress(OSError):
            links.append(await target.connect(ATTACKERS[0]))
    await asyncio.sleep(seconds)
    closed = sum(reader.at_eof() or reader.exception() is not None for reader, _ in links)
    for _, writer in links:
        writer.close()
    return Counter({0: closed, 1: len(links) - closed})


async def search(target: Target, seconds: float) -> Counter[int]:
    """128 words, all of which occur in every title."""
    sent = get(f"/items?query={quote(_WORDS[:256])}")
    return await repeat(target, sent, seconds, 2, ATTACKERS[:1])


async def histories(target: Target, seconds: float) -> Counter[int]:
    """Histories of 1,000 items with reasons, from two addresses."""
    past = [target.items[i % len(target.items)] for i in range(1000)]
    body = {"histories": [past] * 4, "n": 200, "explain": True}
    return await repeat(target, request("/recommend", body), seconds, 8, ATTACKERS)


async def pipelined(target: Target, seconds: float, path: str) -> Counter[int]:
    """90 connections that each send 1,000 requests at once, before reading any answer."""
    statuses, until = Counter[int](), time.perf_counter() + seconds

    async def one() -> None:
        while time.perf_counter() < until:
            try:
                reader, writer = await target.connect(ATTACKERS[0])
                writer.write(get(path) * 1000)
                async with asyncio.timeout(max(until - time.perf_counter(), 0.01)):
                    while True:
                        statuses[await read_status(reader)] += 1
            except (OSError, TimeoutError, asyncio.IncompleteReadError):
                statuses[0] += 1
                await asyncio.sleep(0.02)
            finally:
                writer.close()

    await asyncio.gather(*(one() for _ in range(90)))
    return statuses


async def pipelined_metrics(target: Target, seconds: float) -> Counter[int]:
    """GET /metrics, which counts everything anew."""
    return await pipelined(target, seconds, "/metrics")


async def pipelined_documents(target: Target, seconds: float) -> Counter[int]:
    """GET /openapi.json, which is long."""
    return await pipelined(target, seconds, "/openapi.json")


async def pipelined_unknown(target: Target, seconds: float) -> Counter[int]:
    """Requests for what is not there."""
    return await pipelined(target, seconds, "/nothing")


async def many_events(target: Target, seconds: float) -> Counter[int]:
    """Bodies of 1 MiB with 46,000 events, three at once."""
    body = b'{"events":[' + b",".join([b'{"user":1,"item":1}'] * 46_000) + b"]}"
    return await repeat(target, request("/events", body), seconds, 3, ATTACKERS[:1])


async def nothing(target: Target, seconds: float) -> Counter[int]:
    """No attack: what the machine does to honest requests by itself."""
    return Counter()


ATTACKS: dict[str, tuple[str, Callable[[Target, float], Awaitable[Counter[int]]]]] = {
    "none": ("small", nothing),
    "1 MiB of errors": ("small", errors),
    "1 MiB of unknown keys": ("small", extra_keys),
    "500 connections": ("small", connections),
    "128 words": ("large", search),
    "histories of 1,000": ("small", histories),
    "pipelined /metrics": ("small", pipelined_metrics),
    "pipelined /openapi.json": ("small", pipelined_documents),
    "pipelined 404": ("small", pipelined_unknown),
    "46,000 events": ("small", many_events),
}
"""Name: the run that is served, and the attack."""


def attack(name: str, target: Target, seconds: float) -> Counter[int]:
    """In a process of its own, so that it takes nothing from the honest client's clock."""
    return asyncio.run(ATTACKS[name][1](target, seconds))  # type: ignore[arg-type]


async def watch(target: Target, pid: int, seconds: float, outcome: Outcome) -> None:
    """Ask as honest clients do, ask for the health, and look at the server's memory."""
    until, process = time.perf_counter() + seconds, psutil.Process(pid)
    before = process.memory_info().rss

    async def honest(number: int) -> None:
        turn = number
        while time.perf_counter() < until:
            asked = {"users": [target.users[turn % len(target.users)]], "n": 10}
            began = time.perf_counter()
            outcome.honest[await ask(target, HONEST, request("/recommend", asked))] += 1
            outcome.seconds.append(time.perf_counter() - began)
            turn += 7
            await asyncio.sleep(0.02)

    async def look() -> None:
        while time.perf_counter() < until:
            outcome.health[await ask(target, ATTACKERS[0], get("/health"))] += 1
            await asyncio.sleep(0.05)

    async def weigh() -> None:
        while True:
            grown = (process.memory_info().rss - before) / 1e6
            outcome.grown = max(outcome.grown, grown)
            await asyncio.sleep(0.05)

    weighing = asyncio.create_task(weigh())
    await asyncio.gather(honest(0), honest(1), look())
    weighing.cancel()


def besiege(name: str, target: Target, pid: int, seconds: float) -> Outcome:
    """Honest clients beside one attack."""
    outcome = Outcome()
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=spawn) as pool:
        pool.submit(int).result()  # started before the clock is
        attacking = pool.submit(attack, name, target, seconds)
        asyncio.run(watch(target, pid, seconds, outcome))
        outcome.attacker = attacking.result()
    return outcome


def fill_store(target: Target, process: psutil.Process, most: int) -> Counter[tuple[int, str]]:
    """Events until the store is full: files of the server may not grow beyond `most` bytes."""
    process.rlimit(psutil.RLIMIT_FSIZE, (most, most))
    told: Counter[tuple[int, str]] = Counter()
    with httpx.Client(base_url=target.address, headers={"Authorization": "Bearer write"}) as http:
        for turn in range(200):
            events = [{"user": f"{turn}-{i}" * 20, "item": target.items[0]} for i in range(200)]
            answer = http.post("/events", json={"events": events}, timeout=60)
            told[answer.status_code, answer.json().get("error", "")] += 1
            if answer.status_code != 200 and told.total() > told[200, ""] + 2:
                break
        asked = {"users": [target.users[0]], "n": 5}
        answer = http.post("/recommend", json=asked, timeout=60)
        told[answer.status_code, "/recommend"] += 1
    return told


async def endless_chunk(target: Target, most: int) -> int:
    """Bytes of a chunk extension that the server reads before it closes the connection."""
    reader, writer = await target.connect(ATTACKERS[0])
    writer.write(
        b"POST /recommend HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        b"Transfer-Encoding: chunked\r\n\r\n1;"
    )
    sent = 0
    with contextlib.suppress(OSError):
        while sent < most and not reader.at_eof():
            writer.write(b"a" * 65536)
            await writer.drain()
            sent += 65536
            await asyncio.sleep(0)
    writer.close()
    return sent


def write_runs(folder: Path, large_items: int) -> None:
    """One run with 3,100 items, and one with many and with titles."""
    log = synthesize(6_000, 3_100, 570_000, seed=0)
    leporid.train("itemknn", leporid.temporal_split(log)).save(folder / "small" / "model")
    log = synthesize(20_000, large_items, 3 * large_items, seed=0)
    model = leporid.train("toppop", leporid.temporal_split(log))
    model.save(folder / "large" / "model")
    ids = model.items.ids
    titles = [f"{_TITLE} {i} (19{i % 100:02d})" for i in range(len(ids))]
    table = pa.table({"item_id": ids, "title": titles, "genres": ["Drama"] * len(ids)})
    pq.write_table(table, folder / "large" / "items.parquet")


@contextlib.contextmanager
def serving(folder: Path, name: str, *more: str) -> Iterator[tuple[Target, int]]:
    """A server of one of the runs, with a store of its own, and its process id."""
    known = Recommender.load(folder / name / "model")
    ids = known.users.ids.to_pylist(), known.items.ids.to_pylist()
    with (
        tempfile.TemporaryDirectory() as store,
        server(folder / name, Path(store) / "events.db", *more) as (process, address),
    ):
        yield Target(address, *ids), process.pid


def main(seconds: float = 6.0, only: str = "") -> None:
    """Print the table, or the rows with `only` in their names."""
    with tempfile.TemporaryDirectory() as runs:
        folder = Path(runs)
        write_runs(folder, 200_000)
        print("| attack | attacker | honest | /health | p50 ms | p99 ms | MB grown |")
        print("|---|---|---|---|---|---|---|", flush=True)
        for name, (run, _) in ATTACKS.items():
            if only not in name:
                continue
            with serving(folder, run) as (target, pid):
                print(f"| {name} | {besiege(name, target, pid, seconds).row()} |", flush=True)
        if only:
            return
        with serving(folder, "small") as (target, pid):
            print("endless chunk extension, bytes:", asyncio.run(endless_chunk(target, 1 << 26)))
            print("full store:", dict(fill_store(target, psutil.Process(pid), 1 << 20)))


if __name__ == "__main__":
    main(float((sys.argv[1:] or ["6"])[0]), *sys.argv[2:3])
