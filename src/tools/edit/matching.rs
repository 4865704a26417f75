//! Finds an old text in a file, and replaces it with a new one.
//!
//! An exact match wins (CRLF and LF count as equal). The folded comparison (`view.rs`) is tried only without an exact match.
//! Either way the answer is ranges of the file's own bytes, and [`replace`] changes these bytes and no others: line endings, a
//! BOM, and bytes that are not text stay as they are everywhere else. A change must keep this. It must also find every match that
//! does not overlap the one before, because an edit with several matches is refused unless all are to be replaced. The code is
//! pure.

use std::ops::Range;

use super::view::View;

/// The places of an old text in a file: ranges of bytes, in order, not overlapping.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Matches {
    pub(super) regions: Vec<Range<usize>>,
    /// Whether quotes, dashes, spaces and the like were folded for the search. It is true where nothing was found, too.
    pub(super) fuzzy: bool,
}

/// Finds each place of `old`: exact, or folded without an exact match.
pub(super) fn find(file: &[u8], old: &str) -> Matches {
    let old = line_feeds(old);
    let view = View::with_line_feeds(file);
    let exact = places(&view, old.as_bytes(), |_| true);
    if !exact.is_empty() {
        return Matches { regions: exact, fuzzy: false };
    }
    Matches { regions: find_folded(file, &old), fuzzy: true }
}

fn find_folded(file: &[u8], old: &str) -> Vec<Range<usize>> {
    let needle = View::folded(old.as_bytes());
    let needle = needle.text();
    // An old text of blanks alone would fold to nothing, or to every line end of the file.
    if needle.trim_ascii().is_empty() {
        return Vec::new();
    }
    let view = View::folded(file);
    // Blanks at the very end of the old text, which folding drops, mean that the line ends there.
    let ends_line = !old.ends_with('\n') && old.trim_end().len() < old.len();
    let mut regions = places(&view, needle, |end| !ends_line || matches!(view.text().get(end), None | Some(b'\n')));
    if ends_line {
        for region in &mut regions {
            region.end = line_end(file, region.end);
        }
    }
    regions
}

/// Every place of `needle` in a view that leads back to whole pieces of the file, and whose end passes `fits`.
fn places(view: &View, needle: &[u8], fits: impl Fn(usize) -> bool) -> Vec<Range<usize>> {
    let finder = memchr::memmem::Finder::new(needle);
    let (text, mut from, mut regions) = (view.text(), 0, Vec::new());
    while let Some(at) = finder.find(&text[from..]) {
        let found = from + at..from + at + needle.len();
        match view.origin(found.clone()).filter(|_| fits(found.end)) {
            Some(region) => {
                regions.push(region);
                from = found.end;
            }
            None => from = found.start + 1,
        }
    }
    regions
}

/// The end of the line that `from` is in, without its line ending.
fn line_end(file: &[u8], from: usize) -> usize {
    match memchr::memchr(b'\n', &file[from..]) {
        None => file.len(),
        Some(0) => from,
        Some(at) if file[from + at - 1] == b'\r' => from + at - 1,
        Some(at) => from + at,
    }
}

/// The file with a new text in each of the regions. The new lines take the endings of the lines that they replace.
pub(super) fn replace(file: &[u8], regions: &[Range<usize>], new: &str) -> Vec<u8> {
    let new = line_feeds(new);
    let mut out = Vec::with_capacity(file.len() + regions.len() * new.len());
    let mut kept = 0;
    for region in regions {
        out.extend_from_slice(&file[kept..region.start]);
        push_lines(&mut out, &new, file, region);
        kept = region.end;
    }
    out.extend_from_slice(&file[kept..]);
    out
}

fn push_lines(out: &mut Vec<u8>, new: &str, file: &[u8], region: &Range<usize>) {
    if !new.contains('\n') {
        out.extend_from_slice(new.as_bytes());
        return;
    }
    let mut endings = endings(&file[region.clone()]);
    if endings.is_empty() {
        endings.push(ending_near(file, region));
    }
    for (index, line) in new.split('\n').enumerate() {
        if index > 0 {
            let nth = (index - 1).min(endings.len() - 1);
            out.extend_from_slice(endings[nth]);
        }
        out.extend_from_slice(line.as_bytes());
    }
}

/// The line endings in some bytes, in order.
fn endings(bytes: &[u8]) -> Vec<&'static [u8]> {
    memchr::memchr_iter(b'\n', bytes).map(|at| ending_at(bytes, at)).collect()
}

