//! Tells whether a key begins at one place of a text: one of the table (`table.rs`), or one whose form no row can say (`forms.rs`).
//!
//! Each function looks at one place only, at no more than [`LOOKBACK`] bytes before it, and at a bounded number of bytes behind it
//! (`web_token` passes a longer run, once for all its places). If the text ends before the answer is known, and more text may
//! come, the answer is [`Found::More`].
//!
//! A change must keep two things. A match elsewhere may make a match here more likely ([`Place::is_inside`], the border of a
//! private key) and never prevents one, so that no key around another hides it. And a longer text never takes a match back: the
//! text comes in pieces, and the result must not depend on where they are cut.

use super::{
    forms::{discord_token, hex_key, netrc, password, web_token},
    table::{Class, Mark, ROWS, Row},
};

/// How many bytes before a place are read.
pub(super) const LOOKBACK: usize = 16;
/// How much of a key is read before it counts as one.
pub(super) const WINDOW: usize = 64;
/// How many separators may come between a name and its value.
const SEPARATORS_MAX: usize = 24;
/// The fewest characters of a line of a private key, but for its last one.
const PEM_LINE_MIN: usize = 32;
/// The fewest characters of the last line of a private key that are taken out.
const PEM_LAST_MIN: usize = 8;

/// The kind of a line of a private key.
pub(super) const PRIVATE_KEY: &str = "private key";

/// The kind of a value that the host named.
pub(super) const NAMED_VALUE: &str = "secret";

/// The kinds that no row of the table has.
#[cfg(any(test, all(unix, feature = "tools")))]
pub(super) const OTHER_KINDS: [&str; 7] =
    [PRIVATE_KEY, NAMED_VALUE, "password in a URL", "web token", "Mailchimp key", "Mailgun key", "Discord token"];

/// The content of one place of a text.
pub(super) enum Found {
    Nothing,
    /// It depends on text that has not come yet.
    More,
    Key(Key),
}

/// A key: its position from the place that was read.
pub(super) struct Key {
    /// How many bytes before the key stay: a name, a user.
    pub(super) skip: usize,
    /// How many bytes are the key.
    pub(super) len: usize,
    /// The characters after these bytes that belong to the key too.
    pub(super) rest: Class,
    pub(super) kind: &'static str,
}

/// One place of a text.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    /// The text from at least [`LOOKBACK`] bytes before the place on, where there are so many.
    pub(super) text: &'a [u8],
    pub(super) at: usize,
    /// Whether no more text comes.
    pub(super) is_end: bool,
    /// Whether the byte before is part of a key.
    pub(super) is_inside: bool,
}

/// How far a text begins with other bytes.
pub(super) enum Start {
    No,
    Cut,
    Yes,
}

impl<'a> Place<'a> {
    pub(super) fn rest(&self) -> &'a [u8] {
        &self.text[self.at..]
    }

    pub(super) fn starts(&self, with: &[u8], same: fn(&u8, &u8) -> bool) -> Start {
        let rest = self.rest();
        match rest.iter().zip(with).all(|(a, b)| same(a, b)) {
            true if rest.len() >= with.len() => Start::Yes,
            true if !self.is_end => Start::Cut,
            _ => Start::No,
        }
    }

    /// The characters of a class at `skip` bytes from here, at most so many, and whether more of them may come.
    pub(super) fn run(&self, skip: usize, class: Class, max: usize) -> (&'a [u8], bool) {
        let text = self.rest().get(skip..).unwrap_or_default();
        let len = text.iter().take(max).take_while(|byte| class.has(**byte)).count();
        (&text[..len], !self.is_end && len == text.len() && len < max)
    }

    /// The place after `skip` bytes from here and at most so many more of a kind, and whether more of them may come.
    pub(super) fn behind(&self, skip: usize, is: impl Fn(u8) -> bool, max: usize) -> (usize, bool) {
        let text = self.rest().get(skip..).unwrap_or_default();
        let len = text.iter().take(max).take_while(|byte| is(**byte)).count();
        (skip + len, !self.is_end && len == text.len() && len < max)
    }

    /// Whether only white space precedes it in its line, or what tools put before a line: a number, a name and a number.
    pub(super) fn begins_a_line(&self) -> bool {
        let before = &self.text[..self.at];
        let spaces = before.iter().rev().take(LOOKBACK - 1).take_while(|byte| **byte == b' ').count();
        let before = &before[..before.len() - spaces];
        matches!(before, [] | [.., b'\n' | b'\t' | b':' | b'-' | 0x1f] | [.., b'\\', b'n' | b't'])
    }

    /// Whether something new begins here: no letter or digit precedes it, except as part of an escape.
    pub(super) fn is_edge(&self) -> bool {
        let before = &self.text[..self.at];
        let Some(last) = before.last().filter(|_| !self.is_inside) else { return true };
        let hex = |digits: usize, start: &[u8]| {
            let Some((head, tail)) = before.split_at_checked(before.len().saturating_sub(digits)) else { return false };
            tail.len() == digits && tail.iter().all(u8::is_ascii_hexdigit) && head.ends_with(start)
        };
        let is_colour = || {
            let head = &before[..before.len() - 1];
            let numbers = head.iter().rev().take(10).take_while(|byte| byte.is_ascii_digit() || **byte == b';').count();
            *last == b'm' && head[..head.len() - numbers].ends_with(b"[")
        };
        !last.is_ascii_alphanumeric()
            || matches!(before, [.., b'\\', b'n' | b'r' | b't' | b'b' | b'f' | b'0'])
            || hex(2, b"%")
            || hex(2, b"\\x")
            || hex(4, b"\\u")
            || is_colour()
    }
}

