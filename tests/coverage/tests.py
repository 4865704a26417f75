"""The program that judges coverage, judged: a small project with a run of its own, changed in one place at a time.

    python3 tests/coverage/tests.py      ends with the line "N passed, N failed"
"""

import json
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(Path(__file__).resolve().parent))

import claims  # noqa: E402
import coverage  # noqa: E402
from history import lost  # noqa: E402
from ids import ids_in, ids_in_name, sentences  # noqa: E402
from run import Run, Test  # noqa: E402

SCENARIOS = """id	area	piece	weak	text	lacks	tests
BDD-READ-001	read			text file	
BDD-READ-002	read		weak	tilde	
BDD-READ-003	read		weak	order	
BDD-READ-004	read	later		not yet	
"""

CHECKLIST = """id	area	ruling	text	lacks	tests
A-01	runtime	keep	Supervisor tree
A-02	runtime	host	the host's own
AB-02	tests	C-20	count of tests
C-01	rulings	ruling	Limits
C-20	rulings	ruling	no number is a goal
"""

CRASH_ROWS = """id	area	text	lacks	tests
P403-01	steering	the model streams
"""

SOURCE = '''/// A-01, C-01: a crash is seen, and the limit holds.
#[test]
fn a_crash_is_seen() {}

/// BDD-READ-002: a real tilde is the home of the host.
#[test]
fn a_tilde_is_home() {}
'''

FEATURE = """Feature: Reading

  @BDD-READ-001
  Scenario: A text is read
    Given a file

  # BDD-READ-003: the model reads both
  # lines in their order
  @BDD-READ-003
  Scenario: Two texts are read
    Given two files
"""

BASELINE = """BDD-READ-001	bdd reading: A text is read
BDD-READ-004
A-01	it::a_crash_is_seen
C-01	it::a_crash_is_seen
"""

FOLDER = tempfile.TemporaryDirectory()
"""Holds the projects."""

GONE = "id	test	now	reason\n"


def tearDownModule():
    FOLDER.cleanup()


class Project:
    """A project in a temporary folder: two Rust tests and two scenarios that ran and passed."""

    def __init__(self, **changed):
        self.root = Path(tempfile.mkdtemp(dir=FOLDER.name))
        files = {
            "tests/coverage/scenarios.tsv": SCENARIOS,
            "tests/coverage/checklist.tsv": CHECKLIST,
            "tests/coverage/crash_rows.tsv": CRASH_ROWS,
            "tests/coverage/370e6b9.tsv": BASELINE,
            "tests/coverage/gone.tsv": GONE,
            "tests/it/it.rs": SOURCE,
            "bdd/features/reading.feature": FEATURE,
            "target/results/tests.log": "test it::a_crash_is_seen ... ok\ntest it::a_tilde_is_home ... ok\n",
            "target/results/bdd.json": bdd("BDD-READ-001: A text is read", "BDD-READ-003: Two texts are read"),
        }
        for file, text in files.items():
            self.write(file, text)
        for file, text in self.judge()[0].items():
            self.write(file, text)
        for file, (old, new) in changed.items():
            path = next(path for path in files if file in path.replace(".", "_"))
            assert old in files[path], f"{old!r} is not in {path}"
            self.write(path, files[path].replace(old, new))

    def write(self, file, text):
        path = self.root / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def judge(self, is_partial=False):
        # The counted groups are about the real lists.
        looked_at = [claims.every_row_stands_on_its_page_once_and_the_counts_are_those_of_the_run]
        return coverage.judge(self.root, looked_at, is_partial)

    def wrong(self):
        """What --check says of the run, against the pages of the unchanged project."""
        pages, _, bad = self.judge()
        return bad + coverage.stale(self.root, pages)


def bdd(*titles):
    told = [title.split(": ") for title in titles]
    scenarios = [{"feature": "Reading", "scenario": title, "ids": [one], "passed": True} for one, title in told]
    return json.dumps({"scenarios": scenarios})


def ran(**names):
    """A run in which these tests passed, each with the ids that it names."""
    run = Run({"A-01", "A-02"})
    for name, ids in names.items():
        run.add(Test(name, True), ids)
    return run


