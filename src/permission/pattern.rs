//! The two matchers of permission rules: globs for the paths of `read` and `edit` ([`Globs`]), simple wildcards for everything else
//! ([`simple`]), the paths of `external_directory` included.
//!
//! No pattern panics or takes exponential time; a glob that cannot be compiled matches only itself. A change must not use globs
//! for commands: their `*` stops at a slash, so a command with a path (`cat /etc/x`) would pass a rule that is meant to catch it.
//! Rules are on tapes, so a change of matching changes how old tapes replay.

use std::collections::BTreeMap;

use globset::{GlobBuilder, GlobSet};

use crate::{
    lock::Lock,
    words::depth::{BRACES_MAX, braces_are_within},
};

/// How many compiled globs are kept. With one more, all are dropped and compiled again as they are needed.
const GLOBS_MAX: usize = 1_024;

/// `*` matches any text, `?` one character; everything else matches itself.
pub(crate) fn simple(pattern: &str, text: &str) -> bool {
    // Most patterns of a large set differ from the text before their first star; bytes tell so.
    let same = alike(pattern.bytes(), text.bytes(), |byte| matches!(byte, b'*' | b'?'));
    let (mut pattern, mut text) = match pattern.as_bytes().get(same) {
        // Whole characters are equal up to here.
        Some(b'*' | b'?') => (&pattern[same..], &text[same..]),
        Some(_) => return false,
        None => return text.len() == same,
    };
    // Greedy, with one star to fall back to: linear in practice, never exponential.
    let mut star = None;
    loop {
        let (mut rest, mut left) = (pattern.chars(), text.chars());
        match (rest.next(), left.next()) {
            (Some('*'), _) => {
                pattern = rest.as_str();
                star = Some((pattern, text));
            }
            (None, None) => return true,
            (Some(p), Some(t)) if p == '?' || p == t => (pattern, text) = (rest.as_str(), left.as_str()),
            _ => {
                // The star takes one character more.
                let Some((after, from)) = star else { return false };
                let mut taken = from.chars();
                if taken.next().is_none() {
                    return false;
                }
                (pattern, text) = (after, taken.as_str());
                star = Some((after, text));
            }
        }
    }
}

/// The length of the common beginning of a pattern and a text, in bytes, up to the first special byte of the pattern.
fn alike(pattern: impl Iterator<Item = u8>, text: impl Iterator<Item = u8>, is_special: impl Fn(u8) -> bool) -> usize {
    pattern.zip(text).take_while(|&(p, t)| p == t && !is_special(p)).count()
}

/// A table of compiled globs, one for each runtime. Compiling a glob costs some hundred times as much as matching it, and each
/// edit is matched against a dozen of them. What the table holds never changes a judgement.
#[derive(Debug, Default)]
pub struct Globs {
    compiled: Lock<BTreeMap<String, Option<GlobSet>>>,
}

impl Globs {
    /// Whether a glob matches a path. A bare `*` (or `**`) takes every path, as people mean it. An illegal glob takes only itself.
    pub(super) fn path(&self, pattern: &str, path: &str) -> bool {
        if pattern == "*" || pattern == "**" {
            return true;
        }
        if !may_match(pattern, path) {
            return false;
        }
        // Each entry of the table is whole, also after a panic under the lock.
        let mut compiled = self.compiled.lock();
        if !compiled.contains_key(pattern) {
            if compiled.len() >= GLOBS_MAX {
                compiled.clear();
            }
            compiled.insert(pattern.to_owned(), compile(pattern));
        }
        match compiled.get(pattern) {
            Some(Some(glob)) => glob.is_match(path),
            _ => pattern == path,
        }
    }
}

