//! Globs for paths, as the find and grep tools take them.
//!
//! A trailing `/` means: match directories only. Leading `./` is ignored. Apart from these, a pattern that contains `/`, even at
//! its start, is compared with the path from the searched folder. Any other pattern is compared with the name, in any folder. `*`
//! and `?` do not match `/`; `**` between slashes or at an end does. A name with a leading dot is like any other name.
//!
//! A pattern comes from a model. So a change must keep that no pattern panics, leads out of the searched folder, or takes more
//! time than in proportion to the path. These are not the globs of permission rules (`permission/pattern.rs`). No disk is read
//! here.

use std::{ffi::OsStr, path::Path};

use globset::{GlobBuilder, GlobSet};

use crate::words::depth::{BRACES_MAX, braces_are_within};

/// Longest pattern, in bytes.
const PATTERN_BYTES_MAX: usize = 4_096;

/// How many characters of a bad pattern an error shows.
const SHOWN_CHARS_MAX: usize = 200;

/// A compiled glob. Matching takes time linear in the path. The pattern's length is bounded.
#[derive(Clone, Debug)]
pub(super) struct Pattern {
    /// A set of this one glob. A glob that cannot be compiled is an error in a set, where a glob alone would panic.
    matcher: GlobSet,
    /// Whether the pattern is compared with the path from the searched folder, and not with the name alone.
    whole_path: bool,
    /// Whether only directories match.
    directories_only: bool,
    /// The pattern without a leading `./` and without slashes at its ends.
    text: String,
}

impl Pattern {
    /// Compiles a glob; the error says what is wrong with it.
    pub(super) fn new(given: &str) -> Result<Pattern, String> {
        let anchored = given.trim_start_matches("./");
        let text = anchored.trim_matches('/');
        if text.is_empty() {
            return Err("the glob pattern cannot be empty; use `**` for everything".to_owned());
        }
        if text.len() > PATTERN_BYTES_MAX {
            return Err(format!("the glob pattern is longer than {PATTERN_BYTES_MAX} bytes"));
        }
        if text.split('/').any(|component| component == "..") {
            return Err("a glob pattern cannot lead out of the searched folder with `..`; use `path`".to_owned());
        }
        if !braces_are_within(text, BRACES_MAX) {
            return Err(format!("the braces of the glob pattern are nested more than {BRACES_MAX} deep"));
        }
        let glob = GlobBuilder::new(text).literal_separator(true).backslash_escape(true).build();
        let shown: String = given.chars().take(SHOWN_CHARS_MAX).collect();
        let invalid = |error: globset::Error| match error.kind() {
            // The message of this error would show the whole regular expression that was made of the glob.
            globset::ErrorKind::Regex(_) => format!("invalid glob pattern {shown:?}: it is too complex"),
            kind => format!("invalid glob pattern {shown:?}: {kind}"),
        };
        let matcher = glob.and_then(|glob| GlobSet::builder().add(glob).build()).map_err(invalid)?;
        let whole_path = anchored.trim_end_matches('/').contains('/');
        let directories_only = anchored.ends_with('/');
        Ok(Pattern { matcher, whole_path, directories_only, text: text.to_owned() })
    }

    /// Whether an entry matches. `path` is relative to the folder that is searched.
    pub(super) fn matches(&self, path: &Path, is_directory: bool) -> bool {
        if self.directories_only && !is_directory {
            return false;
        }
        match path.file_name() {
            Some(name) if !self.whole_path => self.matcher.is_match(Path::new(name)),
            _ => self.matcher.is_match(path),
        }
    }

    /// Whether the pattern names a folder itself, as `node_modules/**` does. Such a folder is searched although it is usually
    /// left out.
    pub(super) fn names(&self, folder: &OsStr) -> bool {
        self.text.split(['/', '{', '}', ',']).any(|piece| folder == piece)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]

    use super::*;

    fn matches(pattern: &str, path: &str) -> bool {
        Pattern::new(pattern).unwrap().matches(Path::new(path), false)
    }

    #[test]
    fn a_name_matches_anywhere_and_a_path_from_the_root() {
        assert!(matches("*.ex", "a/b/c.ex") && matches("*.ex", "c.ex") && matches("**/*.ex", "c.ex"));
        assert!(
            matches("sub/*.ex", "sub/a.ex") && !matches("sub/*.ex", "x/sub/a.ex") && !matches("sub/*.ex", "sub/d/a.ex")
        );
        assert!(matches("/a.ex", "a.ex") && !matches("/a.ex", "b/a.ex"));
        assert!(matches("./src/**/*.{rs,toml}", "src/a/b/c.toml") && matches("*", ".hidden"));
        assert!(!matches("build/", "build") && Pattern::new("build/").unwrap().matches(Path::new("x/build"), true));
        assert!(matches("-*", "-rf"), "a leading dash is nothing special");
    }

    /// Nasty case 12.
    #[test]
    fn nasty_12_a_bad_or_hostile_pattern_is_an_error_or_quick() {
        for bad in ["", "/", "../*", "a/../../b", "[", "{a", &"a".repeat(5_000)] {
            assert!(Pattern::new(bad).is_err(), "{bad} was taken");
        }
        let nested = format!("{}b{}", "{a,".repeat(900), "}".repeat(900));
        let error = Pattern::new(&nested).unwrap_err();
        assert_eq!(error, "the braces of the glob pattern are nested more than 16 deep");
        assert!(!matches(&"*a".repeat(500), &"a".repeat(200)));
        assert!(Pattern::new("node_modules/**/*.js").unwrap().names(OsStr::new("node_modules")));
    }
}
