"""The end of a search: whatever happens to it, the answer is the same or a better one."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import leporid
from leporid.errors import DataError
from leporid.foundation import read_object
from leporid.models import Recommender, find_model
from leporid.runs import Journal, read_run, try_lock
from leporid.selection import Choice, finalise, schedule
from leporid.selection.runtime_estimates import RuntimeEstimates
from tests.selection.clocks import Clock
from tests.selection.test_choose import log_of
from tests.selection.test_search import Killed

BUDGET, MORE, LOADING = 150.0, 300.0, 60.0
"""Seconds of a search, of a longer one, and before a session has read the log."""
STEPS: list[tuple[Any, str, int]] = [
    (finalise, "decide_in_time", 1),
    (finalise, "fit_validated", 1),
    (finalise, "test_winner", 1),
    (finalise, "test_others", 1),
    (finalise, "fit_final", 1),
    (finalise, "write_run_files", 1),
    (finalise, "write_page", 1),
    (finalise, "write_json", 1),
    (Journal, "append", -1),
]
"""Where the end is killed: before this call of this function (-1: the last line)."""
at_every_step = pytest.mark.parametrize(
    ("owner", "name", "call"), STEPS, ids=[f"{name} {call}" for _, name, call in STEPS]
)


def choose(folder: Path, budget: float = BUDGET, spent: float = 0.0) -> Choice:
    """A search in which only fits take time."""
    clock, fit = Clock(), Recommender.fit
    split = leporid.temporal_split(leporid.synthesize(60, 40, 1200, seed=2, min_activity=8))

    def timed(self: Recommender, data: Any, **options: Any) -> Any:
        clock.advance(8.0 * len(data.train) / len(split.train))
        return fit(self, data, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Recommender, "fit", timed)
        patch.setattr(RuntimeEstimates, "is_doubtful", lambda *_: False)  # no process of its own
        return leporid.choose(
            split,
            budget,
            models=("toppop", "itemknn"),
            output=folder,
            progress=False,
            spent=spent,
            clock=clock,
        )


def killed(folder: Path, owner: Any, name: str, call: int, budget: float = BUDGET) -> None:
    """The same, dead before a call of a function."""
    real, calls = getattr(owner, name), 0

    def dies(*given: Any, **options: Any) -> Any:
        nonlocal calls
        calls += 1
        if given[1:2] == ("chosen",) if call < 0 else calls == call:
            raise Killed
        return real(*given, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner, name, dies)
        with pytest.raises(Killed):
            choose(folder, budget)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A finished search, that ended because its time was over."""
    folder = tmp_path_factory.mktemp("end") / "whole"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(schedule, "MAX_VARIANT_ROUNDS", 100)
        choose(folder)
        yield folder


@pytest.fixture(scope="module")
def searched(whole: Path) -> Path:
    """A search that was killed before its end."""
    folder = whole.parent / "searched"
    killed(folder, finalise, "decide_in_time", 1)
    with pytest.raises(DataError, match="run the same `leporid choose` command again"):
        Recommender.load(folder)
    return folder


@pytest.fixture(scope="module")
def longer(whole: Path) -> Path:
    """A finished search that went on with more time and was killed before its second end."""
    folder = whole.parent / "longer"
    shutil.copytree(whole, folder)
    killed(folder, finalise, "decide_in_time", 1, MORE)
    assert files(folder).items() > {(n, d) for n, d in files(whole).items() if "search" not in n}
    return folder


def summary(folder: Path) -> dict[str, Any]:
    """Of a folder whose files belong together."""
    kept, run = read_object(folder / "chosen.json"), read_run(folder)
    assert run.record.extra["choose"]["label"] == kept["winner"]
    model = Recommender.load(find_model(folder) or "")
    assert kept["winner"].startswith(model.name)
    assert model.fitting.final == ("final" in run.record.extra)
    return kept


