#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""scripts/test_system.py on files that stand for the system's settings: what it changes, and that
it restores everything, however it ends.

Usage: test_system_test.py ROOT
"""

import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

ORIGINAL = {"max_map_count": "65530", "overcommit_memory": "0", "overcommit_ratio": "50",
            "overcommit_kbytes": "0", "enabled": "madvise"}
WAIT_S = 60


def settings_of(folder):
    return {name: (folder / name).read_text() for name in ORIGINAL}


def check(condition, what):
    if not condition:
        sys.exit(f"failed: {what}")


def wait_until(condition, what):
    end = time.monotonic() + WAIT_S
    while not condition():
        check(time.monotonic() < end, what)
        time.sleep(0.01)


def as_before(folder):
    # The kernel shows 0 again for the second of the pair that is written; files do not.
    (folder / "overcommit_kbytes").write_text("0")
    return settings_of(folder) == ORIGINAL


def main():
    script = pathlib.Path(sys.argv[1]) / "scripts" / "test_system.py"
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)

        def start(command):
            for setting, value in ORIGINAL.items():
                (folder / setting).write_text(value)
            return subprocess.Popen([sys.executable, str(script), "--settings", name, "--command",
                                     command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                    text=True)

        # Each test runs with its setting, and only that.
        seen = folder / "seen"
        shown = ("overcommit_memory", "max_map_count", "enabled")
        process = start("; ".join(f"cat {name}/{one} >>{seen}; echo >>{seen}" for one in shown))
        output = process.communicate(timeout=WAIT_S)[0]
        check(process.returncode == 0 and output.count("ok ") == 8, f"passing tests pass: {output}")
        check(seen.read_text().split() == ["2", "65530", "madvise"] * 2 +
              ["0", "300", "madvise"] * 2 + ["0", "65530", "always"] * 2 +
              ["0", "65530", "never"] * 2,
              f"the settings are changed: {seen.read_text()}")
        check(as_before(folder), "the settings are restored")

        # Runs a test that fails.
        process = start("false")
        output = process.communicate(timeout=WAIT_S)[0]
        check(process.returncode == 1 and output.count("FAIL  strict") == 2, f"failures: {output}")
        check(as_before(folder), "the settings are restored after failures")

        # Ends the script in the middle, by a signal that it can handle or by SIGKILL.
        for ending in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
            started = folder / "started"
            started.unlink(missing_ok=True)
            process = start(f"echo $$ >{started}.new; mv {started}.new {started}; exec sleep 1000")
            wait_until(started.exists, "the command starts")
            check(settings_of(folder)["overcommit_memory"] == "2", "the setting is changed")
            process.send_signal(ending)
            process.stdout.close()
            process.wait(timeout=WAIT_S)
            wait_until(lambda: settings_of(folder)["overcommit_memory"] == "0",
                       f"the settings are restored after {ending.name}")
            wait_until(lambda: as_before(folder), f"all settings are restored after {ending.name}")
            try:
                os.kill(int(started.read_text()), signal.SIGKILL)
            except ProcessLookupError:
                pass
    return 0


if __name__ == "__main__":
    sys.exit(main())
