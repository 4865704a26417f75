#!/usr/bin/env python3
"""Counts the lines of src/ and crates/*/src that are compiled without `cfg(test)`: of code, of documentation, of plain comments; blank lines count nowhere.

    python3 tests/lines.py [TREE…] [--files]

A line counts as code where something is left of it without comments; a line of a string literal is code. An item under `#[cfg(test)]`
or `#[cfg(all(test, …))]` is left out whole, and so is the file of a module under it, with its submodules. Every other feature counts.
With --files each file stands on a line of its own, the largest last; files of more than 450 lines, blank ones and comments included, are
named in any case.
"""
import re
import sys
from pathlib import Path

LONG = 450
TOKEN = re.compile(
    r"""(?P<doc>//[/!](?!/)[^\n]*|//!(?:)[^\n]*)|(?P<line>//[^\n]*)|(?P<block>/\*)"""
    r"""|(?P<raw>b?r(?P<hash>\#*)"(?:.|\n)*?"(?P=hash))|(?P<string>b?"(?:[^"\\]|\\(?:.|\n))*")|(?P<char>b?'(?:[^'\\\n]|\\(?:[^u\n]|u\{[^}]*\}))')"""
)
TEST = re.compile(r"#\[cfg\((?:test|all\(test,[^\]]*\))\)\]")


def split(text):
    """The text without comments, line by line as it was, and the sets of lines that hold documentation and plain comments."""
    out, docs, plain, at, line = [], set(), set(), 0, 0
    while at < len(text):
        found = TOKEN.search(text, at)
        if not found:
            out.append(text[at:])
            break
        out.append(text[at:found.start()])
        line += text.count("\n", at, found.start())
        end = found.end()
        if found["block"]:
            depth = 1
            for mark in re.finditer(r"/\*|\*/", text[end:]):
                depth += 1 if mark[0] == "/*" else -1
                if depth == 0:
                    end += mark.end()
                    break
        piece = text[found.start():end]
        if found["doc"] or found["line"] or found["block"]:
            whose = docs if found["doc"] else plain
            whose.update(range(line, line + piece.count("\n") + 1))
            out.append("\n" * piece.count("\n"))
        else:
            # What is in a literal is no bracket, and no blank line either.
            out.append(re.sub(r"[^\n]+", lambda m: "x" * len(m[0]), re.sub(r"(?m)^$", "x", piece)))
        line += piece.count("\n")
        at = end
    return "".join(out), docs, plain


def item_end(code, at):
    """Where the item that begins at `at` ends: behind its `;`, or behind its last bracket."""
    depth = 0
    while at < len(code):
        c = code[at]
        if c in "([{":
            depth += 1
        elif c in ")]}":
            depth -= 1
            if depth == 0 and c == "}":
                return at + 1
        elif c in ";," and depth == 0:
            return at + 1
        at += 1
    return at


def count(tree):
    """(path, code, doc, plain, all lines) of each file that a build without tests reads, and the set of those that only tests do."""
    parts, tests = {}, set()
    for path in sorted([*(tree / "src").rglob("*.rs"), *tree.glob("crates/*/src/**/*.rs")]):
        text = path.read_text()
        code, docs, plain = split(text)
        left_out = set()
        for found in TEST.finditer(code):
            end = item_end(code, found.end())
            first, last = code.count("\n", 0, found.start()), code.count("\n", 0, end - 1)
            left_out.update(range(first, last + 1))
            module = re.fullmatch(r"(?:#\[[^\]]*\]|\s|pub(?:\([a-z]+\))?)*mod (\w+);", code[found.end():end].strip())
            if module:
                home = path.parent if path.name in ("lib.rs", "main.rs", "mod.rs") else path.with_suffix("")
                named = re.search(r'path = "([^"]+)"', text[found.start():found.start() + 200])
                tests.add(path.parent / named[1] if named else home / module[1])
        parts[path] = (code.split("\n"), docs, plain, left_out, text.count("\n"))
    rows = []
    for path, (lines, docs, plain, left_out, all_lines) in parts.items():
        own = path.with_suffix("")
        if any(own == test or test in own.parents or path == test for test in tests):
            continue
        codes = {n for n, line in enumerate(lines) if line.strip()} - left_out
        rows.append((path.relative_to(tree), len(codes), len(docs - left_out - codes), len(plain - left_out - codes), all_lines - len(left_out)))
    return rows


def crate(path):
    """The crate that a file belongs to, and the program where it was a part of the library."""
    if path.parts[0] == "crates":
        return path.parts[1]
    return "tamtam-cli" if path.parts[1] in ("cli", "cli.rs", "main.rs") else "tamtam"


def main():
    trees = [Path(word) for word in sys.argv[1:] if word != "--files"] or [Path(__file__).resolve().parent.parent]
    for tree in trees:
        rows = count(tree)
        if "--files" in sys.argv:
            for path, code, doc, plain, lines in sorted(rows, key=lambda row: row[1]):
                print(f"{code:6} {doc:6} {plain:6} {lines:6}  {path}")
        for of in sorted({crate(row[0]) for row in rows}):
            ours = [row for row in rows if crate(row[0]) == of]
            code, doc, plain = (sum(row[n] for row in ours) for n in (1, 2, 3))
            print(f"{tree.name or tree}, {of}: {len(ours)} files, {code} lines of code, {doc} of documentation, {plain} of comments")
        for path, *_, lines in rows:
            if lines > LONG:
                print(f"  over {LONG} lines: {path} ({lines})")


main()
