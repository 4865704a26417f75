//! Finds the lines that a model may have meant when the text that it wants to replace is not in the file.
//!
//! The lines only go into the error message of the edit tool: a change must not turn a likeness into a match, because the model did
//! not ask to edit that line. It must keep the bounds on lines, characters and candidates, so that a large file does not hold up
//! the answer. The code is pure.

/// How many lines are offered.
const CANDIDATES_MAX: usize = 3;

/// How alike a line must be to be offered: the percentage of shared pairs of characters.
const ALIKE_PERCENT_MIN: usize = 60;

/// How much of a line is compared and shown, in characters.
const LINE_CHARS_MAX: usize = 200;

/// How many lines are compared, from the first. Later lines are skipped, so that the answer comes in time.
const LINES_MAX: usize = 50_000;

/// A line of the file that is like the old text.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Candidate {
    /// Its number, from 1.
    pub(super) line: usize,
    /// Its first 200 characters, without blanks and line ending at the end.
    pub(super) text: String,
}

/// The lines most like the longest line of the old text, best first; at most [`CANDIDATES_MAX`].
pub(super) fn candidates(file: &[u8], old: &str) -> Vec<Candidate> {
    let wanted = pairs(old.lines().max_by_key(|line| line.trim().len()).unwrap_or_default());
    if wanted.is_empty() {
        return Vec::new();
    }
    let mut best: Vec<(usize, Candidate)> = Vec::new();
    for (index, line) in file.split(|&byte| byte == b'\n').take(LINES_MAX).enumerate() {
        let bytes = &line[..line.len().min(LINE_CHARS_MAX * 4)];
        let text: String = String::from_utf8_lossy(bytes).chars().take(LINE_CHARS_MAX).collect();
        let alike = alike_percent(&wanted, &pairs(&text));
        if alike < ALIKE_PERCENT_MIN {
            continue;
        }
        let at = best.partition_point(|(other, _)| *other >= alike);
        if at < CANDIDATES_MAX {
            best.insert(at, (alike, Candidate { line: index + 1, text: text.trim_end().to_owned() }));
            best.truncate(CANDIDATES_MAX);
        }
    }
    best.into_iter().map(|(_, candidate)| candidate).collect()
}

/// How alike two lines are: the percentage of their pairs of letters that both have (Dice), without regard to case and blanks. Both
/// lists must be sorted.
fn alike_percent(one: &[(char, char)], other: &[(char, char)]) -> usize {
    let all = one.len() + other.len();
    // The lengths differ so much that no shared pairs could reach the minimum.
    if 200 * one.len().min(other.len()) < ALIKE_PERCENT_MIN * all {
        return 0;
    }
    let (mut one, mut other, mut shared) = (one, other, 0);
    while let ([first, ones @ ..], [second, others @ ..]) = (one, other) {
        shared += usize::from(first == second);
        (one, other) = (if first <= second { ones } else { one }, if first >= second { others } else { other });
    }
    200 * shared / all.max(1)
}

fn pairs(line: &str) -> Vec<(char, char)> {
    let line = line.chars().take(LINE_CHARS_MAX);
    let chars: Vec<char> = line.filter(|c| !c.is_whitespace()).flat_map(char::to_lowercase).collect();
    let mut pairs: Vec<_> = chars.windows(2).map(|pair| (pair[0], pair[1])).collect();
    pairs.sort_unstable();
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_similar_lines_come_first() {
        let file = b"fn main() {\n    let value = compute(1, 2);\n    let values = compute(1, 3);\n    done();\n}\n";
        let found = candidates(file, "{\n  let value = compute(1,  3);\n");
        assert_eq!(found.iter().map(|one| one.line).collect::<Vec<_>>(), [3, 2]);
        assert_eq!(found[0].text, "    let values = compute(1, 3);");
    }

    #[test]
    fn nothing_is_offered_where_nothing_is_alike() {
        assert_eq!(candidates(b"alpha\nbeta\n", "completely different"), []);
        assert_eq!(candidates(b"", "x"), []);
        assert_eq!(candidates(b"a\n", ""), []);
    }
}
