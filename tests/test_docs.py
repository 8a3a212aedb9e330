"""The documentation tells the truth: code runs, commands exist, links lead somewhere."""

from __future__ import annotations

import re
import runpy
import shlex
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer.main

import leporid
from leporid.artifacts import read_json, write_json
from leporid.cli.app import app
from leporid.errors import DataError
from leporid.evaluation import MetricTable
from leporid.experiments import RunRecord

ROOT = Path(__file__).parents[1]
PAGES = sorted([*(ROOT / "docs").glob("*.md"), ROOT / "README.md", ROOT / "ARCHITECTURE.md"])
BLOCK = re.compile(r"^```([a-z]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page: Path, *languages: str) -> list[str]:
    found = BLOCK.findall(page.read_text(encoding="utf-8"))
    return [text for language, text in found if language in languages]


def test_the_tutorial_runs_from_top_to_bottom() -> None:
    names: dict[str, Any] = {}
    for number, block in enumerate(blocks(ROOT / "docs" / "tutorial.md", "python"), 1):
        exec(compile(block, f"tutorial.md, block {number}", "exec"), names)
    assert names["vectors"].users.vectors.shape == (150, 16)
    assert set(names["tables"]) == {"leporid", "random"}


def test_a_new_film_finds_the_right_people(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LEPORID_CACHE", str(tmp_path))
    names: dict[str, Any] = {}
    *parts, last = blocks(ROOT / "docs" / "tutorial-new-item.md", "python")
    for number, block in enumerate(parts, 1):
        exec(compile(block, f"tutorial-new-item.md, block {number}", "exec"), names)
    above = [np.median(names["rank"][names["kind"] == kind]) for kind in range(3)]
    assert above[0] < 10
    assert min(above[1:]) > 15
    assert "eve" in names["later"].users.ids.to_pylist()
    with pytest.warns(leporid.errors.LeporidWarning, match="1 content rows without an item"):
        exec(last, names)


def test_the_how_to_for_ones_own_model_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch = pytest.importorskip("torch")
    monkeypatch.setenv("LEPORID_CACHE", str(tmp_path))
    train = leporid.temporal_split(leporid.synthesize(150, 90, 4000, seed=5)).train
    module = torch.nn.ModuleDict(
        {
            "user_embedding": torch.nn.Embedding(train.n_users, 64),
            "item_embedding": torch.nn.Embedding(train.n_items, 64),
        }
    )
    names: dict[str, Any] = {"train": train, "my_module": module}
    exec(blocks(ROOT / "docs" / "own-model.md", "python")[0], names)
    # nn.Embedding draws rows of length 8: they come down to 1.
    wanted = names["vectors"].standardized(1 / 8).items.vectors
    assert torch.allclose(module["item_embedding"].weight.detach(), torch.from_numpy(wanted))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_python_blocks_are_python_and_name_what_exists(page: Path) -> None:
    for block in blocks(page, "python"):
        compile(block, str(page), "exec")
        for name in re.findall(r"\bleporid\.([A-Za-z_]+)", block):
            inside = ROOT / "src" / "leporid" / name
            assert name in dir(leporid) or inside.is_dir() or inside.with_suffix(".py").exists(), (
                name
            )


def commands() -> dict[str, Any]:
    root: Any = typer.main.get_command(app)
    return dict(root.commands)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_in_the_text_exist_with_their_options(page: Path) -> None:
    known = commands()
    text = "\n".join(blocks(page, "", "console", "sh", "bash")).replace("\\\n", " ")
    for line in text.splitlines():
        if not line.removeprefix("$ ").startswith("leporid "):
            continue
        words = shlex.split(line.removeprefix("$ "), comments=True)
        if len(words) < 2 or words[1].startswith("-"):
            continue
        name, rest = words[1], words[2:]
        if name == "serve" and name not in known:
            continue
        assert name in known, f"{page.name}: leporid {name}"
        command = known[name]
        if hasattr(command, "commands"):
            assert rest[0] in command.commands, f"{page.name}: leporid {name} {rest[0]}"
            command = command.commands[rest[0]]
        options = {o for p in command.params for o in (*p.opts, *p.secondary_opts)}
        for word in rest:
            if word.startswith("--"):
                assert word.partition("=")[0] in options, f"{page.name}: {line}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    waiting = {"docs/images/initialisation.png"}  # drawn from the final records
    for target in re.findall(r"\]\(([^)#\s]+)", page.read_text(encoding="utf-8")):
        if "://" not in target and target not in waiting:
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_nothing_comes_from_another_host() -> None:
    config = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    assert "font: false" in config
    # Material follows the reader's light or dark only where each scheme has a toggle.
    assert config.count("toggle:") == config.count("prefers-color-scheme:") == 2
    assert "http" not in config
    for page in PAGES:
        assert not re.search(r"!\[[^]]*\]\(https?:", page.read_text(encoding="utf-8")), page


def script(name: str) -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "docs" / name))


def test_the_benchmark_page_is_made_of_the_records() -> None:
    record = {
        "benchmark": "toy",
        "machine": {"processor": "abacus", "cores": 1},
        "date": "2026-01-02",
        "settings": {"rows": 3},
        "rows": [{"what": "a|b", "rate": 1234.5678}, {"what": "c", "ratio": 2.0}],
        "notes": ["A note."],
    }
    text = script("make_pages.py")["page"]([record])
    assert "| a\\|b | 1235 |  |" in text
    assert "| c |  | 2 |" in text
    assert "abacus, 1 cores, 2026-01-02." in text
    assert "- A note." in text


