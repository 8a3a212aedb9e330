"""The documentation tells the truth: code runs, commands exist, links lead somewhere."""

from __future__ import annotations

import ast
import json
import os
import re
import runpy
import shlex
import subprocess
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
import typer.main

import leporid
from leporid.cli.app import app
from leporid.data import write_log
from leporid.errors import DataError
from leporid.evaluation import MetricTable
from leporid.foundation import read_json
from leporid.models.neural import trainer as loop
from leporid.runs import RunRecord

ROOT = Path(__file__).parents[1]
PAGES = sorted([*(ROOT / "docs").glob("*.md"), ROOT / "README.md", ROOT / "ARCHITECTURE.md"])
BLOCK = re.compile(r"^```([a-z]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)#\s]+)[^)]*\)")


def blocks(page: Path, *languages: str) -> list[str]:
    found = BLOCK.findall(page.read_text(encoding="utf-8"))
    return [text for language, text in found if language in languages]


def test_the_first_page_runs_step_by_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    monkeypatch.setenv("LEPORID_CACHE", str(tmp_path))
    names: dict[str, Any] = {}
    # The first block is about a file and a module of the reader's.
    for number, block in enumerate(blocks(ROOT / "docs" / "index.md", "python")[1:], 2):
        exec(compile(block, f"index.md, block {number}", "exec"), names)
    assert names["vectors"].users.vectors.shape == (150, 16)
    assert set(names["tables"]) == {"leporid", "random"}


def test_a_new_film_finds_the_right_users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LEPORID_CACHE", str(tmp_path))
    names: dict[str, Any] = {}
    *parts, last = blocks(ROOT / "docs" / "new-items.md", "python")
    for number, block in enumerate(parts, 1):
        exec(compile(block, f"new-items.md, block {number}", "exec"), names)
    above = [np.median(names["rank"][names["kind"] == kind]) for kind in range(3)]
    assert above[0] < 10
    assert min(above[1:]) > 15
    assert "eve" in names["later"].users.ids.to_pylist()
    with pytest.warns(leporid.errors.LeporidWarning, match="1 content rows of no known item"):
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


def write_logs(folder: Path) -> None:
    """One log in the forms that the pages name."""
    table = leporid.synthesize(150, 90, 4000, seed=5).to_table()
    (folder / "logs").mkdir()
    names = ["ratings.csv", "january.csv", "february.csv", "events.jsonl", "visits.csv"]
    for name in (*names, "logs/ratings-1.parquet", "logs/ratings-2.parquet"):
        if name.endswith(".jsonl"):
            lines = [json.dumps(row) for row in table.to_pylist()]
            (folder / name).write_text("\n".join(lines))
        else:
            write_log(table, folder / name)


