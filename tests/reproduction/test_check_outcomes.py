"""Files of outcomes per user that git already has may be deleted, and never changed."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from reproduction import check_outcomes
from reproduction.check_outcomes import modified_outcomes

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
FIRST, SECOND = "results/toy/first.users.parquet", "results/toy/second.users.parquet"


@pytest.fixture(autouse=True)
def _own_git(monkeypatch: pytest.MonkeyPatch) -> None:
    """No repository, name or setting of whoever runs the tests."""
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    for name in ("GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM"):
        monkeypatch.setenv(name, os.devnull)
    for name in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{name}_NAME", "toy")
        monkeypatch.setenv(f"GIT_{name}_EMAIL", "toy@example.org")


def git(folder: Path, *arguments: str) -> None:
    subprocess.run(["git", "-C", str(folder), *arguments], check=True, capture_output=True)


def write(folder: Path, name: str, content: str) -> None:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)


def commit(folder: Path) -> None:
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "toy")


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Two commits on main; the first has a file of outcomes, and one of another kind."""
    folder = tmp_path / "repository"
    folder.mkdir()
    git(folder, "init", "--quiet", "--initial-branch", "main")
    write(folder, FIRST, "one")
    write(folder, "results/toy.users.parquet", "one")
    write(folder, "results/toy.jsonl", "one")
    write(folder, "other/toy.parquet", "one")
    commit(folder)
    write(folder, "README.md", "one")
    commit(folder)
    return folder


@pytest.mark.parametrize("staged", [False, True])
def test_a_change_that_is_not_committed_yet_is_found(staged: bool, repository: Path) -> None:
    write(repository, FIRST, "two")
    write(repository, "results/toy.users.parquet", "two")
    if staged:
        git(repository, "add", "--all")
        write(repository, FIRST, "one")
    assert modified_outcomes(repository) == ["results/toy.users.parquet", FIRST]


def test_new_files_deleted_files_and_files_of_other_kinds_may_differ(repository: Path) -> None:
    (repository / FIRST).unlink()
    write(repository, SECOND, "one")  # git would call it a renamed file
    write(repository, "results/toy.jsonl", "two")
    write(repository, "other/toy.parquet", "two")
    assert modified_outcomes(repository) == []
    commit(repository)
    assert modified_outcomes(repository) == []


def test_without_a_remote_a_commit_is_compared_with_its_first_parent(repository: Path) -> None:
    write(repository, FIRST, "two")
    commit(repository)
    assert modified_outcomes(repository) == [FIRST]
    write(repository, "README.md", "two")
    commit(repository)
    assert modified_outcomes(repository) == []


def test_a_branch_is_compared_with_where_it_left_main(repository: Path, tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "--quiet", str(repository), str(clone))
    git(clone, "checkout", "--quiet", "-b", "branch")
    write(clone, FIRST, "two")
    commit(clone)
    for content in ("one", "two"):
        # What main has never seen may still change, in a commit of its own.
        write(clone, SECOND, content)
        commit(clone)
    assert modified_outcomes(clone) == [FIRST]


def test_main_after_a_push_is_compared_with_its_first_parent(
    repository: Path, tmp_path: Path
) -> None:
    write(repository, FIRST, "two")
    commit(repository)
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "--quiet", str(repository), str(clone))
    assert modified_outcomes(clone) == [FIRST]


def test_where_nothing_can_be_compared_nothing_is_found(repository: Path, tmp_path: Path) -> None:
    write(repository, FIRST, "two")
    commit(repository)
    shallow = tmp_path / "shallow"
    git(tmp_path, "clone", "--quiet", "--depth", "1", repository.as_uri(), str(shallow))
    assert modified_outcomes(shallow) == []
    unborn = tmp_path / "unborn"
    unborn.mkdir()
    git(unborn, "init", "--quiet")
    assert modified_outcomes(unborn) == []
    bare = tmp_path / "unpacked"
    write(bare, FIRST, "two")
    assert modified_outcomes(bare) == []


def test_the_command_names_the_file_and_fails(
    repository: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write(repository, FIRST, "two")
    monkeypatch.setattr(check_outcomes, "__file__", str(repository / "reproduction" / "x.py"))
    with pytest.raises(SystemExit) as stopped:
        check_outcomes.main()
    assert stopped.value.code == 1
    assert f"error: {FIRST} was modified" in capsys.readouterr().err
