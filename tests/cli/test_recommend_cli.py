"""`leporid recommend` for many users, with filters, similar items and reasons; the catalogues."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.csv
import pyarrow.parquet
import pytest
from typer.testing import CliRunner

from leporid import Rules, initializers, models
from leporid.cli.app import app
from leporid.data import IdMap, Interactions, Split
from leporid.errors import ConfigError, DataError, LeporidWarning, UnknownIdError, UnknownNameError
from leporid.models.closed_form.ease import EASE
from tests.test_contract import make_split

runner = CliRunner()


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return EASE(l2=5.0).fit(make_split()).save(tmp_path_factory.mktemp("run") / "model")


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Items 3, 13, ..., 163 in turns Drama, Drama|War and Comedy; and one nobody knows."""
    path = tmp_path_factory.mktemp("items") / "items.csv"
    genres = ["Drama", "Drama|War", "Comedy"]
    rows = [f"{10 * i + 3},Film {i},{genres[i % 3]}" for i in range(17)]
    path.write_text("\n".join(["item_id,title,genres", *rows, "999,Elsewhere,Western"]) + "\n")
    return path


def ask(*arguments: Any) -> Any:
    out = runner.invoke(app, ["recommend", *map(str, arguments), "--json"])
    assert out.exit_code == 0, (out.output, out.exception)
    return json.loads(out.stdout)


def test_all_users_into_a_file(run: Path, tmp_path: Path) -> None:
    target = tmp_path / "recs.parquet"
    answer = ask(run, "--all", "-n", 4, "-o", target)
    frame = EASE.load(run).recommend_frame(n=4)
    assert answer == {
        "path": str(target), "users": 31, "rows": frame.num_rows,
    }  # fmt: skip
    assert pyarrow.parquet.read_table(target).equals(frame)
    words = runner.invoke(app, ["recommend", str(run), "--all", "-n", "4", "-o", str(target)])
    assert f"{frame.num_rows} rows for 31 users" in words.stdout


def test_the_lists_of_all_items_into_a_file(run: Path, tmp_path: Path) -> None:
    target = tmp_path / "lists.parquet"
    answer = ask(run, "--all-items", "-n", 4, "-o", target)
    lists = EASE.load(run).item_lists(4)
    assert answer == {"path": str(target), "items": 17, "rows": lists.num_rows}
    assert pyarrow.parquet.read_table(target).equals(lists)


def test_the_users_of_a_file(run: Path, tmp_path: Path) -> None:
    users = tmp_path / "users.txt"
    users.write_text("u07\nnobody\nu02\n")
    with pytest.warns(LeporidWarning, match="1 of 3 users .* 'nobody'"):
        ask(run, "--users", users, "-n", 2, "-o", tmp_path / "recs.csv")
    recs = pyarrow.csv.read_csv(tmp_path / "recs.csv")
    assert recs["user"].to_pylist() == ["u07", "u07", "u02", "u02"]


def test_unknown_users_fail_a_command_only_if_asked_to(run: Path, tmp_path: Path) -> None:
    model = EASE.load(run)
    with pytest.warns(LeporidWarning):
        popular = model.recommend_history([[]], 3, unknown="popular")[0][0].tolist()
    both = (run, "--user", "nobody", "--user", "u07", "-n", 3, "--explain")
    known = model.recommend("u07", 3)[0].tolist()
    for unknown, filled in (("skip", []), ("popular", popular)):
        with pytest.warns(LeporidWarning, match="1 of 2 users are unknown to ease"):
            answer = ask(*both, "--unknown", unknown)
        assert [entry["user"] for entry in answer] == ["nobody", "u07"]
        lists = [[item["item"] for item in entry["items"]] for entry in answer]
        assert lists == [filled, known]
        with pytest.warns(LeporidWarning, match="2 of 3 histories have no item that ease knows"):
            answer = ask(
                *(run, "--history", "", "--history", "3,43", "--history", "x", "-n", 3),
                *("--explain", "--unknown", unknown),
            )
        assert [len(entry["items"]) for entry in answer] == [len(filled), 3, len(filled)]
    users, target = tmp_path / "users.txt", tmp_path / "recs.csv"
    users.write_text("u07\nnobody\n")
    into = (run, "--users", users, "-n", 3, "-o", target)
    with pytest.warns(LeporidWarning, match="1 of 2 users .* most popular items"):
        ask(*into, "--unknown", "popular")
    assert pyarrow.csv.read_csv(target)["item"].to_pylist() == [*known, *popular]
    for arguments in ((*both, "--unknown", "error"), both, (*into, "--unknown", "error")):
        failed = runner.invoke(app, ["recommend", *map(str, arguments)]).exception
        assert isinstance(failed, UnknownIdError)
        assert "'nobody'" in str(failed)
    wrong = runner.invoke(app, ["recommend", *map(str, both), "--unknown", "populer"]).exception
    assert "did you mean 'popular'" in str(wrong)