def test_frames_come_in_and_go_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also every kind of table and file that the page about logs names."""
    pytest.importorskip("duckdb")
    monkeypatch.chdir(tmp_path)
    write_logs(tmp_path)
    names: dict[str, Any] = {"leporid": leporid}
    [loading] = [b for b in blocks(ROOT / "docs" / "data.md", "python") if "duckdb" in b]
    for statement in ast.parse(loading).body:
        if isinstance(statement, ast.Expr):
            data = eval(ast.unparse(statement), names)
            assert (len(data), data.n_items) == (4000, 90), ast.unparse(statement)
        else:
            exec(ast.unparse(statement), names)
    for number, block in enumerate(blocks(ROOT / "docs" / "frames.md", "python"), 1):
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            exec(compile(block, f"frames.md, block {number}", "exec"), names)
        unknown = [w for w in told if issubclass(w.category, leporid.errors.LeporidWarning)]
        assert len(unknown) == block.count("999_999") + block.count("[]]"), number
    assert names["items"].shape == (2, 3)
    assert list(names["ranked"]) == ["user", "rank", "item", "score"]


def write_repeats(log: leporid.Interactions, path: Path) -> None:
    """The log, and a year later all of it again."""
    first = log.to_table()
    later = pc.add(first["timestamp"], 365 * 86_400)
    again = first.set_column(first.column_names.index("timestamp"), "timestamp", later)
    write_log(pa.concat_tables([first, again]), path)


ELSEWHERE = ("field2id_token", "distributed", "ml-100k", "create_app", "faiss", "qdrant")
"""Blocks that need another program, a service or a download; other tests run some of them."""


@pytest.mark.slow
@pytest.mark.parametrize("name", ["data", "initialisers", "own-model", "scale", "train"])
def test_the_python_of_a_page_runs_in_order(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("optuna")
    pytest.importorskip("implicit")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LEPORID_CACHE", str(tmp_path))
    spread = loop.limit_epochs

    def short(config: Any, sampler: Any) -> Any:
        config = spread(config, sampler)
        return config.replace(steps=min(config.steps, 12), eval_every=min(config.eval_every, 6))

    monkeypatch.setattr(loop, "limit_epochs", short)
    log = leporid.synthesize(150, 90, 4000, seed=5)
    write_logs(tmp_path)
    write_log(log, tmp_path / "next-month.csv")
    write_repeats(log, tmp_path / "log.csv")
    split = leporid.temporal_split(log)
    tables = [leporid.evaluate(leporid.train(model, split), split) for model in ("toppop", "ease")]
    rows = {"user_embedding": split.train.n_users, "item_embedding": split.train.n_items}
    module = {side: torch.nn.Embedding(count, 64) for side, count in rows.items()}
    names: dict[str, Any] = {
        "leporid": leporid, "split": split, "train": split.train, "X": split.train.csr(),
        "new": split.train.csr()[:2], "my_module": torch.nn.ModuleDict(module),
        **dict.fromkeys(("a", "a1", "a2", "a3", "c"), tables[0]),
        **dict.fromkeys(("b", "b1", "b2", "b3"), tables[1]),
    }  # fmt: skip
    for number, block in enumerate(blocks(ROOT / "docs" / f"{name}.md", "python"), 1):
        if not any(word in block for word in ELSEWHERE):
            exec(compile(block, f"{name}.md, block {number}", "exec"), names)


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


def tracked_files() -> set[str]:
    """Everything in git, and the folders that hold it, as a reader of a clone finds them."""
    if not (ROOT / ".git").exists():
        pytest.skip("not a clone")
    listed = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    files = listed.stdout.splitlines()
    folders = {str(folder) for file in files for folder in Path(file).parents}
    return {*files, *folders}


def relative_links(path: Path) -> list[str]:
    text = re.sub(r"`[^`\n]*`", "", BLOCK.sub("", path.read_text(encoding="utf-8")))
    return [target for target in LINK.findall(text) if "://" not in target]


def test_every_link_of_a_clone_leads_to_a_file_of_it() -> None:
    """Without building anything: on a forge, a link to a page that is not in git is dead."""
    tracked = tracked_files()
    pages = [Path(name) for name in sorted(tracked) if name.endswith(".md")]
    # A template's links are those of the page in docs/ that it becomes.
    folders = ["docs" if "templates" in page.parts else str(page.parent) for page in pages]
    dead = {
        f"{page}: {target}"
        for page, folder in zip(pages, folders, strict=True)
        for target in relative_links(ROOT / page)
        if os.path.normpath(f"{folder}/{target}") not in tracked
    }
    assert not dead, sorted(dead)


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
    assert "abacus, 1 cores, 2026-01-02. rows 3." in text
    assert "- A note." in text


def test_the_tables_of_the_models_are_made_of_the_records(tmp_path: Path) -> None:
    made = script("make_pages.py") | script("ratio_tables.py")
    of = {"log": "toy, no order", "classical": 0.25, "classical model": "slim"}
    seeds = ({"network alone": 0.1, "with": 0.28, "gain": 8}, {"network alone": 0.2, "with": 0.3})
    table = made["hidden_order_table"]({"rows": [of | {"gain": 2} | seed for seed in seeds]})
    assert "| toy | 0.1500 | 0.2900 | 0.2500 slim | 116% | 2 to 8 |" in table
    part = {f"NDCG@10, {name}": 0.1 for name in ("alone", "+ SLIM", "+ transitions")}
    part |= {"log": "toy", "model": "dlr2", "weight of slim, + both": 8.0}
    rows = [
        part | {"seed": 1, "NDCG@10, + both": 0.2, "weight of transitions, + both": 0.5},
        part | {"seed": 2, "NDCG@10, + both": 0.4, "weight of transitions, + both": 2.0},
        {"log": "toy", "model": "slim", "NDCG@10": 0.15},
        {"log": "toy", "model": "ease", "NDCG@10": 0.12},
    ]
    beside = made["closed_form_part_table"]({"rows": rows})
    cells = "0.1000 | 0.1000 | 0.1000 | 0.3000 | 8 | 0.5 to 2 | 0.1500 slim"
    assert f"| toy | dlr2 | 2 | {cells} |" in beside
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
            record = RunRecord(
                dataset="toy", experiment="models", model="bpr", init=init, recipe=None,
                seed=seed, config={}, valid_metrics={},
                metrics={"HR@10": sum(hits) / 4, "F1@10": sum(hits) / 40},
                tail_metrics={}, seconds=1.0, peak_memory_mb=1.0, device="cpu",
                spec_hash=f"{init}{seed}", extra={"seen": "train only"},
            )  # fmt: skip
            users = np.arange(4, dtype=np.int32)
            outcomes = MetricTable.from_hits(users, np.array(hits, np.int32), np.ones(4, np.int32))
            outcomes.save_hits(tmp_path / f"{record.key}.users.parquet")
            records.append(record)
    table = script("tables.py")["gain_table"](records, tmp_path)
    assert "| bpr | train only | 2 | 0.2500 | 0.7500 | 0.0250 | 0.0750 | +0.5000 (" in table


def test_every_table_is_what_the_records_give() -> None:
    made = script("make_pages.py")
    for name, tables in made["filled"]().items():
        text = (ROOT / name).read_text(encoding="utf-8")
        assert text == made["filled_page"](name, tables), "run `python docs/make_pages.py`"


def test_the_generated_pages_are_current() -> None:
    pages = script("make_pages.py")["generated"]()
    for name, text in pages.items():
        assert text.startswith("# "), name
        assert (ROOT / name).read_text(encoding="utf-8") == text, "run `python docs/make_pages.py`"
    heading = '<a id="neighbours"></a>\n\n## How fast is the exact neighbour search?\n'
    assert heading in pages["docs/benchmarks.md"]


def test_long_tables_are_folded() -> None:
    table = "| a |\n|---|\n" + "".join(f"| {n} |\n" for n in range(12))
    folded = script("tables.py")["folded"]
    text = folded(f"before\n\n{table}\nafter\n")
    shown, _, rest = text.partition("<details")
    assert shown.count("\n| ") == 11  # the heading and ten rows
    assert "<summary>all 12 rows</summary>" in rest
    assert rest.count("\n| ") == 13
    assert text.endswith("after\n")
    assert folded(table, 12) == table


def test_the_picture_of_the_readme_is_drawn_from_the_record(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    made = script("make_pictures.py")
    curves = read_json(ROOT / "benchmarks" / "records" / "two_tower" / "curves.json")
    figure = made["draw_curves"](curves)
    assert [len(axes.lines) for axes in figure.axes] == [2] * len(curves)
    assert "ml-100k" in curves


def test_files_of_the_root_lead_to_pages_or_nowhere() -> None:
    pytest.importorskip("latex2mathml")
    pytest.importorskip("mkdocs")
    hooks = script("hooks.py")
    assert "[GLOSSARY.md](glossary.md)" in hooks["included"]("ARCHITECTURE.md")
    for name in hooks["ROOT_PAGES"].values():
        for target in re.findall(r"\]\(([^)\s]+)\)", hooks["included"](name)):
            is_page = target in hooks["ROOT_PAGES"] or (ROOT / "docs" / target).is_file()
            assert "://" in target or is_page, (name, target)
    text = hooks["on_page_markdown"]("[terms](../GLOSSARY.md#tail) [file](../LICENSE)")
    assert text == "[terms](glossary.md#tail) [file](../LICENSE)"


def test_formulas_become_mathml() -> None:
    pytest.importorskip("latex2mathml")
    pytest.importorskip("mkdocs")
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
    method = (tmp_path / "initialisers" / "index.html").read_text(encoding="utf-8")
    assert "<math" in method
    assert not re.search(r'(src|href)="https?://[^"]+\.(js|css|woff2?)"', method)