def test_the_tables_of_the_models_are_made_of_the_records(tmp_path: Path) -> None:
    made = script("make_pages.py")
    rows = [{"model": "bpr", "default": 0.1, "0.1": 0.25, "1.0": 0.125, "steps": 7}]
    table = made["scale_table"]({"rows": rows})
    assert "| bpr | 0.1 | **0.2500** | 0.1250 |" in table
    text = made["fill"]("a <!-- x:begin -->old<!-- x:end --> b", "x", table)
    assert table in text
    assert "old" not in text
    assert text.startswith("a ")
    assert text.endswith(" b")
    with pytest.raises(DataError, match="markers"):
        made["fill"]("no markers", "x", table)


def test_the_table_of_gains_pairs_users_and_averages_seeds(tmp_path: Path) -> None:
    records = []
    for init, hits in (("random", [1, 0, 0, 0]), ("leporid", [1, 1, 1, 0])):
        for seed in (1, 2):
            record = RunRecord.make(
                dataset="toy", experiment="models", model="bpr", init=init, recipe=None,
                seed=seed, config={}, valid_metrics={},
                metrics={"HR@10": sum(hits) / 4, "F1@10": sum(hits) / 40},
                tail_metrics={}, seconds=1.0, peak_memory_mb=1.0, device="cpu",
                spec_hash=f"{init}{seed}",
            )  # fmt: skip
            users = np.arange(4, dtype=np.int32)
            outcomes = MetricTable.from_hits(users, np.array(hits, np.int32), np.ones(4, np.int32))
            outcomes.save_hits(tmp_path / f"{record.key}.users.parquet")
            records.append(record)
    table = script("make_pages.py")["gain_table"](records, tmp_path)
    assert "| bpr | train only | 2 | 0.2500 | 0.7500 | 0.0250 | 0.0750 | +0.5000 (" in table


def test_the_readme_is_filled_from_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = script("make_pictures.py")
    for init, value in (("random", 0.25), ("leporid", 0.75)):
        record = {
            "dataset": "ml-1m-r3", "experiment": "initialisers", "model": "dlr2", "init": init,
            "recipe": "paper", "seed": 1, "config": {"dim": 8}, "valid_metrics": {},
            "tail_metrics": {},
            "metrics": {"HR@10": value, "F1@10": value / 10, "HR@5": 0.1, "F1@5": 0.1},
            "seconds": 1.0, "peak_memory_mb": 1.0, "device": "cpu", "versions": {},
            "spec_hash": init, "extra": {"confidence_95": {"HR@10": [value - 0.1, value + 0.1]}},
        }  # fmt: skip
        folder = tmp_path / "results" / "ml-1m-r3" / "initialisers"
        write_json(folder / f"dlr2-{init}-1-x.json", record)
    readme = tmp_path / "README.md"
    parts = [
        f"<!-- {name}:begin -->\nold\n<!-- {name}:end -->" for name in ("leaderboard", "results")
    ]
    readme.write_text("\n".join(["before", *parts, "after\n"]))
    arguments = ["--results", tmp_path / "results", "--readme", readme, "--images", tmp_path]
    monkeypatch.setattr(sys, "argv", ["make", *map(str, arguments), "--no-simulations"])
    made["main"]()
    text = readme.read_text()
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert "old" not in text
    first, second = re.findall(
        r"^\| dlr2 \| (\w+) \| train and validation \| (0\.\d+)", text, re.MULTILINE
    )[:2]
    assert (first, second) == (("leporid", "0.7500"), ("random", "0.2500"))
    assert "| 0.0750 | 0.1158 | 1 | recipe `paper` |" in text
    assert re.search(
        r"<!-- leaderboard:begin -->\n\| log .*\n.*\n\| beauty \| - \| not run yet", text
    )
    assert (tmp_path / "initialisation.png").stat().st_size > 5000
    with pytest.raises(DataError, match="markers"):
        made["fill"]("no markers", "table")


def test_the_tables_of_records_are_made_while_pages_are_built() -> None:
    pytest.importorskip("latex2mathml")
    made = script("hooks.py")["on_page_markdown"]
    found = 0
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for name in re.findall(r"<!-- record (\w+) -->", text):
            record = read_json(ROOT / "benchmarks" / "records" / f"{name}.json")
            table = made(f"before\n\n<!-- record {name} -->\n\nafter\n")
            assert table.startswith(f"before\n\n| {next(iter(record['rows'][0]))} | ")
            assert table.count("\n| ") == len(record["rows"]) + 1
            found += 1
        assert "<!-- record" not in made(text), page.name
    assert found


def test_formulas_become_mathml() -> None:
    pytest.importorskip("latex2mathml")
    made = script("hooks.py")["on_page_content"]
    text = made('<p><span class="arithmatex">\\(a &lt; b\\)</span></p>')
    assert "<math" in text
    assert "<mi>a</mi>" in text
    assert "arithmatex" not in text
    # A long formula scrolls by itself on a phone.
    text = made('<div class="arithmatex">\\[a = b\\]</div>')
    assert text.startswith('<div style="overflow: auto hidden"><math')


@pytest.mark.slow
def test_the_site_builds_strictly(tmp_path: Path) -> None:
    build = pytest.importorskip("mkdocs.commands.build")
    config = pytest.importorskip("mkdocs.config")
    loaded = config.load_config(str(ROOT / "mkdocs.yml"), site_dir=str(tmp_path), strict=True)
    build.build(loaded)
    method = (tmp_path / "method" / "index.html").read_text(encoding="utf-8")
    assert "<math" in method
    assert not re.search(r'(src|href)="https?://[^"]+\.(js|css|woff2?)"', method)
