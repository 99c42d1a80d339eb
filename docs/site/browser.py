# SPDX-License-Identifier: BSD-3-Clause
"""A headless Chromium that is driven through its pipe: one page, its keys, its pictures."""

import base64
import json
import os
import shutil
import subprocess
import tempfile

NAMES = ("chromium", "chromium-browser", "google-chrome")
# The descriptors at which Chromium reads commands and writes replies.
COMMANDS, REPLIES = 3, 4


class Browser:
    def __init__(self):
        program = next(filter(None, map(shutil.which, NAMES)), None)
        if not program:
            raise FileNotFoundError("Chromium is not installed: scripts/setup.sh docs")
        self.folder = tempfile.TemporaryDirectory(prefix="tcmalloc-docs-", ignore_cleanup_errors=True)
        commands_read, self.commands = os.pipe()
        self.replies, replies_write = os.pipe()

        def own_descriptors():
            # The first dup2 would close `replies_write` if that has the number COMMANDS, so both are duplicated first.
            reads, writes = os.dup(commands_read), os.dup(replies_write)
            os.dup2(reads, COMMANDS)
            os.dup2(writes, REPLIES)

        self.process = subprocess.Popen(
            [program, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--remote-debugging-pipe",
             f"--user-data-dir={self.folder.name}", "about:blank"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, close_fds=False, preexec_fn=own_descriptors)
        os.close(commands_read)
        os.close(replies_write)
        self.number, self.buffer, self.session = 0, b"", None
        self.events = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.folder.cleanup()

    def read(self):
        while b"\0" not in self.buffer:
            read = os.read(self.replies, 1 << 20)
            if not read:
                raise ConnectionError("Chromium has ended")
            self.buffer += read
        message, _, self.buffer = self.buffer.partition(b"\0")
        return json.loads(message)

    def call(self, method, **parameters):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.commands, json.dumps(message).encode() + b"\0")
        while True:
            reply = self.read()
            if reply.get("id") == self.number:
                if "error" in reply:
                    raise ValueError(f"{method}: {reply['error']}")
                return reply["result"]
            self.events.append(reply)

    def wait_for(self, method):
        for event in self.events:
            if event.get("method") == method:
                return event
        while True:
            event = self.read()
            self.events.append(event)
            if event.get("method") == method:
                return event

    def open(self, address, width, height, dark):
        """Loads a page. Its requests and errors are in `events` afterwards."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600)
        self.call("Emulation.setEmulatedMedia",
                  features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"},
                            {"name": "prefers-reduced-motion", "value": "reduce"}])
        # Removes what earlier pages stored: their colours and their search.
        self.call("Page.navigate", url="about:blank")
        self.call("Storage.clearDataForOrigin", origin="file://", storageTypes="all")
        self.events = []
        self.call("Page.navigate", url=address)
        self.wait_for("Page.loadEventFired")
        self.run("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(0))))")

    def run(self, expression):
        """The value of a JavaScript expression, or of what it promises."""
        result = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in result:
            raise ValueError(result["exceptionDetails"].get("exception", {}).get("description", str(result)))
        return result["result"].get("value")

    def press(self, key):
        codes = {"Tab": 9, "Enter": 13, "Escape": 27}
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=codes[key])

    def type(self, text):
        self.call("Input.insertText", text=text)

    def picture(self, path):
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))
