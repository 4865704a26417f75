"""Rows that are about the run itself, and so are shown by looking at the run: what was counted, and how it is published.

Each claim is a test: its doc names the rows; it gives back what is wrong.
"""

from ids import ids_in
from lists import SCENARIOS
from pages import FILES, page, told
from run import Test

AT_LEAST = {
    "BDD-EDIT": 23,
    "BDD-READ": 17,
    "BDD-BASH": 14,
    "BDD-GREP": 10,
    "BDD-WRITE": 7,
    "BDD-LS": 6,
    "BDD-FIND": 6,
    "BDD-TRC": 14,
    "BDD-TAPE": 34,
}

ADDED_LATER = {
    "BDD-AGENT": range(31, 38),
    "BDD-COMPACT": range(15, 21),
    "BDD-EDIT": range(17, 23),
    "BDD-FIND": range(8, 9),
    "BDD-BASH": range(15, 17),
    "BDD-TRC": range(1, 15),
}


def each_counted_group_of_scenarios_is_shown(run, rows):
    """F-27, G-09, S-17, AB-03: each group of scenarios that the design counts is shown at least that often: those of each tool,
    of truncation, of the tape, and those that were added to it later."""
    shown = {row.id for row in rows if row.kind == SCENARIOS and run.showing(row.id)}
    bad = []
    for head, at_least in AT_LEAST.items():
        count = sum(1 for one in shown if one.rsplit("-", 1)[0] == head)
        bad += [f"{head}: {count} shown, where the design counts {at_least}"] if count < at_least else []
    later = [f"{head}-{number:03}" for head, numbers in ADDED_LATER.items() for number in numbers]
    return bad + [f"{one} is not shown" for one in later if one not in shown]


def every_row_stands_on_its_page_once_and_the_counts_are_those_of_the_run(run, rows):
    """C-20, AB-02: what is covered is published row by row, with the real count; no number is a goal."""
    bad = []
    for file, kinds in FILES.items():
        lines = page(file, run, rows).splitlines()
        heads = [line.split(" | ")[0].removeprefix("| ") for line in lines if line.startswith("| ")]
        wanted = [row.id for row in rows if row.kind in kinds]
        bad += [f"{one} stands {heads.count(one)} times on {file}" for one in wanted if heads.count(one) != 1]
        bad += [f"{file} does not say how many {kind} are covered" for kind in kinds if told(run, rows, kind) not in lines]
    return bad


CLAIMS = [each_counted_group_of_scenarios_is_shown, every_row_stands_on_its_page_once_and_the_counts_are_those_of_the_run]


def add_claims(run, rows, claims):
    """Looks at the run, adds what it shows to it, and gives back what is wrong."""
    found = [(claim, claim(run, rows)) for claim in claims]
    for claim, bad in found:
        run.add(Test("coverage: " + claim.__name__.replace("_", " "), not bad), ids_in(claim.__doc__))
    return [line for _, bad in found for line in bad]
