"""`leporid embed`, `export` and `inspect` as a user calls them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from leporid.cli.app import app
from leporid.data import load
from leporid.embeddings import initial_embeddings
from leporid.errors import ConfigError, DataError, LeporidError, UnknownNameError
from leporid.interop import FORMATS, INITIALIZE_LINES, read_embeddings

runner = CliRunner()


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small log with two communities and more users than items."""
    monkeypatch.setenv("LEPORID_CACHE", str(tmp_path / "cache"))
    rng = np.random.default_rng(0)
    lines = ["user_id,item_id,timestamp"]
    lines += [
        f"u{u},{i},{rng.integers(1000)}"
        for u in range(40)
        for i in range(24)
        if rng.random() < (0.6 if u % 2 == i % 2 else 0.08)
    ]
    path = tmp_path / "log.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def call(*arguments: str) -> str:
    """Run the command; an error of ours is raised as itself."""
    result = runner.invoke(app, list(arguments))
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.stdout


PAPER = ("--alpha", "0.5", "--set", "row_norm=as-is", "--set", "fold_in_users=false")


def test_vectors_adapt_to_the_log(log: Path, tmp_path: Path) -> None:
    """Settings that are typed are kept, and others chosen; what was chosen is printed."""
    out = tmp_path / "out"
    command = ["embed", str(log), "-o", str(out), "--dim", "6", "--k", "10"]
    report = json.loads(call(*command, "--json"))
    assert report["settings"]["alpha"] == report["settings"]["row_norm"] == "auto"
    adapted = initial_embeddings("leporid", load(log, progress=False), dim=6, k=10, cache=False)
    assert adapted is not None
    assert report["chosen"] == adapted.items.provenance["chosen"]
    np.testing.assert_array_equal(read_embeddings(out).items.vectors, adapted.items.vectors)
    assert f"alpha {report['chosen']['alpha']}" in call(*command)
    given = json.loads(call(*command, *PAPER, "--json"))
    assert given["chosen"] is None
    assert given["settings"]["alpha"] == 0.5


@pytest.mark.parametrize("format", FORMATS)
def test_every_format_holds_the_same_vectors(log: Path, tmp_path: Path, format: str) -> None:
    out = tmp_path / "out"
    report = json.loads(
        call("embed", str(log), "-o", str(out), "--dim", "6", "--k", "10", "--format", format,
             *PAPER, "--json")
    )  # fmt: skip
    assert [s["rows"] for s in report["sides"]] == [40, 24]
    assert all(s["largest residual"] < 1e-4 for s in report["sides"])
    assert report["settings"]["k"] == 10
    assert report["settings"]["alpha"] == 0.5
    assert sorted(report["files"]) == sorted(str(p) for p in out.iterdir())
    back = read_embeddings(out)
    assert back.users.vectors.shape == (40, 6)
    assert back.user_ids is not None
    assert back.user_ids.index("u7") == sorted(f"u{u}" for u in range(40)).index("u7")
    # The two communities lie apart along the second eigenvector.
    parity = np.array([int(name[1:]) % 2 for name in back.user_ids.values])
    second = back.users.vectors[:, 1]
    assert len(np.unique(np.sign(second[parity == 0]))) == 1
    assert np.sign(second[parity == 0][0]) != np.sign(second[parity == 1][0])


def test_the_second_run_reads_the_cache(log: Path, tmp_path: Path) -> None:
    arguments = ["embed", str(log), "-o", str(tmp_path / "a"), "--dim", "4", "--method", "svd"]
    call(*arguments)
    entries = list((tmp_path / "cache" / "initializers").iterdir())
    before = entries[0].stat().st_mtime_ns
    text = call(*arguments)
    assert "svd" in text
    assert "wrote" in text
    assert [e.stat().st_mtime_ns for e in entries] == [before]
    call(*arguments, "--no-cache", "--seed", "1")
    assert len(list((tmp_path / "cache" / "initializers").iterdir())) == 1


def test_core_filter_and_settings(log: Path, tmp_path: Path) -> None:
    report = json.loads(
        call("embed", str(log), "-o", str(tmp_path / "o"), "--method", "random", "--core", "7",
             "--set", "deviation=2", "--json")
    )  # fmt: skip
    assert report["sides"][0]["rows"] < 40
    assert report["settings"]["deviation"] == 2.0


