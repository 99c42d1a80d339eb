# SPDX-License-Identifier: BSD-3-Clause
"""Which failures of a test are forgiven: those of a flaky test, which passes when it runs again alone.

A failed test runs five times more, with nothing beside it. If all five pass, it is flaky; a run may have two flaky tests.
Some failures are never forgiven, since in an allocator they are races: see NEVER_FORGIVEN.
tests/flaky.txt lists the known flaky tests, each with the date by which it must be repaired or
removed.
"""

import datetime
import re
import xml.etree.ElementTree as ElementTree

REPEATS = 5
LARGEST_NUMBER = 2  # how many flaky tests a run may have
LONGEST_DAYS = 14   # how long a test may be in tests/flaky.txt
SHOWN_LINES = 3     # how many first and last lines of a failure are printed

# Maps a reason why a failure is final to a regular expression for ctest's word for the end of the
# test, and one for the output.
NEVER_FORGIVEN = {
    "death by a signal": (
        r"Exception",
        r"\bSIG(?:SEGV|ABRT|BUS|ILL|FPE|TRAP|SYS)\b|Segmentation fault|Bus error|core dumped|[Kk]illed by signal"
        r"|died (?:of|with|by) (?:signal|<Signals)|(?:status|returncode|exit code)\W{1,4}-\d"
        r"|[Ss]ignal (?:4|5|6|7|8|11|31)\b"),
    "a timeout": (r"Timeout", r"TimeoutExpired|[Tt]imed out|not finished after|deadlock|\bhangs?\b"),
    "a sanitizer's report": (r"(?!)", r"Sanitizer\b|runtime error:"),
    "a line with which the library aborts": (
        r"(?!)", r"tcmalloc: (?:free|use|realloc\w*|malloc_usable_size) of 0x|check failed:|freed object of|pure virtual"),
    "wrong contents": (r"(?!)", r"CheckMarked|[Ww]rong (?:contents?|bytes)|contents? (?:of .* )?(?:differ|changed|is wrong|are wrong)"
                       r"|memcmp\(|overwritten|corrupt"),
}


def never_forgiven(end, output):
    """Returns the reason why a failure is final, or None if it is not. `end` is ctest's word for
    how the test ended, for example "Failed" or "Timeout"."""
    for reason, (ends, outputs) in NEVER_FORGIVEN.items():
        if re.search(ends, end) or re.search(outputs, output):
            return reason
    return None


def ends_of_tests(junit_file, log_file):
    """(name, how it ended, output) of each test of a run of ctest: None if it passed, otherwise ctest's word, for example "Timeout".

    The JUnit file has the outputs, but not how tests ended, which is in the log.
    """
    words = dict(re.findall(r"Test +#\d+: (.+?) \.*(\S[^\n]*?) +[0-9.]+ sec$", log_file.read_text(errors="replace"), re.MULTILINE))
    for case in ElementTree.parse(junit_file).getroot().findall("testcase"):
        name = case.get("name")
        end = None if case.get("status") == "run" else words.get(name, "did not run").replace("***", " ").strip(" :")
        yield name, end, case.findtext("system-out") or ""


def first_and_last(text):
    """The first and last lines of an output that are not empty."""
    lines = [line.rstrip()[:200] for line in text.splitlines() if line.strip()]
    if len(lines) <= 2 * SHOWN_LINES:
        return lines
    return [*lines[:SHOWN_LINES], f"... {len(lines) - 2 * SHOWN_LINES} lines ...", *lines[-SHOWN_LINES:]]


def keep(folder, name, number, output, shown=True):
    """Writes the whole output of a test's run `number` into a file, and prints its first and last lines if it is `shown`."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{re.sub(r'[^A-Za-z0-9._-]', '_', name)}.{number}.txt"
    file.write_text(output, errors="replace")
    if shown:
        print("\n".join([f"      {file}:", *(f"        {line}" for line in first_and_last(output))]), flush=True)


def judge(name, end, output, again, folder):
    """Runs a failed test again. Returns None if it is only flaky, otherwise why it failed.

    again() runs the test once, alone: (ctest's word for its end, or None if it passed; output). The outputs stay in `folder`.
    """
    keep(folder, name, 1, output)
    reason = never_forgiven(end, output)
    if reason:
        return f"{reason}, which is never forgiven"
    for number in range(2, REPEATS + 2):
        end, output = again()
        keep(folder, name, number, output, shown=end is not None)
        if end is not None:
            return never_forgiven(end, output) or f"again in run {number}"
    return None


def list_errors(text, today):
    """Returns the mistakes in the list of known flaky tests."""
    errors = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        fields = [field.strip() for field in line.split("|")]
        where = f"tests/flaky.txt:{number}"
        if len(fields) != 5 or not all(fields):
            errors.append(f"{where}: expected: name | first seen | rate | cause | mended by")
            continue
        name, seen, _, _, until = fields
        try:
            seen, until = datetime.date.fromisoformat(seen), datetime.date.fromisoformat(until)
        except ValueError:
            errors.append(f"{where}: dates are written YYYY-MM-DD")
            continue
        if not datetime.timedelta(0) <= until - seen <= datetime.timedelta(LONGEST_DAYS):
            errors.append(f"{where}: {name}: a flaky test is mended within {LONGEST_DAYS} days of {seen}")
        if today > until:
            errors.append(f"{where}: {name} was to be mended, or gone, by {until}")
    return errors
