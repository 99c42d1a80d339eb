# SPDX-License-Identifier: BSD-3-Clause
"""Runs a real program twice, on the C library's malloc and with the library preloaded; compares.

Each *_test.py beside this file has one function `workload(side)`, which runs programs through
`side` and returns a dictionary {name: output}. `main` calls it once per side, in a directory of the
same path, and demands that the two dictionaries are equal.

It also requires evidence that the right library served malloc in the processes of each side, from three sources:

  the dynamic linker   LD_DEBUG=bindings records each symbol that it binds. In every process
                       `malloc` and `free` must be bound to the library (other side: to the C
                       library) and to no other shared object.
  the library          MALLOCSTATS=1 makes each process print lines beginning `MALLOC:` at exit. The
                       largest figure in them must reach the heap that the workload needs.
  the kernel           /proc/<pid>/maps of each server process must show the library.

For a program that is linked with gperftools' library of the same name (main's `linked`), our library is not preloaded:
LD_LIBRARY_PATH leads to it, and the other side uses the system's library. Then only the bindings of the object of that
name count, and the path shows which of the two libraries it is.

Exit status: 0 equal and proved, 1 anything else, 77 a program that the test needs is not installed.
"""

import argparse
import difflib
import os
import pathlib
import pwd
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback

SKIPPED = 77
SEARCH_PATH = os.environ.get("PATH", "/usr/bin:/bin") + ":/usr/sbin:/sbin"  # Servers are in sbin.

# The report that MALLOCSTATS requests: the four lines of the banner, the figures, the lines of dashes
# around them, and the notes that may follow.
_STATS_LINE = re.compile(
    rb"^(?:TCMalloc \d.*\nProcess \d+, .*\nResident memory .*\nSettings: .*"
    rb"|MALLOC:.*|-{20,}|Call ReleaseFreeMemory\(\) to release freelist memory.*"
    rb"|Bytes released to the OS take up virtual.*)\n?",
    re.MULTILINE,
)
_STATS_FIGURE = re.compile(rb"^MALLOC:[ =+]*(\d+) \(", re.MULTILINE)
# A call that is compiled into a program or library requests a version of the symbol. dlsym does not. The library looks
# `free` up in the C library's own handle, for objects that are not its own, and must find the C library's function.
_BINDING = re.compile(r"^\s*\d+:\s+binding file (?P<binder>.+?) \[\d+\] to (?P<provider>.+?) \[\d+\]: "
                      r"normal symbol `(?P<symbol>malloc|free)' \[", re.MULTILINE)

_running = set()  # The programs that have been started and not yet waited for.


class Failure(Exception):
    """The test failed; the message says where and how."""


class Completed:
    """The result of a finished program: exit status and output, with the library's own report removed from stderr."""

    def __init__(self, argv, returncode, stdout, stderr):
        self.argv = argv
        self.returncode = returncode
        self.stdout = stdout
        self.stderr = _STATS_LINE.sub(b"", stderr)
        self.heap_bytes = _largest_figure(stderr)

    def outputs(self):
        return {"exit status": self.returncode, "stdout": self.stdout, "stderr": self.stderr}


