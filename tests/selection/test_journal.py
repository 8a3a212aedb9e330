"""The journal: whole lines only, one question per folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import leporid
from leporid.errors import ConfigError, DataError, LeporidWarning
from leporid.runs import Journal
from leporid.selection.events import open_journal, seconds_spent

EASE: dict[str, Any] = {"model": "ease", "settings": {}}
LATE: dict[str, Any] = {"key": "a", "candidate": EASE, "why": "it is slow"}
LINES: dict[str, dict[str, Any]] = {
    "late": LATE,
    "evaluated": {"key": "a", "candidate": EASE, "value": 0.5, "seconds": 1.0},
    "failed": {"key": "a", "candidate": EASE, "why": "it broke"},
    "left out": {"model": "ease", "why": "it is slow"},
    "inits": {"values": {}},
    "plan": {"settings": {}, "speeds": {}},
    "round": {"candidates": [EASE]},
    "chosen": {"label": "ease", "budget": 60.0},
    "decided": {"key": "a", "interrupted": False, "budget": 60.0, "left": 3.0},
}


def test_events_come_back_and_the_time_spent_with_them(tmp_path: Path) -> None:
    journal = open_journal(tmp_path / "search", {"metric": "HR@10"})
    assert not journal.is_resumed
    for place, (kind, fields) in enumerate(LINES.items()):
        journal.append(kind, at=1.5 * place, **fields)
    again = open_journal(tmp_path / "search", {"metric": "HR@10"})
    assert again.is_resumed
    assert again.events == journal.events
    assert [e["event"] for e in again.of("evaluated")] == ["evaluated"]


def test_the_time_of_the_end_is_not_spent_on_the_search(tmp_path: Path) -> None:
    journal = open_journal(tmp_path, {})
    journal.append("late", at=50.0, **LATE)
    for kind in ("decided", "fitted", "final fit", "tested", "chosen"):
        journal.append(kind, at=59.0, **LINES.get(kind, {}))
    assert seconds_spent(journal) == 50.0


def test_a_line_cut_short_by_a_kill_is_left_out_and_swallows_nothing(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    Journal(path, {}).append("late", at=1, **LATE)
    with open(path, "a", encoding="utf-8") as file:
        file.write('{"event": "evaluated", "at": 2, "ke')
    again = Journal(path, {})
    assert len(again.events) == 2
    again.append("late", at=3, **{**LATE, "key": "b"})
    assert [e["key"] for e in Journal(path, {}).of("late")] == ["a", "b"]


@pytest.mark.parametrize(
    ("kind", "name"), [(kind, name) for kind, fields in LINES.items() for name in ("at", *fields)]
)
def test_a_damaged_line_is_named_and_skipped(tmp_path: Path, kind: str, name: str) -> None:
    path = tmp_path / "journal.jsonl"
    open_journal(tmp_path, {}).append("late", at=1, **LATE)
    whole = {"event": kind, "at": 2.0, **LINES[kind]}
    lacking = {key: value for key, value in whole.items() if key != name}
    with open(path, "a", encoding="utf-8") as file:
        file.write(json.dumps(lacking) + "\n" + json.dumps({**whole, name: None}) + "\n")
    with pytest.warns(LeporidWarning) as seen:
        again = open_journal(tmp_path, {})
    said = [str(warning.message) for warning in seen]
    assert all(f"{path}, line {n} is damaged" in text for n, text in enumerate(said, 3))
    assert f"it has no '{name}'" in said[0]
    assert f"its '{name}' is None" in said[1]
    assert len(again.events) == 2
    again.reload()  # said once: no further warning, which would be an error here


@pytest.mark.parametrize("line", ["[1]", "7", '{"at": 1}', '{"event": 3, "at": 1}'])
def test_a_line_that_is_no_event_is_named_and_skipped(tmp_path: Path, line: str) -> None:
    path = tmp_path / "journal.jsonl"
    Journal(path, {})
    with open(path, "a", encoding="utf-8") as file:
        file.write(line + "\n")
    with pytest.warns(LeporidWarning, match="line 2 is damaged"):
        assert len(Journal(path, {}).events) == 1


def test_a_journal_without_its_question_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    Journal(path, {}).append("late", at=1, **LATE)
    path.write_text(path.read_text(encoding="utf-8").split("\n", 1)[1], encoding="utf-8")
    with pytest.raises(DataError, match=r"line 'question' of .* is lost"):
        Journal(path, {})


def test_choose_goes_on_behind_damaged_lines(tmp_path: Path) -> None:
    split = leporid.temporal_split(leporid.synthesize(60, 40, 900, seed=1))
    folder = tmp_path / "out"
    question = {"data": split.digest, "protocol": split.protocol, "metric": "NDCG@10", "seed": 0}
    question["items"] = None
    path = open_journal(folder / "search", question).path
    assert path is not None
    with open(path, "a", encoding="utf-8") as file:
        for kind, lost in (("evaluated", "key"), ("late", "at"), ("chosen", "budget")):
            fields = {"event": kind, "at": 1.0, **LINES[kind]}
            file.write(json.dumps({k: v for k, v in fields.items() if k != lost}) + "\n")
    with pytest.warns(LeporidWarning, match="is damaged"):
        chosen = leporid.choose(split, 1e-6, output=folder, models=["toppop"], progress=False)
    assert chosen.winner == "toppop"


def test_another_question_is_refused(tmp_path: Path) -> None:
    Journal(tmp_path / "journal.jsonl", {"metric": "HR@10"})
    with pytest.raises(ConfigError, match="was made for metric 'HR@10', not 'NDCG@10'"):
        Journal(tmp_path / "journal.jsonl", {"metric": "NDCG@10"})


def test_a_folder_that_cannot_be_written_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "search").write_text("a file", encoding="utf-8")
    with pytest.raises(DataError, match="could not write"):
        open_journal(tmp_path / "search", {})
