"""The last run: which tests ran, whether they passed, and which rows they name.

A run leaves its results in target/results: the output of the Rust tests as *.log, that of the scenarios as bdd.json.
What a test names stands in the sources: the doc comment above a Rust test and its name; the tags of a scenario and the comment
above them.
"""

import hashlib
import json
import re
from collections import defaultdict
from dataclasses import dataclass, field

from ids import ids_in, ids_in_name, sentences


@dataclass(frozen=True)
class Test:
    """A test that ran."""

    name: str
    """As a reader finds it: the path of a Rust test, or the feature and scenario."""
    passed: bool
    says: dict = field(default_factory=dict, compare=False)
    """Id -> what it asserts for that row alone."""

    def shown(self):
        return self.name if " " in self.name else f"`{self.name}`"


class Run:
    """The tests that ran, and which of them name a row."""

    def __init__(self, known):
        self.known = known
        self.tests = {}
        self.by_id = defaultdict(list)
        self.unknown = set()
        self.heads = {row.rsplit("-", 1)[0] for row in known}

    def add(self, test, ids):
        """A test that ran, and the ids that it names. Parts of one scenario (the rows of an outline) are one test."""
        before = self.tests.get(test.name)
        if before:
            test = Test(test.name, before.passed and test.passed, {**before.says, **test.says})
        self.tests[test.name] = test
        for one in ids:
            # A head that is nearly one of ours ("BDD-COST" for "COST") would else count for nothing, and nobody would see it.
            if one in self.known:
                if test.name not in self.by_id[one]:
                    self.by_id[one].append(test.name)
            elif (head := one.rsplit("-", 1)[0].removeprefix("BDD-")) in self.heads or f"BDD-{head}" in self.heads:
                self.unknown.add(f"{one} in {test.name}")

    def naming(self, row):
        """The tests that name a row, whatever came of them."""
        return [self.tests[name] for name in self.by_id.get(row, [])]

    def showing(self, row):
        """The tests that show a row; none where one of those that name it failed."""
        tests = self.naming(row)
        return tests if all(test.passed for test in tests) else []

    def fingerprint(self, row):
        """A short hash over the names of the tests that name a row, in any order."""
        return hashlib.sha256("\n".join(sorted(self.by_id.get(row, []))).encode()).hexdigest()[:8]

    def is_covered(self, row):
        return bool(self.showing(row.id)) and not row.lacks

    def is_partly(self, row):
        return bool(self.showing(row.id)) and bool(row.lacks)


def read_run(root, known):
    """The run whose results lie in target/results, told with the sources as they are now."""
    run = Run(known)
    results = rust_results(root)
    for name, ids, says in rust_tests(root, known):
        if name in results:
            run.add(Test(name, results[name], says), ids)
    for name in results.keys() - run.tests.keys():
        run.add(Test(name, results[name]), [])  # One that a macro wrote.
    told = features(root)
    for scenario in json.loads((root / "target/results/bdd.json").read_text(encoding="utf-8"))["scenarios"]:
        file, patterns = told[scenario["feature"]]
        says = next((says for pattern, says in patterns if pattern.fullmatch(scenario["scenario"])), {})
        title = re.sub(r"^(?:[A-Z0-9-]+-\d+ ?)+: ", "", scenario["scenario"])
        run.add(Test(f"bdd {file.removesuffix('.feature')}: {title}", scenario["passed"], says), scenario["ids"])
    return run


def rust_results(root):
    """Full name -> passed, of all logs together: one failure is a failure."""
    results = {}
    for log in sorted((root / "target/results").glob("*.log")):
        for line in log.read_text(encoding="utf-8", errors="replace").splitlines():
            if match := re.match(r"test (\S+)(?: - should panic)? \.\.\. (ok|FAILED)", line):
                results[match.group(1)] = results.get(match.group(1), True) and match.group(2) == "ok"
    return results


# The folders whose files are modules of one crate each, of the library, the doors and their tests.
SOURCES = ("src", "tests/it", "crates/*/src", "crates/*/tests/*")


def rust_tests(root, known):
    """Every test function of the sources: its full name, the ids that it names, and what it says for one of them alone."""
    bases = [base for pattern in SOURCES for base in root.glob(pattern)]
    for base, path in ((base, path) for base in bases for path in sorted(base.glob("**/*.rs"))):
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
                ids = dict.fromkeys(ids_in(" ".join(docs)) + ids_in_name(name, known))
                yield "::".join([*module, *(m for _, m in inner), name]), list(ids), sentences(docs)
                docs, is_test = [], False
            elif code and not code.startswith("//"):
                docs, is_test = [], is_test and not code.startswith(("fn", "async", "}"))
            elif not code:
                docs, is_test = [], False


def features(root):
    """Feature name -> (file, [(pattern of a scenario's name, what the comment above it says for one id alone)])."""
    told = {}
    for path in sorted(root.glob("bdd/features/*.feature")):
        feature, comment = None, []
        for line in path.read_text(encoding="utf-8").splitlines():
            code = line.strip()
            if code.startswith("Feature:"):
                feature = code.removeprefix("Feature:").strip()
                told[feature] = (path.name, [])
            elif code.startswith("#"):
                comment.append(code[1:].strip())
            elif match := re.match(r"Scenario(?: Outline)?: (.+)", code):
                pattern = ".*".join(re.escape(piece) for piece in re.split(r"<[^>]+>", match.group(1)))
                told[feature][1].append((re.compile(pattern), sentences(comment)))
                comment = []
            elif not code.startswith("@"):
                comment = []
    return told
