"""The lists of everything that could be shown, as they are checked in: tests/coverage/*.tsv.

    scenarios.tsv   id, area, piece, weak, text, lacks     the public scenarios of the design
    checklist.tsv   id, area, ruling, text, lacks          the rows of the checklist, and its rulings (the area "rulings")
    crash_rows.tsv  id, area, text, lacks                  five phases and four policies, each with a kill (P4-03)

`weak`: the original checks less than its title says, so each test of ours that names the row says for it what it asserts.
`lacks`: what a row demands and no test shows yet, in a sentence. Such a row is "partly" at most, and is counted apart.
"""

import csv
from dataclasses import dataclass

SCENARIOS, CHECKLIST, RULINGS, CRASH_ROWS = KINDS = "scenarios", "rows", "rulings", "crash rows"

WAITS = {
    "keep": "waits",
    "ruling": "waits",
    "opt": "waits; optional, off by default",
    "later": "later",
    "host": "the host's",
    "unclaimed": "not claimed: nobody measured it",
    "no goal": "not a goal",
    "avoid": "an error of the original, not to be copied",
}


@dataclass(frozen=True)
class Row:
    id: str
    kind: str
    """One of KINDS: they are counted apart."""
    area: str
    text: str
    waits: str
    """What stands on the page where no test shows the row."""
    is_weak: bool
    lacks: str


def read_table(file):
    """The lines of a tab-separated file, by the names of its columns; columns at the end may be left out."""
    with open(file, encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE, restval=""))


def read_rows(root):
    """All rows, in the order of the lists."""
    rows = []
    for line in read_table(root / "tests/coverage/scenarios.tsv"):
        waits = f"waits for: {line['piece']}"
        rows.append(Row(line["id"], SCENARIOS, line["area"], line["text"], waits, bool(line["weak"]), line["lacks"].strip()))
    for line in read_table(root / "tests/coverage/checklist.tsv"):
        kind = RULINGS if line["area"] == "rulings" else CHECKLIST
        waits = WAITS.get(line["ruling"], f"waits; see {line['ruling']}")
        rows.append(Row(line["id"], kind, line["area"], line["text"], waits, False, line["lacks"].strip()))
    for line in read_table(root / "tests/coverage/crash_rows.tsv"):
        rows.append(Row(line["id"], CRASH_ROWS, line["area"], line["text"], "waits", False, line["lacks"].strip()))
    return rows
