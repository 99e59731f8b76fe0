"""A window of the system's Firefox, driven by its own protocol, Marionette: length:[0, id, command, parameters].

Playwright drives only a Firefox of its own, and Mozilla's client does not import on Python 3.13.
"""

from __future__ import annotations

import json
import socket
import subprocess
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

from _support import HANGS
from _support_browser import FRAMES, browser_path

ELEMENT = "element-6066-11e4-a52e-4f735466cecf"  # the key under which WebDriver names an element
SHELF = 86  # pixels of a window above the page; what is off is made up for
SETTINGS = {"marionette.port": 0, "browser.shell.checkDefaultBrowser": False, "datareporting.policy.dataSubmissionEnabled": False,
            "app.update.auto": False, "toolkit.cosmeticAnimations.enabled": False}  # fmt: skip


class Marionette:
    """The protocol: a command and its answer, or `RuntimeError` with what Firefox said."""

    def __init__(self, port: int):
        self.line, self.number = socket.create_connection(("127.0.0.1", port), timeout=HANGS), 0
        self.read()  # a greeting

    def read(self):
        """The next message."""
        length = b""
        while (sign := self.line.recv(1)) != b":":
            if not sign:
                raise RuntimeError("Firefox has closed the connection")
            length += sign
        text = b""
        while len(text) < int(length):
            text += self.line.recv(int(length) - len(text))
        return json.loads(text)

    def tell(self, command: str, **parameters):
        """Send a command and return what it answers."""
        self.number += 1
        text = json.dumps([0, self.number, command, parameters]).encode()
        self.line.sendall(b"%d:%s" % (len(text), text))
        _, number, error, answer = self.read()
        if error or number != self.number:
            raise RuntimeError(f"{command}: {error}")
        return answer.get("value", answer) if isinstance(answer, dict) else answer


class Fox:
    """A window on the built book."""

    def __init__(self, driver: Marionette, home: str):
        self.tell, self.home = driver.tell, home.rstrip("/") + "/"
        self.tell("WebDriver:NewSession")
        self.tell("Marionette:SetContext", value="chrome")  # a window may be as narrow as a phone
        self.run("document.documentElement.style.setProperty('min-width', '0', 'important')")
        self.tell("Marionette:SetContext", value="content")

    def open(self, path: str, width: int = 1280, height: int = 900) -> None:
        """Open a page in a window whose inside has this size; errors from then on are `complaints`."""
        self.tell("WebDriver:Navigate", url="about:blank")
        self.size(width, height)
        self.tell("WebDriver:Navigate", url=self.home + path)
        self.run("window.complaints = []; addEventListener('error', e => window.complaints.push(e.message))")

    def size(self, width: int, height: int = 900) -> None:
        """Give the window's inside a size."""
        self.tell("WebDriver:SetWindowRect", width=width, height=height + SHELF)
        self.wait(f"innerWidth === {width}")
        more = height - self.call("() => innerHeight")
        if more:
            self.tell("WebDriver:SetWindowRect", width=width, height=height + SHELF + more)
            self.wait(f"innerHeight === {height}")
        self.call(FRAMES, 10)

    def run(self, script: str):
        """What a script returns, in the page's own world."""
        return self.tell("WebDriver:ExecuteScript", script=script, args=[], sandbox=None, newSandbox=False)

    def call(self, function: str, *words):
        """What a function of the page returns, a promise awaited."""
        script = f"const done = [...arguments].pop(); Promise.resolve(({function})(...{json.dumps(words)})).then(done)"
        return self.tell("WebDriver:ExecuteAsyncScript", script=script, args=[], sandbox=None, newSandbox=False)

    def wait(self, condition: str) -> None:
        """Wait until an expression is true, or fail."""
        end = time.monotonic() + HANGS
        while not self.run(f"return Boolean({condition})"):
            assert time.monotonic() < end, f"never true: {condition}"
            time.sleep(0.05)

    def find(self, selector: str) -> str:
        """The name of the first element."""
        return self.tell("WebDriver:FindElement", using="css selector", value=selector)[ELEMENT]

    def press(self, selector: str) -> None:
        """A click where a hand would click: an element that is covered refuses it."""
        self.tell("WebDriver:ElementClick", id=self.find(selector))

    def keys(self, selector: str, keys: str) -> None:
        self.tell("WebDriver:ElementSendKeys", id=self.find(selector), text=keys)

    def text(self, selector: str) -> str:
        return self.tell("WebDriver:GetElementText", id=self.find(selector))


@contextmanager
def firefox():
    """A running Firefox without a window, stopped when the block ends."""
    path = browser_path("firefox")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        lines = (f"user_pref({json.dumps(name)}, {json.dumps(value)});" for name, value in SETTINGS.items())
        (Path(profile) / "user.js").write_text("\n".join(lines), "utf-8")
        words = [path, "--headless", "--marionette", "--remote-allow-system-access", "--no-remote", "--profile", profile]
        process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            yield Marionette(port_of(Path(profile), process))
        finally:
            process.terminate()
            process.wait(HANGS)


def port_of(profile: Path, process: subprocess.Popen) -> int:
    """Where the browser listens: it writes that into its profile."""
    file, end = profile / "MarionetteActivePort", time.monotonic() + HANGS
    while not (file.is_file() and file.read_text()):
        assert process.poll() is None, f"Firefox ended with {process.returncode}"
        assert time.monotonic() < end, "Firefox did not say where it listens"
        time.sleep(0.05)
    return int(file.read_text())
