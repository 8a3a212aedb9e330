"""Take the pictures of the page and of the reports, on a wide screen and on a phone.

`python -m docs.make_screenshots FOLDER [--images DIR] [--dark]`, part of `make pictures`; needs
Chromium, Playwright and Pillow. FOLDER is kept: what is in it already is not computed again.

    python -m examples.demo -o FOLDER/demo   demo, and `train`: the report of its default model
    leporid choose ... -o FOLDER/choose
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.chromium import Page, browser
from tests.serve.test_kill import server

IMAGES = Path(__file__).parent / "images"
CHOOSE = ("choose", "ml-100k", "--core", "10", "--budget", "5m", "--items", "ml-100k")
REPORTS = {"demo": "demo", "train": "demo/dlr2", "choose": "choose"}
SIZES = {"": (1280, 1000), "-phone": (390, 1000)}
"""The end of a picture's name, and the window."""
COLOURS = 256
"""Of a picture: enough for text and charts, and a third of the bytes."""


def make_runs(folder: Path) -> None:
    """The demonstration and a search, where they are not there yet."""
    for name, words in (("demo", ("examples.demo",)), ("choose", ("leporid", *CHOOSE))):
        if not (folder / name / "report.html").is_file():
            command = [sys.executable, "-m", *words, "-o", str(folder / name)]
            subprocess.run(command, check=True)


def take(page: Page, path: Path) -> None:
    """The window as it is, with few colours."""
    from PIL import Image

    page.screenshot(path, whole=False)
    with Image.open(path) as picture:
        few = picture.convert("RGB").quantize(
            COLOURS, Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE
        )
    few.save(path, optimize=True)
    print(f"wrote {path}, {path.stat().st_size // 1000} kB")


def main() -> None:
    """Make what is missing, open everything at both sizes, and take the pictures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--images", type=Path, default=IMAGES)
    parser.add_argument("--dark", action="store_true")
    chosen = parser.parse_args()
    make_runs(chosen.folder)
    with (
        tempfile.TemporaryDirectory() as folder,
        server(
            chosen.folder / "demo/dlr2",
            f"{folder}/events.db",
            "--compare",
            f"{chosen.folder}/choose",
        ) as (_, address),
        browser(Path(folder) / "profile") as page,
    ):
        reports = {n: chosen.folder.resolve() / at / "report.html" for n, at in REPORTS.items()}
        addresses = {name: path.as_uri() for name, path in reports.items()} | {"page": address}
        for name, where in addresses.items():
            for end, (width, height) in SIZES.items():
                page.size(width, height, dark=chosen.dark)
                page.open(where)
                if name == "page":
                    page.wait("document.body && document.body.dataset.ready === 'yes'")
                take(page, chosen.images / f"{name}{end}.png")


if __name__ == "__main__":
    main()
