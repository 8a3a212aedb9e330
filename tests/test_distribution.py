"""What leaves the house: the two archives for PyPI, and the image."""

from __future__ import annotations

import json
import os
import re
import runpy
import shlex
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LINK = re.compile(r"(!?)\[[^]]*\]\(([^)]*)\)")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def instructions() -> list[tuple[str, str]]:
    """The lines of the Dockerfile as (WORD, the rest)."""
    lines = (ROOT / "Dockerfile").read_text(encoding="utf-8").splitlines()
    return [(word, rest) for line in lines if line and line[0] != "#"
            for word, _, rest in [line.partition(" ")]]  # fmt: skip


def copied(folder: Path) -> None:
    """What the COPY lines name, in `folder`."""
    for word, rest in instructions():
        *sources, target = rest.split() if word == "COPY" else [""]
        for source in sources:
            ignore = shutil.ignore_patterns("__pycache__", "*.egg-info")
            if (ROOT / source).is_dir():
                shutil.copytree(ROOT / source, folder / target, ignore=ignore)
            else:
                shutil.copy(ROOT / source, folder / target)


def test_the_image_starts_the_service_and_copies_what_is_there() -> None:
    named = [source for word, rest in instructions() if word == "COPY"
             for source in rest.split()[:-1]]  # fmt: skip
    allowed = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    for source in named:
        assert (ROOT / source).exists(), source
        assert f"!{source}" in allowed
    commands = {word: json.loads(rest) for word, rest in instructions() if word in
                ("ENTRYPOINT", "CMD")}  # fmt: skip
    assert commands["ENTRYPOINT"][0].endswith("leporid")
    assert commands["CMD"][0] == "serve"
    [user] = [rest for word, rest in instructions() if word == "USER"]
    assert user != "root"
    assert int(user) > 0


@pytest.mark.slow
def test_the_lines_of_the_dockerfile_run_in_a_plain_folder(tmp_path: Path) -> None:
    copied(tmp_path)
    environment = {**os.environ, "PIP_FLAGS": os.environ.get("PIP_FLAGS", "")}
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment.pop("PYTHONPATH", None)
    for word, rest in instructions():
        if word == "RUN":
            how = {"cwd": tmp_path, "env": environment, "capture_output": True, "text": True}
            done = subprocess.run(["sh", "-ec", rest], check=False, **how)
            assert done.returncode == 0, f"{rest}\n{done.stdout}\n{done.stderr}"
    [entry] = [json.loads(rest) for word, rest in instructions() if word == "ENTRYPOINT"]
    help_text = subprocess.run([*entry, "serve", "--help"], check=True, **how).stdout
    [command] = [shlex.join(json.loads(rest)) for word, rest in instructions() if word == "CMD"]
    for option in re.findall(r"--[a-z]+", command):
        assert option in help_text


def test_the_workflow_runs_what_ci_runs_on_every_version_we_name() -> None:
    workflow = (ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")
    assert "run: bash .ci/run" in workflow
    assert (ROOT / ".ci" / "run").is_file()
    assert "cache-dependency-path: constraints.txt" in workflow
    [versions] = re.findall(r"python: \[(.*)\]", workflow)
    named = [c.split(" :: ")[-1] for c in PROJECT["classifiers"] if ":: 3." in c]
    assert [version.strip(' "') for version in versions.split(",")] == named
    for command in ("python -m build", "python -m twine check --strict", "docker build"):
        assert f"run: {command}" in workflow


def test_pypi_finds_the_pictures_and_pages_of_the_readme() -> None:
    page = runpy.run_path(str(ROOT / "setup.py"))["pypi_page"]
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    targets = LINK.findall(readme)
    assert len([mark for mark, _ in targets if mark]) == 1
    home = "https://forge.example/leporid"
    shown = LINK.findall(page(readme, home))
    assert len(shown) == len(targets)
    for (mark, target), (_, address) in zip(targets, shown, strict=True):
        if "://" not in target:
            assert address == f"{home}/{'raw' if mark else 'blob'}/HEAD/{target}"
            assert (ROOT / target.partition("#")[0]).exists()
    # Without a repository nothing points to where nothing is, and no word is lost.
    alone = page(readme, None)
    assert all("://" in target for _, target in LINK.findall(alone))
    for words in ("Quality over training steps", "docs/images/two-tower.png", "Changelog"):
        assert words in alone


def test_the_wheel_holds_the_library_alone() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    where = settings["tool"]["setuptools"]["packages"]["find"]["where"]
    packages = {path.parent for root in where for path in (ROOT / root).glob("*/__init__.py")}
    assert {path.name for path in packages} == {"leporid"}


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python that has build and twine, and nothing of ours."""
    folder = tmp_path_factory.mktemp("tools")
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    python = folder / ("Scripts" if os.name == "nt" else "bin") / "python"
    install = [python, "-m", "pip", "install", "--quiet", "build", "twine"]
    done = subprocess.run(install, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"no index with build and twine can be reached: {done.stderr.strip()[-200:]}")
    return python


@pytest.mark.slow
def test_both_archives_build_and_pypi_can_show_them(tmp_path: Path, tools: Path) -> None:
    copied(tmp_path)
    how = {"cwd": tmp_path, "capture_output": True, "text": True, "check": False}
    done = subprocess.run([tools, "-m", "build", "--outdir", "dist", "."], **how)
    assert done.returncode == 0, done.stderr[-2000:]
    archives = sorted((tmp_path / "dist").iterdir())
    done = subprocess.run([tools, "-m", "twine", "check", "--strict", *archives], **how)
    assert done.returncode == 0, done.stdout
    [wheel] = (path for path in archives if path.suffix == ".whl")
    [source] = (path for path in archives if path.suffix == ".gz")
    with zipfile.ZipFile(wheel) as file:
        inside = set(file.namelist())
        [metadata] = (name for name in inside if name.endswith("METADATA"))
        about = file.read(metadata).decode()
    ours = {
        path.relative_to(ROOT / "src").as_posix()
        for path in (ROOT / "src" / "leporid").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert ours <= inside, sorted(ours - inside)
    assert not any(name.startswith(("tests", "reproduction")) for name in inside)
    assert "License-Expression: Apache-2.0" in about
    assert "Project-URL:" in about
    assert "Author: " in about
    # The page itself: every picture and link is whole, and most of the README is there.
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert "Description-Content-Type: text/markdown" in about
    assert all("://" in target for _, target in LINK.findall(about))
    assert len(about) > 0.8 * len(readme)
    with tarfile.open(source) as file:
        assert any(name.endswith("/LICENSE") for name in file.getnames())
