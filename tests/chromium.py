"""The system's own Chromium under Playwright: the few words the tests of our pages need."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-background-networking",
    "--disable-component-update",
]
_SECONDS = 90
"""A busy machine may need this long for what a quiet one does at once."""


def find_chromium() -> str | None:
    """The browser's path, if there is one and Playwright to drive it."""
    if importlib.util.find_spec("playwright") is None:
        return None
    return shutil.which("chromium") or shutil.which("chromium-browser")


class Page:
    """One tab."""

    def __init__(self, page: Any) -> None:
        self._page = page
        self._requests: list[str] = []
        self._complaints: list[str] = []
        self._devtools = page.context.new_cdp_session(page)
        page.on("request", lambda request: self._requests.append(request.url))
        page.on("pageerror", lambda error: self._complaints.append(str(error)))
        page.on("console", self._said)

    def _said(self, message: Any) -> None:
        if message.type == "error":
            self._complaints.append(message.text)

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """One DevTools command and its result."""
        result: dict[str, Any] = self._devtools.send(method, params)
        return result

    def open(self, address: str) -> None:
        """Go to an address."""
        self._page.goto(address, timeout=_SECONDS * 1000)

    def requests(self) -> list[str]:
        """Every address the page has asked for so far."""
        return list(self._requests)

    def complaints(self) -> list[str]:
        """What the console shows in red: uncaught errors, refused loads, console.error."""
        return list(self._complaints)

    def click(self, selector: str) -> None:
        """Press and release the left button in the middle of an element."""
        self._page.locator(selector).first.click(timeout=_SECONDS * 1000)

    def size(self, width: int, height: int, *, dark: bool = False) -> None:
        """The window's size and the preferred colours."""
        self._page.set_viewport_size({"width": width, "height": height})
        self._page.emulate_media(color_scheme="dark" if dark else "light")

    def run(self, script: str) -> Any:
        """The value of an expression in the page; promises are awaited."""
        return self._page.evaluate(script)

    def wait(self, script: str, seconds: float = _SECONDS) -> Any:
        """Until an expression is true."""
        end = time.monotonic() + seconds
        while not (value := self.run(script)):
            assert time.monotonic() < end, f"never true: {script}"
            self._page.wait_for_timeout(50)
        return value

    def press(self, key: str, text: str = "") -> None:
        """One key, as a person would; `text` is what it writes."""
        self._page.keyboard.press(key)

    def mouse(self, kind: str, x: float, y: float) -> None:
        """Move to, press or release at a point of the window."""
        self._page.mouse.move(x, y)
        if kind == "mousePressed":
            self._page.mouse.down()
        elif kind == "mouseReleased":
            self._page.mouse.up()

    def axe(self) -> list[str]:
        """What axe-core finds wrong with the page: rule, how grave, and where."""
        self.run(Path(os.environ["LEPORID_AXE"]).read_text(encoding="utf-8"))
        found = self.run("axe.run(document).then((result) => result.violations)")
        return [
            f"{rule['id']} ({rule['impact']}): {node['target']}"
            for rule in found
            for node in rule["nodes"]
        ]

    def screenshot(self, path: Path, *, whole: bool = True) -> None:
        """The page as PNG, or the part of it that the window shows."""
        path.parent.mkdir(parents=True, exist_ok=True)
        self._page.screenshot(path=path, full_page=whole, timeout=_SECONDS * 1000)


@contextlib.contextmanager
def browser(profile: Path) -> Iterator[Page]:
    """A headless Chromium with an empty profile."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        context = playwright.chromium.launch_persistent_context(
            profile, executable_path=find_chromium(), args=FLAGS, timeout=_SECONDS * 1000
        )
        try:
            yield Page(context.pages[0])
        finally:
            context.close()
