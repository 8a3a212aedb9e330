"""Honest clients beside hostile ones, against a server on loopback; bounded in time and number.

`python -m tests.attack.hostile_requests RUN` attacks a server of its own for 8 seconds each way and
prints what became of the honest requests.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np

TOKEN = "write"
ATTACKER = "127.0.0.2"
"""Honest clients are 127.0.0.1: what an address may ask for is bounded."""
Attack = Callable[["Target", float], Awaitable[None]]


@dataclass(frozen=True)
class Target:
    """A server, and ids it knows."""

    address: str
    users: list[Any]
    items: list[Any]

    async def connect(
        self, source: str | None = None
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A new connection from an address of this machine; only ever to loopback."""
        parts = urlsplit(self.address)
        assert parts.hostname == "127.0.0.1"
        local = None if source is None else (source, 0)
        return await asyncio.open_connection(parts.hostname, parts.port, local_addr=local)


@dataclass
class Outcome:
    """What the honest clients got."""

    statuses: Counter[int] = field(default_factory=Counter)
    seconds: list[float] = field(default_factory=list)
    events: list[str] = field(default_factory=list)
    """Users whose event was answered with 200."""
    lists: int = 0
    """Lists that were answered with 200."""

    @property
    def failed(self) -> int:
        """Requests not answered with 200; 0 stands for a broken connection."""
        return self.statuses.total() - self.statuses[200]

    @property
    def p99(self) -> float:
        """Seconds."""
        return float(np.percentile(self.seconds, 99))

    def sentence(self) -> str:
        """For people."""
        middle = float(np.percentile(self.seconds, 50))
        return (
            f"{self.statuses.total()} honest requests, {self.failed} failed, "
            f"{len(self.events)} events kept, "
            f"p50 {middle * 1e3:.0f} ms, p99 {self.p99 * 1e3:.0f} ms"
        )


