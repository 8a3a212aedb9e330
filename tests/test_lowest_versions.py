"""The minimums of pyproject.toml are true: the library works with exactly these versions."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
USE = """
import leporid
from leporid.data import write_log

write_log(leporid.synthesize(120, 80, 3000, seed=3), "log.csv")
data = leporid.load("log.csv").core(5)
split = leporid.temporal_split(data)
vectors = leporid.initializers.get("leporid")(dim=8, k=20).fit(split.train)
assert vectors.items.vectors.shape == (data.n_items, 8)
table = leporid.evaluate(leporid.train("itemknn", split), split, at=(10,))
assert 0 < table.mean()["HR@10"] <= 1
"""
SERVE = """
import asyncio
from leporid.serve import create_app

app = create_app("run")
sent = []

async def get(path):
    scope = {"type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "GET",
             "path": path, "raw_path": path.encode(), "query_string": b"", "root_path": "",
             "scheme": "http", "headers": [], "client": ("127.0.0.1", 1), "server": ("test", 80)}

    async def receive():
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message):
        sent.append(message)

    await app(scope, receive, send)

for path in ("/openapi.json", "/docs", "/static/swagger-ui-bundle.js"):
    sent.clear()
    asyncio.run(get(path))
    assert sent[0]["status"] == 200, sent
"""


def minimums(*extras: str) -> list[str]:
    """`name==lowest` for the core and the extras; markers of other platforms are kept."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = [*project["dependencies"]]
    for extra in extras:
        wanted += project["optional-dependencies"][extra]
    return [requirement.replace(">=", "==", 1) for requirement in wanted]


def test_every_dependency_declares_a_minimum() -> None:
    everything = minimums("torch", "tune", "plots", "serve", "postgres", "distributed")
    assert len(everything) > 15
    for requirement in everything:
        assert re.match(r"[A-Za-z0-9-]+(\[[a-z]+\])?==[0-9.]+", requirement), requirement


@pytest.mark.slow
def test_the_lowest_versions_work(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "env")], check=True)
    python = tmp_path / "env" / "bin" / "python"
    install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    lowest = minimums("tune", "plots", "serve")
    subprocess.run([*install, "--only-binary", ":all:", *lowest], check=True)
    subprocess.run([*install, "--no-deps", ROOT], check=True)
    subprocess.run([python, "-m", "pip", "check"], check=True)

    def works(*arguments: str) -> None:
        done = subprocess.run(
            [python, *arguments], capture_output=True, text=True, check=False, cwd=tmp_path
        )
        assert done.returncode == 0, done.stderr

    works("-c", USE)
    leporid = ["-m", "leporid"]
    works(*leporid, "train", "--help")
    works(*leporid, "embed", "log.csv", "--dim", "8", "--k", "20", "-o", "vectors")
    works(*leporid, "train", "log.csv", "--core", "5", "--model", "itemknn", "-o", "run")
    works(*leporid, "recommend", "run", "--user", "3")
    works(*leporid, "tune", "itemknn", "log.csv", "--trials", "2")
    works(*leporid, "doctor")
    works("-c", SERVE)