/// Whether a path begins and ends as each text does that the glob matches. Most rules of a large set are about other places, and
/// this tells so without a compiled glob.
fn may_match(pattern: &str, path: &str) -> bool {
    let is_special = |byte: u8| matches!(byte, b'*' | b'?' | b'[' | b']' | b'{' | b'}' | b'\\');
    let begins = alike(pattern.bytes(), path.bytes(), is_special);
    match pattern.as_bytes().get(begins) {
        Some(byte) if is_special(*byte) => {}
        Some(_) => return false,
        None => return path.len() == begins,
    }
    let ends = alike(pattern.bytes().rev(), path.bytes().rev(), is_special);
    let before = &pattern.as_bytes()[..pattern.len() - ends];
    // `**/` also matches no folder at all.
    before.last().is_none_or(|byte| is_special(*byte)) || before.ends_with(b"**/")
}

fn compile(pattern: &str) -> Option<GlobSet> {
    if !braces_are_within(pattern, BRACES_MAX) {
        return None;
    }
    let glob = GlobBuilder::new(pattern).literal_separator(true).build();
    // A set of one glob returns an error if the glob is too complex to compile; a glob alone would panic.
    glob.and_then(|glob| GlobSet::builder().add(glob).build()).ok()
}

/// Whether a pattern of paths is legal. An illegal one matches only itself, so a rule with it is rarely intended.
#[cfg(feature = "rules-file")]
pub(super) fn is_glob(pattern: &str) -> bool {
    compile(pattern).is_some()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    /// C-03, H-05
    #[test]
    fn simple_patterns_let_a_star_match_anything() {
        for (pattern, text, expected) in [
            ("*", "", true),
            ("git *", "git log --oneline", true),
            ("git *", "gitk", false),
            ("cat *", "cat /etc/passwd", true),
            ("mcp_*_read", "mcp_files_read", true),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("*a*a*a*a*b", &"a".repeat(200), false),
            ("", "", true),
            ("", "a", false),
            ("a*", "a", true),
            ("*", "ü\n", true),
            ("?*?", "ü", false),
            ("?*?", "üé", true),
            ("a*bc", "abcabc", true),
            ("a*bc", "abcab", false),
        ] {
            assert_eq!(simple(pattern, text), expected, "{pattern} on {text}");
        }
    }

    /// C-03, H-05
    #[test]
    fn path_patterns_stop_at_a_slash() {
        for (pattern, text, expected) in [
            ("*", "a/b", true),
            ("src/*", "src/a.rs", true),
            ("src/*", "src/a/b.rs", false),
            ("src/**", "src/a/b.rs", true),
            ("**/.env", ".env", true),
            ("[", "[", true),
        ] {
            assert_eq!(Globs::default().path(pattern, text), expected, "{pattern} on {text}");
        }
    }

    proptest::proptest! {
        #![proptest_config(proptest::prelude::ProptestConfig::with_cases(2_000))]

        /// The answer without a compiled glob is that of the glob.
        #[test]
        fn no_path_that_a_glob_matches_is_passed_over(pattern in r"[ab/.*?{},\[\]\\!ü-]{0,9}", path in r"[ab/.ü]{0,7}") {
            let matches = compile(&pattern).is_some_and(|glob| glob.is_match(&path)) || pattern == path;
            proptest::prop_assert!(!matches || may_match(&pattern, &path), "{pattern} on {path}");
        }
    }

    /// A rule in a hostile file must not end a session.
    #[test]
    fn a_glob_that_is_too_complex_matches_nothing_but_itself() {
        let nested = format!("{}b{}", "{a,".repeat(900), "}".repeat(900));
        assert!(!Globs::default().path(&nested, "b") && Globs::default().path(&nested, &nested));
    }

    #[test]
    fn the_table_of_globs_is_bounded_and_goes_on_answering() {
        let globs = Globs::default();
        for n in 0..GLOBS_MAX + 10 {
            assert!(globs.path(&format!("src/{n}/*.rs"), &format!("src/{n}/a.rs")));
        }
        assert!(globs.compiled.lock().len() <= GLOBS_MAX);
        assert!(globs.path("src/0/*.rs", "src/0/b.rs"));
    }
}
