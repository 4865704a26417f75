#!/usr/bin/env python3
"""Which scenario and which row of the checklist is shown by which test of the last run.

    python3 tests/coverage.py              writes docs/SCENARIOS.md and docs/COVERAGE.md
    python3 tests/coverage.py --check      writes nothing; ends with 1 where those pages do not tell of this run
    python3 tests/coverage.py --partial    a run of some tests only: judges what the tests say, and compares nothing
    python3 tests/coverage.py --accept ID… says that the sentence "lacks" of these rows is true beside their tests of this run

tests/all.sh leaves the results of a run in target/results and then checks. A test says what it shows by ids: in the doc comment
above it ("/// C-02, BDD-BASH-003, 004: ..."), in its name (bdd_read_001_...), or in the tags of its scenario. Only tests that
passed count. In tests/coverage/ each part is a page of its own:

    ids.py        how ids are named, and the sentence that a test owes to a weak row
    lists.py      what could be shown: scenarios, rows, rulings, crash rows, and what a row still lacks
    run.py        which tests ran, and which rows they name
    claims.py     what is seen by looking at the run as a whole
    history.py    nothing that was truly shown in 370e6b9 is lost
    pages.py      the two pages

All of them end with 1 where a test names an id that is none, a weak row has no sentence of its own, a row lacks something and
nothing of it is shown, or (in a whole run) a sentence "lacks" was written for other tests than those that name its row now, or
something that was shown is lost. Standard library only.
"""

import argparse
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "coverage"))

from claims import CLAIMS, add_claims  # noqa: E402
from history import losses  # noqa: E402
from lists import KINDS, accept, read_rows  # noqa: E402
from pages import FILES, covered_in, page, told  # noqa: E402
from run import read_run  # noqa: E402


def unsaid(run, rows):
    """Weak rows without a sentence of their own, in each test that names one; and sentences that do for two rows."""
    bad, rows_of = [], {}
    for row in rows:
        for test in run.naming(row.id) if row.is_weak else []:
            if said := test.says.get(row.id):
                rows_of.setdefault(said, set()).add(row.id)
            else:
                bad.append(f"{row.id} is weak, and {test.name} does not say what it asserts for that row alone")
    return bad + [f'"{said}" is said of {", ".join(sorted(ids))}' for said, ids in rows_of.items() if len(ids) > 1]


def misstated(run, rows):
    """Ids that name no row, and rows that lack a part though nothing of them is shown."""
    bad = [f"no such id: {one}" for one in sorted(run.unknown)]
    nothing = [row.id for row in rows if row.lacks and not run.showing(row.id)]
    return bad + [f"{one} says what it lacks, and no test shows the rest" for one in nothing]


def outdated(run, rows):
    """Sentences "lacks" that were written for other tests than those that name the row now, and fingerprints without a sentence."""
    bad = []
    for row in rows:
        if row.lacks and run.showing(row.id) and row.written_for != run.fingerprint(row.id):
            bad.append(f'{row.id} has other tests than when this was written: "{row.lacks}" If it is still true: --accept {row.id}')
        if row.written_for and not row.lacks:
            bad.append(f"{row.id} lacks nothing, and has a fingerprint: remove it")
    return bad


def stale(root, pages):
    """Pages that do not tell of this run, with the rows that they call covered and that are not."""
    bad = []
    for file, text in pages.items():
        old = (root / file).read_text(encoding="utf-8") if (root / file).exists() else ""
        bad += [f"{one} was covered and is no longer" for one in sorted(covered_in(old) - covered_in(text))]
        if old != text:
            bad.append(f"{file} does not tell of this run: run python3 tests/coverage.py")
    return bad


def judge(root, claims, is_partial):
    """The run under a root: its pages, the lines that say how much is covered, and what is wrong with it."""
    rows = read_rows(root)
    run = read_run(root, {row.id for row in rows})
    bad = unsaid(run, rows)
    if not is_partial:
        bad += add_claims(run, rows, claims) + misstated(run, rows) + outdated(run, rows) + losses(root, run)
    else:
        bad += [f"no such id: {one}" for one in sorted(run.unknown)]
    lines = [f"{len(run.tests)} tests ran", *(told(run, rows, kind) for kind in KINDS)]
    return {file: page(file, run, rows) for file in FILES}, lines, bad


def accept_rows(root, claims, ids):
    """Writes the fingerprints of these rows as they are in this run, and returns what is wrong with the ids."""
    rows = read_rows(root)
    run = read_run(root, {row.id for row in rows})
    add_claims(run, rows, claims)
    may = {row.id for row in rows if row.lacks and run.showing(row.id)}
    accept(root, {one: run.fingerprint(one) for one in ids if one in may})
    return [f"{one} has no sentence that says what it lacks, or no test that shows the rest" for one in ids if one not in may]


def arguments():
    """The command line; what it does not know ends the program with 2, before anything is written."""
    what, _, rest = __doc__.partition("\n")
    parser = argparse.ArgumentParser(
        prog="tests/coverage.py",
        description=what,
        epilog=rest.strip("\n"),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--check", action="store_true", help="write nothing; end with 1 where the pages do not tell of this run")
    how.add_argument("--partial", action="store_true", help="write nothing, and compare nothing: only some of the tests ran")
    how.add_argument("--accept", nargs="+", metavar="ID", help='what these rows lack is true beside their tests of this run')
    return parser.parse_args()


def main():
    asked = arguments()
    results = ROOT / "target" / "results"
    if not (results / "bdd.json").exists() or not list(results.glob("*.log")):
        sys.exit(f"no results in {results}: run tests/all.sh first")
    if asked.accept:
        sys.exit("\n".join(accept_rows(ROOT, CLAIMS, asked.accept)) or 0)
    pages, lines, bad = judge(ROOT, CLAIMS, asked.partial)
    print("\n".join(lines))
    if asked.check:
        bad += stale(ROOT, pages)
    elif not asked.partial:
        for file, text in pages.items():
            (ROOT / file).write_text(text, encoding="utf-8")
    for line in bad:
        print(line, file=sys.stderr)
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
