"""The pages of the scenarios and of the checklist, as the last run shows them."""

import re
from collections import defaultdict

from lists import CHECKLIST, CRASH_ROWS, RULINGS, SCENARIOS

FILES = {"docs/SCENARIOS.md": (SCENARIOS,), "docs/COVERAGE.md": (CHECKLIST, RULINGS, CRASH_ROWS)}

HEADS = {
    "docs/SCENARIOS.md": [
        "# Scenarios",
        "",
        "Written by `tests/coverage.py` from the last run; do not edit.",
        "Every public scenario of the design that this runtime follows, and the test of ours that shows it.",
        "A row is covered only if every test that names it passed.",
        "*Lacks*: the tests show a part of the row; such a row is partly covered and is counted apart.",
        "*Real effect*: the original checks less than its title says; this is what our test asserts for this row.",
    ],
    "docs/COVERAGE.md": [
        "# Coverage of the checklist",
        "",
        "Written by `tests/coverage.py` from the last run; do not edit.",
        "Each row of the checklist and the tests that showed it in that run.",
        "A row is covered only if every test that names it passed.",
        "*Lacks*: the tests show a part of the row; such a row is partly covered and is counted apart.",
        "Rulings settle what the design documents contradict each other in; they are counted apart.",
        "So are the crash rows: a message meets a session in each of five phases with each of four policies, and its host is killed.",
    ],
}

COVERED = re.compile(r"^\| (\S+-p?\d+) \| .*? \| (?:`|bdd |coverage: ).* \|$", re.MULTILINE)


def counts(run, rows):
    """How many of these rows are covered, how many partly, and how many there are."""
    covered = sum(1 for row in rows if run.is_covered(row))
    return covered, sum(1 for row in rows if run.is_partly(row)), len(rows)


def told(run, rows, kind):
    """The sentence of the page that says how many rows of a kind are covered."""
    covered, partly, of = counts(run, [row for row in rows if row.kind == kind])
    return f"{covered} of {of} {kind} are covered, {partly} partly."


def page(file, run, rows):
    """The text of one page."""
    kinds = FILES[file]
    groups = defaultdict(list)
    for row in rows:
        if row.kind in kinds:
            groups[row.area].append(row)
    lines = [*HEADS[file], "", *(told(run, rows, kind) for kind in kinds), ""]
    lines += ["| area | covered | partly | of |", "|---|---|---|---|"]
    for area, group in groups.items():
        covered, partly, of = counts(run, group)
        lines.append(f"| {area} | {covered} | {partly} | {of} |")
    for area, group in groups.items():
        lines += ["", f"## {area[0].upper()}{area[1:]}", "", "| id | what | shown by |", "|---|---|---|"]
        lines += [f"| {row.id} | {cell(row.text)} | {cell(shown_by(run, row))} |" for row in group]
    return "\n".join(lines) + "\n"


def shown_by(run, row):
    """The last cell of a row: its tests, what it lacks, and what they assert for a weak row; else what it waits for."""
    tests = run.showing(row.id)
    if not tests:
        return row.waits
    parts = [test.shown() for test in tests]
    if row.lacks:
        parts = [f"partly: {parts[0]}", *parts[1:], f"*Lacks:* {row.lacks}"]
    if row.is_weak:
        said = dict.fromkeys(test.says[row.id] for test in tests if row.id in test.says)
        parts.append("*Real effect:* " + "; ".join(said))
    return "<br>".join(parts)


def cell(text):
    return text.replace("|", "\\|")


def covered_in(text):
    """The rows that a page calls covered."""
    return set(COVERED.findall(text))
