# SPDX-License-Identifier: Apache-2.0
"""A headless Chromium over its debugging pipe, without packages: enough to open a file, to run script in it, to hear its errors, and
to take pictures. `find()` is None where there is no Chromium."""
import base64, json, os, select, shutil, subprocess, tempfile, time


def find():
    return next((path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None)


class Browser:
    def __init__(self, program, timeout_s=120):
        self.profile, self.timeout_s, self.number, self.buffer, self.events = tempfile.mkdtemp(), timeout_s, 0, b"", []
        to_read, self.to = os.pipe()
        self.back, from_write = os.pipe()

        def place():  # The pipe is the descriptors 3 and 4.
            a, b = os.dup(to_read), os.dup(from_write)
            os.dup2(a, 3), os.dup2(b, 4)

        words = [program, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--disable-extensions",
                 "--disable-background-networking", "--remote-debugging-pipe", "--hide-scrollbars", f"--user-data-dir={self.profile}", "about:blank"]
        self.process = subprocess.Popen(words, preexec_fn=place, close_fds=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_read), os.close(from_write)
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for name in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{name}.enable")

    def call(self, method, **params):
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if hasattr(self, "session"):
            message["sessionId"] = self.session
        os.write(self.to, json.dumps(message).encode() + b"\0")
        end = time.monotonic() + self.timeout_s
        while True:
            answer = self.message(end)
            if answer.get("id") == self.number:
                assert "error" not in answer, (method, answer["error"])
                return answer["result"]
            self.events.append(answer)

    def message(self, end):
        while b"\0" not in self.buffer:
            ready, _, _ = select.select([self.back], [], [], max(0.0, end - time.monotonic()))
            assert ready, "Chromium does not answer"
            more = os.read(self.back, 1 << 16)
            assert more, "Chromium has ended"
            self.buffer += more
        one, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(one)

    def open(self, file, width=1280, dark=False, script=True):
        """Opens a file or an address; returns the seconds until it was loaded."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        self.call("Emulation.setScriptExecutionDisabled", value=not script)
        self.events, begin = [], time.monotonic()
        self.call("Page.navigate", url=str(file) if str(file).startswith("http") else f"file://{file}")
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self.events.append(self.message(begin + self.timeout_s))
        return time.monotonic() - begin

    def complaints(self):
        """Errors of scripts and of the page's policy, and what it asked the network for."""
        out = []
        for event in self.events:
            params = event.get("params", {})
            if event.get("method") == "Runtime.exceptionThrown":
                out.append(str(params["exceptionDetails"])[:500])
            elif event.get("method") == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
                out.append(params["entry"]["text"])
            elif event.get("method") == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning"):
                out.append(str(params["args"])[:500])
            elif event.get("method") == "Page.javascriptDialogOpening":
                out.append("a dialog: " + params["message"])
            elif event.get("method") == "Network.requestWillBeSent" and not params["request"]["url"].startswith(("file://", "data:image/png;")):
                out.append("a request: " + params["request"]["url"][:200])
        return out

    def run(self, script):
        """The value of an expression in the page."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def picture(self, file, height_max=6000):
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": min(size["height"], height_max), "scale": 1}
        shot = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)
        with open(file, "wb") as out:
            out.write(base64.b64decode(shot["data"]))

    def close(self):
        self.process.terminate()
        self.process.wait(30)
        shutil.rmtree(self.profile, ignore_errors=True)
