//! File names as a model sees and writes them.
//!
//! A name may hold anything but NUL and `/`: line feeds, escape sequences, bytes that are not text, or words that look like a
//! notice of a tool. Such a name is shown in quotes, with escapes where they are needed, always on one line. In front of a line
//! number, use [`shown_before_number`], which also quotes a name that looks as if it held a line number.
//!
//! A change must keep the way back: [`given`] reads every name from [`shown`] as the very same name. Shown names are on tapes as
//! the paths of changed files, so old ones must be read too. The code reads no disk.

use std::{
    ffi::OsString,
    os::unix::ffi::{OsStrExt as _, OsStringExt as _},
    path::{Path, PathBuf},
};

/// A path as it is shown: plain where the plain form is unambiguous, else in quotes.
///
/// A path that ends in `/` keeps the slash, inside the quotes too, so that it can be given back.
pub(crate) fn shown(path: &Path) -> String {
    match path.to_str() {
        Some(text) if is_plain(text) => text.to_owned(),
        _ => quoted(path),
    }
}

/// A path as it is shown in front of a line number. A name that looks as if it held a line number itself is quoted.
pub(super) fn shown_before_number(path: &Path) -> String {
    match path.to_str() {
        Some(text) if is_plain(text) && !holds_number(text) => text.to_owned(),
        _ => quoted(path),
    }
}

/// The path that a model means: as written, or the content of a quoted form.
pub(crate) fn given(text: &str) -> PathBuf {
    let inner = text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    let bytes = inner.filter(|inner| !inner.is_empty()).and_then(unquoted);
    bytes.map_or_else(|| PathBuf::from(text), |bytes| PathBuf::from(OsString::from_vec(bytes)))
}

fn is_plain(text: &str) -> bool {
    !text.starts_with('"') && text.trim() == text && !text.chars().any(is_hostile) && !is_like_a_notice(text)
}

/// Whether a line with this name alone would look like a notice of a tool: `[Showing 1 of 9 files.]`.
fn is_like_a_notice(text: &str) -> bool {
    text.starts_with('[') && text.contains(' ') && text.trim_end_matches('/').ends_with(']')
}

/// Whether a character could move, hide or reorder what is shown around it, or cannot be seen.
fn is_hostile(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
        || matches!(
            c,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'
                ..='\u{180e}'
        )
        || matches!(c, '\u{3164}' | '\u{ffa0}' | '\u{fff9}'..='\u{fffd}' | '\u{e0000}'..='\u{e0fff}')
}

/// Whether a name holds a text that could separate a name from its line number: `:12: ` or `-12- `.
fn holds_number(text: &str) -> bool {
    let digits_and_more = text.split([':', '-']).skip(1);
    let mut pieces = digits_and_more.peekable();
    while let Some(piece) = pieces.next() {
        let is_number = !piece.is_empty() && piece.bytes().all(|byte| byte.is_ascii_digit());
        if is_number && pieces.peek().is_some_and(|next| next.starts_with(' ')) {
            return true;
        }
    }
    false
}

fn quoted(path: &Path) -> String {
    let mut out = String::from("\"");
    for chunk in path.as_os_str().as_bytes().utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '"' | '\\' => out.extend(['\\', c]),
                '\n' => out.push_str("\\n"),
                '\r' => out.push_str("\\r"),
                '\t' => out.push_str("\\t"),
                _ if c.is_ascii_control() => out.push_str(&format!("\\x{:02x}", u32::from(c))),
                _ if is_hostile(c) => out.push_str(&format!("\\u{{{:x}}}", u32::from(c))),
                _ => out.push(c),
            }
        }
        for byte in chunk.invalid() {
            out.push_str(&format!("\\x{byte:02x}"));
        }
    }
    out.push('"');
    out
}

/// The bytes of the inside of a quoted form; `None` for a text that is not a quoted form.
fn unquoted(inner: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(inner.len());
    let mut rest = inner.chars();
    while let Some(c) = rest.next() {
        match c {
            '"' => return None,
            '\\' => {}
            _ => {
                push(&mut bytes, c);
                continue;
            }
        }
        match rest.next()? {
            c @ ('"' | '\\') => push(&mut bytes, c),
            'n' => push(&mut bytes, '\n'),
            'r' => push(&mut bytes, '\r'),
            't' => push(&mut bytes, '\t'),
            'u' => {
                let (digits, after) = rest.as_str().strip_prefix('{')?.split_once('}')?;
                push(&mut bytes, char::from_u32(u32::from_str_radix(digits, 16).ok()?)?);
                rest = after.chars();
            }
            'x' => {
                let (digits, after) = rest.as_str().split_at_checked(2)?;
                bytes.push(u8::from_str_radix(digits, 16).ok()?);
                rest = after.chars();
            }
            _ => return None,
        }
    }
    Some(bytes)
}

fn push(bytes: &mut Vec<u8>, c: char) {
    bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Nasty case 11.
    #[test]
    fn nasty_11_hostile_names_stand_on_one_line_in_quotes() {
        let name = |bytes: &[u8]| shown(Path::new(&OsString::from_vec(bytes.to_vec())));
        assert_eq!(name(b"a\nb"), r#""a\nb""#);
        assert_eq!(name(b"a\x1b[31m"), r#""a\x1b[31m""#);
        assert_eq!(name(b"caf\xe9"), r#""caf\xe9""#);
        assert_eq!(name("a\u{202e}b".as_bytes()), r#""a\u{202e}b""#);
        assert_eq!(name(b"tail "), r#""tail ""#);
        assert_eq!(name(b"a\nb/"), r#""a\nb/""#);
        assert_eq!(name(b"[Showing 1 of 9 files.]"), r#""[Showing 1 of 9 files.]""#);
        assert_eq!(name("a\u{e0041}\u{61c}".as_bytes()), r#""a\u{e0041}\u{61c}""#);
        assert_eq!(name(b"[id].tsx"), "[id].tsx");
        assert_eq!(name(b"\"q\""), r#""\"q\"""#);
        for plain in ["-rf", "a b.txt", "日本 2024.png", "a\\b", "@types/x", "a:b"] {
            assert_eq!(name(plain.as_bytes()), plain);
        }
        assert_eq!(shown_before_number(Path::new("a.txt:12: fake match")), r#""a.txt:12: fake match""#);
        assert_eq!(shown_before_number(Path::new("2024-01-02.md")), "2024-01-02.md");
    }

    #[test]
    fn what_is_no_quoted_form_is_a_name() {
        for text in ["\"", "\"\"", "\"a", "\"a\\q\"", "\"a\"b\"", "\"\\x\u{e9}\""] {
            assert_eq!(given(text), Path::new(text));
        }
    }

    proptest! {
        #[test]
        fn what_is_shown_can_be_given_back(bytes in proptest::collection::vec(1u8.., 1..20)) {
            let path = PathBuf::from(OsString::from_vec(bytes));
            let shown = shown(&path);
            prop_assert!(!shown.chars().any(char::is_control));
            prop_assert_eq!(given(&shown), path.clone());
            prop_assert_eq!(given(&shown_before_number(&path)), path);
        }
    }
}
