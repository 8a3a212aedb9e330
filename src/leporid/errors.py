"""Errors and warnings: the message is one sentence that says what, where and what to do."""

import contextlib
import difflib
import importlib.metadata
import json
import signal
import warnings
from collections.abc import Iterable
from types import ModuleType
from typing import TypedDict
from urllib.parse import unquote


class LeporidError(Exception):
    """Base class of every error this library raises on purpose."""


class DataError(LeporidError, ValueError):
    """The input data is missing, malformed or empty."""


class ConfigError(LeporidError, ValueError):
    """A setting is unknown, of the wrong type, or out of range."""


class GraphError(LeporidError, ValueError):
    """A matrix or graph does not have the form the method needs."""


class ClusterError(LeporidError, RuntimeError):
    """A Dask cluster cannot be reached, has no workers left, or keeps losing them."""


class NotFittedError(LeporidError, AttributeError, ValueError):
    """A method that needs a fitted object was called before `fit`."""


class MissingExtraError(LeporidError, ImportError):
    """An optional dependency is not installed."""

    def __init__(self, feature: str, extra: str) -> None:
        super().__init__(
            f"{feature} needs the extra '{extra}': {install_command(extra)}"
        )


class _Origin(TypedDict, total=False):
    """Where a package was installed from (PEP 610)."""

    url: str
    vcs_info: dict[str, str]
    dir_info: dict[str, bool]


def install_command(extra: str) -> str:
    """Return what installs an extra from where this package came from, or from the index."""
    origin: _Origin = {}
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        text = importlib.metadata.distribution("leporid").read_text("direct_url.json")
        origin = json.loads(text or "{}")
    url = origin.get("url", "")
    if origin.get("dir_info", {}).get("editable"):
        return f"pip install -e '{unquote(url.removeprefix('file://'))}[{extra}]'"
    if not url:
        return f"pip install 'leporid[{extra}]'"
    vcs = origin.get("vcs_info", {}).get("vcs")
    address = f"{vcs}+{url}" if vcs else url
    return f"pip install 'leporid[{extra}] @ {address}'"


def import_extra(package: str, feature: str, extra: str) -> ModuleType:
    """Import a package of an extra; where it is missing, raise a `MissingExtraError`."""
    try:
        return importlib.import_module(package)
    except ImportError:
        raise MissingExtraError(feature, extra) from None


class UnknownNameError(LeporidError, LookupError, ValueError):
    """A model, initialiser, metric, column or option name does not exist."""

    def __init__(self, kind: str, name: object, known: Iterable[str]) -> None:
        known = sorted(known)
        guess = closest(str(name), known)
        hint = f"choose one of: {', '.join(known)}"
        if guess:
            hint = f"did you mean {guess!r}?"
        super().__init__(f"unknown {kind} {name!r}: {hint}")


class UnknownIdError(LeporidError, LookupError):
    """A user or item id does not occur in the data the object was fitted on."""


class TrainingInterruptedError(LeporidError):
    """Ctrl-C or SIGTERM ended long work; the message says what is kept and how to go on."""

    def __init__(
        self,
        message: str,
        by: signal.Signals = signal.SIGINT,
        so_far: object = None,
    ) -> None:
        super().__init__(message)
        self.by = by
        """The signal."""
        self.so_far = so_far
        """What there is: the model with the best weights so far (`leporid.train`), the run that was
        saved (`execute_to_folder`), the finished trials (`leporid.tune`), the outcomes of all cells
        (`run_grid`), or None."""


class LeporidWarning(UserWarning):
    """Something was repaired, clipped or left out; the message counts it."""


def warn(message: str, stacklevel: int = 2) -> None:
    """Raise a `LeporidWarning` at the caller (1), its caller (2) and so on."""
    warnings.warn(message, LeporidWarning, stacklevel=stacklevel + 1)


_SYNONYMS = {"gpu": "cuda", "nvidia": "cuda"}
"""Words for the same thing that are not spelled alike."""


def closest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name nearest in spelling (in any case), or None when nothing is near."""
    by_lower_case = {candidate.lower(): candidate for candidate in known}
    name = name.lower()
    synonym = _SYNONYMS.get(name)
    if synonym in by_lower_case:
        return by_lower_case[synonym]
    matches = difflib.get_close_matches(name, list(by_lower_case), n=1, cutoff=0.5)
    return by_lower_case[matches[0]] if matches else None


def shortened(text: object, most: int = 200) -> str:
    """Return text for a message: one line, and not a whole file."""
    line = " ".join(str(text).split())
    return line if len(line) <= most else f"{line[:most]}..."


def article(word: str) -> str:
    """Return a word with its article: 'a user', 'an item', 'an int', 'a uint8'."""
    return f"an {word}" if word[:1].lower() in "aeio" else f"a {word}"