def test_mistakes_are_one_sentence_and_write_nothing(log: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    cases: list[tuple[list[str], type[LeporidError], str]] = [
        (["--method", "lepord"], UnknownNameError, "did you mean 'leporid'"),
        (["--format", "safetensor"], UnknownNameError, "did you mean 'safetensors'"),
        (["--method", "svd", "--alpha", "0.3"], ConfigError, "no setting 'alpha'"),
        (["--alpha", "1.5"], ConfigError, "alpha must be at least 0 and at most 1"),
        (["--set", "alpha"], ConfigError, "NAME=VALUE"),
    ]
    for extra, error, words in cases:
        with pytest.raises(error, match=words):
            call("embed", str(log), "-o", str(out), *extra)
    with pytest.raises(DataError, match="no such file"):
        call("embed", str(tmp_path / "absent.csv"), "-o", str(out))
    assert not out.exists()


def test_recbole_prints_the_lines_that_initialise_a_model(log: Path, tmp_path: Path) -> None:
    text = call("embed", str(log), "-o", str(tmp_path / "toy"), "--method", "svd",
                "--format", "recbole")  # fmt: skip
    out = tmp_path / "toy"
    assert INITIALIZE_LINES % out in text
    assert "preload_weight" in (out / "recbole.yaml").read_text()
    assert (tmp_path / "toy" / "toy.itememb").is_file()


@pytest.fixture
def embedded(log: Path, tmp_path: Path) -> Path:
    """Embeddings of the log in a folder."""
    call("embed", str(log), "-o", str(tmp_path / "emb"), "--method", "svd", "--dim", "4")
    return tmp_path / "emb"


def test_export_converts(embedded: Path, tmp_path: Path) -> None:
    call("export", str(embedded), "-o", str(tmp_path / "txt"), "--format", "csv")
    text = call("export", str(tmp_path / "txt"), "-o", str(tmp_path / "pq"), "--format", "parquet",
                "--json")  # fmt: skip
    assert json.loads(text)["users"] == 40
    first, last = read_embeddings(embedded), read_embeddings(tmp_path / "pq")
    np.testing.assert_array_equal(first.users.vectors, last.users.vectors)
    assert first.item_ids == last.item_ids
    assert first.users.provenance == last.users.provenance


def test_export_reads_trained_models(log: Path, tmp_path: Path) -> None:
    import leporid
    from leporid.models import read_trained

    split = leporid.temporal_split(leporid.load(str(log)))
    model = leporid.train("bpr", split, init="svd", seed=0, steps=2, dim=8, device="cpu")
    model.save(tmp_path / "run" / "model")
    call("export", str(tmp_path / "run"), "-o", str(tmp_path / "out"), "--format", "parquet")
    back = read_embeddings(tmp_path / "out")
    assert back.user_ids == model.users
    np.testing.assert_array_equal(
        back.items.vectors, model.module.items.weight.detach().numpy()  # type: ignore[attr-defined]
    )  # fmt: skip
    with pytest.raises(UnknownNameError, match="users table 'user'"):
        read_trained(tmp_path / "run" / "model", users="user")


def test_inspect_counts_and_measures_both_sides(embedded: Path) -> None:
    vectors = read_embeddings(embedded)
    report = json.loads(call("inspect", str(embedded), "--json"))
    assert report["probe"] == []
    for row, (side, embedding, _) in zip(report["sides"], vectors.sides(), strict=True):
        lengths = np.sqrt((embedding.vectors.astype(float) ** 2).sum(axis=1))
        assert (row["side"], row["rows"], row["dim"]) == (side, *embedding.vectors.shape)
        assert row["isolated"] == int((lengths == 0).sum())
        expected = [lengths.min(), np.median(lengths), lengths.max()]
        found = [row[name] for name in ("shortest", "median", "longest")]
        np.testing.assert_allclose(found, expected, rtol=1e-5)
    shown = call("inspect", str(embedded))
    assert f"{report['sides'][0]['longest']:.4f}" in shown


def test_inspect_says_what_it_needs(log: Path, embedded: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such file or folder"):
        call("inspect", str(tmp_path / "absent"))
    split = str(tmp_path / "split")
    call("data", "split", str(log), "-o", split)
    for given in (["--probe"], ["--data", split], ["--data", str(log), "--probe"]):
        with pytest.raises(ConfigError, match="--probe needs held-out items"):
            call("inspect", str(embedded), *given)
