"""Chunks of users: they follow the free memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from leporid.errors import ConfigError
from leporid.foundation import machine


def test_chunks_follow_the_free_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "free_memory", lambda: 8 * 4 * 1000 * 5)
    assert machine.chunk_rows(1000) == 5
    assert machine.chunk_rows(10**9) == 1
    assert machine.chunk_rows(1000, batch_size=12) == 12
    with pytest.raises(ConfigError, match="batch_size must be at least 1"):
        machine.chunk_rows(1000, batch_size=0)
    monkeypatch.setattr(machine, "free_memory", lambda: 2**50)
    assert machine.chunk_rows(1_000_000) == 2**28 // 4_000_000
    assert machine.chunk_rows(10) == 2048


def test_free_memory_respects_the_control_group(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(machine, "_CGROUP", tmp_path)
    everything = machine.free_memory()
    assert everything > 2**20
    (tmp_path / "memory.max").write_text("max\n")
    (tmp_path / "memory.current").write_text("100\n")
    assert machine.free_memory() > 2**20
    (tmp_path / "memory.max").write_text("1100\n")
    assert machine.free_memory() == 1000
