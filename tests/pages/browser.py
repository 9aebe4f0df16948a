"""Headless Chromium, driven over its debugging pipe: nothing but Python's own library, and no port is opened."""
import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import tempfile
import time


def chromium():
    """Its path, or None."""
    return next(filter(None, map(shutil.which, ["chromium", "chromium-browser", "google-chrome"])), None)


class Browser:
    """One page at a time. `errors` are what its console, its policy and its scripts complained of."""

    def __init__(self):
        self.folder = tempfile.mkdtemp()
        to_child, self.out = os.pipe()
        self.inn, from_child = os.pipe()
        # Away from 3 and 4, which are the child's.
        to_child, from_child = (fcntl.fcntl(fd, fcntl.F_DUPFD, 20) for fd in (to_child, from_child))

        def arrange():
            os.dup2(to_child, 3)
            os.dup2(from_child, 4)

        flags = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run", "--disable-extensions", "--disable-dev-shm-usage", "--disable-background-networking"]
        self.process = subprocess.Popen([chromium(), *flags, "--remote-debugging-pipe", f"--user-data-dir={self.folder}", "about:blank"], pass_fds=(3, 4), preexec_fn=arrange,
                                        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # fmt: skip
        os.close(to_child)
        os.close(from_child)
        self.number, self.buffer, self.session, self.errors, self.loaded = 0, b"", None, [], False
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(domain + ".enable")

    def close(self):
        self.process.kill()
        self.process.wait()
        os.close(self.out)
        os.close(self.inn)
        shutil.rmtree(self.folder, ignore_errors=True)

    def call(self, method, **parameters):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self.out, data):]
        while True:
            answer = self.read()
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]

    def read(self, seconds=120):
        """The next message; events are noted on the way."""
        while b"\0" not in self.buffer:
            if not select.select([self.inn], [], [], seconds)[0]:
                raise TimeoutError("Chromium says nothing")
            more = os.read(self.inn, 1 << 20)
            if not more:
                raise RuntimeError("Chromium has ended")
            self.buffer += more
        text, self.buffer = self.buffer.split(b"\0", 1)
        message = json.loads(text)
        method, given = message.get("method"), message.get("params", {})
        if method == "Page.loadEventFired":
            self.loaded = True
        elif method == "Runtime.exceptionThrown":
            self.errors.append(given["exceptionDetails"].get("exception", {}).get("description") or str(given))
        elif method == "Runtime.consoleAPICalled" and given["type"] in ("error", "warning"):
            self.errors.append(str([a.get("value") for a in given["args"]]))
        elif method == "Log.entryAdded":
            self.errors.append(given["entry"]["text"])
        return message

    def open(self, path, width=1400, height=1000, dark=False):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        self.errors, self.loaded = [], False
        begin = time.monotonic()
        self.call("Page.navigate", url=f"file://{os.path.abspath(path)}")
        while not self.loaded:
            self.read()
        self.settle()
        return time.monotonic() - begin

    def settle(self):
        """Until what was asked for is painted."""
        self.run("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))")

    def run(self, script):
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(f"{script}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def press(self, key, text=None):
        text = text or {"Enter": "\r"}.get(key)
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, windowsVirtualKeyCode=CODES.get(key, ord(key[0])), **({"text": text or key} if kind == "keyDown" and (text or len(key) == 1) else {}))
        self.settle()

    def type(self, text):
        self.call("Input.insertText", text=text)
        self.settle()

    def click(self, selector, share=(0.5, 0.5)):
        """In the middle of the first that it finds, or elsewhere in it."""
        box = self.run(f"(() => {{ const e = document.querySelector({json.dumps(selector)}); e.scrollIntoView({{block: 'center'}}); const b = e.getBoundingClientRect(); return [b.x, b.y, b.width, b.height]; }})()")
        x, y = box[0] + box[2] * share[0], box[1] + box[3] * share[1]
        for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left" if kind != "mouseMoved" else "none", clickCount=1)
        self.settle()

    def glimpse(self, path, quality=60):
        """What the window shows, as a small file."""
        with open(path, "wb") as out:
            out.write(base64.b64decode(self.call("Page.captureScreenshot", format="webp", quality=quality)["data"]))

    def paper(self, dark):
        """As a sheet of paper shows it: what the page is told before it is printed, and the rules for print."""
        self.run("dispatchEvent(new Event('beforeprint'))")
        self.call("Emulation.setEmulatedMedia", media="print", features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        self.call("Emulation.setDeviceMetricsOverride", width=740, height=1000, deviceScaleFactor=1, mobile=False)
        self.settle()

    def picture(self, path, whole=True):
        if whole:
            height = self.run("Math.min(document.documentElement.scrollHeight, 6000)")
            size = self.run("[innerWidth, innerHeight]")
            self.call("Emulation.setDeviceMetricsOverride", width=size[0], height=height, deviceScaleFactor=1, mobile=False)
            self.settle()
        data = self.call("Page.captureScreenshot", format="png")["data"]
        if whole:
            self.call("Emulation.setDeviceMetricsOverride", width=size[0], height=size[1], deviceScaleFactor=1, mobile=False)
        with open(path, "wb") as out:
            out.write(base64.b64decode(data))


CODES = {"Enter": 13, " ": 32, "Backspace": 8, "Escape": 27, "ArrowDown": 40, "ArrowUp": 38, "ArrowLeft": 37, "ArrowRight": 39, "End": 35, "Home": 36}
