"""The same embedding from a cluster of two worker processes, also when one of them is killed."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from scipy import sparse
from typer.testing import CliRunner

import leporid
from leporid import LaplacianEigenmaps, Leporid
from leporid.cli.app import app
from leporid.distributed import Cluster, connect
from leporid.distributed import cluster as cluster_module
from leporid.errors import ClusterError, ConfigError, LeporidError, NotFittedError
from leporid.foundation import NullProgress

distributed = pytest.importorskip("distributed")

SETTINGS: dict[str, Any] = {"dim": 8, "k": 20, "solver": "lanczos", "tol": 1e-6, "seed": 3}


def local_cluster(folder: Path, workers: int, processes: bool = True) -> Any:
    return distributed.LocalCluster(
        n_workers=workers,
        threads_per_worker=1,
        processes=processes,
        protocol="tcp",
        host="127.0.0.1",
        dashboard_address="127.0.0.1:0",
        local_directory=str(folder),
        memory_limit=0,
        silence_logs=50,
    )


@pytest.fixture(scope="module")
def two_workers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with local_cluster(tmp_path_factory.mktemp("dask"), 2) as made:
        yield made


@pytest.fixture
def client(two_workers: Any) -> Iterator[Any]:
    with distributed.Client(two_workers, set_as_default=False) as made:
        made.wait_for_workers(2, timeout=300)
        yield made


@pytest.fixture
def doomed(tmp_path: Path) -> Iterator[Any]:
    """A cluster of its own for a test that kills workers: no later test waits for their return."""
    with local_cluster(tmp_path, 2) as made, distributed.Client(made, set_as_default=False) as ours:
        ours.wait_for_workers(2, timeout=300)
        yield ours


@pytest.fixture(scope="module")
def X() -> sparse.csr_array:  # noqa: N802
    return leporid.synthesize(1100, 230, 30_000, seed=11).csr()


@pytest.fixture(scope="module")
def here(X: sparse.csr_array) -> Leporid:
    return Leporid(**SETTINGS).fit(X)


class Stages(NullProgress):
    """Remembers what was reported, and calls a function once, in the middle of a stage."""

    def __init__(self, stage: str = "", after: int = 1, act: Callable[[], None] | None = None):
        self.stages: list[tuple[str, int | None]] = []
        self.steps: dict[str, int] = {}
        self._stage, self._after, self._act = stage, after, act
        self.acted = False

    def start(self, description: str, total: int | None = None) -> None:
        self.stages.append((description, total))
        self.steps[description] = 0
        self._calls = 0

    def advance(self, steps: int = 1, **fields: Any) -> None:
        stage = self.stages[-1][0]
        self.steps[stage] += steps
        self._calls += 1
        if stage == self._stage and self._calls == self._after and not self.acted:
            self.acted = True
            assert self._act is not None
            self._act()


def kill_one(client: Any) -> None:
    """SIGKILL to a worker that has something to lose."""
    busy = {address for address, keys in client.has_what().items() if keys}
    pids = client.run(os.getpid)
    assert busy
    os.kill(pids[min(busy)], signal.SIGKILL)


def assert_same_fit(there: Leporid, here: Leporid) -> None:
    np.testing.assert_array_equal(there.degrees_, here.degrees_)
    np.testing.assert_allclose(there.eigenvalues_, here.eigenvalues_, atol=1e-9)
    angles = np.linalg.svd(there.embedding_.T.astype(float) @ here.embedding_.astype(float))[1]
    assert angles.min() > 1.0 - 1e-5
    assert there.residuals_.max() < 1e-6
    np.testing.assert_array_equal(there.embedding_, here.embedding_)


def test_a_cluster_gives_what_one_machine_gives(
    client: Any, X: sparse.csr_array, here: Leporid, tmp_path: Path
) -> None:
    progress = Stages()
    there = Leporid(**SETTINGS).fit(X, client=client, progress=progress)
    assert_same_fit(there, here)
    assert progress.stages == [("neighbours", 1100), ("graph", 1100), ("eigenvectors", None)]
    assert progress.steps["neighbours"] == progress.steps["graph"] == 1100
    assert there.n_iter_ == here.n_iter_ == progress.steps["eigenvectors"]

    new = sparse.csr_array(X[:30].toarray()[:, ::-1])
    np.testing.assert_array_equal(there.transform(new), here.transform(new))
    there.save(tmp_path)
    np.testing.assert_array_equal(Leporid.load(tmp_path).transform(new), here.transform(new))

    assert not hasattr(there, "graph_")
    with pytest.raises(NotFittedError, match="on a Dask cluster, where it stayed"):
        _ = there.graph_


def test_the_graph_is_on_the_workers_under_names_people_can_read_and_then_gone(
    two_workers: Any, X: sparse.csr_array, here: Leporid
) -> None:
    """Also with a client that talks to the workers itself."""
    from dask.utils import key_split

    held: dict[str, set[Any]] = {}
    with distributed.Client(two_workers, direct_to_workers=True) as client:
        client.wait_for_workers(2, timeout=300)

        def look() -> None:
            for address, keys in client.has_what().items():
                for key in keys:
                    held.setdefault(key_split(key), set()).add((address, key))

        progress = Stages("eigenvectors", 3, look)
        assert_same_fit(Leporid(**SETTINGS).fit(X, client=client, progress=progress), here)
        assert {"leporid-matrix", "leporid-neighbours", "leporid-block"} <= set(held)
        assert len({key for _, key in held["leporid-block"]}) == 8
        deadline = time.monotonic() + 20
        while any(client.has_what().values()) and time.monotonic() < deadline:
            time.sleep(0.1)
        assert not any(client.has_what().values())


def test_landmarks_are_fitted_on_the_cluster(client: Any, X: sparse.csr_array) -> None:
    settings = {**SETTINGS, "landmarks": 600}
    there, here = Leporid(**settings).fit(X, client=client), Leporid(**settings).fit(X)
    np.testing.assert_array_equal(there.landmarks_, here.landmarks_)
    np.testing.assert_array_equal(there.embedding_, here.embedding_)


def test_unnormalised_and_small_graphs_too(client: Any, X: sparse.csr_array) -> None:
    for make in (
        lambda: Leporid(dim=5, k=15, normalized=False, solver="lanczos"),
        lambda: LaplacianEigenmaps(dim=5, k=2000),
    ):
        few = X[:400]
        there, here = make().fit(few, client=client), make().fit(few)
        np.testing.assert_array_equal(there.embedding_, here.embedding_)
        np.testing.assert_array_equal(there.eigenvalues_, here.eigenvalues_)


def test_rows_without_edges_are_counted_as_on_one_machine(client: Any, X: sparse.csr_array) -> None:
    lonely = X.toarray()
    lonely[[3, 700]] = 0.0
    model = Leporid(**SETTINGS)
    with pytest.warns(leporid.errors.LeporidWarning, match="2 of 1100 nodes have no edges"):
        there = model.fit(lonely, client=client)
    assert not there.embedding_[[3, 700]].any()


@pytest.mark.parametrize(
    ("stage", "after"),
    [
        pytest.param("neighbours", 1, marks=pytest.mark.slow),
        ("graph", 1),
        pytest.param("eigenvectors", 4, marks=pytest.mark.slow),
    ],
)
def test_a_killed_worker_changes_nothing(
    doomed: Any, X: sparse.csr_array, here: Leporid, stage: str, after: int
) -> None:
    before = set(doomed.run(os.getpid).values())
    progress = Stages(stage, after, lambda: kill_one(doomed))
    there = Leporid(**SETTINGS).fit(X, client=doomed, progress=progress)
    assert progress.acted
    assert_same_fit(there, here)
    assert not before <= set(doomed.run(os.getpid).values())


@pytest.mark.slow
def test_the_loss_of_all_data_is_made_good(
    tmp_path: Path, X: sparse.csr_array, here: Leporid
) -> None:
    """One worker, killed: Dask computes from what the scheduler has."""
    with local_cluster(tmp_path, 1) as made, distributed.Client(made) as client:

        def replace() -> None:
            kill_one(client)
            made.scale(2)

        progress = Stages("eigenvectors", 4, replace)
        there = Leporid(**SETTINGS).fit(X, client=client, progress=progress)
        assert progress.acted
        assert_same_fit(there, here)


@pytest.mark.slow
def test_the_loss_of_every_worker_ends_in_a_sentence(
    tmp_path: Path, X: sparse.csr_array, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_module, "PATIENCE", 1.0)
    monkeypatch.setattr(cluster_module, "LOOK_EVERY", 0.5)
    with local_cluster(tmp_path, 1, processes=False) as made, distributed.Client(made) as client:

        def nobody_left() -> None:
            made.scale(0)
            while client.nthreads():
                time.sleep(0.1)

        progress = Stages("eigenvectors", 2, nobody_left)
        with pytest.raises(ClusterError, match="has had no worker for 1 seconds: start workers"):
            Leporid(**SETTINGS).fit(X, client=client, progress=progress)
        with pytest.raises(ClusterError, match="has had no worker"):
            Leporid(**SETTINGS).fit(X, client=client)


@pytest.mark.parametrize("stage", ["neighbours", "eigenvectors"])
def test_the_loss_of_the_scheduler_ends_in_a_sentence(
    tmp_path: Path, X: sparse.csr_array, monkeypatch: pytest.MonkeyPatch, stage: str
) -> None:
    monkeypatch.setattr(cluster_module, "LOOK_EVERY", 0.5)
    with local_cluster(tmp_path, 1, processes=False) as made, distributed.Client(made) as client:
        progress = Stages(stage, 1, made.close)
        with pytest.raises(ClusterError, match="no longer answers: restart it and fit again"):
            Leporid(**SETTINGS).fit(X, client=client, progress=progress)


def test_work_that_kills_its_workers_ends_in_a_sentence(doomed: Any) -> None:
    doomed.cluster.scheduler.allowed_failures = 0
    place = Cluster(doomed)
    with pytest.raises(ClusterError, match=r"leporid-fatal.* killed \d+ workers .* lack of memory"):
        place.gather(place.submit([("leporid-fatal", 0)], os._exit, [1]))


def test_an_error_in_a_task_is_raised_as_it_is(client: Any) -> None:
    place = Cluster(client)
    with pytest.raises(ValueError, match="three"):
        place.gather(place.submit([("leporid-wrong", 0)], int, ["three"]))


def test_the_command_line_uses_the_cluster(
    client: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEPORID_CACHE", "off")
    data = leporid.synthesize(300, 200, 8000, seed=4)
    log = tmp_path / "log.csv"
    pairs = zip(data.user.tolist(), data.item.tolist(), strict=True)
    log.write_text("user,item\n" + "".join(f"{user},{item}\n" for user, item in pairs))
    runner = CliRunner()
    arguments = ["embed", str(log), "--dim", "6", "--k", "9", "--format", "parquet", "--json"]
    for name, more in (("there", ["--scheduler", client.scheduler.address]), ("here", [])):
        done = runner.invoke(app, [*arguments, "-o", str(tmp_path / name), *more])
        assert done.exit_code == 0, done.output
    for side in ("users", "items"):
        there, here = (
            pq.read_table(tmp_path / name / f"{side}.parquet") for name in ("there", "here")
        )
        assert there.equals(here)

    arguments = ["embed", str(log), "-o", str(tmp_path / "no"), "--method", "svd"]
    done = runner.invoke(app, [*arguments, "--scheduler", client.scheduler.address])
    assert isinstance(done.exception, LeporidError)
    assert "--scheduler is for le and leporid" in str(done.exception)


def test_what_a_cluster_cannot_do_is_refused_first(
    client: Any, X: sparse.csr_array, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A machine without a GPU would refuse the device before the cluster does.
    monkeypatch.setattr("leporid.embeddings.estimators.check_device", lambda device: None)

    def refused(model: Leporid, X: Any, client: Any, match: str) -> None:
        progress = Stages()
        with pytest.raises(ConfigError, match=match):
            model.fit(X, client=client, progress=progress)
        assert progress.stages == []

    refused(Leporid(device="cuda"), X, client, "on their CPUs")
    refused(Leporid(metric="precomputed"), X, client, "takes interactions")
    refused(Leporid(), leporid.knn_graph(X, k=3), client, "takes interactions")
    refused(Leporid(), X, "tcp://127.0.0.1:8786", "must be a distributed.Client, not a str")


def test_a_scheduler_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_module, "CONNECT_SECONDS", 0.5)
    with (
        pytest.raises(ClusterError, match=r"no Dask scheduler answers at tcp://127\.0\.0\.1:9:"),
        connect("tcp://127.0.0.1:9"),
    ):
        pass
    with pytest.raises(ConfigError, match="looks like tcp://host:8786"), connect("localhost"):
        pass


def test_other_versions_on_workers_are_named(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_module, "__version__", "0.0.1")
    with pytest.raises(ClusterError, match=r"and this process has 0\.0\.1: install the same"):
        Cluster(client)
