"""pyproject.toml is true: the library works with exactly its minimums, and with the newest.

So on every Python that the classifiers name and that is found: on the PATH as `python3.13`, or by
an environment variable such as `LEPORID_PYTHON313`.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
PYTHONS = [words[-1] for c in PROJECT["classifiers"] if "." in (words := c.split(" :: "))[-1]]
EXTRAS = ("tune", "plots", "serve")
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
for name in ("blend", "ease", "gfcf", "ials", "p3alpha", "rp3beta", "slim", "toppop", "turbocf"):
    model = leporid.models.Recommender.load(leporid.train(name, split).save(name))
    items, scores = model.recommend(model.users.external(0), n=3)
    assert len(items) == 3, name
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
    wanted = [*PROJECT["dependencies"]]
    for extra in extras:
        wanted += PROJECT["optional-dependencies"][extra]
    return [requirement.replace(">=", "==", 1) for requirement in wanted]


def test_every_dependency_declares_a_minimum() -> None:
    everything = minimums("torch", "tune", "plots", "serve", "postgres", "distributed")
    assert len(everything) > 15
    for requirement in everything:
        assert re.match(r"[A-Za-z0-9-]+(\[[a-z]+\])?==[0-9.]+", requirement), requirement


def test_ci_tries_both_ends_on_every_python_that_is_declared() -> None:
    assert {"3.11", "3.12", "3.13"} <= {*PYTHONS}
    workflow = (ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")
    listed = re.search(r"python-version: \|\n((?: +3\.\d+\n)+)", workflow)
    assert listed is not None
    assert listed[1].split() == PYTHONS


def interpreter(version: str) -> str:
    """A Python of that version; a skip that says where it was looked for."""
    variable = f"LEPORID_PYTHON{version.replace('.', '')}"
    found = os.environ.get(variable) or shutil.which(f"python{version}")
    if found is None and version == f"{sys.version_info.major}.{sys.version_info.minor}":
        found = sys.executable
    if found is not None:
        # What is on the PATH may be a shim without that version behind it.
        said = subprocess.run([found, "--version"], capture_output=True, text=True, check=False)
        if said.stdout.startswith(f"Python {version}."):
            return found
    pytest.skip(f"no Python {version}: put python{version} on the PATH or set {variable}")


@pytest.mark.slow
@pytest.mark.parametrize("versions", ["lowest", "newest"])
@pytest.mark.parametrize("python_version", PYTHONS)
def test_the_library_works(python_version: str, versions: str, tmp_path: Path) -> None:
    subprocess.run([interpreter(python_version), "-m", "venv", str(tmp_path / "env")], check=True)
    python = tmp_path / "env" / "bin" / "python"
    install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    if versions == "lowest":
        subprocess.run([*install, "--only-binary", ":all:", *minimums(*EXTRAS)], check=True)
        subprocess.run([*install, "--no-deps", ROOT], check=True)
    else:
        subprocess.run([*install, f"{ROOT}[{','.join(EXTRAS)}]"], check=True)
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