class ARun(unittest.TestCase):
    def test_each_kind_of_rows_is_counted_apart(self):
        _, lines, bad = Project().judge()
        self.assertEqual(bad, [])
        told = ["3 of 4 scenarios", "2 of 3 rows", "2 of 2 rulings", "0 of 1 crash rows"]
        self.assertEqual(lines[1:], [f"{one} are covered, 0 partly." for one in told])

    def test_an_unchanged_project_is_right(self):
        self.assertEqual(Project().wrong(), [])

    def test_a_tag_that_was_removed_from_a_scenario_is_found(self):
        wrong = Project(bdd_json=('"BDD-READ-001"', "")).wrong()
        self.assertIn("BDD-READ-001 was shown in 370e6b9 and is no longer: say why in gone.tsv", wrong)
        self.assertIn("BDD-READ-001 was covered and is no longer", wrong)

    def test_a_tag_that_was_removed_from_a_rust_test_is_found(self):
        wrong = Project(it_rs=("A-01, C-01", "C-01")).wrong()
        self.assertIn("A-01 was shown in 370e6b9 and is no longer: say why in gone.tsv", wrong)
        self.assertIn("it::a_crash_is_seen showed A-01 in 370e6b9 and does not any more: say why in gone.tsv", wrong)

    def test_a_tag_of_a_row_that_came_later_is_missed_on_its_page(self):
        wrong = Project(it_rs=("BDD-READ-002: a", "A")).wrong()
        page = "docs/SCENARIOS.md does not tell of this run: run python3 tests/coverage.py"
        self.assertEqual(wrong, ["BDD-READ-002 was covered and is no longer", page])

    def test_a_test_that_failed_or_did_not_run_shows_nothing(self):
        for change in [("seen ... ok", "seen ... FAILED"), ("test it::a_crash_is_seen ... ok\n", "")]:
            project = Project(tests_log=change)
            self.assertIn("A-01 was shown in 370e6b9 and is no longer: say why in gone.tsv", project.wrong())
            self.assertIn("1 of 3 rows are covered, 0 partly.", project.judge()[1])

    def test_a_row_that_lacks_something_is_partly_shown_and_says_so(self):
        project = Project(checklist_tsv=("Supervisor tree", "Supervisor tree\tthe tree of a second runtime"))
        self.assertEqual(coverage.accept_rows(project.root, [], ["A-01"]), [])
        pages, lines, bad = project.judge()
        self.assertEqual(bad, [])
        self.assertIn("1 of 3 rows are covered, 1 partly.", lines)
        row = "| A-01 | Supervisor tree | partly: `it::a_crash_is_seen`<br>*Lacks:* the tree of a second runtime |"
        self.assertIn(row, pages["docs/COVERAGE.md"].splitlines())

    def test_a_row_of_which_nothing_is_shown_lacks_no_part(self):
        wrong = Project(scenarios_tsv=("not yet\t", "not yet\tthe rest")).judge()[2]
        self.assertEqual(wrong, ["BDD-READ-004 says what it lacks, and no test shows the rest"])

    def test_a_sentence_is_read_again_where_its_row_has_other_tests(self):
        asks = 'A-01 has other tests than when this was written: "a second tree" If it is still true: --accept A-01'
        project = Project(checklist_tsv=("Supervisor tree", "Supervisor tree\ta second tree"))
        self.assertEqual(project.judge()[2], [asks])
        self.assertEqual(coverage.accept_rows(project.root, [], ["A-01"]), [])
        self.assertEqual(project.judge()[2], [])
        self.assertEqual(project.judge(is_partial=True)[2], [])
        project.write("tests/it/it.rs", SOURCE.replace("BDD-READ-002: a real", "A-01: of it.\n/// BDD-READ-002: a real"))
        self.assertEqual(project.judge()[2], [asks])
        self.assertEqual(project.judge(is_partial=True)[2], [])

    def test_a_row_that_lacks_nothing_has_no_fingerprint(self):
        project = Project(checklist_tsv=("Supervisor tree", "Supervisor tree\t\t0123abcd"))
        self.assertEqual(project.judge()[2], ["A-01 lacks nothing, and has a fingerprint: remove it"])

    def test_accepting_changes_the_rows_that_were_named_and_refuses_the_others(self):
        lacking = CHECKLIST.replace("own\n", "own\tall\n").replace("Limits", "Limits\tone").replace("tree", "tree\ttwo")
        project = Project()
        project.write("tests/coverage/checklist.tsv", lacking)
        wrong = coverage.accept_rows(project.root, [], ["C-01", "C-20", "A-02"])
        nothing = "has no sentence that says what it lacks, or no test that shows the rest"
        self.assertEqual(wrong, [f"C-20 {nothing}", f"A-02 {nothing}"])
        now = (project.root / "tests/coverage/checklist.tsv").read_text(encoding="utf-8")
        rows = coverage.read_rows(project.root)
        mark = coverage.read_run(project.root, {row.id for row in rows}).fingerprint("C-01")
        self.assertEqual(now, lacking.replace("Limits\tone", f"Limits\tone\t{mark}"))

    def test_a_weak_row_owes_a_sentence_of_its_own_in_each_test(self):
        weak = "{} is weak, and {} does not say what it asserts for that row alone"
        for instead in ["BDD-READ-002, A-01: a real", "A real tilde (BDD-READ-002) is"]:
            wrong = Project(it_rs=("BDD-READ-002: a real", instead)).wrong()
            self.assertIn(weak.format("BDD-READ-002", "it::a_tilde_is_home"), wrong)
        wrong = Project(reading_feature=("# BDD-READ-003: the", "# The")).wrong()
        self.assertIn(weak.format("BDD-READ-003", "bdd reading: Two texts are read"), wrong)

    def test_a_sentence_does_not_do_for_two_rows(self):
        other = ("the model reads both\n  # lines in their order", "A real tilde is the home of the host.")
        wrong = Project(reading_feature=other).wrong()
        self.assertIn('"A real tilde is the home of the host" is said of BDD-READ-002, BDD-READ-003', wrong)

    def test_an_id_that_names_nothing_is_found(self):
        self.assertEqual(Project(it_rs=("C-01:", "C-01, A-77:")).judge()[2], ["no such id: A-77 in it::a_crash_is_seen"])
        self.assertEqual(Project(it_rs=("C-01:", "C-01, READ-001:")).judge()[2], ["no such id: READ-001 in it::a_crash_is_seen"])

    def test_a_run_of_some_tests_compares_nothing(self):
        project = Project(tests_log=("test it::a_crash_is_seen ... ok\n", ""))
        self.assertEqual(project.judge(is_partial=True)[2], [])

    def test_a_page_names_each_row_once(self):
        _, lines, bad = Project(checklist_tsv=("A-02", "A-01")).judge()
        self.assertEqual(bad, ["A-01 stands 2 times on docs/COVERAGE.md"] * 2)
        self.assertIn("1 of 2 rulings are covered, 0 partly.", lines)


