"""Take docs/images/service.png: the page for three films, from two runs of the demonstration.

`leporid demo -o demo && python -m docs.make_screenshot demo`; needs Chromium and Playwright.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.chromium import browser
from tests.serve.test_kill import server

FILMS = ("Toy Story (1995)", "Aladdin (1992)", "Beauty and the Beast (1991)")
OTHER = "paper-leporid"


def main() -> None:
    """Serve both runs, choose the films, and take the picture."""
    demo = Path(sys.argv[1])
    with (
        tempfile.TemporaryDirectory() as folder,
        server(demo / "dlr2", f"{folder}/events.db", "--compare", f"{demo}/{OTHER}") as served,
        browser(Path(folder) / "profile") as page,
    ):
        page.size(1280, 900)
        page.open(served[1])
        page.wait("document.body && document.body.dataset.ready === 'yes'")
        for film in FILMS:
            page.run(f"ask(`/items?query=${{encodeURIComponent({film!r})}}`)"
                     ".then((answer) => add(answer.items[0]))")  # fmt: skip
        status = "document.getElementById('status').textContent"
        page.wait(f"{status}.startsWith('For your {len(FILMS)} items')")
        page.screenshot(Path(__file__).parent / "images" / "service.png")


if __name__ == "__main__":
    main()
