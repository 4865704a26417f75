"""Nothing that was truly shown is lost: the run against the table of commit 370e6b9.

    370e6b9.tsv   every id of then, and after it the tests that showed it; an id alone was not shown
    gone.tsv      what went since, and why: id, test, now, reason

| in gone.tsv | means | is needed while |
|---|---|---|
| id | the row was falsely shown | no test shows the row |
| test | the test went, or was renamed to `now` | no such test runs; what it showed is looked for under `now` |
| id and test | the test does not show that row | the test runs and does not name the row |

A test whose module moved since is looked for under the module's name of now (MOVED), and needs no line.
A row that is partly shown now says itself what it lacks; it needs no line for the id. A line without need is an error too.
"""

from lists import read_table

BASELINE, GONE = "tests/coverage/370e6b9.tsv", "tests/coverage/gone.tsv"

# The rooms of then, by what they are called now; a test that runs under its old name is not moved.
MOVED = {
    "actors": "actor",
    "cli": "",
    "context": "kernel::context",
    "core": "kernel::tests::core",
    "handle": "session",
    "ids": "words::ids",
    "listing": "ops::listing",
    "message": "words::message",
    "replay": "ops::replay",
    "restore": "ops::restore",
    "session": "kernel",
    "sim": "kernel::tests::sim",
    "sweep": "ops::sweep",
    "usage": "words::usage",
}


def moved(test, tests):
    """The name of now of a test."""
    room, colons, rest = test.partition("::")
    room = MOVED.get(room, room)
    name = room + colons + rest if room else rest
    if test in tests:
        return test
    # A file that went into a folder of its room since.
    inside = [other for other in tests if room == "kernel" and other.startswith("kernel::") and other.endswith("::" + rest)]
    return name if name in tests else inside[0] if len(inside) == 1 else test


def read_baseline(root):
    """Id -> the tests that showed it then."""
    lines = (root / BASELINE).read_text(encoding="utf-8").splitlines()
    return {row: tests for row, *tests in (line.split("\t") for line in lines)}


def losses(root, run):
    """What was shown then, is not shown now, and is not explained; and explanations that nothing needs."""
    return lost(read_baseline(root), read_table(root / GONE), run)


def lost(baseline, gone, run):
    """The rule of this page, over values."""
    rows, renamed, pairs, bad = set(), {}, set(), []
    tests_then = {test for tests in baseline.values() for test in tests}
    for line in gone:
        one, test, now = line["id"], line["test"], moved(line["now"], run.tests)
        what = " ".join(part for part in (one, test) if part)
        if not line["reason"].strip():
            bad.append(f"gone.tsv gives no reason for {what}")
        if test and test not in tests_then or one and not baseline.get(one):
            bad.append(f"gone.tsv names {what}, which was not shown in 370e6b9")
        elif one and test:
            pairs.add((one, test))
        elif test:
            renamed[test] = now
        else:
            rows.add(one)
        if now and (one or now not in run.tests):
            bad.append(f"gone.tsv says that {what} is now {now}, which did not run")

    for one in sorted(rows):
        if run.showing(one):
            bad.append(f"gone.tsv explains why {one} is not shown, and it is")
    for test in sorted(renamed):
        if test in run.tests:
            bad.append(f"gone.tsv explains why {test} went, and it ran")
    for one, test in sorted(pairs):
        if test not in baseline[one] or names(run, one, renamed.get(test) or moved(test, run.tests)):
            bad.append(f"gone.tsv explains why {test} does not show {one}, and it does")
        elif test in renamed and not renamed[test]:
            bad.append(f"gone.tsv explains twice why {test} does not show {one}: the test went")

    for one, tests in baseline.items():
        if tests and one not in rows and not run.showing(one):
            bad.append(f"{one} was shown in 370e6b9 and is no longer: say why in gone.tsv")
        for test in tests:
            is_explained = one in rows or (one, test) in pairs or (test in renamed and not renamed[test])
            if is_explained or names(run, one, renamed.get(test) or moved(test, run.tests)):
                continue
            if test not in renamed and moved(test, run.tests) not in run.tests:
                bad.append(f"{test} ran in 370e6b9 and does not run any more: say why in gone.tsv")
            else:
                bad.append(f"{renamed.get(test) or moved(test, run.tests)} showed {one} in 370e6b9 and does not any more: say why in gone.tsv")
    return list(dict.fromkeys(bad))


def names(run, row, test):
    return test in run.by_id.get(row, [])