/// The ending of the line that a region ends in, else of the line before it, else LF.
fn ending_near(file: &[u8], region: &Range<usize>) -> &'static [u8] {
    let after = memchr::memchr(b'\n', &file[region.end..]).map(|at| region.end + at);
    let near = after.or_else(|| memchr::memrchr(b'\n', &file[..region.start]));
    near.map_or(b"\n", |at| ending_at(file, at))
}

/// The line ending that the line feed at `at` belongs to: CRLF or LF.
pub(super) fn ending_at(bytes: &[u8], at: usize) -> &'static [u8] {
    if at > 0 && bytes[at - 1] == b'\r' { b"\r\n" } else { b"\n" }
}

/// A text from the model as it is compared: with LF line endings, and without a BOM, which belongs to the file.
pub(super) fn line_feeds(text: &str) -> String {
    text.strip_prefix('\u{feff}').unwrap_or(text).replace("\r\n", "\n")
}

/// The number of the line that a byte is in. Only LF ends a line.
pub(super) fn line_of(file: &[u8], at: usize) -> usize {
    memchr::memchr_iter(b'\n', &file[..at]).count() + 1
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]

    use proptest::prelude::*;

    use super::*;

    fn edit(file: &str, old: &str, new: &str) -> String {
        let found = find(file.as_bytes(), old);
        assert_eq!(found.regions.len(), 1, "{found:?}");
        String::from_utf8(replace(file.as_bytes(), &found.regions, new)).unwrap()
    }

    fn count(file: &str, old: &str) -> usize {
        find(file.as_bytes(), old).regions.len()
    }

    /// BDD-EDIT-005 (J.1 2.1)
    #[test]
    fn blanks_at_line_ends_are_forgiven() {
        assert_eq!(edit("line one   \nline two\n", "line one\nline two", "replaced"), "replaced\n");
        assert_eq!(edit("‘one’  \ntwo\n", "'one'    ", "x"), "x\ntwo\n");
        assert_eq!(count("‘one’s\n", "'one'  "), 0, "blanks at the end of the old text say that the line ends there");
    }

    /// F-21, F-20 (J.1 2.2 to 2.5 and pi #2044): each class of characters that models write differently.
    #[test]
    fn quotes_dashes_spaces_and_forms_are_folded() {
        for (file, old) in [
            ("say ‘hello’ now", "'hello'"),
            ("say “Hello” now", "\"Hello\""),
            ("a – b — c", "a - b - c"),
            ("a − b", "a - b"),
            ("a\u{a0}b\u{202f}c\u{205f}d\u{3000}e", "a b c d e"),
            ("你好，世界", "你好,世界"),
            ("ＡＢＣ１２３", "ABC123"),
            ("cafe\u{301} noir", "café noir"),
            ("café noir", "cafe\u{301} noir"),
            ("한", "\u{1112}\u{1161}\u{11ab}"),
        ] {
            assert_eq!(count(file, old), 1, "{file} does not match {old}");
            let before = file.len() - edit(file, old, "").len();
            assert!(before > 0);
        }
    }

    /// FT-14: file `'a' and ‘a’`, old `'a'`.
    #[test]
    fn an_exact_match_is_counted_exactly() {
        assert_eq!(edit("'a' and ‘a’", "'a'", "X"), "X and ‘a’");
        assert_eq!(count("‘a’ and ‘a’", "'a'"), 2);
        assert_eq!(count("hello   \nhello\n", "hello"), 2);
        assert_eq!(count("hello\r\nworld\r\n--\nhello\nworld\n", "hello\nworld"), 2);
        assert_eq!(count("aaa", "aa"), 1);
    }

    /// FT-15 and section 5.1: a fuzzy hit leaves every other line alone.
    #[test]
    fn a_fuzzy_match_changes_only_its_region() {
        let file = "‘keep’  \r\nＡ keep \nfix ‘this’ here\t\r\nlast";
        assert_eq!(edit(file, "fix 'this'", "fixed"), "‘keep’  \r\nＡ keep \nfixed here\t\r\nlast");
    }

    /// Nasty case 10: a match cannot begin inside something that expands.
    #[test]
    fn half_a_ligature_does_not_match() {
        assert_eq!(count("ﬁle", "ile"), 0);
        assert_eq!(count("ﬁle", "file"), 1);
        assert_eq!(count("x ½ y", "2"), 0);
        assert_eq!(count("nothing", "\u{a0}\u{3000}"), 0);
        assert_eq!(count("a\n\nb\n", "\t\n"), 0);
    }

    /// FT-16 and nasty case 9.
    #[test]
    fn new_lines_take_the_endings_of_the_lines_they_replace() {
        assert_eq!(edit("hello\r\nworld\r\n", "hello\nworld", "goodbye\nplanet"), "goodbye\r\nplanet\r\n");
        assert_eq!(edit("a\r\nb\nc\rd", "a\nb\n", "1\n2\n3\n"), "1\r\n2\n3\nc\rd");
        assert_eq!(edit("a\r\nfoo\nb\r\n", "foo", "x\ny"), "a\r\nx\ny\nb\r\n");
        assert_eq!(edit("a\r\nfoo", "foo", "x\ny"), "a\r\nx\r\ny");
        assert_eq!(edit("a\nb\n", "b", "x\r\ny"), "a\nx\ny\n", "a file of LF never gains CR");
        assert_eq!(edit("\u{feff}line1\r\nx", "\u{feff}line1", "first"), "\u{feff}first\r\nx");
    }

    /// Section 1.3: neither `$1` nor `\0` means anything; regex characters are plain in the old text.
    #[test]
    fn both_texts_are_literal() {
        assert_eq!(edit("a.b(c)", ".b(c", "$& $1 \\0"), "a$& $1 \\0)");
        assert_eq!(count("axb", "a.b"), 0);
    }

    /// Nasty case 6: bytes that are not text stay as they are, also next to a fuzzy match.
    #[test]
    fn other_bytes_are_identical_in_a_latin_1_file() {
        let file = b"caf\xe9\n\xe2\x80\x98x\xe2\x80\x99\xff\n";
        let found = find(file, "'x'");
        assert!(found.fuzzy);
        assert_eq!(replace(file, &found.regions, "y"), b"caf\xe9\ny\xff\n");
    }

    /// What files are made of: line ends of each kind, blanks, what folds, what expands, and what is not text.
    fn pieces() -> Vec<&'static [u8]> {
        let texts = "a|b| |\t|\n|\r\n|\r|'|‘|’|—|ﬁ|e\u{301}|\u{3000}|\u{feff}|\0";
        texts.split('|').map(str::as_bytes).chain([&b"\xff"[..], b"\xe2\x80"]).collect()
    }

    proptest! {
        /// Against a plain model: in a file of LF lines an exact edit is `str::replacen`.
        #[test]
        fn an_exact_edit_is_a_plain_replacement(file in "[ab\n‘é ]{1,40}", at in 0usize..40, len in 1usize..8, new in "[xy\n]{0,6}") {
            let chars: Vec<char> = file.chars().collect();
            let old: String = chars.iter().skip(at % chars.len()).take(len).collect();
            let found = find(file.as_bytes(), &old);
            prop_assert!(!found.fuzzy);
            prop_assert_eq!(found.regions.len(), file.matches(&old).count());
            let first = &found.regions[..1];
            prop_assert_eq!(replace(file.as_bytes(), first, &new), file.replacen(&old, &new, 1).into_bytes());
            prop_assert_eq!(replace(file.as_bytes(), &found.regions, &new), file.replace(&old, &new).into_bytes());
        }

        /// For any file, bytes outside the regions are unchanged and each region folds to the old text.
        #[test]
        fn bytes_outside_the_regions_are_unchanged(
            file in proptest::collection::vec(proptest::sample::select(pieces()), 0..40),
            old in "['ab \n-]{1,5}",
            new in "[xy\n]{0,5}",
        ) {
            let file = file.concat();
            let found = find(&file, &old);
            let changed = replace(&file, &found.regions, &new);
            let (mut from, mut rest) = (0, &changed[..]);
            for region in &found.regions {
                prop_assert!(region.start >= from && region.end > region.start && region.end <= file.len());
                let kept = &file[from..region.start];
                prop_assert_eq!(&rest[..kept.len()], kept);
                rest = &rest[kept.len()..];
                let lines = line_feeds(&new);
                // The replacement, in either kind of line end.
                let mut length = 0;
                for c in lines.bytes() {
                    if c == b'\n' && rest[length..].starts_with(b"\r\n") { length += 2 } else { length += 1 }
                }
                prop_assert_eq!(line_feeds(std::str::from_utf8(&rest[..length]).unwrap()), lines);
                rest = &rest[length..];
                from = region.end;
            }
            prop_assert_eq!(rest, &file[from..]);
        }
    }
}
