"""The lists of everything that could be shown, as they are checked in: tests/coverage/*.tsv.

    scenarios.tsv   id, area, piece, weak, text, lacks, tests  the public scenarios of the design
    checklist.tsv   id, area, ruling, text, lacks, tests       the rows of the checklist, and its rulings (the area "rulings")
    crash_rows.tsv  id, area, text, lacks, tests               five phases and four policies, each with a kill (P4-03)

`weak`: the original checks less than its title says, so each test of ours that names the row says for it what it asserts.
`lacks`: what a row demands and no test shows yet, in a sentence. Such a row is "partly" at most, and is counted apart.
`tests`: the fingerprint of the tests for which `lacks` was written; another one asks to read the sentence again (`--accept ID`).
"""

import csv
from dataclasses import dataclass

SCENARIOS, CHECKLIST, RULINGS, CRASH_ROWS = KINDS = "scenarios", "rows", "rulings", "crash rows"

LISTS = "scenarios.tsv", "checklist.tsv", "crash_rows.tsv"

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
    written_for: str
    """The fingerprint of the tests that named the row when `lacks` was written."""


def read_table(file):
    """The lines of a tab-separated file, by the names of its columns; columns at the end may be left out."""
    with open(file, encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE, restval=""))


def read_rows(root):
    """All rows, in the order of the lists."""
    rows = []

    def add(line, kind, waits, is_weak=False):
        rows.append(Row(line["id"], kind, line["area"], line["text"], waits, is_weak, line["lacks"].strip(), line["tests"].strip()))

    for line in read_table(root / "tests/coverage/scenarios.tsv"):
        waits = f"waits for: {line['piece']}"
        add(line, SCENARIOS, waits, bool(line["weak"]))
    for line in read_table(root / "tests/coverage/checklist.tsv"):
        kind = RULINGS if line["area"] == "rulings" else CHECKLIST
        add(line, kind, WAITS.get(line["ruling"], f"waits; see {line['ruling']}"))
    for line in read_table(root / "tests/coverage/crash_rows.tsv"):
        add(line, CRASH_ROWS, "waits")
    return rows


def accept(root, fingerprints):
    """Writes the fingerprint of each row that is named; all other bytes of the lists stay."""
    for file in LISTS:
        path = root / "tests/coverage" / file
        head, *lines = path.read_text(encoding="utf-8").splitlines()
        last = head.split("\t").index("tests")
        for at, line in enumerate(lines):
            cells = line.split("\t")
            if cells[0] in fingerprints:
                cells += [""] * (last + 1 - len(cells))
                lines[at] = "\t".join([*cells[:last], fingerprints[cells[0]]])
        path.write_text("\n".join([head, *lines]) + "\n", encoding="utf-8")
