"""`choose` from a log to a run that is served: answers, edges, kills and interrupts."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import leporid
from leporid.data import IdMap, Interactions
from leporid.errors import ConfigError, DataError, LeporidWarning, UnknownNameError
from leporid.foundation import read_json
from leporid.models import Blend, Recommender, find_model
from leporid.runs import read_run
from leporid.selection import Choice, finalise, schedule, task
from leporid.selection.budget import Deadline
from leporid.selection.candidates import Candidate
from leporid.selection.evaluator import TrialEvaluator
from leporid.selection.finalise import Session
from leporid.selection.search import Search
from leporid.serve.loaded_run import load_run
from tests.selection.clocks import Clock

QUICK = ("toppop", "itemknn", "rp3beta")


def planted() -> Interactions:
    """Groups of users with items of their own: neighbours tell, popularity does not."""
    return leporid.synthesize(120, 70, 3000, seed=5)


def log_of(rows: list[tuple[int, int, int]]) -> Interactions:
    user, item, when = np.array(rows).T
    users, items = (IdMap.from_values(ids.tolist(), "id") for ids in (user, item))
    return Interactions.from_arrays(
        users.encode(pa.array(user)), items.encode(pa.array(item)), when, users, items
    )


@pytest.fixture(scope="module")
def short() -> Iterator[None]:
    """Two rounds of variants: the search is over before its time, on a busy machine too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(schedule, "MAX_VARIANT_ROUNDS", 2)
        yield


@pytest.fixture(scope="module")
def chosen(short: None, tmp_path_factory: pytest.TempPathFactory) -> Choice:
    folder = tmp_path_factory.mktemp("choose") / "chosen"
    return leporid.choose(
        planted(), 120, models=QUICK, output=folder, progress=False, clock=Clock()
    )


def test_the_answer_is_a_model_a_table_and_reasons(chosen: Choice) -> None:
    assert chosen.model.fitting.final
    assert len(chosen.model.known) == len(planted())
    evaluated = {row["model"] for row in chosen.table}
    assert {"toppop", "itemknn"} <= evaluated <= set(QUICK)
    ended = [row["NDCG@10"] for row in chosen.table]
    assert ended == sorted(ended, reverse=True)
    assert chosen.table[0]["model"] != "toppop"
    deploy, sure, following, *more = chosen.why.splitlines()
    tested = {row["model"]: f"{100 * row['HR@10']:.0f}" for row in chosen.tested}
    model, _, settings = chosen.winner.partition(" ")
    assert deploy.startswith(f"Deploy {model}. {tested[chosen.winner]}% of users ")
    assert f"(most popular items: {tested['toppop']}%)." in deploy
    assert "read once, its NDCG@10 is " in sure
    assert "intervals: to toppop +" in sure
    assert following.startswith("What would help? More search time: ")
    assert more == ([f"Settings: {model} with {settings}."] if settings else [])
    assert chosen.tested[0]["model"] == chosen.winner
    assert {"toppop", "itemknn"} <= {row["model"] for row in chosen.tested} | {chosen.winner}


def test_the_folder_is_a_run(chosen: Choice) -> None:
    assert chosen.folder is not None
    loaded = Recommender.load(chosen.folder)
    user = chosen.model.users.external(3)
    assert (loaded.recommend(user)[0] == chosen.model.recommend(user)[0]).all()
    assert loaded.recommend_history([[chosen.model.items.external(2)]], n=3)[0].shape == (1, 3)
    run = read_run(chosen.folder)
    assert run.record.experiment == "choose"
    assert run.record.metrics["NDCG@10"] == pytest.approx(chosen.tested[0]["NDCG@10"])
    assert load_run(chosen.folder).metrics == run.record.metrics
    page = (chosen.folder / "report.html").read_text(encoding="utf-8")
    for heading in ("The search", "The models", "Recommendations", "On test", "Order of the cand"):
        assert f">{heading}" in page
    assert page.count("<svg") >= 2
    assert chosen.commands[1].split(" --seed")[0] in page
    assert "0 bytes" not in page


