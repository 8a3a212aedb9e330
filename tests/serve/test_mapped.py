"""The served weights are the pages of the file, until the swap and not a moment longer."""

from __future__ import annotations

import gc
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import leporid
from leporid.errors import DataError
from leporid.models import Recommender
from leporid.serve import create_app, loaded_run
from tests.serve.conftest import post
from tests.test_artifacts import mappings

linux = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc/self/maps")

LOOK = """
import sys
from pathlib import Path
from leporid.serve import create_app
from tests.test_artifacts import mappings

app = create_app(sys.argv[1])
model = app.state.service.runs["main"].model
[(begin, end)] = mappings(Path(sys.argv[1]) / "model" / "weights.safetensors")
tensors = model.net.state_dict().values()
inside = [t for t in tensors if begin <= t.data_ptr() < end]
for table in (model.network.users.weight, model.network.items.weight):
    assert begin <= table.data_ptr() < end
assert begin <= model.known.item.ctypes.data < end
print(sum(t.nbytes for t in inside) / sum(t.nbytes for t in tensors))
"""


@pytest.fixture(scope="module")
def neural(split: leporid.Split, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A DLR2 run: most of its bytes are tables and layers that lie in the file as in memory."""
    folder = tmp_path_factory.mktemp("neural")
    settings = {"steps": 2, "batch_size": 16, "dim": 16, "architecture": "no_conv"}
    leporid.train("dlr2", split, init="random", device="cpu", **settings).save(folder / "model")
    return folder


@linux
def test_a_server_process_maps_the_weights(neural: Path) -> None:
    told = subprocess.run(
        [sys.executable, "-W", "error::UserWarning", "-c", LOOK, str(neural)],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert told.returncode == 0, told.stderr[-2000:]
    assert float(told.stdout) > 0.99


@linux
def test_the_old_weights_are_let_go_after_the_swap(
    neural: Path, split: leporid.Split, tmp_path: Path
) -> None:
    served = tmp_path / "run"
    shutil.copytree(neural, served)
    app = create_app(served, admin_token="admin")
    user = split.train.users.external(3)
    ask = {"users": [user], "n": 5}
    before = post(app, "/recommend", ask).json()
    fresh = leporid.train("toppop", split)
    fresh.save(served / "model")
    # The folder is another one now, and the old file has no name left; its pages are still served.
    assert post(app, "/recommend", ask).json() == before
    assert mappings(served / "model" / "weights.safetensors") == []
    assert len(_mapped_weights()) >= 1
    reload = post(app, "/reload", headers={"Authorization": "Bearer admin"})
    assert reload.status_code == 200
    after = post(app, "/recommend", ask).json()["results"][0]["items"]
    assert [item["id"] for item in after] == fresh.recommend(user, n=5)[0].tolist()
    gc.collect()
    assert len(mappings(served / "model" / "weights.safetensors")) == 1
    ours = [name for name in _mapped_weights() if name.startswith(str(tmp_path))]
    assert not any(name.endswith("(deleted)") for name in ours)


def _mapped_weights() -> list[str]:
    lines = Path("/proc/self/maps").read_text().splitlines()
    return [line.split(maxsplit=5)[5] for line in lines if "weights.safetensors" in line]


@pytest.mark.parametrize("times", [0, 1, 4, 5])
def test_a_folder_replaced_while_it_is_read_is_never_half_of_each(
    split: leporid.Split, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    """Two models of the same shape take turns; what is loaded is one of them, whole."""
    small = leporid.temporal_split(leporid.synthesize(90, 60, 1500, seed=8))
    models = leporid.train("toppop", split), leporid.train("toppop", small)
    models[0].save(tmp_path / "model")
    plain, replaced = loaded_run._information, 0

    def replace(*about: Any) -> Any:
        """In the middle of a load: the model is read, its titles are not."""
        nonlocal replaced
        if replaced < times:
            replaced += 1
            models[replaced % 2].save(tmp_path / "model")
        return plain(*about)

    monkeypatch.setattr(loaded_run, "_information", replace)
    if times >= loaded_run._MAX_ATTEMPTS:
        with pytest.raises(DataError, match="again and again"):
            loaded_run.load_run(tmp_path)
        return
    model: Recommender = loaded_run.load_run(tmp_path).model
    users, last = np.arange(3, dtype=np.int32), models[times % 2]
    assert len(model.known) == len(last.known)
    np.testing.assert_array_equal(model.score(users), last.score(users))
