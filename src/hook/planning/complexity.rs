//! How large a request looks, by its words alone: a guess, for a hint. English words only; a text that no rule knows gets none. A
//! pure function of the text.
//!
//! The rules, the first that fits: a word such as "refactor", three lines of a list, or two steps joined by "then", are complex; a
//! text that begins with "create a" or "write a" is simple if it has at most 160 characters and names at most one file, else
//! moderate; a text with a word such as "fix" or "add" is moderate, unless it ends with a question mark. No decision may rest on
//! the guess.

use std::collections::BTreeSet;

/// The size of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Complexity {
    Simple,
    Moderate,
    Complex,
}

/// The longest text that counts as short, in characters.
const SHORT_MAX: usize = 160;

const COMPLEX: [&str; 7] = ["refactor", "migrate", "migration", "redesign", "rearchitect", "rewrite", "overhaul"];
const MODERATE: [&str; 7] = ["add", "feature", "fix", "bug", "implement", "extend", "support"];
const CREATE: [&str; 2] = ["create a", "write a"];

/// The size of a request; `None` if its words do not tell.
pub(super) fn complexity(text: &str) -> Option<Complexity> {
    let lower = text.to_lowercase();
    let words: BTreeSet<&str> = lower.split(|c: char| !c.is_alphanumeric()).collect();
    let has = |marks: &[&str]| marks.iter().any(|mark| words.contains(mark));
    if has(&COMPLEX) || steps(&lower) {
        return Some(Complexity::Complex);
    }
    let creates = CREATE.iter().any(|begins| lower.trim_start().starts_with(begins));
    if creates && text.chars().count() <= SHORT_MAX && files(&lower) <= 1 {
        return Some(Complexity::Simple);
    }
    (creates || has(&MODERATE) && !lower.trim_end().ends_with('?')).then_some(Complexity::Moderate)
}

/// Whether the text names several steps.
fn steps(lower: &str) -> bool {
    let is_item = |line: &str| {
        let line = line.trim_start();
        line.starts_with("- ")
            || line.starts_with("* ")
            || line.trim_start_matches(|c: char| c.is_ascii_digit()).starts_with(". ")
    };
    lower.lines().filter(|line| is_item(line)).count() >= 3 || lower.matches(" then ").count() >= 2
}

/// How many files the text names: words with a point between letters.
fn files(lower: &str) -> usize {
    let is_file = |word: &&str| {
        let word = word.trim_matches(|c: char| !c.is_alphanumeric());
        word.rsplit_once('.').is_some_and(|(name, ending)| !name.is_empty() && (1..=5).contains(&ending.len()))
    };
    lower.split_whitespace().filter(is_file).collect::<BTreeSet<_>>().len()
}

impl Complexity {
    /// The hint for the model, after the request.
    pub(super) fn hint(self) -> &'static str {
        match self {
            Complexity::Simple => {
                "[Hint of the runtime: this looks SIMPLE. Do it at once, without a plan: 1 to 3 calls should be enough.]"
            }
            Complexity::Moderate => {
                "[Hint of the runtime: this looks MODERATE. Note 3 to 5 steps first; 5 to 10 calls should be enough.]"
            }
            Complexity::Complex => {
                "[Hint of the runtime: this looks COMPLEX. Write a whole plan first, and work through it; 10 to 30 calls or more \
                 are to be expected.]"
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// V-01, V-02, V-03: the marks of each size, and what no mark is in.
    #[test]
    fn a_request_is_sized_by_its_words() {
        use Complexity::{Complex, Moderate, Simple};
        let long = format!("Create a page about {}", "cranes ".repeat(40));
        for (text, expected) in [
            ("Create a file hello.txt", Some(Simple)),
            ("create a function that adds two numbers", Some(Simple)),
            ("Create a client.rs and a server.rs", Some(Moderate)),
            (long.as_str(), Some(Moderate)),
            ("Add a feature: dark mode", Some(Moderate)),
            ("Please fix the bug in the parser.", Some(Moderate)),
            ("Refactor the parser", Some(Complex)),
            ("create a plan to migrate to v2", Some(Complex)),
            ("Do this:\n1. read it\n2. change it\n10. test it", Some(Complex)),
            ("Do this:\n- read it\n- change it", None),
            ("Read it, and then change it, and then test it.", Some(Complex)),
            ("What does this feature do?", None),
            ("Hello", None),
            ("The address is prefixed", None),
            ("", None),
        ] {
            assert_eq!(complexity(text), expected, "{text}");
        }
    }
}
