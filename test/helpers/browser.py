"""
A Chromium without a window, driven over pipes by its DevTools protocol.

One process serves all tabs of a test run, each of which is a visitor of its own. A tab
notes all that a page says on its console and asks of the network.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import time
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from contextlib import suppress
from fcntl import F_DUPFD_CLOEXEC, fcntl
from pathlib import Path
from typing import Any, NamedTuple, Self, TypeAlias

import pytest

Json: TypeAlias = "dict[str, Any]"
"""A message of the protocol."""

ENGINES = (
    "chromium-headless-shell",
    "chromium",
    "chromium-browser",
    "google-chrome",
)
"""The commands that are looked for."""

NEEDED = "PENSTOCK_NEEDS_BROWSER"
"""The environment variable that makes a missing browser a failure: CI sets it."""

OPTIONS = (
    "--headless",
    "--remote-debugging-pipe",
    # The pages are ours, and root may not use the sandbox.
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--no-first-run",
    "--disable-extensions",
    # Letters have the same shape on each machine.
    "--disable-lcd-text",
    "--font-render-hinting=none",
    "--force-color-profile=srgb",
)

LONGEST = 120.0
"""Seconds after which a browser that does not answer has failed."""


def require_browser() -> str:
    """The path of an engine. Without one the test is skipped, or fails in CI."""
    found = next(filter(None, map(shutil.which, ENGINES)), None)
    if found is None:
        reason = f"no browser: none of {', '.join(ENGINES)} is installed"
        if os.environ.get(NEEDED):
            pytest.fail(f"{reason}, and {NEEDED} is set")
        pytest.skip(reason)
    return found


class Screen(NamedTuple):
    """The screen of a visitor, in CSS pixels, and its colours."""

    width: int = 1280
    height: int = 900
    scale: int = 1
    is_dark: bool = False

    @property
    def name(self) -> str:
        """The screen in words, as names of pictures have it."""
        kind = "phone" if self.width < 600 else "desktop"
        return f"{kind}-{'dark' if self.is_dark else 'light'}"


DESKTOP, PHONE = Screen(), Screen(390, 844, 2)
SCREENS = (
    DESKTOP,
    DESKTOP._replace(is_dark=True),
    PHONE,
    PHONE._replace(is_dark=True),
)
"""The screens that pages are looked at on."""


class Browser:
    """A running browser. The folder is for its profile and its log."""

    def __init__(self, engine: str, folder: Path) -> None:
        self._log = folder / "browser.log"
        (to_read, self._out), (self._in, to_write) = os.pipe(), os.pipe()
        # The browser reads from descriptor 3 and writes to 4.
        theirs = [fcntl(fd, F_DUPFD_CLOEXEC, 10) for fd in (to_read, to_write)]
        log = os.open(self._log, os.O_WRONLY | os.O_CREAT, 0o600)
        self._process = os.posix_spawn(
            engine,
            [engine, *OPTIONS, f"--user-data-dir={folder / 'profile'}"],
            os.environ,
            file_actions=[
                (os.POSIX_SPAWN_DUP2, log, 1),
                (os.POSIX_SPAWN_DUP2, log, 2),
                (os.POSIX_SPAWN_DUP2, theirs[0], 3),
                (os.POSIX_SPAWN_DUP2, theirs[1], 4),
            ],
            setpgroup=0,
        )
        for fd in (to_read, to_write, *theirs, log):
            os.close(fd)
        self._rest = b""
        self._number = 0
        self._listeners: dict[str, Callable[[Json], None]] = {}

    def open(self, page: Path, screen: Screen = DESKTOP) -> Tab:
        """A page in a tab of its own, when it has come to rest."""
        context: str = self.call("Target.createBrowserContext")["browserContextId"]
        parameters = {"url": "about:blank", "browserContextId": context}
        target: str = self.call("Target.createTarget", parameters)["targetId"]
        attach = {"targetId": target, "flatten": True}
        session: str = self.call("Target.attachToTarget", attach)["sessionId"]
        return Tab(self, session, context, page, screen)

    def listen(self, session: str, act: Callable[[Json], None]) -> None:
        """Tell of all events of a session."""
        self._listeners[session] = act

    def call(
        self, method: str, parameters: Json | None = None, session: str | None = None
    ) -> Json:
        """Call a method of the protocol: its result."""
        self._number += 1
        number = self._number
        message: Json = {"id": number, "method": method, "params": parameters or {}}
        if session is not None:
            message["sessionId"] = session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while (answer := self.next_message()).get("id") != number:
            pass
        if "error" in answer:
            raise AssertionError(f"{method}: {answer['error']}")
        return answer["result"]

    def next_message(self) -> Json:
        """The next message of the browser, of which events are told."""
        end = time.monotonic() + LONGEST
        while b"\0" not in self._rest:
            left = max(0.0, end - time.monotonic())
            if not select.select([self._in], [], [], left)[0]:
                raise AssertionError(f"the browser says nothing: {self._said()}")
            if not (piece := os.read(self._in, 1 << 20)):
                raise AssertionError(f"the browser has ended: {self._said()}")
            self._rest += piece
        text, _, self._rest = self._rest.partition(b"\0")
        message: Json = json.loads(text)
        if "method" in message and (session := message.get("sessionId")):
            self._listeners[session](message)
        return message

    def _said(self) -> str:
        return self._log.read_text(encoding="utf-8", errors="replace")[-2000:]

    def close(self) -> None:
        """End the browser."""
        os.close(self._out)
        with suppress(ProcessLookupError):
            os.killpg(self._process, signal.SIGKILL)
        os.waitpid(self._process, 0)
        os.close(self._in)


AT_REST = """
document.fonts.ready.then(() => new Promise(
  done => requestAnimationFrame(() => requestAnimationFrame(() => done(true)))))