def test_the_same_question_again_is_answered_from_the_folder(chosen: Choice) -> None:
    assert chosen.folder is not None
    journal = chosen.folder / "search" / "journal.jsonl"
    before = journal.read_bytes()
    again = leporid.choose(planted(), 120, models=QUICK, output=chosen.folder, progress=False)
    assert "nothing was written" in again.note
    assert again.to_dict() == chosen.to_dict() == json.loads(json.dumps(chosen.to_dict()))
    assert journal.read_bytes() == before
    with pytest.raises(ConfigError, match="was made for metric"):
        leporid.choose(planted(), 130, "HR@10", output=chosen.folder, progress=False, clock=Clock())


def test_what_is_tested_has_learnt_from_validation_and_not_from_test(chosen: Choice) -> None:
    assert chosen.folder is not None
    split = leporid.temporal_split(planted())
    validated = Recommender.load(chosen.folder / "validated")
    assert len(validated.train) == len(split.train) + len(split.valid)
    record = read_run(chosen.folder).record
    assert record.extra["learnt"] == "train and validation"
    assert record.extra["data_digest"] == split.digest
    assert record.valid_metrics == {}


def test_a_winner_whose_fit_crashes_gives_its_place_to_the_next(
    short: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    fitted, asked = finalise.fit_validated, []

    def crash(evaluator: TrialEvaluator, candidate: Candidate, guard: Deadline) -> Recommender:
        asked.append(candidate)
        if len(asked) == 1:
            raise np.linalg.LinAlgError("Eigenvalues did not converge")
        return fitted(evaluator, candidate, guard)

    monkeypatch.setattr(finalise, "fit_validated", crash)
    how: dict[str, Any] = {"progress": False, "clock": Clock(), "output": tmp_path / "out"}
    chosen = leporid.choose(planted(), 600, models=("toppop", "itemknn"), **how)
    assert "could not be fitted: Eigenvalues did not converge" in chosen.why
    assert chosen.winner != asked[0].label
    value = next(row["NDCG@10"] for row in chosen.table if _label(row) == chosen.winner)
    assert read_value(chosen) == value
    assert all(chosen.winner.split()[0] in command for command in chosen.commands[1:])


def read_value(chosen: Choice) -> float:
    assert chosen.folder is not None
    kept: dict[str, float] = read_json(chosen.folder / "chosen.json")
    return kept["value"]


def _label(row: dict[str, Any]) -> str:
    return " ".join([row["model"], row["settings"].replace("default", "")]).strip()


def test_a_final_fit_that_crashes_leaves_the_tested_model(
    short: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def crash(*_: Any) -> Recommender:
        raise MemoryError("too large")

    monkeypatch.setattr(finalise, "fit_final", crash)
    chosen = leporid.choose(
        planted(), 600, models=("toppop", "itemknn"), progress=False, clock=Clock()
    )
    assert "No final fit: too large; the model in the folder is not fitted" in chosen.why
    assert [row["model"] for row in chosen.tested].count(chosen.winner) == 1
    assert not chosen.model.fitting.final


def test_without_time_for_a_blend_or_a_test_there_is_still_an_answer(
    short: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    decide, clock = finalise.decide_in_time, Clock()

    def too_late(session: Session) -> Any:
        decision = decide(session)
        clock.advance(10_000)
        return decision

    monkeypatch.setattr(finalise, "decide_in_time", too_late)
    fitted = finalise.fit_validated

    def slow(evaluator: TrialEvaluator, candidate: Candidate, guard: Deadline) -> Recommender:
        if candidate.model != "toppop":
            clock.advance(100)
        guard.advance(0)
        return fitted(evaluator, candidate, guard)

    monkeypatch.setattr(finalise, "fit_validated", slow)
    models = ("toppop", "itemknn")
    chosen = leporid.choose(planted(), 600, models=models, progress=False, clock=clock)
    assert chosen.winner == "toppop"
    assert "It was not the best: it loses to itemknn" in chosen.why
    assert "could not be fitted in the time left" in chosen.why
    assert "itemknn" not in chosen.commands[1]


def test_choosing_never_looks_at_test(short: None) -> None:
    split = leporid.temporal_split(planted())
    half = split.test.select(np.arange(0, len(split.test), 2))
    tables = [
        leporid.choose(s, 600, models=("toppop", "ease"), progress=False, clock=Clock()).table
        for s in (split, leporid.Split(split.train, split.valid, half, split.protocol))
    ]
    values = [[(row["model"], row["settings"], row["NDCG@10"]) for row in t] for t in tables]
    assert values[0] == values[1]


@pytest.mark.parametrize(
    ("rows", "answer"),
    [
        ([(u, (3 * u + 5 * k) % 17, k) for u in range(5) for k in range(8)], ""),
        ([(u, i, i) for u in range(40) for i in (u % 7, 7 + u % 5)], "too small to evaluate"),
    ],
    ids=["five users", "two items each"],
)
def test_small_logs_have_an_answer(
    short: None, rows: list[tuple[int, int, int]], answer: str
) -> None:
    chosen = leporid.choose(log_of(rows), 600, models=QUICK, progress=False, clock=Clock())
    assert answer in chosen.why
    assert len(chosen.model.recommend(chosen.model.users.external(0), n=2)[0]) == 2


def test_one_item_is_a_sentence() -> None:
    with pytest.raises(DataError, match="no user has enough interactions"):
        leporid.choose(log_of([(u, 7, u) for u in range(30)]), 3, progress=False, clock=Clock())


def test_a_log_without_times_is_split_at_random(short: None) -> None:
    data = planted()
    timeless = Interactions(data.user, data.item, None, data.users, data.items)
    with pytest.warns(LeporidWarning, match="no times"):
        chosen = leporid.choose(
            timeless, 600, models=("toppop", "itemknn"), progress=False, clock=Clock()
        )
    assert chosen.model.fitting.final


def test_no_time_at_all_still_gives_the_most_popular() -> None:
    chosen = leporid.choose(planted(), 1e-6, progress=False, clock=Clock(0.001))
    assert chosen.folder is None
    assert chosen.winner == "toppop"
    assert "its turn came when the time was over" in str(chosen.details["left out"])
    assert chosen.details["learning curve"] == {}


def test_what_cannot_be_is_refused_at_once() -> None:
    with pytest.raises(ConfigError, match="not a goal"):
        leporid.choose("no such file", metric="Gini@10")
    with pytest.raises(UnknownNameError, match="did you mean 'ease'"):
        leporid.choose("no such file", models=["eas"])
    with pytest.raises(ConfigError, match="budget"):
        leporid.choose("no such file", budget="soon")


def test_an_interrupt_keeps_the_best_so_far(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(search: Search, place: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(schedule, "vary", interrupted)
    chosen = leporid.choose(
        planted(), 600, models=("toppop", "itemknn"), progress=False, clock=Clock()
    )
    assert "Interrupted: this is the best so far" in chosen.why
    assert chosen.winner.startswith("itemknn")


def test_after_an_interrupt_the_same_command_goes_on(
    short: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    how: dict[str, Any] = {"models": ("toppop", "itemknn"), "output": tmp_path / "out"}
    how |= {"progress": False, "clock": Clock(0.001)}

    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(schedule, "vary", interrupted)
        first = leporid.choose(planted(), 600, **how)
    again = leporid.choose(planted(), 600, **how)
    assert len(again.table) > len(first.table) or "no better candidate" in again.note
    lines = (tmp_path / "out/search/journal.jsonl").read_text(encoding="utf-8").splitlines()
    assert [e for e in map(json.loads, lines) if e["event"] == "round"], "it searched on"
    third = leporid.choose(planted(), 600, **how)
    assert third.winner == again.winner
    assert "nothing was written" in third.note


def test_a_winner_below_a_baseline_is_named_in_the_first_sentence(
    short: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = finalise._tested_on

    def unlucky(evaluator: TrialEvaluator, model: Recommender, guard: Deadline) -> Any:
        found = table(evaluator, model, guard)
        if model.name == "toppop":  # it finds everything
            found.hits[:] = True
        return found

    monkeypatch.setattr(finalise, "_tested_on", unlucky)
    chosen = leporid.choose(
        planted(), 600, models=("toppop", "itemknn"), progress=False, clock=Clock()
    )
    assert chosen.why.startswith("Careful: on test toppop is better than the chosen model, -")


def test_groups_of_users_are_reported_apart(chosen: Choice) -> None:
    groups = {row["users of the test part"]: row for row in chosen.details["users"]}
    assert {"all", "warm-users", "tail-users"} <= groups.keys()
    assert groups["all"]["value"] == pytest.approx(chosen.tested[0]["NDCG@10"])
    assert 0 < groups["tail-users"]["number"] < groups["warm-users"]["number"]


def test_titles_of_an_item_table_are_in_the_report(short: None, tmp_path: Path) -> None:
    data = planted()
    rows = [f"{key},Title of {key}" for key in data.items.ids.to_pylist()]
    (tmp_path / "items.csv").write_text("\n".join(["item_id,title", *rows]) + "\n")
    how: dict[str, Any] = {"models": ("toppop", "itemknn"), "output": tmp_path / "out"}
    how |= {"items": tmp_path / "items.csv", "progress": False, "clock": Clock()}
    chosen = leporid.choose(data, 600, **how)
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert page.count("Title of ") >= 15
    # The words of all titles are the same, so content says nothing: it is tried, and loses.
    tried = {row["settings"] for row in chosen.table if row["model"] == "itemknn"}
    assert {"default", "content=0.5", "content=1"} <= tried


def test_content_that_decides_is_chosen_and_printed(short: None, tmp_path: Path) -> None:
    """Users keep to one genre, and nobody shares an item with another user."""
    rows = [(u, 12 * u + k, k) for u in range(40) for k in range(12)]
    table = ["item_id,genre", *(f"{item},genre{user}" for user, item, _ in rows)]
    (tmp_path / "my items.csv").write_text("\n".join(table) + "\n")
    how: dict[str, Any] = {"models": ("toppop", "itemknn"), "items": tmp_path / "my items.csv"}
    chosen = leporid.choose(log_of(rows), 600, progress=False, clock=Clock(), **how)
    assert chosen.winner.startswith("itemknn content=")
    assert f"--set 'item_table={tmp_path}/my items.csv'" in chosen.commands[1]
    assert chosen.tested[0]["HR@10"] > 0.9 > chosen.tested[1]["HR@10"]


def test_a_network_is_tried_with_the_table_and_keeps_it_where_it_helps(
    short: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of 8 kinds has 40 items, and users keep to one kind: hardly two share an item."""
    rng = np.random.default_rng(0)
    rows = [
        (u, u % 8 + 8 * int(k), t) for u in range(96) for t, k in enumerate(rng.permutation(40)[:7])
    ]
    table = ["item_id,kind", *(f"{item},kind{item % 8}" for item in range(320))]
    (tmp_path / "items.csv").write_text("\n".join(table) + "\n")
    monkeypatch.setattr(task, "SMALL_LOG_MAX_STEPS", 100)
    monkeypatch.setattr(task, "CONTENT_INITS", ())  # they know the kinds too
    how: dict[str, Any] = {"models": ("toppop", "sasrec"), "items": tmp_path / "items.csv"}
    chosen = leporid.choose(log_of(rows), 6000, progress=False, clock=Clock(), **how)
    found = {row["settings"]: row["NDCG@10"] for row in chosen.table if row["model"] == "sasrec"}
    informed = [value for settings, value in found.items() if "with features" in settings]
    assert max(informed) > max(set(found.values()) - {*informed}), found
    assert "sasrec" in chosen.winner
    assert "with features" in chosen.winner
    assert f"item_table={tmp_path}/items.csv" in chosen.commands[1]


def test_the_learning_curve_has_half_of_the_users_and_all(chosen: Choice) -> None:
    curve = chosen.details["learning curve"]
    row = next(row for row in chosen.table if _label(row) == curve["candidate"])
    assert curve["half"] != curve["all"] == pytest.approx(row["NDCG@10"], abs=0.1)
    assert curve["twice"] == pytest.approx(max(2 * curve["all"] - curve["half"], curve["all"]))
    assert (
        f"{curve['half']:.4f} with half of all users and {curve['all']:.4f} with all" in chosen.why
    )


def test_what_comes_again_is_tested_by_frequency(short: None, tmp_path: Path) -> None:
    rows = [f"{u},{(7 * u + k % 3) % 23},{k}" for u in range(40) for k in range(12)]
    (tmp_path / "log.csv").write_text("\n".join(["user,item,time", *rows]) + "\n")
    how: dict[str, Any] = {"include_seen": True, "progress": False, "clock": Clock()}
    chosen = leporid.choose(tmp_path / "log.csv", 600, models=("toppop",), **how)
    tested = {row["model"]: row["HR@10"] for row in chosen.tested}
    assert tested.keys() == {"toppop", "itemknn", "frequency"}
    assert tested["frequency"] > tested["toppop"]
    assert chosen.why.startswith("Careful: on test ")
    assert "frequency is better than the chosen model, -" in chosen.why


def test_a_metric_made_of_two_means(short: None) -> None:
    chosen = leporid.choose(
        planted(), 600, "F1@5", models=("toppop", "itemknn"), progress=False, clock=Clock()
    )
    assert chosen.tested[0]["F1@5"] > 0


@pytest.mark.slow
def test_networks_are_trained_from_the_best_initialisation(
    short: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task, "SMALL_LOG_MAX_STEPS", 400)
    data = leporid.synthesize(200, 90, 6000, seed=2)
    models = ("toppop", "itemknn", "bpr")
    chosen = leporid.choose(
        data, 900, models=models, output=tmp_path / "out", progress=False, clock=Clock(0.001)
    )
    ranked = chosen.details["initialisations"]
    assert ranked.keys() == {"random", "svd", "leporid"}
    assert list(ranked.values()) == sorted(ranked.values(), reverse=True)
    trained = [row["init"] for row in chosen.table if row["model"] == "bpr"]
    assert {"leporid", next(iter(ranked))} & {*trained}


_SCRIPT = """
import sys
import leporid
data = leporid.synthesize(120, 70, 3000, seed=5)
models = ("toppop", "itemknn", "rp3beta")
leporid.choose(data, 600, models=models, output=sys.argv[1], progress=False)
"""


@pytest.mark.slow
def test_a_killed_choice_ends_with_the_same_winner(tmp_path: Path) -> None:
    def summary(folder: Path) -> dict[str, Any]:
        subprocess.run([sys.executable, "-c", _SCRIPT, str(folder)], check=True)
        kept: dict[str, Any] = read_json(folder / "chosen.json")
        return kept

    whole, folder = summary(tmp_path / "whole"), tmp_path / "killed"
    journal = folder / "search" / "journal.jsonl"
    ends = [f'"event": "{kind}"'.encode() for kind in ("decided", "fitted", "final fit")]
    for many, line in ((5, b"\n"), (16, b"\n"), *((1, end) for end in ends)):
        many += journal.read_bytes().count(line) if line != b"\n" else 0
        process = subprocess.Popen([sys.executable, "-c", _SCRIPT, str(folder)])
        while process.poll() is None:
            if journal.is_file() and journal.read_bytes().count(line) >= many:
                process.kill()
                break
            time.sleep(0.02)
        process.wait()
        if find_model(folder) is not None:
            assert read_json(folder / "chosen.json")["winner"] == whole["winner"]
            assert read_run(folder).record.extra["choose"]["label"] == whole["winner"]
    resumed = summary(folder)
    assert resumed["winner"] == whole["winner"]
    key = ("model", "settings", "NDCG@10")
    assert [[row[k] for k in key] for row in resumed["table"]] == [
        [row[k] for k in key] for row in whole["table"]
    ]


def test_a_blend_is_served_like_any_model(tmp_path: Path) -> None:
    split = leporid.temporal_split(planted())
    members = [leporid.train(name, split, progress=False) for name in ("itemknn", "ease")]
    blend = Blend.of(members, [{"model": "itemknn"}, {"model": "ease", "weight": 2.0}])
    final = blend.refit(split)
    assert final.fitting.final
    final.save(tmp_path / "model")
    loaded = Recommender.load(tmp_path / "model")
    assert isinstance(loaded, Blend)
    assert all(member.fitting.final for member in loaded.members)
    rows = np.arange(5, dtype=np.int32)
    assert np.array_equal(loaded.score(rows), final.score(rows))
    assert load_run(tmp_path).model.name == "blend"
