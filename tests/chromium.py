"""Chromium driven over a pipe: the few DevTools commands the tests of our pages need."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import select
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-sync",
    "--disable-background-networking",
    "--disable-component-update",
    "--remote-debugging-pipe",
]


def find_chromium() -> str | None:
    """The browser's path, if there is one."""
    return shutil.which("chromium") or shutil.which("chromium-browser")


class Page:
    """One tab."""

    def __init__(self, to: int, back: int) -> None:
        self._to, self._back = to, back
        self._number, self._buffer, self._session = 0, b"", ""
        self._events: list[dict[str, Any]] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Network", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """One DevTools command and its result; events in between are kept."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._read()
            if answer.get("id") == self._number:
                assert "error" not in answer, answer["error"]
                result: dict[str, Any] = answer["result"]
                return result
            self._events.append(answer)

    def requests(self) -> list[str]:
        """Every address the page has asked for so far."""
        return [
            event["params"]["request"]["url"]
            for event in self._events
            if event["method"] == "Network.requestWillBeSent"
        ]

    def complaints(self) -> list[str]:
        """What the console shows in red: uncaught errors, refused loads, console.error."""
        red = []
        for event in self._events:
            said = event.get("params", {})
            if (
                event["method"] == "Runtime.exceptionThrown"
                or (event["method"] == "Log.entryAdded" and said["entry"]["level"] == "error")
                or (event["method"] == "Runtime.consoleAPICalled" and said["type"] == "error")
            ):
                red.append(json.dumps(said))
        return red

    def click(self, selector: str) -> None:
        """Press and release the left button in the middle of an element."""
        x, y = self.run(
            f"(() => {{ const e = document.querySelector({selector!r}); e.scrollIntoView("
            "{block: 'center'}); const r = e.getBoundingClientRect(); "
            "return [r.left + r.width / 2, r.top + r.height / 2]; })()"
        )
        self.mouse("mousePressed", x, y)
        self.mouse("mouseReleased", x, y)

    def _read(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._back], [], [], 90)
            assert ready, "the browser does not answer"
            part = os.read(self._back, 1 << 16)
            assert part, "the browser has gone"
            self._buffer += part
        text, _, self._buffer = self._buffer.partition(b"\0")
        answer: dict[str, Any] = json.loads(text)
        return answer

    def size(self, width: int, height: int, *, dark: bool = False) -> None:
        """The window's size and the preferred colours."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def run(self, script: str) -> Any:
        """The value of an expression in the page; promises are awaited."""
        answer = self.call(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def wait(self, script: str, seconds: float = 60) -> Any:
        """Until an expression is true."""
        end = time.monotonic() + seconds
        while not (value := self.run(script)):
            assert time.monotonic() < end, f"never true: {script}"
            time.sleep(0.05)
        return value

    def press(self, key: str, text: str = "") -> None:
        """One key, as a person would."""
        code = {"Enter": 13, "ArrowDown": 40}.get(key, ord(key) if len(key) == 1 else 0)
        shared = {"key": key, "windowsVirtualKeyCode": code}
        self.call("Input.dispatchKeyEvent", type="keyDown", text=text, **shared)
        self.call("Input.dispatchKeyEvent", type="keyUp", **shared)

    def mouse(self, kind: str, x: float, y: float) -> None:
        """Move to, press or release at a point of the window."""
        button = {} if kind == "mouseMoved" else {"button": "left", "clickCount": 1}
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **button)

    def screenshot(self, path: Path) -> None:
        """The whole page as PNG."""
        answer = self.call("Page.captureScreenshot", captureBeyondViewport=True)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(base64.b64decode(answer["data"]))


@contextlib.contextmanager
def browser(profile: Path) -> Iterator[Page]:
    """A headless Chromium with an empty profile."""
    program = find_chromium()
    assert program is not None
    read_end, to = os.pipe()
    back, write_end = os.pipe()
    # DevTools reads from descriptor 3 and writes to 4.
    script = f'exec 3<&{read_end} 4>&{write_end}; exec "$@"'
    process = subprocess.Popen(
        ["bash", "-c", script, "-", program, *FLAGS, f"--user-data-dir={profile}", "about:blank"],
        pass_fds=(read_end, write_end),
        stderr=subprocess.DEVNULL,
    )
    os.close(read_end)
    os.close(write_end)
    try:
        yield Page(to, back)
    finally:
        process.terminate()
        process.wait(timeout=30)
        os.close(to)
        os.close(back)