"""

DOMAINS = ("Page", "Runtime", "Log", "Network")


class Tab:
    """
    A page that is open. `said` has errors and warnings of its console, `asked` what it
    loaded beside itself.
    """

    def __init__(
        self, browser: Browser, session: str, context: str, page: Path, screen: Screen
    ) -> None:
        self._browser = browser
        self._session = session
        self._context = context
        self._is_loaded = False
        self.said: list[str] = []
        self.asked: list[str] = []
        self.url = page.as_uri()
        browser.listen(session, self._hear)
        for domain in DOMAINS:
            self.call(f"{domain}.enable")
        self.look(screen)
        self.call("Page.navigate", url=self.url)
        while not self._is_loaded:
            browser.next_message()
        self.rest()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        context = {"browserContextId": self._context}
        self._browser.call("Target.disposeBrowserContext", context)

    def _hear(self, message: Json) -> None:
        about, event = message["method"], message["params"]
        if about == "Page.loadEventFired":
            self._is_loaded = True
        elif about == "Runtime.exceptionThrown":
            self.said.append(str(event["exceptionDetails"]))
        elif about == "Runtime.consoleAPICalled":
            self.said.append(f"{event['type']}: {event['args']}")
        elif about == "Log.entryAdded":
            self.said.append(str(event["entry"]))
        elif about == "Network.requestWillBeSent":
            url: str = event["request"]["url"]
            if url != self.url and not url.startswith(("data:", "blob:")):
                self.asked.append(url)

    def call(self, method: str, **parameters: Any) -> Json:
        """Call a method of the protocol for this page."""
        return self._browser.call(method, parameters, self._session)

    def look(self, screen: Screen) -> None:
        """Look at the page on another screen."""
        self.screen = screen
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=screen.width,
            height=screen.height,
            deviceScaleFactor=screen.scale,
            mobile=False,
        )
        features = {
            "prefers-color-scheme": "dark" if screen.is_dark else "light",
            "prefers-reduced-motion": "reduce",
        }
        pairs = [{"name": name, "value": value} for name, value in features.items()]
        self.call("Emulation.setEmulatedMedia", features=pairs)

    def run(self, script: str) -> Any:
        """The value of an expression in the page, as JSON has it."""
        answer = self.call(
            "Runtime.evaluate",
            expression=script,
            returnByValue=True,
            awaitPromise=True,
        )
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def rest(self) -> None:
        """Wait until fonts are there, and frames are drawn."""
        assert self.run(AT_REST)

    def text(self, selector: str) -> str:
        """The text of the first element of a selector."""
        return self.run(f"document.querySelector({json.dumps(selector)}).textContent")

    def middle(self, expression: str) -> tuple[float, float]:
        """The middle of the element that an expression gives, scrolled into view."""
        x, y = self.run(
            f"(() => {{ const it = {expression}; "
            "it.scrollIntoView({ block: 'center', inline: 'center' }); "
            "const box = it.getBoundingClientRect(); "
            "return [box.x + box.width / 2, box.y + box.height / 2]; })()"
        )
        return x, y

    def click_at(self, x: float, y: float) -> None:
        """Click on a point of the window."""
        for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
            button = "none" if kind == "mouseMoved" else "left"
            self.call(
                "Input.dispatchMouseEvent",
                type=kind,
                x=x,
                y=y,
                button=button,
                clickCount=1,
            )
        self.rest()

    def click(self, selector: str) -> None:
        """Click on the first element of a selector."""
        self.click_at(*self.middle(f"document.querySelector({json.dumps(selector)})"))

    def type(self, selector: str, text: str) -> None:
        """Set the text of a field to what someone types."""
        field = f"document.querySelector({json.dumps(selector)})"
        self.run(f"{field}.value = ''; {field}.focus()")
        self.call("Input.insertText", text=text)
        if not text:
            self.run(f"{field}.dispatchEvent(new Event('input'))")
        self.rest()

    def press(self, key: str, *, shift: bool = False) -> None:
        """Press a key, by its name in JavaScript."""
        codes = {"Enter": 13, "Escape": 27, "Tab": 9}
        facts: Json = {"key": key, "code": key, "modifiers": 8 if shift else 0}
        facts["windowsVirtualKeyCode"] = codes.get(key, 0)
        for kind in ("rawKeyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, **facts)
        self.rest()

    def picture(self) -> bytes:
        """The contents of the window as PNG."""
        return b64decode(self.call("Page.captureScreenshot", format="png")["data"])

    def is_quiet(self) -> bool:
        """Whether the page has said nothing, and loads nothing."""
        assert (self.said, self.asked) == ([], [])
        return True


CELL = 4
"""The side of the squares whose mean colours are compared, in pixels."""

FAR, MOST_FAR = 32, 0.002
"""
A mean colour is far from another if one of its parts differs by more than `FAR` of 255.
Pictures are alike if at most this share of means are far: anti-aliasing may differ
between versions of the engine.
"""

SHRINK = """
(async (before, now, cell, most) => {
  const shrink = async text => {
    const blob = await (await fetch("data:image/png;base64," + text)).blob();
    const image = await createImageBitmap(blob);
    const canvas = new OffscreenCanvas(image.width, image.height);
    const context = canvas.getContext("2d", { willReadFrequently: true });
    context.drawImage(image, 0, 0);
    return context.getImageData(0, 0, image.width, image.height);
  };
  const seen = await shrink(now);
  const width = Math.floor(seen.width / cell), height = Math.floor(seen.height / cell);
  const small = new ImageData(width, height);
  for (let y = 0; y < height; y++) for (let x = 0; x < width; x++) {
    for (let part = 0; part < 3; part++) {
      let sum = 0;
      for (let j = 0; j < cell; j++) for (let i = 0; i < cell; i++)
        sum += seen.data[((y * cell + j) * seen.width + x * cell + i) * 4 + part];
      small.data[(y * width + x) * 4 + part] = Math.round(sum / cell / cell);
    }
    small.data[(y * width + x) * 4 + 3] = 255;
  }
  const canvas = new OffscreenCanvas(width, height);
  canvas.getContext("2d").putImageData(small, 0, 0);
  const bytes = new Uint8Array(await (await canvas.convertToBlob()).arrayBuffer());
  const png = btoa(Array.from(bytes, byte => String.fromCharCode(byte)).join(""));
  if (!before) return { png };
  const kept = await shrink(before);
  if (kept.width !== width || kept.height !== height) return { png, share: 1 };
  let far = 0;
  for (let at = 0; at < width * height * 4; at += 4)
    far += [0, 1, 2].some(
      part => Math.abs(kept.data[at + part] - small.data[at + part]) > most);
  return { png, share: far / (width * height) };
})
"""


class Pictures:
    """
    Pictures of pages that are kept, as mean colours of squares. `RENEW_PICTURES=1`
    writes them anew.
    """

    def __init__(self, browser: Browser, kept: Path, made: Path) -> None:
        self._browser = browser
        self._kept = kept
        self._made = made
        (blank := made / "blank.html").write_text("<!doctype html>", encoding="utf-8")
        self._blank = blank

    def compare(self, tab: Tab, name: str) -> None:
        """Compare the window of a tab with the picture that is kept of it."""
        name = f"{name}-{tab.screen.name}.png"
        kept = self._kept / name
        renew = bool(os.environ.get("RENEW_PICTURES"))
        found = self._shrunk(tab.picture(), None if renew else kept.read_bytes())
        png = b64decode(found["png"])
        if renew:
            kept.write_bytes(png)
            return
        made = self._made / name
        if found["share"] > MOST_FAR:
            made.write_bytes(png)
        assert found["share"] <= MOST_FAR, f"{made} is not like {kept}"

    def _shrunk(self, seen: bytes, kept: bytes | None) -> Mapping[str, Any]:
        texts = [None if kept is None else b64encode(kept).decode()]
        texts.append(b64encode(seen).decode())
        arguments = ", ".join(map(json.dumps, [*texts, CELL, FAR]))
        with self._browser.open(self._blank) as tab:
            return tab.run(f"{SHRINK}({arguments})")
