"""The version of this package, and those of its dependencies."""

__version__ = "0.8.0"

_PACKAGES = ("numpy", "scipy", "numba", "pyarrow", "torch", "optuna")


def versions() -> dict[str, str]:
    """Versions of Python, the platform and the packages that can change a number."""
    import contextlib
    import importlib.metadata
    import platform

    machine = f"{platform.system()}-{platform.machine()}"
    installed = {"python": platform.python_version(), "platform": machine, "leporid": __version__}
    for package in _PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            installed[package] = importlib.metadata.version(package)
    return installed
