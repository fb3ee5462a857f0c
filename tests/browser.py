"""A headless Chromium that loads a file, by the protocol of its developer tools over a pipe.

It needs nothing but the browser. What the page asks for and what its console says is kept.
"""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

# The browser reads its pipe at 3 and writes at 4.
LAUNCH = """
import fcntl, os, sys
ends = [fcntl.fcntl(int(given), fcntl.F_DUPFD, 10) for given in sys.argv[1:3]]
for end, at in zip(ends, (3, 4)):
    os.dup2(end, at)
    os.close(end)
os.execv(sys.argv[3], sys.argv[3:])
"""
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")


def browser() -> str | None:
    """Return the path of a Chromium; LASTBIT_BROWSER names one that is not on the path."""
    named = os.environ.get("LASTBIT_BROWSER")
    return named or next(filter(None, map(shutil.which, NAMES)), None)


class Page:
    """A page of the browser.

    Attributes:
        complaints: what its console said, and exceptions.
        requests: addresses that it asked for.
    """

    def __init__(self, send: int, receive: int) -> None:
        self.send, self.receive = send, receive
        self.session: str | None = None
        self.number, self.rest = 0, b""
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self.loaded = False

    def call(self, method: str, **given):
        """Call a method of the protocol and return its result."""
        self.number += 1
        message = {"id": self.number, "method": method, "params": given}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.send, json.dumps(message).encode() + b"\0")
        number = self.number
        while True:
            answer = self._next()
            if answer.get("id") == number:
                assert "error" not in answer, (method, answer)
                return answer["result"]

    def _next(self):
        deadline = time.monotonic() + 60
        while b"\0" not in self.rest:
            ready, _, _ = select.select([self.receive], [], [], deadline - time.monotonic())
            assert ready, "the browser does not answer"
            piece = os.read(self.receive, 1 << 20)
            assert piece, "the browser has ended"
            self.rest += piece
        text, _, self.rest = self.rest.partition(b"\0")
        message = json.loads(text)
        self._note(message.get("method"), message.get("params", {}))
        return message

    def _note(self, method, params):
        if method == "Runtime.consoleAPICalled":
            self.complaints.append(str(params["args"]))
        elif method == "Runtime.exceptionThrown":
            self.complaints.append(str(params["exceptionDetails"]))
        elif method == "Log.entryAdded":
            self.complaints.append(params["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
        elif method == "Page.loadEventFired":
            self.loaded = True

    def load(self, path: Path, anchor: str = "") -> None:
        """Load a file and wait until it is there."""
        self.loaded = False
        self.call("Page.navigate", url=path.as_uri() + anchor)
        while not self.loaded:
            self._next()

    def look(self, width: int, height: int = 900, dark: bool = False, media: str = "") -> None:
        """Set the size of the window, the colour scheme and the medium."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", media=media, features=[scheme])

    def value(self, script: str):
        """Return what an expression of JavaScript comes to."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def press(self, key: str) -> None:
        """Press a key."""
        text = {"Enter": "\r"}.get(key, "")
        code = {"Tab": 9, "Enter": 13}[key]
        for kind in ("keyDown", "keyUp"):
            pressed = {"type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code}
            self.call("Input.dispatchKeyEvent", **pressed, **({"text": text} if text else {}))

    def shoot(self, path: Path, whole: bool = False) -> None:
        """Write a screenshot of the window, or of the whole page."""
        shot = self.call("Page.captureScreenshot", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(shot["data"]))


@contextmanager
def opened(program: str):
    """Start the browser and yield a page; end it at last."""
    to_browser, from_us = os.pipe()
    to_us, from_browser = os.pipe()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run"]
        flags += ["--disable-dev-shm-usage", "--disable-background-networking", "--hide-scrollbars"]
        flags += ["--remote-debugging-pipe", f"--user-data-dir={profile}"]
        process = subprocess.Popen(
            [sys.executable, "-c", LAUNCH, str(to_browser), str(from_browser), program, *flags],
            pass_fds=(to_browser, from_browser),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_browser)
        os.close(from_browser)
        try:
            page = Page(from_us, to_us)
            target = page.call("Target.createTarget", url="about:blank")["targetId"]
            attached = page.call("Target.attachToTarget", targetId=target, flatten=True)
            page.session = attached["sessionId"]
            for name in ("Page", "Runtime", "Network", "Log"):
                page.call(f"{name}.enable")
            yield page
        finally:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            os.close(from_us)
            os.close(to_us)
