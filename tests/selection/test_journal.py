"""The journal: whole lines only, one question per folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from leporid.errors import ConfigError, DataError
from leporid.selection.journal import Journal


def test_events_come_back_and_the_time_spent_with_them(tmp_path: Path) -> None:
    path = tmp_path / "race" / "journal.jsonl"
    journal = Journal(path, {"metric": "HR@10"})
    journal.append("judged", at=1.5, key="a")
    journal.append("chosen", at=2.5)
    again = Journal(path, {"metric": "HR@10"})
    assert again.events == journal.events
    assert again.spent == 2.5
    assert [e["event"] for e in again.of("judged")] == ["judged"]


def test_a_line_cut_short_by_a_kill_is_left_out_and_swallows_nothing(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    Journal(path, {}).append("judged", at=1, key="a")
    with open(path, "a", encoding="utf-8") as file:
        file.write('{"event": "judged", "at": 2, "ke')
    again = Journal(path, {})
    assert [e.get("key") for e in again.of("judged")] == ["a"]
    again.append("judged", at=3, key="b")
    assert [e["key"] for e in Journal(path, {}).of("judged")] == ["a", "b"]


def test_another_question_is_refused(tmp_path: Path) -> None:
    Journal(tmp_path / "journal.jsonl", {"metric": "HR@10"})
    with pytest.raises(ConfigError, match="another metric"):
        Journal(tmp_path / "journal.jsonl", {"metric": "NDCG@10"})


def test_a_folder_that_cannot_be_written_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "race").write_text("a file", encoding="utf-8")
    with pytest.raises(DataError, match="could not write"):
        Journal(tmp_path / "race" / "journal.jsonl", {})