def request(path: str, body: bytes | dict[str, Any]) -> bytes:
    """A POST request as bytes."""
    body = json.dumps(body).encode() if isinstance(body, dict) else body
    head = (
        f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {TOKEN}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


async def read_status(reader: asyncio.StreamReader) -> int:
    """The status of one answer; its body is read and dropped."""
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    length = head.partition(b"content-length:")[2].partition(b"\r\n")[0]
    await reader.readexactly(int(length or 0))
    return int(head.split(b" ", 2)[1])


async def honest(target: Target, number: int, until: float, outcome: Outcome) -> None:
    """Ask for recommendations and send events in turn, on one connection."""
    name = secrets.token_hex(4)
    reader, writer = await target.connect()
    for turn in range(1_000_000):
        began = time.perf_counter()
        if began >= until:
            break
        user = f"{name}-{turn}"
        if turn % 2:
            event = {"user": user, "item": target.items[turn % len(target.items)]}
            sent = request("/events", {"events": [event]})
        else:
            asked = target.users[(31 * number + turn) % len(target.users)]
            sent = request("/recommend", {"users": [asked], "n": 10})
        try:
            writer.write(sent)
            status = await read_status(reader)
        except (OSError, asyncio.IncompleteReadError):
            status = 0
            reader, writer = await target.connect()
        outcome.statuses[status] += 1
        outcome.seconds.append(time.perf_counter() - began)
        if status == 200 and turn % 2:
            outcome.events.append(user)
        outcome.lists += status == 200 and not turn % 2
    writer.close()


async def surrogates(target: Target, until: float) -> None:
    """Ids that no database keeps, and other rows that must fail alone."""
    bodies = [
        b'{"users": ["\\ud800"]}',
        b'{"users": ["\\udfff", "a"], "histories": [["\\udbff"]]}',
        b'{"users": ["a\\u0000b"], "unknown": "error"}',
        b'{"users": [NaN]}',
        b'{"users": [' + b"9" * 4000 + b'], "unknown": "error"}',
    ]
    sent = [request("/recommend", body) for body in bodies]
    item = json.dumps(target.items[0]).encode()
    for user in (b'"\\ud800"', b'"a\\u0000b"', b'""'):
        event = b'{"events": [{"user": %s, "item": %s}]}' % (user, item)
        sent.append(request("/events", event))
    reader, writer = await target.connect(ATTACKER)
    for turn in range(1_000_000):
        if time.perf_counter() >= until:
            break
        writer.write(sent[turn % len(sent)])
        status = await read_status(reader)
        assert 400 <= status < 500, (status, sent[turn % len(sent)])
    writer.close()


async def bad_rules(target: Target, until: float) -> None:
    """Rules of the wrong form, and as much work as rules can ask for."""
    wrong: list[Any] = [
        {"only": {"x" * 200_000: 1}},
        {"only": {f"genre {i}": "drama" for i in range(3000)}},
        {"only": {"genre": [f"{i}" for i in range(60_000)]}},
        {"boost": {"recency": 1e9}},
        {"slots": {"9" * 4000: 1}},
        {"diversity": [0.5]},
        {"max_per": {"genre": 10**30}},
    ]
    sent = [request("/recommend", {"users": target.users[:1], "rules": r}) for r in wrong]
    heavy = {"users": target.users[:73], "n": 200, "rules": {"diversity": 0.9}}
    sent.append(request("/recommend", heavy))
    for turn in range(1_000_000):
        if time.perf_counter() >= until:
            break
        reader, writer = await target.connect(ATTACKER)
        writer.write(sent[turn % len(sent)])
        status = await read_status(reader)
        assert status in (200, 422, 429), (status, sent[turn % len(sent)][:300])
        writer.close()


async def bad_scores(target: Target, until: float) -> None:
    """Candidates of the wrong form, unknown ones, and as many as a request may name."""
    user = target.users[0]
    wrong: list[Any] = [
        {"candidates": [{}] * 3000},
        {"candidates": [{"user": user, "items": [[]] * 3000}]},
        {"candidates": [{"user": user, "history": [1], "items": [1]}]},
        {"candidates": [{"user": "x" * 100_000, "items": [1]}]},
        {"candidates": [{"user": user, "items": [10**3000]}], "unknown": "error"},
    ]
    heavy: list[Any] = [
        {"candidates": [{"user": user, "items": [f"no {i}" for i in range(20_000)]}]},
        {
            "candidates": [{"user": u, "items": target.items[:60]} for u in target.users[:73]],
            "rank": True,
        },
    ]
    sent = [(request("/score", body), False) for body in wrong]
    sent += [(request("/score", body), True) for body in heavy]
    sent.append((request("/score", b'{"candidates": [{"user": "\\ud800", "items": [1]}]}'), False))
    for turn in range(1_000_000):
        if time.perf_counter() >= until:
            break
        body, is_sound = sent[turn % len(sent)]
        reader, writer = await target.connect(ATTACKER)
        writer.write(body)
        status = await read_status(reader)
        # A busy machine may be too slow to send a large body in time: it is cut off with 408.
        allowed = (408, 429, 200 if is_sound else 422)
        assert status in allowed, (status, body[:300])
        writer.close()


async def hang_up(target: Target, until: float) -> None:
    """Fifteen requests as expensive as they come, 18 KB in all; nobody waits for the answers."""
    costs = ((256, 200, True), (73, 200, True), (256, 200, False))
    while time.perf_counter() < until:
        for turn in range(15):
            people, n, explain = costs[turn % 3]
            users = [target.users[(turn + i) % len(target.users)] for i in range(people)]
            _, writer = await target.connect(ATTACKER)
            writer.write(request("/recommend", {"users": users, "n": n, "explain": explain}))
            with contextlib.suppress(OSError):
                await writer.drain()
            writer.close()
        await asyncio.sleep(0.5)


async def besiege(target: Target, attack: Attack | None, seconds: float, clients: int) -> Outcome:
    """Honest clients beside two that attack."""
    until, outcome = time.perf_counter() + seconds, Outcome()
    work: list[Awaitable[None]] = [honest(target, i, until, outcome) for i in range(clients)]
    if attack is not None:
        work += [attack(target, until) for _ in range(2)]
    await asyncio.gather(*work)
    return outcome


async def dawdle(target: Target, connections: int, patience: float) -> int:
    """How many connections the server still holds after `patience` seconds of half a request."""
    halves = [
        b"",
        b"GET /hea",
        request("/recommend", b'{"users": []}')[:-5],
        b"GET / HTTP/1.1\r\nA: b",
    ]
    links = [await target.connect() for _ in range(connections)]
    for number, (_, writer) in enumerate(links):
        writer.write(halves[number % len(halves)])

    async def held(reader: asyncio.StreamReader) -> bool:
        with contextlib.suppress(OSError):
            while await reader.read(65536):
                pass
        return False

    waiting = [asyncio.create_task(held(reader)) for reader, _ in links]
    _, open_still = await asyncio.wait(waiting, timeout=patience)
    for task in open_still:
        task.cancel()
    for _, writer in links:
        writer.close()
    return len(open_still)


def main(run: Path, seconds: float = 8.0) -> None:
    """Attack a server of our own and print the outcome."""
    from leporid.models import Recommender
    from leporid.serve import open_store
    from tests.serve.test_kill import server

    model = Recommender.load(run / "model")
    ids = model.users.ids.to_pylist(), model.items.ids.to_pylist()
    attacks: list[tuple[str, Attack | None]] = [
        ("alone", None),
        ("beside bad rows", surrogates),
        ("beside bad rules", bad_rules),
        ("beside bad scores", bad_scores),
        ("beside clients that hang up", hang_up),
    ]
    for name, attack in attacks:
        with tempfile.TemporaryDirectory() as folder:
            store = Path(folder) / "events.db"
            with server(run, store) as (_, address):
                outcome = asyncio.run(besiege(Target(address, *ids), attack, seconds, 16))
                kept = Counter(event.user for event in open_store(store).events())
            lost = len(set(outcome.events) - set(kept))
            doubled = sum(count > 1 for count in kept.values())
            print(f"{name}: {outcome.sentence()}, {lost} lost, {doubled} doubled", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