def files(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_the_search_ends_with_more_than_the_fallback(whole: Path) -> None:
    kept = summary(whole)
    assert kept["winner"].startswith("itemknn")
    assert kept["value"] == max(row["NDCG@10"] for row in kept["table"])


@at_every_step
def test_an_end_that_was_killed_ends_as_one_that_was_not(
    whole: Path, searched: Path, tmp_path: Path, owner: Any, name: str, call: int
) -> None:
    folder = tmp_path / "out"
    shutil.copytree(searched, folder)
    killed(folder, owner, name, call)
    if find_model(folder) is not None:
        assert summary(folder)["winner"] == summary(whole)["winner"]
    again = choose(folder, spent=LOADING)
    assert again.winner == summary(whole)["winner"]
    assert again.model.fitting.final
    assert summary(folder)["value"] == summary(whole)["value"]


def test_the_same_budget_again_changes_no_file(whole: Path) -> None:
    before = files(whole)
    again = choose(whole, spent=LOADING)
    assert again.note.startswith(f"nothing was written: {whole} keeps itemknn")
    assert again.winner == summary(whole)["winner"]
    assert files(whole) == before


def test_a_second_more_changes_no_file(whole: Path, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    shutil.copytree(whole, folder)
    before = files(folder)
    again = choose(folder, BUDGET + 1, spent=LOADING)
    assert "no time is left to search for a better one" in again.note
    assert again.to_dict().keys() == summary(folder).keys() - {"key", "value", "budget"}
    assert files(folder) == before


@at_every_step
def test_with_more_time_and_a_kill_the_answer_is_no_worse(
    whole: Path, longer: Path, tmp_path: Path, owner: Any, name: str, call: int
) -> None:
    folder, before = tmp_path / "out", summary(whole)
    shutil.copytree(longer, folder)
    killed(folder, owner, name, call, MORE)
    assert summary(folder)["value"] >= before["value"], "readable, the old or the new"
    again, kept = choose(folder, MORE, spent=LOADING), summary(folder)
    assert kept["value"] >= before["value"]
    assert again.winner == kept["winner"]
    assert again.model.fitting.final


def test_a_worse_fallback_does_not_replace_the_answer(
    whole: Path, longer: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "out"
    shutil.copytree(longer, folder)
    before = {n: data for n, data in files(folder).items() if not n.startswith("search/")}
    fitted = finalise.fit_validated

    def only_the_fallback(evaluator: Any, candidate: Any, guard: Any) -> Any:
        if candidate.model != "toppop":
            raise DataError("it broke")
        return fitted(evaluator, candidate, guard)

    monkeypatch.setattr(finalise, "fit_validated", only_the_fallback)
    again = choose(folder, MORE)
    assert again.winner == summary(whole)["winner"]
    assert "nothing better could be fitted in time" in again.note
    after = {n: data for n, data in files(folder).items() if not n.startswith("search/")}
    assert after == before


def test_one_process_searches_a_folder_at_a_time(searched: Path, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    shutil.copytree(searched, folder)
    with (
        try_lock(folder / "search" / "journal.jsonl.locks" / "search"),
        pytest.raises(DataError, match="another process is searching in"),
    ):
        choose(folder)
    assert find_model(folder) is None


def test_a_damaged_summary_is_a_sentence(whole: Path, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    shutil.copytree(whole, folder)
    (folder / "chosen.json").write_text('{"winner": "ease"}', encoding="utf-8")
    with pytest.raises(DataError, match=r"is damaged .*: remove it, and the same command"):
        choose(folder)
    (folder / "chosen.json").unlink()
    assert choose(folder, spent=LOADING).winner == summary(whole)["winner"]


def test_a_log_too_small_for_a_search_is_answered_once(tmp_path: Path) -> None:
    tiny = log_of([(u, i, i) for u in range(40) for i in (u % 7, 7 + u % 5)])
    how: dict[str, Any] = {"output": tmp_path / "out", "progress": False, "clock": Clock()}
    first = leporid.choose(tiny, 20, models=["toppop"], **how)
    assert "too small to evaluate" in first.why
    before = files(tmp_path / "out")
    again = leporid.choose(tiny, 30, models=["toppop"], **how)
    assert first.winner == again.winner == "toppop"
    assert again.note
    assert files(tmp_path / "out") == before
