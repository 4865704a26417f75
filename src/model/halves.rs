//! The halves of a character that a server cuts in two.
//!
//! JSON writes a character beyond the first 65,536 as two escapes (`\ud83d\ude00`), the halves of a surrogate pair. A server that
//! streams token by token may send the two halves in two events, or end in the middle of one. No Rust text can hold a half, so
//! the JSON parser refuses such an event. Here each lone half becomes a stand-in character ([`marked`]), and [`Halves`] joins two
//! of them that follow each other. A half that stays alone becomes U+FFFD.
//!
//! The stand-ins are the last 2,048 characters of the last private plane. A change must keep that they are searched only in an
//! answer in which [`marked`] has put some: a text may itself contain such a character.

use std::borrow::Cow;

/// The stand-in for the half `\ud800`; the other halves follow in their order.
const FIRST: u32 = 0x10_f800;

/// The first half of the second kind: those before it begin a pair, and those from here on end one.
const FIRST_TRAIL: u32 = 0xdc00;

/// JSON in which the escape of each lone half is replaced by its stand-in. Escapes of whole pairs stay.
#[cfg(feature = "_wire")]
pub(super) fn marked(json: &str) -> String {
    let (mut out, mut rest) = (String::with_capacity(json.len()), json);
    while let Some(at) = rest.find('\\') {
        let escape = &rest[at..];
        out.push_str(&rest[..at]);
        let taken = match (escaped(escape), escape.get(6..).and_then(escaped)) {
            (Some(lead), Some(trail)) if lead < FIRST_TRAIL && trail >= FIRST_TRAIL => {
                out.push_str(&escape[..12]);
                12
            }
            (Some(half), _) => {
                out.extend(char::from_u32(FIRST + half - 0xd800));
                6
            }
            // Any other escape, with the character after the backslash: that may be a backslash too.
            (None, _) => {
                let taken = 1 + escape[1..].chars().next().map_or(0, char::len_utf8);
                out.push_str(&escape[..taken]);
                taken
            }
        };
        rest = &escape[taken..];
    }
    out + rest
}

/// The half that a text begins with as an escape: `\ud800` to `\udfff`.
#[cfg(feature = "_wire")]
fn escaped(text: &str) -> Option<u32> {
    let digits = text.strip_prefix("\\u")?.get(..4)?;
    let code = digits.bytes().all(|b| b.is_ascii_hexdigit()).then(|| u32::from_str_radix(digits, 16).ok())??;
    (0xd800..=0xdfff).contains(&code).then_some(code)
}

/// Joins the halves in the pieces of one text.
#[derive(Debug, Default)]
pub(super) struct Halves {
    /// A first half that waits for its second one.
    waiting: Option<u32>,
}

impl Halves {
    /// The piece as text. A first half at its end waits for the next piece.
    pub(super) fn join<'p>(&mut self, piece: &'p str) -> Cow<'p, str> {
        // Every stand-in begins with this byte.
        if self.waiting.is_none() && !piece.as_bytes().contains(&0xf4) {
            return piece.into();
        }
        let mut out = String::with_capacity(piece.len());
        for c in piece.chars() {
            let half = u32::from(c).checked_sub(FIRST).map(|half| half + 0xd800);
            let (before, trail) = (self.waiting.take(), half.filter(|half| *half >= FIRST_TRAIL));
            if let (Some(lead), Some(trail)) = (before, trail) {
                out.extend(char::from_u32(0x1_0000 + ((lead - 0xd800) << 10) + (trail - FIRST_TRAIL)));
                continue;
            }
            out.extend(before.map(|_| char::REPLACEMENT_CHARACTER));
            match half {
                None => out.push(c),
                Some(_) if trail.is_some() => out.push(char::REPLACEMENT_CHARACTER),
                lead => self.waiting = lead,
            }
        }
        out.into()
    }

    /// Gives up a waiting half: returns its replacement.
    pub(super) fn end(&mut self) -> Option<char> {
        self.waiting.take().map(|_| char::REPLACEMENT_CHARACTER)
    }
}

#[cfg(all(test, feature = "_wire"))]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn joined(pieces: &[&str]) -> String {
        let mut halves = Halves::default();
        let mut text = String::new();
        for piece in pieces {
            let parsed: String = serde_json::from_str(&marked(&format!("\"{piece}\""))).unwrap();
            text.push_str(&halves.join(&parsed));
        }
        text.extend(halves.end());
        text
    }

    #[test]
    fn two_halves_are_a_character_and_one_alone_is_the_mark_of_a_lost_one() {
        for (pieces, expected) in [
            (&["a \\ud83d", "\\ude00 b"][..], "a 😀 b"),
            (&["a \\uD83D\\uDE00"], "a 😀"),
            (&["a \\ud83d"], "a \u{fffd}"),
            (&["\\ude00 a"], "\u{fffd} a"),
            (&["\\ud83d", "x"], "\u{fffd}x"),
            (&["\\ud83d\\ud83d\\ude00"], "\u{fffd}😀"),
            (&["\\ude00\\ud83d", "\\ude00"], "\u{fffd}😀"),
            (&["\\\\ud83d \\n\\u00e9"], "\\ud83d \né"),
        ] {
            assert_eq!(joined(pieces), expected, "{pieces:?}");
        }
    }

    #[test]
    fn what_is_no_half_stays_to_the_letter() {
        for json in ["", "\\", "\\u", "\\ud8", "\\ud83", "\\ud8é0", "é\\\\", "\\u+123", "\\u0041"] {
            assert_eq!(marked(json), json);
        }
    }
}
