# SPDX-License-Identifier: BSD-3-Clause
"""python -m tcmalloc: runs Python on the library, or the tcmalloc command."""

import os
import sys

from . import library, profiles

USAGE = """usage: python -m tcmalloc run [--names] [--interval BYTES] PYTHON-ARGUMENT...
       python -m tcmalloc COMMAND...

run starts this interpreter on TCMalloc, with the arguments that python takes: a script, -m MODULE, -c CODE.
  --names            profiles name Python functions (from Python 3.12 on; calls are slower)
  --interval BYTES   samples from the start: the mean number of bytes between samples
COMMAND is one of the tcmalloc command: stats PID, profile PID, doctor PID, ps ...; help shows them."""


def fail(message):
    print(f"tcmalloc: {message}", file=sys.stderr)
    sys.exit(1)


def run(arguments):
    environment = dict(os.environ)
    while arguments and arguments[0] in ("--names", "--interval"):
        option = arguments.pop(0)
        if option == "--names":
            if sys.version_info < (3, 12):
                fail(f"--names needs Python 3.12 or newer, this is {sys.version.split()[0]}: its frames have no addresses")
            environment["PYTHONPERFSUPPORT"] = "1"
        elif not arguments or not arguments[0].isdigit():
            fail("--interval needs a number of bytes")
        else:
            environment["TCMALLOC_SAMPLE_PARAMETER"] = arguments.pop(0)
    if not arguments:
        fail("run needs a script, -m MODULE or -c CODE")
    if not library.PATH.exists():
        fail(f"{library.PATH} does not exist: the wheel was built without the library")
    before = environment.get("LD_PRELOAD")
    environment["LD_PRELOAD"] = f"{library.PATH}:{before}" if before else str(library.PATH)
    # If Python's own allocator served small objects, it would hide them.
    environment["PYTHONMALLOC"] = "malloc"
    os.execve(sys.executable, [sys.executable, *arguments], environment)


def main():
    arguments = sys.argv[1:]
    if not arguments or arguments[0] in ("-h", "--help"):
        print(USAGE)
        sys.exit(0 if arguments else 1)
    if arguments[0] == "run":
        run(arguments[1:])
    if not profiles.COMMAND.exists():
        fail("this wheel has no tcmalloc command: only run works")
    command = ["--help"] if arguments[0] == "help" else arguments
    os.execve(profiles.COMMAND, ["tcmalloc", *command], profiles.without_library(os.environ))


if __name__ == "__main__":
    main()
