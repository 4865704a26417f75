//! [`Snippet`]: the part of an entry's text around the first hit of a search, for a list of hits; and the rank of the text, for
//! [`Order::Best`](super::Order). Pure functions of texts, no I/O.
//!
//! A change must keep: the ranges of hits are byte offsets into the snippet on character borders, in order and without overlap,
//! because callers cut the text there ([`Snippet::marked`] would panic). The words are not made safe for a terminal: a caller that
//! prints them must do that.

use std::ops::Range;

use super::{
    query::Term,
    tokens::{Token, tokens},
};

/// How many characters a snippet has at most.
const SNIPPET_CHARS: usize = 160;
/// How many characters of a snippet precede the first hit at most.
const CHARS_BEFORE: usize = 40;

/// A piece of what an entry says, on one line: around the first hit, or its beginning.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Snippet {
    /// The words; spaces and line breaks are single spaces. Not made safe for a terminal.
    pub text: String,
    /// The places of the hits in the words, as ranges of bytes, in order.
    pub hits: Vec<Range<usize>>,
    /// Whether the entry's text has more before it.
    pub cut_before: bool,
    /// Whether the entry's text has more after it.
    pub cut_behind: bool,
}

impl Snippet {
    /// The text with each hit between two marks, and `…` where it is cut.
    #[must_use]
    pub fn marked(&self, before: &str, behind: &str) -> String {
        let mut out = String::from(if self.cut_before { "…" } else { "" });
        let mut at = 0;
        for hit in &self.hits {
            out.extend([&self.text[at..hit.start], before, &self.text[hit.clone()], behind]);
            at = hit.end;
        }
        out.push_str(&self.text[at..]);
        out.push_str(if self.cut_behind { "…" } else { "" });
        out
    }
}

/// The places of the terms in a text, as ranges of bytes, in order and without overlap.
fn places(tokens: &[Token], terms: &[Term]) -> Vec<Range<usize>> {
    let mut places = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        let longest = terms.iter().filter(|term| stands_at(term, &tokens[at..])).map(|term| term.tokens.len()).max();
        if let Some(length) = longest {
            places.push(tokens[at].range.start..tokens[at + length - 1].range.end);
        }
        at += longest.unwrap_or(1);
    }
    places
}

/// Whether a text has all of the terms.
pub(super) fn stands_in(tokens: &[Token], terms: &[Term]) -> bool {
    let is_run = |term: &Term, at: usize| {
        let run = &tokens[at..at + term.tokens.len()];
        run.windows(2).all(|pair| pair[0].range.end == pair[1].range.start)
    };
    let is_there = |term: &Term, at: usize| stands_at(term, &tokens[at..]) && (!term.is_run || is_run(term, at));
    terms.iter().all(|term| (0..tokens.len()).any(|at| is_there(term, at)))
}

fn stands_at(term: &Term, tokens: &[Token]) -> bool {
    let last = term.tokens.len() - 1;
    tokens.len() > last
        && term.tokens.iter().enumerate().all(|(n, wanted)| {
            let found = &tokens[n].folded;
            if n == last && term.is_prefix { found.starts_with(wanted.as_str()) } else { found == wanted }
        })
}

/// The rank of a text for these terms: the larger a part of the text they are, the higher. Each further hit counts less, and so
/// does each hit in a longer text.
pub(super) fn weight(text: &str, terms: &[Term]) -> u64 {
    let tokens = tokens(text);
    let length = 100 + tokens.len() as u64;
    let of_one = |term: &Term| {
        let times = (0..tokens.len()).filter(|at| stands_at(term, &tokens[*at..])).count() as u64;
        // times / (times + length/100), in millionths.
        times * 100_000_000 / (times * 100 + length)
    };
    terms.iter().map(of_one).sum()
}

