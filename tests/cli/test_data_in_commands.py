"""What commands do with data, and what they say of it: split folders, no times, the core."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from click.testing import Result
from typer.testing import CliRunner

from leporid import Split, load, probe, random_split, temporal_split
from leporid.cli.app import app
from leporid.errors import ConfigError, LeporidWarning, UnknownIdError, UnknownNameError
from leporid.interop import read_any, read_embeddings


def call(*arguments: object) -> Result:
    """Run the command; an error of ours is raised as itself."""
    result = CliRunner().invoke(app, list(map(str, arguments)), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result


def answer(*arguments: object) -> Any:
    return json.loads(call(*arguments, "--json").stdout)


def rows(seed: int = 0) -> list[tuple[int, int]]:
    """40 users with 8 to 15 of 25 items; popular items have small numbers."""
    rng = np.random.default_rng(seed)
    weight = 1 / np.arange(1, 26)
    draw = lambda: rng.choice(25, int(rng.integers(8, 16)), False, weight / weight.sum())  # noqa: E731
    return [(user, int(item)) for user in range(40) for item in draw()]


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LEPORID_CACHE", str(tmp_path / "cache"))
    path = tmp_path / "log.csv"
    lines = [f"{user},{item},{time}" for time, (user, item) in enumerate(rows())]
    path.write_text("\n".join(["user,item,timestamp", *lines]) + "\n")
    return path


@pytest.fixture
def folder(log: Path, tmp_path: Path) -> Path:
    """A split that the default options would not give."""
    call("data", "split", log, "-o", tmp_path / "sp", "--protocol", "random", "--split-seed", 5)
    return tmp_path / "sp"


@pytest.fixture
def untimed(log: Path, tmp_path: Path) -> Path:
    """The same log sorted by item, without times."""
    path = tmp_path / "untimed.csv"
    lines = [f"{user},{item}" for user, item in sorted(rows(), key=lambda row: row[1])]
    path.write_text("\n".join(["user,item", *lines]) + "\n")
    return path


def test_a_split_folder_is_taken_where_data_is(folder: Path, tmp_path: Path) -> None:
    split = Split.load(folder)
    assert split.protocol == "random(0.7, 0.1, seed=5)"
    record = answer("train", folder, "--model", "itemknn", "-o", tmp_path / "run")
    assert record["extra"]["protocol"] == split.protocol
    assert record["extra"]["data_digest"] == split.digest
    report = answer("evaluate", tmp_path / "run", "--data", folder)
    assert report["metrics"] == record["metrics"]
    assert report["protocol"] == split.protocol
    tuned = answer("tune", "itemknn", folder, "--trials", 1)
    assert tuned["trials"][0]["value"] is not None
    report = answer("embed", folder, "--method", "svd", "--dim", 3, "-o", tmp_path / "vectors")
    assert (report["part"], report["protocol"]) == ("train", split.protocol)
    report = answer("inspect", tmp_path / "vectors", "--data", folder, "--probe")
    assert report["probe"] == probe(read_any(tmp_path / "vectors"), split).rows()
    shown = call("inspect", tmp_path / "vectors", "--data", folder, "--probe").stdout
    assert "what the vectors alone predict" in shown
    shown = call("train", folder, "--model", "toppop", "-o", tmp_path / "run").stderr
    assert f"sp: a split by {split.protocol}: {len(split.train)} train," in shown


@pytest.mark.parametrize("option", [("--core", 5), ("--min-rating", 3), ("--protocol", "random")])
def test_options_of_a_log_do_not_go_with_a_split(folder: Path, option: tuple[str, object]) -> None:
    with pytest.raises(ConfigError, match=rf"already filtered and cut: leave out {option[0]}$"):
        call("train", folder, "--model", "toppop", "-o", "run", *option)


def test_embed_can_leave_the_future_out(log: Path, folder: Path, tmp_path: Path) -> None:
    how = ("--method", "svd", "--dim", 3, "--no-cache")
    of_part = ("--part", "train", "--protocol", "random", "--split-seed", 5)
    part = call("embed", log, "-o", tmp_path / "part", *how, *of_part)
    assert "embedding the training part of random(0.7, 0.1, seed=5)" in part.stderr
    call("embed", folder, "-o", tmp_path / "folder", *how)
    whole = call("embed", log, "-o", tmp_path / "whole", *how)
    assert "the test part too: for a benchmark give --part train" in whole.stderr
    assert "guessed: user=user, item=item, time=timestamp" in whole.stderr
    vectors = {name: read_embeddings(tmp_path / name) for name in ("part", "folder", "whole")}
    np.testing.assert_array_equal(vectors["part"].items.vectors, vectors["folder"].items.vectors)
    assert not np.allclose(vectors["part"].items.vectors, vectors["whole"].items.vectors)
    with pytest.raises(ConfigError, match="--protocol and --split-seed go with --part train"):
        call("embed", log, "-o", tmp_path / "part", *how, *of_part[2:])
    with pytest.raises(UnknownNameError, match="unknown part 'test'"):
        call("embed", log, "-o", tmp_path / "part", "--part", "test")
    with pytest.raises(ConfigError, match="--memory streams a whole log"):
        call("embed", folder, "-o", tmp_path / "part", "--memory", "100GB")


@pytest.mark.parametrize("name", [None, "toy"])
def test_recbole_gets_the_same_parts(log: Path, tmp_path: Path, name: str | None) -> None:
    out = tmp_path / "dataset" / "lastfm"
    options = () if name is None else ("--name", name)
    report = answer("data", "split", log, "-o", out, "--format", "recbole", *options)
    split = Split.load(out)
    for part in ("train", "valid", "test"):
        path = out / f"{name or 'lastfm'}.{part}.inter"
        assert str(path) in report["files"]
        lines = path.read_text().splitlines()
        assert lines[0] == "user_id:token\titem_id:token\ttimestamp:float"
        held: Any = getattr(split, part)
        expected = [
            f"{split.users.external(user)}\t{split.items.external(item)}\t{time}"
            for user, item, time in zip(held.user, held.item, held.time, strict=True)
        ]
        assert lines[1:] == expected
    assert (out / "benchmark.yaml").read_text() == "benchmark_filename: [train, valid, test]\n"
    # Vectors of the training part go beside the parts, and leave them there.
    call("embed", out, "-o", out, "--format", "recbole", "--method", "svd", "--dim", 3)
    assert {"lastfm.useremb", "lastfm.itememb", "recbole.yaml", "split.json"} <= {
        path.name for path in out.iterdir()
    }
    assert Split.load(out).digest == split.digest
    with pytest.raises(UnknownNameError, match="unknown format 'csv'"):
        call("data", "split", log, "-o", out, "--format", "csv")


def test_without_times_the_record_says_random(untimed: Path, tmp_path: Path) -> None:
    train = ("train", untimed, "--model", "itemknn", "-o", tmp_path / "run")
    with pytest.warns(LeporidWarning, match="no times: each user's interactions are split at rand"):
        record = answer(*train)
    assert record["extra"]["protocol"] == "random(0.7, 0.1, seed=0)"
    with pytest.warns(LeporidWarning, match="seed 3"):
        other = answer(*train, "--split-seed", 3)
    assert other["extra"]["protocol"] == "random(0.7, 0.1, seed=3)"
    assert other["extra"]["data_digest"] == random_split(load(untimed), seed=3).digest
    in_order = answer(*train, "--order", "file")
    assert in_order["extra"]["protocol"] == "temporal(0.7, 0.1)"
    split = temporal_split(load(untimed, order="file"))
    assert in_order["extra"]["data_digest"] == split.digest


def test_what_the_core_drops_is_said_and_remembered(log: Path, tmp_path: Path) -> None:
    data = load(log)
    core = data.core(9)
    gone, run = data.n_users - core.n_users, tmp_path / "run"
    assert 0 < gone < data.n_users / 2
    train = ("train", log, "--model", "itemknn", "--core", 9, "-o", run)
    shown = call(*train).stderr
    said = f"--core 9 dropped {gone} of 40 users and {data.n_items - core.n_items} of 25 items"
    assert said in shown
    assert said in call("data", "stats", log, "--core", 9).stderr
    assert said not in call(*train, "--json").stderr
    facts = json.loads((run / "record.json").read_text())["extra"]["core"]
    assert (facts["k"], facts["dropped_users"]) == (9, gone)
    assert core.users.dropped is not None
    with pytest.raises(UnknownIdError, match="was dropped by --core 9"):
        call("recommend", run, "--user", core.users.dropped.external(0))


@pytest.mark.parametrize("command", ["data stats", "data split", "embed", "train", "tune"])
def test_every_command_keeps_everybody_unless_told_otherwise(command: str) -> None:
    shown = CliRunner().invoke(app, [*command.split(), "--help"], env={"COLUMNS": "200"}).output
    assert " 0: all. [default: 0]" in " ".join(shown.split())


def test_the_commands_say_what_they_guessed(log: Path, tmp_path: Path) -> None:
    guess = "guessed: user=user, item=item, time=timestamp, separator=',', header=yes"
    assert guess in call("tune", "itemknn", log, "--trials", 1).stderr
    assert guess in call("train", log, "--model", "toppop", "-o", tmp_path / "run").stderr


def test_cold_users_are_counted(log: Path, tmp_path: Path) -> None:
    with open(log, "a", encoding="utf-8") as file:
        file.writelines(f"{100 + user},{user},{user}\n" for user in range(7))
    arguments = ("train", log, "--model", "toppop", "-o", tmp_path / "run")
    record = answer(*arguments)
    assert record["extra"]["skipped_users"] == 0
    assert record["extra"]["cold_users"] == 7
    cold = record["extra"]["cold_metrics"]["HR@10"]
    assert (
        f"7 of these users have no interaction in train: HR@10 {cold:.4f}"
        in call(*arguments).stdout
    )
    report = answer("evaluate", tmp_path / "run", "--data", log)
    assert report["cold"] == 7
    assert report["strata"]["cold-users"]["HR@10"] == cold


def test_anime_sorted_by_item_gives_what_it_gives_shuffled(real_data: Path, tmp_path: Path) -> None:
    table = pq.read_table(real_data / "anime-5k.parquet")
    pq.write_table(table.sort_by("item_id"), tmp_path / "sorted.parquet")
    reached = []
    for path in (real_data / "anime-5k.parquet", tmp_path / "sorted.parquet"):
        arguments = ("train", path, "--core", 20, "--model", "itemknn", "-o", tmp_path / "run")
        with pytest.warns(LeporidWarning, match="the log has no times"):
            record = answer(*arguments)
        assert record["extra"]["protocol"] == "random(0.7, 0.1, seed=0)"
        reached.append(record["metrics"]["HR@10"])
    assert abs(reached[0] - reached[1]) < 0.02
    assert min(reached) > 0.9


def test_movietweetings_shrinks_aloud(real_data: Path, tmp_path: Path) -> None:
    log = real_data / "movietweetings-100k.parquet"
    arguments = ("train", log, "--core", 20, "--model", "toppop", "-o", tmp_path / "run")
    with pytest.warns(LeporidWarning, match="the 20-core leaves 196 of 16,554 users"):
        shown = call(*arguments).stderr
    assert "--core 20 dropped 16,358 of 16,554 users and" in shown
    with pytest.raises(UnknownIdError, match="user '2' was dropped by --core 20"):
        call("recommend", tmp_path / "run", "--user", 2)
    record = answer("train", log, "--model", "toppop", "-o", tmp_path / "all")
    assert record["extra"]["cold_users"] == 7457
