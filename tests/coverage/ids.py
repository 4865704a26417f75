"""The ids of scenarios and of rows of the checklist, as tests name them, and the sentence that a test says for one of them.

A text names ids anywhere in it: "C-02, BDD-BASH-003, 004: ...".
A line that begins with one id and a colon is the sentence of that row alone, until the next such line or an empty one:

    /// BDD-WRITE-008: a real tilde is the home that the host handed in.
    /// BDD-READ-019: the same for a file that is read.
"""

import re

ID = r"(?:[A-Z][A-Z0-9]*-)+p?\d+|C-p\d+"
NAMED = re.compile(rf"(?<![\w-])({ID})\b")
FOLLOWING = re.compile(rf"\s*(?:(,)|(and|,\s*and)|(to|\.\.\.|…|-))\s*({ID}|\d+)\b")
HEAD = re.compile(rf"({ID})((?:\s*(?:,|and|to|\.\.\.|…|-)\s*(?:and\s+)?(?:{ID}|\d+)\b)*)(?: \([^)]*\))?:(?:\s|$)")


def ids_in(text):
    """The ids that a text names: "X-01, 02", "X-01 and 03" and "X-01 to X-04" name all that they mean."""
    found = []
    at = 0
    while match := NAMED.search(text, at):
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


def sentences(lines):
    """Id -> what the lines of a comment say for that id alone. A sentence for several ids at once belongs to none of them."""
    said, of = {}, None
    for line in lines:
        if head := HEAD.match(line):
            of = None if head.group(2) else head.group(1)
            line = line[head.end() :].strip()
        if not line:
            of = of if head else None
        elif of:
            said[of] = f"{said[of]} {line}" if of in said else line
    return {one: (text[0].upper() + text[1:]).rstrip(".") for one, text in said.items()}
