# SPDX-License-Identifier: BSD-3-Clause
"""sqlite3: one SQL workload in memory and on a file, and the file read again by another process."""

import pathlib

import harness

SCRIPT = (pathlib.Path(__file__).parent / "workloads" / "store.sql").read_bytes()


def workload(side):
    outputs = {}
    for name, database in (("memory", ":memory:"), ("file", "store.db")):
        done = side.run(["sqlite3", database], stdin=SCRIPT)
        if b"\nok\nend|" not in done.stdout:
            raise harness.Failure(
                f"{name}: PRAGMA integrity_check did not answer ok:\n{done.stdout[-500:]}"
            )
        outputs.update({f"{name}, {k}": v for k, v in done.outputs().items()})
    # Another process than the one that wrote the file checks and dumps it.
    again = side.run(
        ["sqlite3", "store.db"],
        stdin=b"PRAGMA integrity_check;\n.dump author\nSELECT * FROM book;\n",
    )
    if not again.stdout.startswith(b"ok\n"):
        raise harness.Failure(f"the file is damaged:\n{again.stdout[:500]}")
    outputs.update({f"again, {k}": v for k, v in again.outputs().items()})
    return outputs


if __name__ == "__main__":
    harness.main(workload, programs=["sqlite3"], min_heap_mib=20, min_processes=3)