/// A key of this row.
fn of_row(place: &Place<'_>, row: &Row) -> Found {
    let mark = row.2;
    let same = if mark.any_case() { u8::eq_ignore_ascii_case } else { u8::eq };
    match place.starts(mark.text().as_bytes(), same) {
        Start::No => Found::Nothing,
        _ if matches!(mark, Mark::AtAnEdge(_)) && !place.is_edge() => Found::Nothing,
        Start::Cut => Found::More,
        Start::Yes => match mark {
            Mark::Anywhere(prefix) | Mark::AtAnEdge(prefix) => value(place, row, 0, prefix.len()),
            Mark::After(text) => {
                let (skip, is_open) = place.behind(text.len(), |byte| b"\"'\\".contains(&byte), 8);
                if is_open { Found::More } else { value(place, row, skip, 0) }
            }
            Mark::Named(name) | Mark::Assigned(name) => behind_a_name(place, row, name),
        },
    }
}

/// The key that begins `skip` bytes from here with a prefix of so many bytes.
fn value(place: &Place<'_>, Row(kind, _, mark, class, min, need): &Row, skip: usize, prefix: usize) -> Found {
    let (run, is_open) = place.run(skip + prefix, *class, WINDOW.max(*min));
    // A value after a name ends where values end, however it begins.
    let rest = match (mark, class) {
        (Mark::Assigned(_), Class::Word) => Class::Token,
        _ => *class,
    };
    if run.len() >= *min && need.is_met(run) {
        // What more of a password comes may say that it is a call.
        return match class {
            Class::Password if is_open => Found::More,
            _ => Found::Key(Key { skip, len: prefix + run.len(), rest, kind }),
        };
    }
    if is_open { Found::More } else { Found::Nothing }
}

fn behind_a_name(place: &Place<'_>, row: &Row, name: &str) -> Found {
    let is_separator = |byte: u8| b" \t\"'=:>,(\\\x1f".contains(&byte);
    let (mut skip, is_open) = place.behind(name.len(), is_separator, SEPARATORS_MAX);
    if is_open {
        return Found::More;
    }
    let separators = &place.rest()[name.len()..skip];
    let assigns = separators.iter().any(|byte| b"=:>\x1f".contains(byte));
    if separators.is_empty() || (matches!(row.2, Mark::Assigned(_)) && !assigns) {
        return Found::Nothing;
    }
    if name == "authorization" {
        // The scheme: `Basic`, `Token`.
        let (word, is_open) = place.behind(skip, |byte| byte.is_ascii_alphabetic(), 12);
        let (value, is_open_too) = place.behind(word, |byte| byte == b' ', 4);
        if is_open || is_open_too {
            return Found::More;
        }
        skip = if value > word { value } else { skip };
    }
    value(place, row, skip, 0)
}

/// A border of a private key in PEM.
pub(super) enum Border {
    No,
    More,
    Begin,
    End,
}

