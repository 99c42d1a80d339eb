# SPDX-License-Identifier: BSD-3-Clause
"""git: hundreds of commits, branches and merges, threaded repack, gc, fsck, clone; all hashes
compared."""

import hashlib
import random

import harness

IDENTITY = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "A U Thor",
    "GIT_AUTHOR_EMAIL": "author@example.com",
    "GIT_COMMITTER_NAME": "C O Mitter",
    "GIT_COMMITTER_EMAIL": "committer@example.com",
}
COMMITS = 60
FILES = 60


def workload(side):
    rng = random.Random(7)
    repository = side.directory / "repository"
    clock = [1_700_000_000]
    outputs = {}

    def git(*arguments, stdin=b"", cwd=repository, **keywords):
        clock[0] += 60
        date = {"GIT_AUTHOR_DATE": f"{clock[0]} +0000", "GIT_COMMITTER_DATE": f"{clock[0]} +0000"}
        return side.run(
            ["git", *arguments], stdin=stdin, cwd=cwd, env={**IDENTITY, **date}, **keywords
        )

    def record(name, *arguments, digest=False, **keywords):
        done = git(*arguments, **keywords)
        out = hashlib.sha256(done.stdout).hexdigest() if digest else done.stdout
        outputs[name] = (done.returncode, len(done.stdout), out, done.stderr)

    git("init", "-q", "-b", "main", repository, cwd=side.directory)
    git("config", "gc.auto", "0")
    git("config", "pack.threads", "4")
    contents = {f"dir{i % 7}/file{i}.txt": _lines(rng, 400) for i in range(FILES)}
    contents["large.bin"] = [rng.randbytes(200_000).hex()]
    for commit in range(COMMITS):
        for path in rng.sample(sorted(contents), 6 if commit else len(contents)):
            lines = contents[path]
            if commit and len(lines) > 1:
                for _ in range(5):
                    lines[rng.randrange(len(lines))] = _line(rng)
                lines.insert(rng.randrange(len(lines)), _line(rng))
            (repository / path).parent.mkdir(exist_ok=True)
            (repository / path).write_text("\n".join(lines) + "\n")
        git("add", "-A")
        message = [f"Commit {commit}", "", *_lines(rng, 600 if commit % 20 == 3 else 3)]
        git("commit", "-q", "-F", "-", stdin="\n".join(message).encode())
        if commit % 20 == 10:
            git("branch", f"topic{commit}")
        if commit % 20 == 15:
            git("checkout", "-q", f"topic{commit - 5}")
            (repository / f"topic{commit}.txt").write_text("\n".join(_lines(rng, 50)))
            git("add", "-A")
            git("commit", "-q", "-m", f"Topic {commit}")
            git("checkout", "-q", "main")
            git("merge", "-q", "--no-ff", "-m", f"Merge {commit}", f"topic{commit - 5}")

    record("history", "log", "--all", "--topo-order", "--format=%H %T %P %s")
    record("patches", "log", "-p", "--stat", "-M", "-C", "--find-copies-harder", digest=True)
    record("blame", "blame", "-C", "dir1/file1.txt")
    record("grep", "grep", "-n", "-E", "(abc|xyz)[a-z]*q", "HEAD~20")
    record("archive", "archive", "--format=tar", "HEAD", digest=True)
    # One thread finds the same deltas each time, so all bytes of the pack are compared. With more
    # threads the deltas depend on how the work is divided, so only the objects inside are compared.
    record(
        "pack of one thread",
        "pack-objects",
        "--all",
        "--stdout",
        "--threads=1",
        "--window=20",
        "-q",
        digest=True,
    )
    record("repack", "repack", "-a", "-d", "-f", "-q", "--depth=50", "--window=30", "--threads=4")
    record("fsck", "fsck", "--full", "--strict", "--no-progress")
    record("gc", "gc", "-q", "--aggressive", "--prune=now")
    record("objects", "cat-file", "--batch-all-objects", "--batch", digest=True)
    clone = side.directory / "clone"
    # The library's report of the other process would arrive as a message of the clone.
    record("clone", "clone", "-q", "--no-local", "--mirror", repository, clone, stats=False)
    record("clone's fsck", "fsck", "--full", "--strict", "--no-progress", cwd=clone)
    record("clone's objects", "cat-file", "--batch-all-objects", "--batch", cwd=clone, digest=True)
    record("clone's references", "for-each-ref", cwd=clone)
    if outputs["objects"] != outputs["clone's objects"]:
        raise harness.Failure("the clone has other objects than the repository")
    return outputs


def _line(rng):
    return "".join(rng.choices("abcdefghijklmnopqrstuvwxyz     ", k=rng.randrange(10, 90)))


def _lines(rng, count):
    return [_line(rng) for _ in range(count)]


if __name__ == "__main__":
    harness.main(workload, programs=["git"], min_heap_mib=8, min_processes=COMMITS * 2)
