"""A Dask cluster: the client is checked, and a cluster without workers is waited for.

Dask itself runs a lost task again, from what is elsewhere or what the scheduler has.
"""

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from leporid._version import __version__
from leporid.errors import ClusterError, ConfigError, article, import_extra

PATIENCE = 60.0
"""Seconds to wait for a worker when none is left: a supervisor may be starting one."""
LOOK_EVERY = 2.0
"""Seconds between two checks whether any worker is left."""
CONNECT_SECONDS = 30.0
"""A starting scheduler may take this long to answer."""

if TYPE_CHECKING:
    from distributed import Client

T = TypeVar("T")
Future: TypeAlias = Any
"""A `distributed.Future`, whose result stays on a worker until it is gathered."""

one_at_a_time = threading.Lock()
"""A worker works on one block at a time, on all its threads: one layout of the rows in memory."""


@contextmanager
def connect(address: str) -> "Iterator[Client]":
    """Yield a client of the scheduler at `address`, closed at the end."""
    distributed = import_extra("distributed", "--scheduler", "distributed")
    if "://" not in address:
        raise ConfigError(
            f"a scheduler's address looks like tcp://host:8786, not {address!r}"
        )
    try:
        client = distributed.Client(
            address,
            timeout=CONNECT_SECONDS,
            set_as_default=False,
            name="leporid",
        )
    except (OSError, TimeoutError, ValueError):
        raise ClusterError(
            f"no Dask scheduler answers at {address}: start one with 'dask scheduler' or "
            f"check the address"
        ) from None
    with client:
        yield client


class Cluster:
    """A checked client: submits, waits, and says in a sentence what went wrong."""

    def __init__(self, client: "Client") -> None:
        self._distributed = import_extra(
            "distributed", "fit(client=...)", "distributed"
        )
        if not isinstance(client, self._distributed.Client):
            raise ConfigError(
                f"client must be a distributed.Client, not {article(type(client).__name__)}: "
                f"Client('tcp://host:8786')"
            )
        if client.asynchronous:
            raise ConfigError(
                "client must not be asynchronous: make it with asynchronous=False"
            )
        self.client = client
        self._await_workers()
        self._check_versions()

    @property
    def workers(self) -> int:
        with self._explained():
            return len(self.client.nthreads())

    def _await_workers(self) -> None:
        """Return once there is a worker; give up after `PATIENCE` seconds."""
        deadline = time.monotonic() + PATIENCE
        while not self.workers:
            if time.monotonic() > deadline:
                raise ClusterError(
                    f"the Dask cluster at {self._address} has had no worker for {PATIENCE:.0f} "
                    f"seconds: start workers with 'dask worker {self._address}' and fit again"
                )
            time.sleep(min(0.2, PATIENCE))

    def keep(self, key: tuple[str, int], value: object) -> Future:
        """Return a future of data the scheduler has a copy of: no lost worker takes it away."""
        import dask

        no_warning = {"distributed.admin.large-graph-warning-threshold": "1TB"}
        with dask.config.set(no_warning):
            return self.submit([key], _same, [value])[0]

    def submit(
        self,
        keys: Sequence[tuple[str | int, ...]],
        task: Callable[..., object],
        *lists: Sequence[object],
    ) -> list[Future]:
        """Return futures of `task` for the first entry of every list, the second, and so on.

        The lists may hold futures too. The dashboard shows the names in the keys.
        """
        with self._explained():
            futures = self.client.map(
                task,
                *lists,
                key=list(keys),
                pure=False,
                batch_size=None,
            )
            return list(futures)

    def wait(
        self,
        futures: Sequence[Future],
        done: Callable[[int], None] | None = None,
    ) -> None:
        """Wait for all futures; `done(position)` is called as each finishes.

        Raises what a task raised.
        """
        wait = self._distributed.wait
        positions = {future: position for position, future in enumerate(futures)}
        until = "ALL_COMPLETED" if done is None else "FIRST_COMPLETED"
        while positions:
            try:
                with self._explained(), self.client.as_current():
                    finished = wait(
                        list(positions),
                        timeout=LOOK_EVERY,
                        return_when=until,
                    )
            except TimeoutError:
                self._await_workers()
                continue
            for future in finished.done:
                if future.status != "finished":
                    with self._explained():
                        future.result()
                position = positions.pop(future)
                if done is not None:
                    done(position)

    def gather(self, futures: Sequence[Future]) -> list[Any]:
        """Return the results of futures, in order."""
        self.wait(futures)
        with self._explained():
            return list(self.client.gather(list(futures)))

    @staticmethod
    def release(futures: Iterable[Future]) -> None:
        """Free what workers hold for these futures now, whoever still refers to them."""
        for future in futures:
            future.release()

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Say in a sentence that tasks killed their workers, or that the scheduler is gone."""
        try:
            yield
        except self._distributed.KilledWorker as error:
            raise ClusterError(
                f"{error.task} killed {error.allowed_failures + 1} workers of the Dask cluster one "
                f"after the other, most likely for lack of memory: use more workers, or larger ones"
            ) from error
        except Exception:
            if self.client.status == "running":
                raise
            raise ClusterError(
                f"the Dask scheduler at {self._address} no longer answers: restart it and fit again"
            ) from None

    @property
    def _address(self) -> str:
        scheduler = self.client.scheduler
        return str(scheduler.address if scheduler is not None else "its address")

    def _check_versions(self) -> None:
        """Refuse workers with another version: tasks are sent by the name of their code."""
        versions = self.client.run(_worker_version, on_error="return")
        for address, version in versions.items():
            if isinstance(version, str | ImportError) and version != __version__:
                installed = "no leporid"
                if isinstance(version, str):
                    installed = f"leporid {version}"
                raise ClusterError(
                    f"the Dask worker at {address} has {installed} and this process has "
                    f"{__version__}: install the same version on both"
                )


def _same(value: T) -> T:
    return value


def _worker_version() -> str:
    return __version__