class CountedGroups(unittest.TestCase):
    def test_a_group_that_shrinks_is_found(self):
        project = Project()
        rows = coverage.read_rows(project.root)
        run = coverage.read_run(project.root, {row.id for row in rows})
        bad = claims.each_counted_group_of_scenarios_is_shown(run, rows)
        self.assertIn("BDD-READ: 3 shown, where the design counts 17", bad)
        self.assertIn("BDD-FIND-008 is not shown", bad)


class WhatWent(unittest.TestCase):
    BASELINE = {"A-01": ["old", "other"], "A-02": []}

    def gone(self, *lines):
        return [dict(zip(["id", "test", "now", "reason"], line)) for line in lines]

    def test_nothing_went(self):
        self.assertEqual(lost(self.BASELINE, [], ran(old=["A-01"], other=["A-01"])), [])

    def test_a_test_that_went_is_explained_or_an_error(self):
        run = ran(other=["A-01"])
        self.assertEqual(lost(self.BASELINE, [], run), ["old ran in 370e6b9 and does not run any more: say why in gone.tsv"])
        self.assertEqual(lost(self.BASELINE, self.gone(("", "old", "", "its feature went")), run), [])

    def test_a_test_that_went_does_not_take_its_row_along(self):
        run = ran(third=[])
        gone = self.gone(("", "old", "", "went"), ("", "other", "", "went"))
        self.assertEqual(lost(self.BASELINE, gone, run), ["A-01 was shown in 370e6b9 and is no longer: say why in gone.tsv"])
        self.assertEqual(lost(self.BASELINE, [*gone, *self.gone(("A-01", "", "", "never shown"))], run), [])

    def test_a_renamed_test_shows_what_it_showed(self):
        gone = self.gone(("", "old", "new", "a better name"))
        self.assertEqual(lost(self.BASELINE, gone, ran(new=["A-01"], other=["A-01"])), [])
        wrong = ["new showed A-01 in 370e6b9 and does not any more: say why in gone.tsv"]
        self.assertEqual(lost(self.BASELINE, gone, ran(new=[], other=["A-01"])), wrong)
        both = [*gone, *self.gone(("A-01", "old", "", "it showed half of it"))]
        self.assertEqual(lost(self.BASELINE, both, ran(new=[], other=["A-01"])), [])
        wrong = lost(self.BASELINE, gone, ran(other=["A-01"]))
        self.assertIn("gone.tsv says that old is now new, which did not run", wrong)

    def test_a_false_tag_that_was_taken_off_is_explained(self):
        run = ran(old=[], other=["A-01"])
        self.assertEqual(lost(self.BASELINE, [], run), ["old showed A-01 in 370e6b9 and does not any more: say why in gone.tsv"])
        self.assertEqual(lost(self.BASELINE, self.gone(("A-01", "old", "", "it shows something else")), run), [])

    def test_a_line_without_need_is_an_error(self):
        run = ran(old=["A-01"], other=["A-01"])
        for line, wrong in [
            (("A-01", "", "", "why"), "gone.tsv explains why A-01 is not shown, and it is"),
            (("", "old", "", "why"), "gone.tsv explains why old went, and it ran"),
            (("A-01", "old", "", "why"), "gone.tsv explains why old does not show A-01, and it does"),
            (("A-02", "", "", "why"), "gone.tsv names A-02, which was not shown in 370e6b9"),
            (("", "never", "", "why"), "gone.tsv names never, which was not shown in 370e6b9"),
        ]:
            self.assertEqual(lost(self.BASELINE, self.gone(line), run), [wrong])

    def test_a_line_without_a_reason_is_an_error(self):
        wrong = lost(self.BASELINE, self.gone(("", "old", "", " ")), ran(other=["A-01"]))
        self.assertEqual(wrong, ["gone.tsv gives no reason for old"])


