# SPDX-License-Identifier: BSD-3-Clause
"""A redis-server on an allocator, for each measurement that needs a server."""

import ctypes
import pathlib
import re
import signal
import socket
import subprocess
import time

from . import process

PROGRAMS = ("redis-server", "redis-benchmark")
START_S = 60
ANSWER_S = 60
PR_SET_PDEATHSIG = 1


def missing():
    return [name for name in PROGRAMS if not process.find_program(name)]


def command(*words):
    """A command in the protocol of redis."""
    return f"*{len(words)}\r\n".encode() + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in (
        word if isinstance(word, bytes) else str(word).encode() for word in words))


def end_with_parent():
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


class Server:
    """Answers from the constructor's return until stop(); ends with this process. It listens on a socket in `folder`."""

    def __init__(self, name, folder, environment, options=()):
        self.name = name
        self.path = str(folder / f"{name}.sock")
        self.log = folder / f"{name}.log"
        pathlib.Path(self.path).unlink(missing_ok=True)
        with open(self.log, "wb") as output:
            self.process = subprocess.Popen(
                [process.find_program("redis-server"), "--port", "0", "--unixsocket", self.path, "--save", "", "--appendonly", "no",
                 "--dir", str(folder), *options],
                env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, start_new_session=True,
                preexec_fn=end_with_parent)
        self.pid = self.process.pid
        try:
            self._await()
        except BaseException:
            self.stop()
            raise

    def _await(self):
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline:
            if self.ask("PING") == "+PONG":
                return
            self.check_runs()
            time.sleep(0.02)
        raise process.ProcessFailed(f"the redis-server {self.name} did not answer within {START_S} s")

    def check_runs(self):
        """Raises ProcessFailed if the server has ended."""
        if self.process.poll() is not None:
            status = process.describe_status(self.process.returncode, self.log.read_text(errors="replace"))
            raise process.ProcessFailed(f"the redis-server {self.name} ended: {status}")

    def check_library(self, library):
        """Raises WrongLibrary unless the server has loaded the library."""
        if str(library) not in pathlib.Path(f"/proc/{self.pid}/maps").read_text():
            raise process.WrongLibrary(f"the redis-server {self.name} did not load {library}")

    def connect(self):
        client = socket.socket(socket.AF_UNIX)
        try:
            client.settimeout(ANSWER_S)
            client.connect(self.path)
        except OSError:
            client.close()
            raise
        return client

    def ask(self, *words):
        """The first line of the answer to a command; None if there is no answer."""
        try:
            with self.connect() as client:
                client.sendall(command(*words))
                return client.makefile().readline().strip()
        except OSError:
            return None

    def usage(self):
        """Processor time, faults and memory so far."""
        fields = pathlib.Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        status = pathlib.Path(f"/proc/{self.pid}/status").read_text()
        return {"minor_faults": int(fields[7]), "major_faults": int(fields[9]),
                "user_s": int(fields[11]) * process.TICK_S, "sys_s": int(fields[12]) * process.TICK_S,
                "peak_rss_kib": int(re.search(r"VmHWM:\s+(\d+)", status)[1]),
                "rss_kib": int(re.search(r"VmRSS:\s+(\d+)", status)[1])}

    def stop(self):
        self.process.kill()
        self.process.wait()
