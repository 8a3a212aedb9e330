"""Chunks of users: they follow the free memory, and cover every row once."""

from __future__ import annotations

from pathlib import Path

import pytest

from leporid import memory
from leporid.errors import ConfigError
from leporid.ranking import chunks


def test_chunks_follow_the_free_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "free_memory", lambda: 8 * 4 * 1000 * 5)
    assert chunks.chunk_rows(1000) == 5
    assert chunks.chunk_rows(10**9) == 1
    assert chunks.chunk_rows(1000, batch_size=12) == 12
    monkeypatch.setattr(chunks, "free_memory", lambda: 2**50)
    assert chunks.chunk_rows(1_000_000) == 2**28 // 4_000_000
    assert chunks.chunk_rows(10) == 2048


def test_free_memory_respects_the_control_group(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(memory, "_CGROUP", tmp_path)
    machine = memory.free_memory()
    assert machine > 2**20
    (tmp_path / "memory.max").write_text("max\n")
    (tmp_path / "memory.current").write_text("100\n")
    assert memory.free_memory() > 2**20
    (tmp_path / "memory.max").write_text("1100\n")
    assert memory.free_memory() == 1000


@pytest.mark.parametrize(("rows", "size"), [(0, 3), (2, 3), (6, 3), (7, 3), (7, None)])
def test_slices_cover_every_row_once(rows: int, size: int | None) -> None:
    slices = list(chunks.chunk_slices(rows, 10, size))
    assert [row for part in slices for row in range(part.start, part.stop)] == list(range(rows))
    assert all(0 < part.stop - part.start <= (size or rows) for part in slices)
    with pytest.raises(ConfigError, match="batch_size must be at least 1"):
        chunks.chunk_slices(rows, 10, 0)
