"""A headless Chromium spoken to over a pair of pipes: no socket, no driver, no package."""

import base64
import itertools
import json
import os
import select
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PROGRAM = shutil.which("chromium") or shutil.which("google-chrome")
PATIENCE = 600  # seconds of silence that mean it hangs
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
    "about:blank",
)
# Chromium reads commands from descriptor 3 and writes to 4, so a moment's Python moves them there.
LAUNCHER = """
import fcntl, os, sys
high = [fcntl.fcntl(int(n), fcntl.F_DUPFD, 10) for n in sys.argv[1:3]]
os.dup2(high[0], 3); os.dup2(high[1], 4)
os.execv(sys.argv[3], sys.argv[3:])
"""


class Browser:
    """One browser and its one page, with everything that the page asked for or complained of."""

    def __init__(self, commands: int, answers: int) -> None:
        self._commands, self._answers = commands, answers
        self._numbers, self._unread, self._session = itertools.count(1), b"", None
        self.requests: list[str] = []
        self.complaints: list[str] = []
        self._loaded = False
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send one command and return its result, noting what happens on the way."""
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]

    def open(self, path: Path, *, width: int, height: int, dark: bool = False) -> None:
        """Load a file in a window of a size, and wait until it is loaded."""
        self.requests, self.complaints, self._loaded = [], [], False
        phone = width < 600
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height,
                  deviceScaleFactor=1, mobile=phone)  # fmt: skip
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.call("Page.navigate", url=path.as_uri())
        while not self._loaded:
            self._next()

    def value(self, script: str) -> Any:
        """What an expression gives in the page; what is done there is done when this returns."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(answer["exceptionDetails"])
        return answer["result"].get("value")

    def screenshot(self) -> bytes:
        """The whole page as a PNG."""
        shot = self.call("Page.captureScreenshot", captureBeyondViewport=True)
        return base64.b64decode(shot["data"])

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._unread:
            if not select.select([self._answers], [], [], PATIENCE)[0]:
                raise RuntimeError(f"Chromium has said nothing for {PATIENCE} s.")
            if not (more := os.read(self._answers, 1 << 16)):
                raise RuntimeError("Chromium ended.")
            self._unread += more
        line, self._unread = self._unread.split(b"\0", 1)
        message = json.loads(line)
        self._note(message.get("method"), message.get("params", {}))
        return message

    def _note(self, event: str | None, about: dict[str, Any]) -> None:
        if event == "Page.loadEventFired":
            self._loaded = True
        elif event == "Network.requestWillBeSent":
            self.requests.append(about["request"]["url"])
        elif event == "Runtime.exceptionThrown":
            self.complaints.append(about["exceptionDetails"]["text"])
        elif event == "Log.entryAdded" and about["entry"]["level"] in ("error", "warning"):
            self.complaints.append(about["entry"]["text"])
        elif event == "Runtime.consoleAPICalled" and about["type"] in ("error", "warning"):
            self.complaints.append(str(about["args"]))


@contextmanager
def running_browser(profile: Path) -> Iterator[Browser]:
    """Start Chromium with a new profile, and end it."""
    assert PROGRAM
    theirs_in, commands = os.pipe()
    answers, theirs_out = os.pipe()
    arguments = [sys.executable, "-c", LAUNCHER, str(theirs_in), str(theirs_out), PROGRAM]
    process = subprocess.Popen(
        [*arguments, *FLAGS, f"--user-data-dir={profile}"],
        pass_fds=(theirs_in, theirs_out),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(theirs_in)
    os.close(theirs_out)
    try:
        yield Browser(commands, answers)
    finally:
        os.close(commands)  # Chromium ends when nobody can command it any more
        os.close(answers)
        try:
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
