"""`Split`: train, validation and test parts that share their id maps."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np

from leporid.artifacts import (
    atomic_folder,
    check_manifest,
    read_arrays,
    read_object,
    recovered,
    write_arrays,
    write_json,
    write_manifest,
)
from leporid.data.id_map import IdMap
from leporid.data.interactions import Interactions
from leporid.data.source_file import located
from leporid.errors import ConfigError, DataError

Part = Literal["valid", "test"]

_ARRAYS, _SUMMARY = "split.safetensors", "split.json"
_FORMAT = "leporid-split-2"


@dataclass(frozen=True, eq=False)
class Split:
    """Three parts of one log; every part has the same users and items in its id maps."""

    train: Interactions
    valid: Interactions
    test: Interactions
    protocol: str
    """How it was made: 'temporal(0.7, 0.1)', 'random(0.7, 0.1, seed=0)'."""

    def __repr__(self) -> str:
        parts = ", ".join(f"{name} {len(part):,}" for name, part in self._parts().items())
        return f"Split({self.protocol}: {self.n_users:,} users, {self.n_items:,} items; {parts})"

    @property
    def users(self) -> IdMap:
        """External user ids."""
        return self.train.users

    @property
    def items(self) -> IdMap:
        """External item ids."""
        return self.train.items

    @property
    def n_users(self) -> int:
        """Number of users."""
        return self.train.n_users

    @property
    def n_items(self) -> int:
        """Number of items."""
        return self.train.n_items

    @cached_property
    def train_valid(self) -> Interactions:
        """Train followed by validation within each user: what is known when testing."""
        both = Interactions.joined(self.train, self.valid)
        return both.select(np.argsort(both.user, kind="stable"))

    def known(self, part: Part) -> Interactions:
        """What a recommender may know of a user, and must not recommend, when tested on `part`."""
        return self.train if part == "valid" else self.train_valid

    def part(self, part: Part) -> Interactions:
        """The held-out interactions of `part`."""
        return self.valid if part == "valid" else self.test

    @cached_property
    def digest(self) -> str:
        """A hash of the three parts."""
        return "-".join(p.digest[:8] for p in (self.train, self.valid, self.test))

    def save(self, path: str | Path) -> Path:
        """Write the directory `path`: `split.safetensors` (arrays) and `split.json` (the rest).

        The directory is replaced as a whole; `manifest.json` says what belongs together.
        """
        arrays = self.users.to_arrays("users.") | self.items.to_arrays("items.")
        for name, part in self._parts().items():
            arrays |= part.to_stored(name)
        summary = {
            "format": _FORMAT,
            "protocol": self.protocol,
            "digest": self.digest,
            "users": self.n_users,
            "items": self.n_items,
            "interactions": {name: len(part) for name, part in self._parts().items()},
        }
        with atomic_folder(path) as folder:
            write_arrays(folder / _ARRAYS, arrays)
            write_json(folder / _SUMMARY, summary)
            write_manifest(folder, "split", _ARRAYS, _SUMMARY, beside=path)
        return Path(path)

    @classmethod
    def load(cls, path: str | Path) -> Split:
        """Read a directory that `save` wrote; files that do not belong together are refused."""
        folder = recovered(path)
        if not is_split(folder):
            raise DataError(f"{folder} holds no split: there is no {_SUMMARY} in it")
        summary = read_object(folder / _SUMMARY)
        if summary.get("format") != _FORMAT:
            raise DataError(
                f"{folder / _SUMMARY} has the format {summary.get('format')!r}, this release reads "
                f"{_FORMAT}: split the log again"
            )
        check_manifest(folder, "split", _ARRAYS, _SUMMARY)
        arrays, _ = read_arrays(folder / _ARRAYS)
        try:
            users = IdMap.from_arrays(arrays, "user", "users.")
            items = IdMap.from_arrays(arrays, "item", "items.")
            names = ("train", "valid", "test")
            parts = {name: Interactions.from_stored(arrays, name, users, items) for name in names}
        except DataError as error:
            raise DataError(f"{folder / _ARRAYS} is damaged: {error}; save it again") from None
        if not isinstance(summary.get("protocol"), str):
            raise DataError(f"{folder / _SUMMARY} does not name a protocol: save it again")
        return cls(**parts, protocol=summary["protocol"])

    def _parts(self) -> dict[str, Interactions]:
        return {"train": self.train, "valid": self.valid, "test": self.test}


def expect(value: Any, kind: type[Split] | type[Interactions], call: str) -> None:
    """Refuse an argument of `call` that is no `kind`, and say how one is made."""
    if not isinstance(value, kind):
        how = "load(...)" if kind is Interactions else "temporal_split(leporid.load(...))"
        given = f"takes {kind.__name__}, not {type(value).__name__}"
        raise ConfigError(f"{call} {given}: give it leporid.{how}")


def is_split(path: str | Path) -> bool:
    """Whether `path` is a folder that `Split.save` wrote."""
    return os.path.isfile(located(path) / _SUMMARY)
