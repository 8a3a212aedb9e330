"""One or two hostile addresses beside honest clients: everybody else is still answered."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import psutil
import pytest

from tests.attack.one_client import (
    ATTACKS,
    Outcome,
    besiege,
    endless_chunk,
    fill_store,
    serving,
    write_runs,
)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="needs many loopback addresses and /proc"),
]
P50, P99 = 20.0, 250.0
"""Milliseconds on a machine with nothing else to do."""
SECONDS = 6.0


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    write_runs(folder, 200_000)
    return folder


@pytest.fixture(scope="module")
def alone(runs: Path) -> Outcome:
    """Honest requests without an attack: other work on the machine slows both down."""
    with serving(runs, "small") as (target, pid):
        return besiege("none", target, pid, SECONDS)


@pytest.mark.parametrize("name", [name for name in ATTACKS if name != "none"])
def test_honest_clients_are_answered_beside_one_attack(
    runs: Path, alone: Outcome, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with serving(runs, ATTACKS[name][0]) as (target, pid):
        outcome = besiege(name, target, pid, SECONDS)
    with capsys.disabled():
        print(f"\n| {name} | {outcome.row()} |")
    assert set(outcome.honest) == {200}
    assert set(outcome.health) == {200}
    assert outcome.grown < 200
    assert outcome.milliseconds(99) < max(P99, 20 * alone.milliseconds(99))
    if name == "histories of 1,000":
        assert outcome.milliseconds(50) < max(P50, 8 * alone.milliseconds(50))


def test_a_chunk_extension_is_cut_and_a_full_store_is_said_in_words(runs: Path) -> None:
    with serving(runs, "small") as (target, pid):
        assert asyncio.run(endless_chunk(target, 1 << 26)) < 1 << 25
        told = fill_store(target, psutil.Process(pid), 1 << 20)
    assert {status for status, _ in told} == {200, 503}
    assert any(status == 503 and "full" in text for status, text in told)
    assert told[200, "/recommend"] == 1
