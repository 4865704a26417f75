//! The keys whose form no row of the table can say: passwords in URLs and in a `.netrc`, web tokens, and keys of hex digits or of
//! parts that only what follows tells from others.
//!
//! What `shapes.rs` asks of its functions holds here too: one place, a bounded look ahead, and no answer that a longer text takes
//! back.

use super::{
    shapes::{Found, Key, Place, Start, WINDOW},
    table::{Class, Need},
};

/// The most bytes of user and password in a URL.
const USERINFO_BYTES_MAX: usize = 512;
/// The most bytes of the first part of a JSON web token.
const JWT_HEADER_BYTES_MAX: usize = 2048;
/// The most bytes of the host or the user in a `.netrc`.
const NETRC_WORD_BYTES_MAX: usize = 128;

/// The password of a `.netrc`: after `login USER`, or on a separate line.
pub(super) fn netrc(place: &Place<'_>) -> Found {
    let text = place.rest();
    let is_space = |byte: u8| byte.is_ascii_whitespace();
    // The words before the value; an empty one is any word. What is surely a `.netrc` has a value of any kind.
    let (words, need, min): (&[&str], _, _) = match text.first() {
        Some(b'm') => (&["machine", "", "login", "", "password"], Need::Set, 1),
        Some(b'l') => (&["login", "", "password"], Need::Secret, 6),
        _ if place.begins_a_line() => (&["password"], Need::Digit, 6),
        _ => return Found::Nothing,
    };
    if !place.is_edge() {
        return Found::Nothing;
    }
    let mut skip = 0;
    for word in words {
        let at = Place { at: place.at + skip, ..*place };
        let behind = match at.starts(word.as_bytes(), u8::eq) {
            Start::No => return Found::Nothing,
            Start::Cut => return Found::More,
            Start::Yes if word.is_empty() => place.behind(skip, |byte| byte.is_ascii_graphic(), NETRC_WORD_BYTES_MAX),
            Start::Yes => (skip + word.len(), false),
        };
        let (next, is_open) = place.behind(behind.0, is_space, 8);
        if behind.1 || is_open {
            return Found::More;
        }
        if behind.0 == skip || next == behind.0 {
            return Found::Nothing;
        }
        skip = next;
    }
    let (run, is_open) = place.run(skip, Class::Password, WINDOW);
    match run.len() {
        _ if is_open => Found::More,
        len if len >= min && need.is_met(run) => Found::Key(Key { skip, len, rest: Class::Password, kind: "password" }),
        _ => Found::Nothing,
    }
}

/// A key of 32 hex digits that is known by what follows: `-us6` of Mailchimp, `-HHHHHHHH-HHHHHHHH` of Mailgun.
pub(super) fn hex_key(place: &Place<'_>) -> Found {
    const DIGITS: usize = 32;
    if !place.is_edge() {
        return Found::Nothing;
    }
    let (run, is_open) = place.run(0, Class::Hex, DIGITS + 1);
    if is_open {
        return Found::More;
    }
    if run.len() != DIGITS {
        return Found::Nothing;
    }
    let behind = Place { at: place.at + DIGITS, is_inside: true, ..*place };
    let key = |len: usize, rest, kind| Found::Key(Key { skip: 0, len: DIGITS + len, rest, kind });
    match behind.starts(b"-us", u8::eq) {
        Start::Cut => return Found::More,
        Start::Yes => {
            return match behind.run(3, Class::Hex, 1) {
                ([digit], _) if digit.is_ascii_digit() => key(4, Class::Hex, "Mailchimp key"),
                (_, true) => Found::More,
                _ => Found::Nothing,
            };
        }
        Start::No => {}
    }
    let (first, first_is_open) = behind.run(1, Class::Hex, 9);
    let (second, second_is_open) = behind.run(10, Class::Hex, 8);
    match behind.starts(b"-", u8::eq) {
        Start::No => Found::Nothing,
        Start::Cut => Found::More,
        Start::Yes if first_is_open => Found::More,
        Start::Yes if first.len() != 8 => Found::Nothing,
        Start::Yes if behind.rest().get(9).is_some_and(|byte| *byte != b'-') => Found::Nothing,
        Start::Yes if second_is_open => Found::More,
        Start::Yes if second.len() == 8 => key(18, Class::Hex, "Mailgun key"),
        Start::Yes => Found::Nothing,
    }
}

