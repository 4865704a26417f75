#!/usr/bin/env python3
"""The public API: docs/API.txt names every public item, and a change of it is seen.

    python3 tests/api.py            compares the listing with the code; ends with 1 where they differ
    python3 tests/api.py --accept   rewrites the listing

Once there is a release, a line that went or changed is to be named in CHANGELOG.md, under "Unreleased": by the last word of its path,
such as `steer` for `tamtam::Session::steer`. The listing before is that of the newest commit that changed docs/API.txt, or that of the
last commit where the file is changed and not committed.
"""

import os
import re
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LISTING = ROOT / "docs/API.txt"
FEATURES = "shell-policy,agent-files,sandbox"


def made():
    """The listing of the code as it is; made by rustdoc and by tests/api."""
    environment = {**os.environ, "RUSTDOC": str(ROOT / "tests/api/rustdoc.sh")}
    command = ["cargo", "rustdoc", "--quiet", "--locked", "--package", "tamtam", "--lib", "--features", FEATURES]
    subprocess.run(command, cwd=ROOT, env=environment, check=True)
    lister = ["cargo", "run", "--quiet", "--locked", "--manifest-path", "tests/api/Cargo.toml", "--target-dir", "target/api", "--"]
    run = subprocess.run(lister + ["target/doc/tamtam.json"], cwd=ROOT, capture_output=True, text=True)
    if run.returncode:
        sys.exit(f"failed to list the public items: {run.stderr.strip()}")
    return short(run.stdout.splitlines())


def short(lines):
    """The lines without the modules of the standard library and of serde, and the impls of a type on one line."""
    items, impls = [], defaultdict(list)
    for line in lines:
        line = re.sub(r"\b(?:core|alloc|std|serde_core)(?:::[a-z_0-9]+)*::(?=[A-Z])", "", line)
        what, is_impl, of = line.partition(" for ") if line.startswith("impl") else ("", "", "")
        if not is_impl:
            items.append(line)
        elif "StructuralPartialEq" not in what:
            impls[of].append(re.sub(r"^impl ?", "", what))
    return sorted(items + [f"impl for {of}: {'; '.join(sorted(set(what)))}" for of, what in impls.items()])


def git(*arguments):
    run = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True)
    return run.stdout if run.returncode == 0 else ""


def before():
    """The listing before the newest change of it; nothing where there was none."""
    commits = git("log", "-2", "--format=%H", "--", "docs/API.txt").split()
    if git("status", "--porcelain", "--", "docs/API.txt"):
        commits = ["", *commits]
    return git("show", f"{commits[1]}:docs/API.txt").splitlines() if len(commits) > 1 else []


def name(line):
    """The last word of the path of a line: what the changelog must name. An impl is named by its type."""
    if line.startswith("impl for "):
        line = line.removeprefix("impl for ").split(": ")[0]
    else:
        # Types behind the path, of arguments and of fields, are not it.
        line = re.sub(r"^.*?(tamtam(::\w+)*).*$", r"\1", line)
    return re.findall(r"\w+", re.sub(r"<.*", "", line))[-1]


def gone(old, new):
    """The lines of the old listing that the new one lacks."""
    return sorted((Counter(old) - Counter(new)).elements())


def unnamed(lines, changelog):
    """Those of the lines that the part "Unreleased" of the changelog does not name; none before the first release."""
    if not re.search(r"^## \[?\d", changelog, re.MULTILINE):
        return []
    part = changelog.split("\n## Unreleased", 1)[-1].split("\n## ", 1)[0]
    words = set(re.findall(r"\w+", part))
    return [line for line in lines if name(line) not in words]


def check(old, listed, code, changelog):
    """The two tests, each with the lines that are against it."""
    drift = [f"- {line}" for line in gone(listed, code)] + [f"+ {line}" for line in gone(code, listed)]
    return [
        ("the_listing_is_that_of_the_code", drift),
        ("what_went_or_changed_is_in_the_changelog", unnamed(gone(old, listed), changelog)),
    ]


def self_tests():
    """The judge itself, on listings that are made up."""
    old = ["pub fn tamtam::Session::steer(&self, alloc::string::String) -> tamtam::Receipt", "impl for tamtam::Seq: Clone; Copy"]
    wanted = [
        (name(old[0]), "steer"),
        (name(old[1]), "Seq"),
        (name("pub tamtam::session::Turn::usage: tamtam::model::Usage"), "usage"),
        (name("impl for alloc::sync::Arc<T>: <T: tamtam::A> tamtam::B<T>"), "Arc"),
        (short(["impl core::fmt::Debug for tamtam::A", "impl Clone for tamtam::A"]), ["impl for tamtam::A: Clone; Debug"]),
        (check(old, old, old, "\n## Unreleased\n")[0][1], []),
        (check(old, old, old[1:], "")[0][1], ["- " + old[0]]),
        (check(old, old[1:], old[1:], "\n## Unreleased\n- `steers`\n## 0.1\n- steer")[1][1], [old[0]]),
        (check(old, old[1:], old[1:], "\n## Unreleased\n- `Session::steer` went\n## 0.1")[1][1], []),
        (check(old, old[1:], old[1:], "\n## Unreleased (0.1.0)\n- all of it")[1][1], []),
    ]
    return ("a_line_that_goes_unnamed_is_found", [f"{got!r} is not {want!r}" for got, want in wanted if got != want])


def main():
    code = made()
    if sys.argv[1:] == ["--accept"]:
        LISTING.write_text("\n".join(code) + "\n", encoding="utf-8")
    listed = LISTING.read_text(encoding="utf-8").splitlines()
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    failed = 0
    tests = [self_tests(), *check(before(), listed, code, changelog)]
    for test, against in tests:
        print(f"test api::{test} ... {'FAILED' if against else 'ok'}")
        print("".join(f"    {line}\n" for line in against), end="")
        failed += bool(against)
    if failed:
        print("to accept a change: python3 tests/api.py --accept, and name in CHANGELOG.md, under Unreleased, what went or changed")
    print(f"{len(tests) - failed} passed, {failed} failed")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
