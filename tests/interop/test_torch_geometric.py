"""The real LightGCN of PyTorch Geometric, installed into a folder of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / ".venv-pyg"
PACKAGES = (
    "torch_geometric==2.6.1", "aiohttp", "aiohappyeyeballs", "aiosignal", "attrs", "certifi",
    "charset-normalizer", "frozenlist", "idna", "multidict", "propcache", "psutil", "pyparsing",
    "requests", "tqdm", "urllib3", "xxhash", "yarl",
)  # fmt: skip
"""PyTorch Geometric and what it imports, less numpy and torch, which are ours."""

SCRIPT = """
import numpy as np, torch
from torch_geometric.nn import LightGCN
import leporid
from leporid.embeddings.svd import SVD
from tests.initializers.helpers import planted

train = planted(40, 25)
made = SVD(dim=6).fit(train).standardized(0.1)
joint = np.vstack([made.users.vectors, made.items.vectors])
model = LightGCN(65, embedding_dim=6, num_layers=2)
model.reset_parameters()
leporid.initialize(model, users="embedding", embeddings=joint)
start = model.embedding.weight.detach().clone()
assert np.array_equal(start.numpy(), joint)
user, item = torch.from_numpy(train.user).long(), torch.from_numpy(train.item).long() + 40
edges = torch.cat([torch.stack([user, item]), torch.stack([item, user])], dim=1)
# Its first scores are LightGCN's propagation of our vectors.
A = torch.zeros(65, 65)
A[edges[0], edges[1]] = 1
d = A.sum(1)
N = A / (d[:, None] * d[None, :]).sqrt()
out = (start + N @ start + N @ N @ start) / 3
assert torch.allclose(model.get_embedding(edges), out, atol=1e-5)
optimiser = torch.optim.SGD(model.parameters(), lr=0.5)
ranks = model(edges, torch.stack([user, item]))
other = model(edges, torch.stack([user, item.flip(0)]))
model.recommendation_loss(ranks, other, node_id=user.unique()).backward()
optimiser.step()
slope = model.embedding.weight.grad
assert slope.abs().max() > 0
assert torch.allclose(model.embedding.weight.detach(), start - 0.5 * slope, atol=1e-7)
print("started from our vectors")
"""


def install() -> None:
    """Build the folder on first use; a skip says why where that is not possible."""
    if (FOLDER / "torch_geometric").is_dir():
        return
    quiet = ["--quiet", "--disable-pip-version-check", "--no-deps"]
    command = [sys.executable, "-m", "pip", "install", *quiet, "--target", str(FOLDER)]
    done = subprocess.run([*command, *PACKAGES], check=False, capture_output=True, text=True)
    if done.returncode != 0:
        pytest.skip(f"PyTorch Geometric cannot be installed here: {done.stderr.strip()[-300:]}")


@pytest.mark.slow
def test_lightgcn_trains_from_our_vectors() -> None:
    install()
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT), str(FOLDER)])
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "started from our vectors" in done.stdout
