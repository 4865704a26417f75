//! What the model may have meant when its old text stands nowhere in the file (F-16).

use std::collections::HashMap;

/// How many lines are offered.
const CANDIDATES_MAX: usize = 3;

/// How alike a line must be to be offered, in percent of shared pairs of characters.
const ALIKE_PERCENT_MIN: usize = 60;

/// How much of a line is compared and shown, in characters.
const LINE_CHARS_MAX: usize = 200;

/// How many lines are looked at. Past that an answer would come too late to help.
const LINES_MAX: usize = 50_000;

/// A line of the file that is like the old text.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Candidate {
    /// Its number, from 1.
    pub(super) line: usize,
    /// Its text, without the ending, cut to 200 characters.
    pub(super) text: String,
}

/// The lines most like the longest line of the old text, best first.
pub(super) fn candidates(file: &[u8], old: &str) -> Vec<Candidate> {
    let Some(wanted) = old.lines().max_by_key(|line| line.trim().len()) else { return Vec::new() };
    let wanted = Pairs::of(&start_of(wanted));
    if wanted.total == 0 {
        return Vec::new();
    }
    let mut best: Vec<(usize, Candidate)> = Vec::new();
    for (index, line) in file.split(|&byte| byte == b'\n').take(LINES_MAX).enumerate() {
        let bytes = &line[..line.len().min(LINE_CHARS_MAX * 4)];
        let text = start_of(&String::from_utf8_lossy(bytes));
        let alike = wanted.alike_percent(&text);
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

fn start_of(line: &str) -> String {
    line.chars().take(LINE_CHARS_MAX).collect()
}

/// The pairs of neighbouring characters in a line, in lower case and without blanks.
struct Pairs {
    counts: HashMap<(char, char), usize>,
    total: usize,
}

impl Pairs {
    fn of(line: &str) -> Pairs {
        let mut counts = HashMap::new();
        let pairs = pairs(line);
        for pair in &pairs {
            *counts.entry(*pair).or_default() += 1;
        }
        Pairs { counts, total: pairs.len() }
    }

    /// Dice's coefficient in percent.
    fn alike_percent(&self, line: &str) -> usize {
        let others = pairs(line);
        // Nothing shared can make up for such a difference in length.
        if 200 * self.total.min(others.len()) < ALIKE_PERCENT_MIN * (self.total + others.len()) {
            return 0;
        }
        let mut seen: HashMap<(char, char), usize> = HashMap::new();
        let mut shared = 0;
        for pair in &others {
            let times = seen.entry(*pair).or_default();
            *times += 1;
            if self.counts.get(pair).is_some_and(|count| *times <= *count) {
                shared += 1;
            }
        }
        200 * shared / (self.total + others.len()).max(1)
    }
}

fn pairs(line: &str) -> Vec<(char, char)> {
    let chars: Vec<char> = line.chars().filter(|c| !c.is_whitespace()).flat_map(char::to_lowercase).collect();
    chars.windows(2).map(|pair| (pair[0], pair[1])).collect()
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
