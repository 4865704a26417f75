#!/usr/bin/env python3
"""Which scenario and which row of the checklist is shown by which test of the last run.

    python3 tests/coverage.py            writes docs/SCENARIOS.md and docs/COVERAGE.md
    python3 tests/coverage.py --check    writes nothing; ends with 1 where those files do not tell of this run

A run leaves its results in target/results: the output of the Rust tests as *.log, that of the scenarios as bdd.json
(tests/all.sh does it). A test says what it shows by ids: in the doc comment above it ("/// C-02, BDD-BASH-003, 004: ..."),
in its name (bdd_read_001_...), or in the tags of its scenario. The lists of all ids are in tests/coverage/*.tsv.

Only tests that passed count. Standard library only.
"""

import argparse
import csv
import json
import re
import sys
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "target" / "results"
SCENARIOS = ROOT / "docs" / "SCENARIOS.md"
COVERAGE = ROOT / "docs" / "COVERAGE.md"

ID = r"(?:[A-Z][A-Z0-9]*-)+p?\d+|C-p\d+"
FOLLOWING = re.compile(rf"\s*(?:(,)|(and|,\s*and)|(to|\.\.\.|…|-))\s*({ID}|\d+)\b")


@dataclass(frozen=True)
class Test:
    """A test that ran."""

    name: str
    """As a reader finds it: the path of a Rust test, or the feature and scenario."""
    effect: str
    """What it asserts, in a sentence."""
    passed: bool