/// The snippet of a text for these terms.
pub(super) fn snippet(text: &str, terms: &[Term]) -> Snippet {
    let places = places(&tokens(text), terms);
    let first = places.first().map_or(0, |place| place.start);
    let from = text[..first].char_indices().rev().take(CHARS_BEFORE).last().map_or(first, |(at, _)| at);
    // Not from the middle of a word, if a space is near.
    let from = match text[from..first].find(char::is_whitespace) {
        Some(space) if from > 0 => from + space,
        _ => from,
    };
    let mut cut = Snippet { cut_before: !text[..from].trim().is_empty(), ..Snippet::default() };
    let mut places = places.into_iter().peekable();
    let (mut open, mut characters) = (None, 0);
    for (at, c) in text[from..].char_indices().map(|(at, c)| (from + at, c)) {
        if places.peek().is_some_and(|place| place.end <= at) {
            cut.hits.extend(open.take().map(|start| start..cut.text.len()));
            places.next();
        }
        if characters == SNIPPET_CHARS {
            cut.cut_behind = !text[at..].trim().is_empty();
            break;
        }
        if places.peek().is_some_and(|place| place.start == at) {
            open = Some(cut.text.len());
        }
        if !c.is_whitespace() {
            cut.text.push(c);
        } else if cut.text.ends_with(' ') || cut.text.is_empty() {
            continue;
        } else {
            cut.text.push(' ');
        }
        characters += 1;
    }
    cut.hits.extend(open.map(|start| start..cut.text.len()));
    let kept = cut.text.trim_end().len();
    if cut.hits.last().is_none_or(|hit| hit.end <= kept) {
        cut.text.truncate(kept);
    }
    cut
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::{super::query::terms, *};

    fn marked(text: &str, words: &str) -> String {
        snippet(text, &terms(words).unwrap()).marked("[", "]")
    }

    #[test]
    fn the_hits_are_marked_where_they_stand() {
        assert_eq!(marked("The disk is full, the Disk!", "disk"), "The [disk] is full, the [Disk]!");
        assert_eq!(marked("a\n\n  b\tc", "c"), "a b [c]");
        assert_eq!(marked("发生了错误信息", "错误"), "发生了[错误]信息");
        assert_eq!(marked("the disk is full", "\"disk is\" fu*"), "the [disk is] [full]");
        assert_eq!(marked("École", "eco*"), "[École]");
        assert_eq!(marked("nothing of it", "absent"), "nothing of it");
        assert_eq!(marked("", "x"), "");
    }

    #[test]
    fn a_long_text_is_shown_around_its_first_hit() {
        let text = format!("{} needle {}", "hay ".repeat(500), "straw ".repeat(500));
        let shown = snippet(&text, &terms("needle").unwrap());
        assert!(shown.cut_before && shown.cut_behind);
        assert!(shown.text.chars().count() <= SNIPPET_CHARS, "{shown:?}");
        assert_eq!(&shown.text[shown.hits[0].clone()], "needle");
        assert!(shown.text.starts_with("hay"), "{shown:?}");
        let one_word = format!("{}错误{}", "界".repeat(400), "界".repeat(400));
        let shown = snippet(&one_word, &terms("错误").unwrap());
        assert_eq!(&shown.text[shown.hits[0].clone()], "错误");
        assert!(shown.text.chars().count() <= SNIPPET_CHARS);
    }

    #[test]
    fn a_hit_at_the_edge_is_cut_with_the_text() {
        let long = "x".repeat(400);
        let shown = snippet(&long, &terms(&long).unwrap());
        assert_eq!((shown.text.len(), shown.hits.len(), shown.cut_behind), (SNIPPET_CHARS, 1, true));
        assert_eq!(shown.hits[0], 0..SNIPPET_CHARS);
    }

    #[test]
    fn more_hits_in_less_text_weigh_more() {
        let terms = terms("disk").unwrap();
        let long = format!("disk {}", "and more ".repeat(300));
        let weights = ["disk disk disk", "disk", long.as_str(), "nothing"].map(|text| weight(text, &terms));
        assert!(weights.is_sorted_by(|a, b| a > b), "{weights:?}");
    }
}
