"""What pyproject.toml cannot say: PyPI shows the README, and nothing beside it.

Pictures and links lead into the repository, once [project.urls] has a `Repository`. Until then
there is nowhere to lead: a link becomes its words, and a picture says where it is.
"""

import re
import tomllib
from pathlib import Path

from setuptools import setup


def pypi_page(readme: str, repository: str | None) -> str:
    """The README with addresses that are whole."""

    def whole(found: re.Match[str]) -> str:
        mark, words, path = found.groups()
        if repository:
            return f"{mark}[{words}]({repository}/{'raw' if mark else 'blob'}/HEAD/{path})"
        return f"*{words}: the picture {path} of the repository.*" if mark else words

    return re.sub(r"(!?)\[([^]]*)\]\((?![a-z]+:|#)([^)]*)\)", whole, readme)


if __name__ == "__main__":
    here = Path(__file__).parent
    project = tomllib.loads((here / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    readme = (here / "README.md").read_text(encoding="utf-8")
    setup(
        long_description=pypi_page(readme, project["urls"].get("Repository")),
        long_description_content_type="text/markdown",
    )