/// The token of a bot of Discord: a number in base64, six characters, a signature.
pub(super) fn discord_token(place: &Place<'_>) -> Found {
    if !place.is_edge() {
        return Found::Nothing;
    }
    let (mut skip, mut len) = (0, 0);
    for (min, max) in [(23, 30), (6, 6), (27, WINDOW)] {
        let (run, is_open) = place.run(skip, Class::Word, max + 1);
        if run.len() > max && max != WINDOW {
            return Found::Nothing;
        }
        if run.len() >= min && max == WINDOW {
            return Found::Key(Key { skip: 0, len: len + run.len(), rest: Class::Word, kind: "Discord token" });
        }
        if is_open {
            return Found::More;
        }
        if run.len() < min {
            return Found::Nothing;
        }
        (skip, len) = (skip + run.len() + 1, len + run.len() + 1);
        match place.rest().get(skip - 1) {
            Some(b'.') => {}
            None if !place.is_end => return Found::More,
            _ => return Found::Nothing,
        }
    }
    Found::Nothing
}

/// The password of a URL: `://user:password@`.
pub(super) fn password(place: &Place<'_>) -> Found {
    match place.starts(b"://", u8::eq) {
        Start::No => return Found::Nothing,
        Start::Cut => return Found::More,
        Start::Yes => {}
    }
    let text = &place.rest()[3..];
    let ends = |byte: &u8| byte.is_ascii_whitespace() || byte.is_ascii_control() || b"/?#\"<>\\`".contains(byte);
    let len = text.iter().take(USERINFO_BYTES_MAX).take_while(|byte| !ends(byte)).count();
    if !place.is_end && len == text.len() && len < USERINFO_BYTES_MAX {
        return Found::More;
    }
    let authority = &text[..len];
    let colon = memchr::memchr(b':', authority);
    let (Some(colon), Some(at)) = (colon, memchr::memrchr(b'@', authority)) else { return Found::Nothing };
    match authority.get(colon + 1..at) {
        // A place for a password, as in `://user:$PASSWORD@`, `://{user}:{pass}@` and `://user:password@`.
        None | Some([] | [b'$' | b'{' | b'<' | b'*', ..] | [b'%', b's', ..]) => Found::Nothing,
        Some(word) if word.eq_ignore_ascii_case(b"password") => Found::Nothing,
        Some(password) => Found::Key(Key {
            skip: 3 + colon + 1,
            len: password.len(),
            rest: Class::Nothing,
            kind: "password in a URL",
        }),
    }
}

/// A JSON web token: two parts that begin as JSON objects do, and a signature. `run_end` is where the newest run of the first
/// part's characters ends, so that a run is passed once.
pub(super) fn web_token(place: &Place<'_>, run_end: &mut usize) -> Found {
    match place.starts(b"eyJ", u8::eq) {
        Start::No => return Found::Nothing,
        _ if !place.is_edge() => return Found::Nothing,
        Start::Cut => return Found::More,
        Start::Yes => {}
    }
    if *run_end <= place.at {
        *run_end = place.at + place.rest().iter().take_while(|byte| Class::Word.has(**byte)).count();
    }
    let header = *run_end - place.at;
    if header > JWT_HEADER_BYTES_MAX {
        return Found::Nothing;
    }
    let payload = Place { at: *run_end, is_inside: true, ..*place };
    match payload.starts(b".eyJ", u8::eq) {
        Start::No => return Found::Nothing,
        Start::Cut => return Found::More,
        Start::Yes => {}
    }
    let (run, is_open) = payload.run(4, Class::Word, 10);
    match run.len() {
        10 => Found::Key(Key { skip: 0, len: header + 14, rest: Class::Dotted, kind: "web token" }),
        _ if is_open => Found::More,
        _ => Found::Nothing,
    }
}
