"""A PostgreSQL server of our own: on loopback, in a temporary folder, gone after the tests."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

PASSWORD = "only-for-tests"


def find_programs() -> Path | None:
    """The folder with initdb and pg_ctl; Debian keeps it off the PATH."""
    on_path = shutil.which("initdb")
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    place = Path(on_path).resolve() if on_path else (found[-1] if found else None)
    return None if place is None else place.parent


class Cluster:
    """A running server."""

    def __init__(self, programs: Path, folder: Path) -> None:
        self._programs, self._folder = programs, folder
        # The server refuses to run as root.
        self._user = "postgres" if os.geteuid() == 0 else None
        if self._user is not None:
            shutil.chown(folder, self._user)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self._port = probe.getsockname()[1]
        self.url = f"postgresql://leporid:{PASSWORD}@127.0.0.1:{self._port}/postgres"
        secret = folder / "password"
        secret.write_text(PASSWORD)
        if self._user is not None:
            shutil.chown(secret, self._user)
        told = ["--username=leporid", f"--pwfile={secret}", "--auth=scram-sha-256"]
        self._run("initdb", f"--pgdata={folder / 'data'}", "--encoding=UTF8", "--locale=C", *told)
        self.start()

    def start(self) -> None:
        """Listen on loopback, without a socket in a shared folder."""
        options = f"-p {self._port} -c listen_addresses=127.0.0.1 -c unix_socket_directories=''"
        log = f"--log={self._folder / 'log'}"
        self._run("pg_ctl", "start", "--wait", f"-D{self._folder / 'data'}", log, f"-o{options}")

    def stop(self) -> None:
        """At once: what is not on disk is lost."""
        self._run("pg_ctl", "stop", "--wait", "--mode=immediate", f"-D{self._folder / 'data'}")

    def _run(self, program: str, *arguments: str) -> None:
        told = subprocess.run(
            [self._programs / program, *arguments],
            cwd=self._folder,
            user=self._user,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=120,
        )
        assert told.returncode == 0, f"{program} failed with {told.returncode}"


def why_not() -> str | None:
    """Why there can be no server here."""
    try:
        import psycopg  # noqa: F401
    except ImportError:
        return "no psycopg: pip install 'leporid[postgres]'"
    if find_programs() is None:
        return "no initdb: install Debian's package `postgresql`"
    if os.geteuid() == 0:
        try:
            pwd.getpwnam("postgres")
        except KeyError:
            return "no user `postgres` to run the server as"
    return None


@contextlib.contextmanager
def cluster() -> Iterator[Cluster]:
    """Start a server, and stop it."""
    programs = find_programs()
    assert programs is not None
    # Not below the tests' own folder, which only root can enter where root runs them.
    with tempfile.TemporaryDirectory(prefix="leporid-postgres-") as folder:
        running = Cluster(programs, Path(folder))
        try:
            yield running
        finally:
            running.stop()