class Side:
    """One of the two runs: the preloaded malloc, the folder of the run and its evidence."""

    def __init__(self, is_reference, provider, preload, directory, evidence, linked=None, binder=None):
        self.is_reference = is_reference
        self.name = "C library" if is_reference else provider
        # The beginning of the library's name, if programs are linked with it; the same on both sides.
        self.linked = linked
        self.binder = binder
        if linked is not None:
            self.name = f"the system's {provider}" if is_reference else str(linked)
        self.provider = (
            provider  # File name (no path) of the shared object that has to serve malloc.
        )
        self.preload = preload
        self.directory = directory
        self._evidence = evidence
        self._servers = []
        self.largest_heap = 0
        self.stats_seen = 0

    def environment(self, stats=True, extra=None):
        """A small fixed environment; settings of the library that the caller has set reach its own side."""
        env = {"PATH": SEARCH_PATH, "HOME": str(self.directory), "TMPDIR": str(self.directory), "LC_ALL": "C.UTF-8", "TZ": "UTC",
               "LD_DEBUG": "bindings", "LD_DEBUG_OUTPUT": str(self._evidence / "bindings")}
        if self.preload is not None:
            env["LD_PRELOAD"] = str(self.preload)
        if self.linked is not None and not self.is_reference:
            env["LD_LIBRARY_PATH"] = str(self.linked.parent)
        if not self.is_reference:
            env.update({k: v for k, v in os.environ.items() if k.startswith("TCMALLOC_")})
            if stats:
                env["MALLOCSTATS"] = "1"
        env.update(extra or {})
        return env

    def run(self, argv, timeout=120, stdin=b"", stats=True, env=None, cwd=None, status=0):
        """Runs `argv` to its end. Any exit status but `status` is a failure; None accepts all of them."""
        argv = [str(a) for a in argv]
        process = subprocess.Popen(argv, cwd=cwd or self.directory, env=self.environment(stats, env), start_new_session=True,
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        _running.add(process)
        try:
            stdout, stderr = process.communicate(stdin, timeout=timeout)
        except subprocess.TimeoutExpired:
            _kill_group(process)
            stdout, stderr = process.communicate()
            raise Failure(f"{_short(argv)}: not finished after {timeout} s\n{_tail(stdout, stderr)}")
        except BaseException:
            _kill_group(process)
            process.wait()
            raise
        finally:
            _running.discard(process)
        done = Completed(argv, process.returncode, stdout, stderr)
        self._count_stats(stderr)
        if status is not None and done.returncode != status:
            raise Failure(f"{_short(argv)}: {_status(done.returncode)}\n{_tail(stdout, stderr)}")
        return done

    def start(self, argv, ready, timeout=30, env=None):
        """Starts a server and returns once `ready()` is true. It is stopped at the latest when the side ends."""
        server = Server(self, [str(a) for a in argv], self.environment(extra=env))
        self._servers.append(server)
        deadline = time.monotonic() + timeout
        while not ready():
            if server.process.poll() is not None:
                raise ServerDidNotStart(f"{_short(argv)}: {_status(server.process.returncode)}\n{server.output()}")
            if time.monotonic() > deadline:
                raise Failure(f"{_short(argv)}: not ready after {timeout} s\n{server.output()}")
            time.sleep(0.02)  # The pause only limits the CPU time; `ready` decides.
        return server

    def close(self):
        """Kills the servers that still run."""
        for server in self._servers:
            server.kill()

    def servers_that_ended(self):
        ended = [s for s in self._servers if s.process.poll() not in (None, 0)]
        return "".join(f"\n{_short(s.argv)}: {_status(s.process.returncode)}\n{s.output()}" for s in ended)

    def check_maps(self, pids):
        """Checks by the kernel's figures that the provider is mapped into each of these live processes."""
        # The kernel names the target of a symbolic link.
        file_name = self.provider if self.is_reference else os.path.basename(os.path.realpath(self.preload))
        for pid in pids:
            maps = pathlib.Path(f"/proc/{pid}/maps").read_text()
            if file_name not in {os.path.basename(line) for line in maps.splitlines()}:
                raise Failure(f"process {pid} has not mapped {file_name}")

    def prove(self, min_processes, min_heap_mib):
        """Checks which library served malloc in the processes of this side. Raises unless it was
        the provider in all of them."""
        processes = 0
        for record in sorted(self._evidence.glob("bindings.*")):
            text = record.read_text(errors="replace")
            providers = {}
            for m in _BINDING.finditer(text):
                if self.binder is None or os.path.basename(m["binder"]).startswith(self.binder):
                    providers.setdefault(m["symbol"], set()).add(self._provider(m["provider"]))
            if self.binder is not None and not providers:
                continue  # a process without such an object, for example a shell
            # References to functions whose address a program at a fixed address takes are bound to the
            # program. Its own calls are then bound like any other call, so only shared objects count.
            for symbol in ("malloc", "free"):
                shared = {p for p in providers.get(symbol, ()) if ".so" in p}
                if shared != {self.provider}:
                    raise Failure(f"{record.name}: {symbol} was served by {sorted(shared) or 'nobody'}, not by {self.provider} alone")
            processes += 1
        if processes < min_processes:
            raise Failure(f"the dynamic linker recorded {processes} processes, expected {min_processes} or more")
        note = f"{self.name}: malloc and free bound to {self.provider} in {processes} process(es)"
        if not self.is_reference:
            if self.largest_heap < min_heap_mib << 20:
                raise Failure(f"the largest heap that {self.provider} reports has {self.largest_heap} bytes "
                              f"in {self.stats_seen} figures, but the workload needs {min_heap_mib} MiB")
            note += f", {self.stats_seen} figures reported, largest {self.largest_heap / 2**20:.1f} MiB"
        print(note, flush=True)

    def _provider(self, path):
        """The name that identifies a provider: two libraries have the name of the linked library."""
        name = os.path.basename(path)
        if self.linked is None or name != self.provider:
            return name
        is_ours = os.path.realpath(path) == os.path.realpath(self.linked)
        return name if is_ours != self.is_reference else path

    def _count_stats(self, stderr):
        self.stats_seen += len(_STATS_FIGURE.findall(stderr))
        self.largest_heap = max(self.largest_heap, _largest_figure(stderr))


class ServerDidNotStart(Failure):
    """The server ended before it was ready. For example, its port may have been taken meanwhile."""


class Server:
    """A server process in a session of its own, its output in files."""

    def __init__(self, side, argv, env):
        self._side = side
        self.argv = argv
        self._log = tempfile.TemporaryFile()
        self.process = subprocess.Popen(argv, cwd=side.directory, env=env, start_new_session=True,
                                        stdin=subprocess.DEVNULL, stdout=self._log, stderr=subprocess.STDOUT)
        _running.add(self.process)

    @property
    def pid(self):
        return self.process.pid

    def log(self):
        """All that the server has written so far."""
        return _STATS_LINE.sub(b"", self._raw_log()).decode("utf-8", "backslashreplace")

    def output(self):
        return self.log()[-4000:]

    def stop(self, timeout=30):
        """Asks the server to end and checks that it ends with status 0."""
        if self.process.poll() is None:
            self.process.terminate()
        self.wait(timeout)

    def wait(self, timeout=30):
        try:
            status = self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise Failure(f"{_short(self.argv)}: still running {timeout} s after it was asked to stop\n{self.output()}")
        self._side._count_stats(self._raw_log())
        if status != 0:
            raise Failure(f"{_short(self.argv)}: {_status(status)}\n{self.output()}")

    def kill(self):
        if self.process.poll() != 0:  # This is necessary after a crash, too: children may have survived it.
            _kill_group(self.process)
            self.process.wait()
        _running.discard(self.process)

    def _raw_log(self):
        # Reads by position: the server shares the file's offset, so a seek would change where the
        # server continues to write.
        return os.pread(self._log.fileno(), os.fstat(self._log.fileno()).st_size, 0)


def free_port():
    """A port of the loopback interface on which no process listens at this moment."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def accepts(port):
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
        return True
    except OSError:
        return False


def start_on_free_port(start, attempts=5):
    """Calls `start(port)` until the server starts: another process may take a free port before the server does."""
    for attempt in range(attempts):
        try:
            return start(free_port())
        except ServerDidNotStart as failure:
            if attempt + 1 == attempts or "in use" not in str(failure):
                raise


def user_name():
    return pwd.getpwuid(os.geteuid()).pw_name


def main(workload, programs, min_heap_mib, min_processes=1, reference_preload=None, deadline_s=540, linked=None):
    """Runs `workload` on both sides. `linked` is the beginning of the name of the object that is itself linked with a
    library of this name."""
    parser = argparse.ArgumentParser(description=sys.modules["__main__"].__doc__)
    parser.add_argument("--library", required=True, type=pathlib.Path, help="the shared library to preload")
    options = parser.parse_args()
    library = options.library.absolute()
    if not library.is_file():
        sys.exit(f"FAIL: there is no library {library}")
    missing = [p for p in programs if not (os.path.exists(p) if "/" in p else shutil.which(p, path=SEARCH_PATH))]
    if missing:
        print(f"SKIP: not installed: {', '.join(missing)} (scripts/setup.sh installs what the tests need)")
        sys.exit(SKIPPED)

    # Turns both signals into exceptions, so that servers are stopped and files removed before the
    # test driver ends the test.
    signal.signal(signal.SIGALRM, _fail_on_signal(f"not finished after {deadline_s} s"))
    signal.signal(signal.SIGTERM, _fail_on_signal("told to end"))
    signal.alarm(deadline_s)
    try:
        with tempfile.TemporaryDirectory(prefix="tcmalloc-programs-") as top:
            _compare(workload, pathlib.Path(top), library, reference_preload, min_heap_mib, min_processes, linked)
    except Failure as failure:
        print(f"FAIL: {failure}", flush=True)
        sys.exit(1)
    print("PASS")


def _compare(workload, top, library, reference_preload, min_heap_mib, min_processes, linked):
    outputs = []
    for is_reference, provider, preload in (
        (True, library.name if linked else "libc.so.6", reference_preload),
        (False, library.name, None if linked else library),
    ):
        directory = (
            top / "run"
        )  # The path is the same on both sides, since some programs put it into their output.
        evidence = top / f"evidence-{len(outputs)}"
        directory.mkdir()
        evidence.mkdir()
        side = Side(is_reference, provider, preload, directory, evidence, linked=library if linked else None, binder=linked)
        begin = time.monotonic()
        try:
            outputs.append(workload(side))
            side.close()
            side.prove(min_processes, min_heap_mib)
        except Exception as error:
            text = str(error) if isinstance(error, Failure) else traceback.format_exc()
            raise Failure(f"with {side.name}: {text}{side.servers_that_ended()}") from None
        finally:
            side.close()
        print(f"{side.name}: {time.monotonic() - begin:.1f} s", flush=True)
        shutil.rmtree(directory)
    reference, preloaded = outputs
    if not reference:
        raise Failure("the workload returned nothing to compare")
    differences = [_difference(name, reference.get(name), preloaded.get(name))
                   for name in sorted(reference.keys() | preloaded.keys()) if reference.get(name) != preloaded.get(name)]
    if differences:
        raise Failure("outputs differ from those on the C library's malloc\n" + "\n".join(differences))
    size = sum(len(v) for v in reference.values() if isinstance(v, (bytes, str)))
    print(f"{len(reference)} outputs equal, {size} bytes")


def _difference(name, reference, preloaded):
    if not isinstance(reference, (bytes, str)) or not isinstance(preloaded, (bytes, str)):
        return f"{name}: {str(reference)[:2000]} != {str(preloaded)[:2000]}"
    lines = [(t if isinstance(t, str) else t.decode("utf-8", "backslashreplace")).splitlines()[:20000] for t in (reference, preloaded)]
    diff = list(difflib.unified_diff(*lines, f"{name} (C library)", f"{name} (preloaded)", n=0, lineterm=""))[:20]
    return "\n".join(line[:200] for line in diff) or f"{name}: {len(reference)} and {len(preloaded)} bytes differ"


def _largest_figure(stderr):
    return max((int(f) for f in _STATS_FIGURE.findall(stderr)), default=0)


def _fail_on_signal(text):
    """A handler that ends the running programs, so that no thread of the test waits for them, and then ends the test."""

    def handler(signum, frame):
        for process in list(_running):
            _kill_group(process)
        raise Failure(text)

    return handler


def _kill_group(process):
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def _status(returncode):
    if returncode >= 0:
        return f"exit status {returncode}"
    return f"killed by {signal.Signals(-returncode).name}"


def _short(argv):
    text = " ".join(str(a) for a in argv)
    return text if len(text) <= 200 else text[:200] + "..."


def _tail(stdout, stderr, limit=4000):
    text = (_STATS_LINE.sub(b"", stdout)[-limit:] + b"\n" + _STATS_LINE.sub(b"", stderr)[-limit:]).strip()
    return text.decode("utf-8", "backslashreplace")