pub(super) fn border(place: &Place<'_>) -> Border {
    match (place.starts(b"-----END", u8::eq), place.starts(b"-----BEGIN ", u8::eq)) {
        (Start::Yes, _) => return Border::End,
        (Start::No, Start::No) => return Border::No,
        (_, Start::Yes) => {}
        _ => return Border::More,
    }
    let name = &place.rest()[11..];
    let len =
        name.iter().take(48).take_while(|byte| byte.is_ascii_uppercase() || b"0123456789 ".contains(byte)).count();
    let behind = Place { at: place.at + 11 + len, ..*place };
    let is_private = name[..len].ends_with(b"PRIVATE KEY") || name[..len].ends_with(b"PRIVATE KEY BLOCK");
    match behind.starts(b"-----", u8::eq) {
        Start::Yes if is_private => Border::Begin,
        Start::Cut => Border::More,
        _ => Border::No,
    }
}

/// A line of a private key. `is_first` says that none came before it.
pub(super) fn key_line(place: &Place<'_>, is_first: bool) -> Found {
    let is_escaped = |before: &[u8]| matches!(before, [.., b'\\', b'n' | b'r' | b't']);
    let before = &place.text[..place.at];
    let begins_here = before.last().is_none_or(|byte| !Class::Base64.has(*byte)) || is_escaped(before);
    let is_escape = before.ends_with(b"\\") && matches!(place.rest(), [b'n' | b'r' | b't', ..]);
    if !begins_here || is_escape {
        return Found::Nothing;
    }
    let min = if is_first { PEM_LINE_MIN } else { PEM_LAST_MIN };
    match place.run(0, Class::Base64, min) {
        (run, _) if run.len() == min => Found::Key(Key { skip: 0, len: min, rest: Class::Base64, kind: PRIVATE_KEY }),
        (_, true) => Found::More,
        _ => Found::Nothing,
    }
}

/// The rows of the table, by the first byte of what marks a key.
pub(super) struct ByFirst(Box<[Vec<&'static Row>; 256]>);

impl ByFirst {
    pub(super) fn new() -> ByFirst {
        let mut rows = Box::new([const { Vec::new() }; 256]);
        for row in ROWS {
            let first = row.2.text().as_bytes()[0];
            let both = [first.to_ascii_lowercase(), first.to_ascii_uppercase()];
            let firsts = if row.2.any_case() && both[0] != both[1] { &both[..] } else { &[first][..] };
            firsts.iter().for_each(|first| rows[usize::from(*first)].push(row));
        }
        ByFirst(rows)
    }

    /// Every key with a known shape that begins at a place. `None` if more text is needed.
    pub(super) fn keys_at(&self, place: &Place<'_>, run_end: &mut usize, keys: &mut Vec<Key>) -> Option<()> {
        let mut take = |found: Found| match found {
            Found::Nothing => Some(()),
            Found::More => None,
            Found::Key(key) => {
                keys.push(key);
                Some(())
            }
        };
        let first = place.text[place.at];
        for row in &self.0[usize::from(first)] {
            take(of_row(place, row))?;
        }
        if first.is_ascii_hexdigit() {
            take(hex_key(place))?;
        }
        match first {
            b':' => take(password(place)),
            b'e' => take(web_token(place, run_end)),
            b'l' | b'm' | b'p' => take(netrc(place)),
            b'M' | b'N' | b'O' => take(discord_token(place)),
            _ => Some(()),
        }
    }
}

/// The first two bytes of everything that [`ByFirst::keys_at`] and [`border`] know.
pub(super) fn beginnings() -> impl Iterator<Item = [u8; 2]> {
    let others =
        ["://", "eyJ", "-----", "machine", "login", "password"].map(|text| [text.as_bytes()[0], text.as_bytes()[1]]);
    // The number of a bot begins with two digits.
    let bots = *b"MD MT Mj Mz ND NT Nj Nz OD OT";
    let bots = (0..bots.len()).step_by(3).map(move |at| [bots[at], bots[at + 1]]);
    let digits = || (0..=127_u8).filter(u8::is_ascii_hexdigit);
    let hex = digits().flat_map(move |first| digits().map(move |second| [first, second]));
    let rows = ROWS.iter().flat_map(|row| {
        let text = row.2.text().as_bytes();
        let either = |byte: u8| {
            if row.2.any_case() { [byte.to_ascii_lowercase(), byte.to_ascii_uppercase()] } else { [byte; 2] }
        };
        let [first, second] = [either(text[0]), either(text[1])];
        first.into_iter().flat_map(move |first| second.into_iter().map(move |second| [first, second]))
    });
    others.into_iter().chain(bots).chain(hex).chain(rows)
}