def test_filters_by_id_and_by_column(run: Path, table: Path) -> None:
    common = (run, "--user", "u03", "--include-seen", "-n", 17)

    def items(*more: Any) -> set[int]:
        return {entry["item"] for entry in ask(*common, *more)[0]["items"]}

    drama, war = {10 * i + 3 for i in range(17) if i % 3 < 2}, {10 * i + 3 for i in range(1, 17, 3)}
    every = {10 * i + 3 for i in range(17)}
    assert items("--only", "genre=Drama", "--items", table) == drama
    assert items("--exclude", "genre=war", "--items", table) == every - war
    assert items("--only", "genre=War,Comedy", "--items", table) == (every - drama) | war
    assert items("--only", "genre=Drama", "--only", "13,23", "--items", table) == {13}
    assert items("--only", "3,13", "--exclude", "13") == {3}
    bare = table.with_name("bare.csv")
    bare.write_text("item_id,kind\n13,a\n23,b\n")
    assert items("--only", "kind=a", "--items", bare) == {13}


def test_similar_items_and_reasons(run: Path, table: Path) -> None:
    model = EASE.load(run)
    answer = ask(run, "--similar", "43", "-n", 3, "--items", table)[0]
    near, values = model.similar_items(43, 3)
    assert [entry["item"] for entry in answer["items"]] == near.tolist()
    assert [entry["similarity"] for entry in answer["items"]] == pytest.approx(values.tolist())
    assert answer["items"][0]["title"] == f"Film {(near[0] - 3) // 10}"
    for person in (("--user", "u03"), ("--history", "3,43")):
        entry = ask(run, *person, "-n", 1, "--explain", "--items", table)[0]["items"][0]
        history = "u03" if person[0] == "--user" else ["3", "43"]
        reasons, _ = model.explain(history, entry["item"])
        assert [reason["item"] for reason in entry["because"]] == reasons.tolist()
        words = runner.invoke(
            app, ["recommend", str(run), *person, "-n", "1", "--explain", "--items", str(table)]
        )
        assert "because" in words.stdout
        assert "own weights" in " ".join(words.stdout.split())


def test_lists_follow_the_rules_of_a_file(run: Path, table: Path, tmp_path: Path) -> None:
    model, file = EASE.load(run), tmp_path / "rules.toml"
    file.write_text('max_per.genre = 1\n[exclude]\ngenre = "comedy"\n')
    bound = Rules.read(file).bind(model.item_columns(table))
    options = ("-n", 5, "--include-seen", "--rules", file, "--items", table)
    [answer] = ask(run, "--user", "u03", *options)
    items = model.recommend("u03", 5, include_seen=True, rules=bound)[0]
    assert [entry["item"] for entry in answer["items"]] == [i for i in items if i is not None]
    assert len(answer["items"]) == 1  # a drama, and every film about war is one too
    ask(run, "--all", *options, "-o", tmp_path / "recs.parquet")
    assert pyarrow.parquet.read_table(tmp_path / "recs.parquet").num_rows == 31
    out = runner.invoke(app, ["recommend", str(run), "--user", "u03", "--rules", str(file)])
    assert "--items" in str(out.exception)