class Naming(unittest.TestCase):
    def test_a_list_of_ids_names_all_that_it_means(self):
        self.assertEqual(ids_in("A-01, 02 and 03: x"), ["A-01", "A-02", "A-03"])
        self.assertEqual(ids_in("A-01 to A-03"), ["A-01", "A-02", "A-03"])
        self.assertEqual(ids_in("C-19, 3 retries, C-p2"), ["C-19", "C-p2"])

    def test_a_name_begins_with_its_ids(self):
        known = {"BDD-READ-001", "BDD-READ-002"}
        self.assertEqual(ids_in_name("bdd_read_001_002_a_text", known), ["BDD-READ-001", "BDD-READ-002"])
        self.assertEqual(ids_in_name("bdd_write_001_a_text", known), [])

    def test_a_sentence_runs_to_the_next_id_or_an_empty_line(self):
        lines = ["A-01, A-02: of both.", "A-01: of the", "first.", "A-02 (seed): of the second", "", "and of neither"]
        self.assertEqual(sentences(lines), {"A-01": "Of the first", "A-02": "Of the second"})


if __name__ == "__main__":
    result = unittest.main(exit=False).result
    failed = len({str(test) for test, _ in [*result.failures, *result.errors]})
    print(f"{result.testsRun - failed} passed, {failed} failed", flush=True)
    sys.exit(0 if result.wasSuccessful() else 1)