def read_rows(name):
    with open(ROOT / "tests" / "coverage" / name, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


def ids_in(text):
    """The ids that a text names: "X-01, 02", "X-01 and 03" and "X-01 to X-04" name all that they mean."""
    found = []
    at = 0
    while match := re.compile(rf"(?<![\w-])({ID})\b").search(text, at):
        head, number = match.group(1).rsplit("-", 1)
        found.append(match.group(1))
        at = match.end()
        while follows := FOLLOWING.match(text, at):
            _, _, is_range, item = follows.groups()
            next_head, next_number = item.rsplit("-", 1) if "-" in item else (head, item)
            if next_head == head and "-" not in item and len(next_number) != len(number):
                break  # A number that only stands behind an id: "C-19, 3 retries".
            if is_range:
                if next_head != head or not (number.isdigit() and next_number.isdigit()):
                    break
                width = len(number)
                found += [f"{head}-{n:0{width}}" for n in range(int(number) + 1, int(next_number) + 1)]
            else:
                found.append(f"{next_head}-{next_number}")
            head, number = next_head, next_number
            at = follows.end()
    return found


def ids_in_name(name, known):
    """The ids at the head of a test's name: bdd_read_001_..., otp_24_..., with all numbers that follow."""
    words = name.split("_")
    for length in range(4, 0, -1):
        head = "-".join(words[:length]).upper()
        found = []
        for word in words[length:]:
            if f"{head}-{word}" not in known:
                break
            found.append(f"{head}-{word}")
        if found:
            return found
    return []


def rust_tests(known):
    """Every test function of the sources: its full name, its ids, and what it asserts."""
    for path in sorted([*ROOT.glob("src/**/*.rs"), *ROOT.glob("tests/it/**/*.rs")]):
        base = ROOT / ("src" if path.is_relative_to(ROOT / "src") else "tests/it")
        module = [part for part in path.relative_to(base).with_suffix("").parts if part not in ("lib", "main")]
        inner = []  # Modules inside the file, with their indentation.
        docs, is_test = [], False
        for line in path.read_text(encoding="utf-8").splitlines():
            code = line.strip()
            indent = len(line) - len(line.lstrip())
            if code == "}" and inner and indent == inner[-1][0]:
                inner.pop()
            if match := re.match(r"(?:pub(?:\([a-z]+\))? )?mod (\w+) \{", code):
                inner.append((indent, match.group(1)))
            if code.startswith("///"):
                docs.append(code[3:].strip())
            elif code.startswith("#["):
                is_test = is_test or re.match(r"#\[(?:tokio::)?test\b", code) is not None
            elif is_test and (match := re.match(r"(?:async )?fn (\w+)", code)):
                name = match.group(1)
                doc = " ".join(docs)
                ids = dict.fromkeys(ids_in(doc) + ids_in_name(name, known))
                yield "::".join([*module, *(m for _, m in inner), name]), list(ids), claim(doc, name)
                docs, is_test = [], False
            elif code and not code.startswith("//"):
                docs, is_test = [], is_test and not code.startswith(("fn", "async", "}"))
            elif not code:
                docs, is_test = [], False


def claim(doc, name):
    """What a test asserts: what its doc says after the ids, else its name."""
    _, _, said = doc.partition(": ")
    if said and not ids_in(said.split(" ")[0]):
        return said[0].upper() + said[1:].rstrip(".")
    words = re.sub(r"^(?:[a-z]+_){1,3}(?:\d+_)+", "", name)
    return (words[0].upper() + words[1:]).replace("_", " ")


def rust_results():
    """Full name -> passed, of all logs together: one failure is a failure."""
    results = {}
    for log in sorted(RESULTS.glob("*.log")):
        for line in log.read_text(encoding="utf-8", errors="replace").splitlines():
            if match := re.match(r"test (\S+)(?: - should panic)? \.\.\. (ok|FAILED)", line):
                results[match.group(1)] = results.get(match.group(1), True) and match.group(2) == "ok"
    return results


def features():
    """Feature name -> (file, [(pattern of a scenario's name, effect)])."""
    told = {}
    for path in sorted(ROOT.glob("bdd/features/*.feature")):
        feature, effect = None, ""
        for line in path.read_text(encoding="utf-8").splitlines():
            code = line.strip()
            if code.startswith("Feature:"):
                feature = code.removeprefix("Feature:").strip()
                told[feature] = (path.name, [])
            elif code.startswith("# effect:"):
                effect = code.removeprefix("# effect:").strip()
            elif match := re.match(r"Scenario(?: Outline)?: (.+)", code):
                pattern = ".*".join(re.escape(piece) for piece in re.split(r"<[^>]+>", match.group(1)))
                told[feature][1].append((re.compile(pattern), effect))
                effect = ""
    return told


def run_tests(known):
    """Id -> the tests of the last run that name it; and ids that name nothing."""
    by_id, unknown = defaultdict(list), set()
    heads = {row.rsplit("-", 1)[0] for row in known}

    def add(ids, test):
        for one in ids:
            if one in known:
                by_id[one].append(test)
            # A head that is nearly one of ours ("BDD-COST" for "COST") would else count for nothing, and nobody would see it.
            elif (head := one.rsplit("-", 1)[0].removeprefix("BDD-")) in heads or f"BDD-{head}" in heads:
                unknown.add(f"{one} in {test.name}")

    results = rust_results()
    for name, ids, effect in rust_tests(known):
        if name in results:
            add(ids, Test(f"`{name}`", effect, results[name]))
    told = features()
    bdd = json.loads((RESULTS / "bdd.json").read_text(encoding="utf-8"))["scenarios"]
    for scenario in bdd:
        file, patterns = told[scenario["feature"]]
        effect = next((effect for pattern, effect in patterns if pattern.fullmatch(scenario["scenario"])), "")
        title = re.sub(r"^(?:[A-Z0-9-]+-\d+ ?)+: ", "", scenario["scenario"])
        effect = effect[:1].upper() + effect[1:]
        add(scenario["ids"], Test(f"bdd {file.removesuffix('.feature')}: {title}", effect, scenario["passed"]))
    return by_id, sorted(unknown), len(results) + len(bdd)


def shown_by(by_id, row):
    """The tests that passed and show a row, each once; none where one of them failed."""
    tests = list(dict.fromkeys(by_id.get(row, [])))
    return tests if all(test.passed for test in tests) else []


def cell(text):
    return text.replace("|", "\\|")


def grouped(rows, key):
    groups = defaultdict(list)
    for row in rows:
        groups[row[key]].append(row)
    return groups


def scenarios_page(rows, by_id):
    """The page of the scenarios, and the weak rows whose test does not say what it asserts."""
    groups, lacking = grouped(rows, "area"), []
    covered = sum(1 for row in rows if shown_by(by_id, row["id"]))
    page = [
        "# Scenarios",
        "",
        "Written by `tests/coverage.py` from the last run; do not edit.",
        "Every public scenario of the design that this runtime follows, and the test of ours that shows it.",
        "A row is covered only if every test that names it passed.",
        "*Real effect*: the original checks less than its title says; this is what our test asserts.",
        "",
        f"{covered} of {len(rows)} scenarios are covered.",
        "",
        "| area | covered | of |",
        "|---|---|---|",
    ]
    for area, group in groups.items():
        done = sum(1 for row in group if shown_by(by_id, row["id"]))
        page.append(f"| {area} | {done} | {len(group)} |")
    for area, group in groups.items():
        page += ["", f"## {area[0].upper()}{area[1:]}", "", "| id | what | shown by |", "|---|---|---|"]
        for row in group:
            tests = shown_by(by_id, row["id"])
            told = "<br>".join(cell(test.name) for test in tests) or f"waits for: {row['piece']}"
            if tests and row["weak"]:
                effects = list(dict.fromkeys(test.effect for test in tests if test.effect))
                told += "<br>*Real effect:* " + "; ".join(map(cell, effects))
                lacking += [] if effects else [row["id"]]
            page.append(f"| {row['id']} | {cell(row['text'])} | {told} |")
    return "\n".join(page) + "\n", covered, lacking


RULINGS = {
    "keep": "waits",
    "ruling": "waits",
    "opt": "waits; optional, off by default",
    "later": "later",
    "host": "the host's",
    "unclaimed": "not claimed: nobody measured it",
    "no goal": "not a goal",
    "avoid": "an error of the original, not to be copied",
}


def coverage_page(rows, by_id):
    """The page of the checklist."""
    groups = grouped(rows, "area")
    covered = sum(1 for row in rows if shown_by(by_id, row["id"]))
    page = [
        "# Coverage of the checklist",
        "",
        "Written by `tests/coverage.py` from the last run; do not edit.",
        "Each row of the checklist and the tests that showed it in that run.",
        "A row is covered only if every test that names it passed.",
        "",
        f"{covered} of {len(rows)} rows are covered.",
        "",
        "| area | covered | of |",
        "|---|---|---|",
    ]
    for area, group in groups.items():
        done = sum(1 for row in group if shown_by(by_id, row["id"]))
        page.append(f"| {area} | {done} | {len(group)} |")
    for area, group in groups.items():
        page += ["", f"## {area[0].upper()}{area[1:]}", "", "| id | what | shown by |", "|---|---|---|"]
        for row in group:
            tests = shown_by(by_id, row["id"])
            ruling = RULINGS.get(row["ruling"], f"waits; see {row['ruling']}")
            told = "<br>".join(cell(test.name) for test in tests) or ruling
            page.append(f"| {row['id']} | {cell(row['text'])} | {told} |")
    return "\n".join(page) + "\n", covered


def covered_in(page):
    """The rows that a page calls covered."""
    rows = re.findall(r"^\| (\S+-p?\d+) \| .*? \| (.*) \|$", page, re.MULTILINE)
    return {row for row, told in rows if told.startswith(("`", "bdd "))}


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
    parser.add_argument("--check", action="store_true", help="write nothing; end with 1 where the pages do not tell of this run")
    return parser.parse_args()


def main():
    is_check = arguments().check
    if not (RESULTS / "bdd.json").exists() or not list(RESULTS.glob("*.log")):
        sys.exit(f"no results in {RESULTS}: run tests/all.sh first")
    scenarios, checklist = read_rows("scenarios.tsv"), read_rows("checklist.tsv")
    known = {row["id"] for row in scenarios + checklist}
    by_id, unknown, ran = run_tests(known)
    pages = {}
    pages[SCENARIOS], scenarios_covered, lacking = scenarios_page(scenarios, by_id)
    pages[COVERAGE], rows_covered = coverage_page(checklist, by_id)
    print(
        f"{ran} tests ran; {scenarios_covered} of {len(scenarios)} scenarios and "
        f"{rows_covered} of {len(checklist)} rows of the checklist are covered"
    )
    bad = [f"no such id: {one}" for one in unknown]
    bad += [f"{one} is a weak row, and no test of it says what it asserts" for one in lacking]
    for path, page in pages.items():
        old = path.read_text(encoding="utf-8") if path.exists() else ""
        lost = sorted(covered_in(old) - covered_in(page))
        bad += [f"{one} was covered and is no longer" for one in lost]
        if is_check and old != page:
            bad.append(f"{path.relative_to(ROOT)} does not tell of this run: run tests/coverage.py")
        if not is_check:
            path.parent.mkdir(exist_ok=True)
            path.write_text(page, encoding="utf-8")
    for line in bad:
        print(line, file=sys.stderr)
    sys.exit(1 if bad and is_check else 0)


if __name__ == "__main__":
    main()