def test_an_id_is_printed_as_it_is_typed(tmp_path: Path) -> None:
    users, items = IdMap.from_values([1, 2], "user"), IdMap.from_values([12345, 67890, 777], "item")
    pairs = [[0, 0, 1], [0, 1, 2]]
    part = Interactions.from_arrays(*pairs, None, users=users, items=items)
    none = part.select([])
    folder = EASE(l2=1.0).fit(Split(part, none, none, "toy")).save(tmp_path / "model")
    for question in (["--user", "1", "--include-seen"], ["--similar", "777"]):
        out = runner.invoke(app, ["recommend", str(folder), *question])
        assert out.exit_code == 0, out.exception
        assert "12345" in out.stdout
        assert "12,345" not in out.stdout
    [answer] = ask(folder, "--user", "1", "--include-seen")
    assert (answer["user"], type(answer["items"][0]["item"])) == (1, int)
    [answer] = ask(folder, "--similar", "777")
    assert answer["similar to"] == 777
    alone = runner.invoke(app, ["recommend", str(folder), "--similar", "67890"])
    assert "similar to 67890: no item" in alone.stdout


def test_questions_without_an_answer(run: Path, table: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.csv"
    other.write_text("item_id,title\n1,One\n")
    strange = tmp_path / "strange.csv"
    strange.write_text("code,label\n3,One\n")
    (tmp_path / "strangers.txt").write_text("nobody\n")
    user = ("--user", "u03")
    for arguments, kind, words in (
        (("--all",), ConfigError, "add -o recs.parquet"),
        (("--all", *user, "-o", "x.csv"), ConfigError, "ask for one of"),
        (("--history", "3", "-o", "x.csv"), ConfigError, "leave --history"),
        (("--all", "-o", "x.xlsx"), ConfigError, "suffix"),
        (("--similar", "4"), UnknownIdError, "unknown item"),
        (("--similar", "3", "--only", "3"), ConfigError, "no filters"),
        (("--users", tmp_path / "strangers.txt", "-o", "x.csv"), UnknownIdError, "none of the 1"),
        ((*user, "--only", "genre=Drama"), DataError, "add --items FILE"),
        ((*user, "--only", "genre=Opera", "--items", table), DataError, "there are drama"),
        ((*user, "--only", "gener=Drama", "--items", table), UnknownNameError, "'genres'"),
        ((*user, "--only", "3", "--only", "13"), ConfigError, "exclude each other"),
        ((*user, "--items", other), DataError, "title of none"),
        ((*user, "--items", strange), DataError, "columns found: code, label"),
    ):
        failed = runner.invoke(app, ["recommend", str(run), *map(str, arguments)]).exception
        assert isinstance(failed, kind), (arguments, failed)
        assert words in str(failed)


def test_the_catalogues_say_what_each_takes() -> None:
    listed = json.loads(runner.invoke(app, ["models", "--json"]).stdout)
    assert [entry["name"] for entry in listed] == models.available()
    by_name = {entry["name"]: entry for entry in listed}
    assert by_name["dlr2"]["initial_embeddings"]
    assert not by_name["ease"]["initial_embeddings"]
    assert {"paper", "softmax", "general", "authors", "general (large)"} < set(
        by_name["dlr2"]["recipes"]
    )
    assert by_name["sasrec"]["new_users"]
    assert by_name["toppop"]["new_users"]
    l2 = next(row for row in by_name["ease"]["settings"] if row["setting"] == "l2")
    assert (l2["type"], l2["default"], l2["range"]) == ("float", 300.0, "above 0")
    assert "ridge" in l2["meaning"]
    inherited = {row["setting"]: row["meaning"] for row in by_name["dlr2"]["settings"]}
    assert "Optimiser steps" in inherited["steps"]
    starts = json.loads(runner.invoke(app, ["initializers", "--json"]).stdout)
    assert [entry["name"] for entry in starts] == initializers.available()
    assert {entry["name"] for entry in starts if not entry["standardized"]} == {"random"}
    for arguments in (["models"], ["models", "dlr2"], ["initializers"], ["data", "list"]):
        lines = runner.invoke(app, arguments).stdout.splitlines()
        # No name, sentence or address is cut.
        assert max(map(len, lines)) <= 80, arguments
    assert any("https://" in line for line in lines)
    words = " ".join(runner.invoke(app, ["models"]).stdout.split())
    assert "recipes: paper, authors, softmax, general" in words
    assert "alpha = 0.5  (float or" in runner.invoke(app, ["initializers", "leporid"]).stdout
    assert isinstance(runner.invoke(app, ["models", "eas"]).exception, UnknownNameError)
