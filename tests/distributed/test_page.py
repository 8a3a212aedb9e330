"""What docs/scale.md has on several machines runs as it is printed (on another port)."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("distributed")
pytest.importorskip("torch")
pytest.importorskip("optuna")

PAGE = Path(__file__).parents[2] / "docs" / "scale.md"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.mark.slow
def test_the_page_runs_from_top_to_bottom(tmp_path: Path) -> None:
    text = PAGE.read_text(encoding="utf-8").partition("## Several machines")[2]
    text = text.replace("8786", str(free_port()))
    found = re.findall(r"^```([a-z]+)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    blocks: dict[str, list[str]] = {"sh": [], "python": [], "toml": []}
    for language, block in found:
        blocks[language].append(block)
    (tmp_path / "vectors.py").write_text(blocks["python"][0])
    (tmp_path / "grid.toml").write_text(blocks["toml"][0])
    commands = [block for block in blocks["sh"] if not block.startswith("pip ")]
    (tmp_path / "page.sh").write_text(
        "set -ex\ntrap 'kill $(jobs -p) || true' EXIT\n" + "".join(commands)
    )
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "page.sh"],
        cwd=tmp_path,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    # One fit by the command, one by the script, where training found its vectors, and one by the
    # grid for both its seeds.
    made = [path.name for path in (tmp_path / "cache" / "initializers").iterdir()]
    assert sum(name.startswith("leporid") for name in made) == 3, made
    one, other = (json.loads((tmp_path / name).read_text()) for name in ("one.json", "other.json"))
    assert one["best_config"] == other["best_config"]
    records = list((tmp_path / "results" / "synthetic" / "initialisations").glob("*.json"))
    assert len(records) == 10
