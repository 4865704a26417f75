//! Takes keys out of a text that comes in pieces.
//!
//! Every place of the text is asked for the keys that begin there, whether or not it lies within another key; what any of them
//! covers is replaced. A place whose answer needs text that has not come yet waits, and all after it: a few bytes as a rule, at
//! most a few KiB or the longest value that the host named. The result is the same however the text is cut.
//!
//! The time is linear in the length of the text: each place is read a bounded number of bytes ahead, and a run of characters that
//! may be a web token is passed once. A change must keep both: the time, because outputs are large, and the result that does not
//! depend on the cuts, because a program's output may be cut within a key.

use std::sync::Arc;

use super::{
    mark,
    shapes::{Border, ByFirst, Found, Key, LOOKBACK, NAMED_VALUE, PRIVATE_KEY, Place, beginnings, border, key_line},
    table::Class,
};

/// How far after the border of a private key its first line may begin: headers come between.
const PEM_HEADERS_BYTES_MAX: usize = 512;
/// How far apart two lines of a private key may be: a name of a file and a number come between.
const PEM_GAP_BYTES_MAX: usize = 256;

/// The fewest bytes of a named value that is taken out within a longer word too. A shorter one may be a part of ordinary words.
const VALUE_BYTES_WITHIN_WORDS: usize = 8;

/// How many of the pieces that were taken out are remembered, and how many bytes of each.
const TAKEN_MAX: usize = 256;
const TAKEN_BYTES_MAX: usize = 4_096;

/// What is looked for, besides the shapes that are always known.
pub(crate) struct Wanted {
    values: Vec<Box<[u8]>>,
    rows: ByFirst,
    /// One bit for each two bytes that something begins with.
    pairs: Box<[u64; 1024]>,
    /// Whether something begins with the byte.
    firsts: [bool; 256],
}

impl Wanted {
    /// The shapes, and these values.
    pub(crate) fn new(values: &[Box<str>]) -> Wanted {
        let values: Vec<Box<[u8]>> = values.iter().map(|value| value.as_bytes().into()).collect();
        let mut wanted =
            Wanted { values: Vec::new(), rows: ByFirst::new(), pairs: Box::new([0; 1024]), firsts: [false; 256] };
        for [first, second] in values.iter().map(|value| [value[0], value[1]]).chain(beginnings()) {
            let pair = usize::from(first) << 8 | usize::from(second);
            wanted.pairs[pair / 64] |= 1 << (pair % 64);
            wanted.firsts[usize::from(first)] = true;
        }
        wanted.values = values;
        wanted
    }

    /// Whether something may begin with these bytes.
    fn may_begin(&self, text: &[u8]) -> bool {
        match text {
            [first, second, ..] => {
                let pair = usize::from(*first) << 8 | usize::from(*second);
                self.pairs[pair / 64] >> (pair % 64) & 1 == 1
            }
            [first] => self.firsts[usize::from(*first)],
            [] => false,
        }
    }

    /// The named values that begin at a place. `None` if more text is needed.
    fn values_at(&self, place: &Place<'_>, keys: &mut Vec<Key>) -> Option<()> {
        let text = &place.text[place.at..];
        for value in &self.values {
            let is_short = value.len() < VALUE_BYTES_WITHIN_WORDS;
            if is_short && !place.is_edge() {
                continue;
            }
            if text.starts_with(value) {
                match text.get(value.len()) {
                    None if is_short && !place.is_end => return None,
                    Some(next) if is_short && next.is_ascii_alphanumeric() => continue,
                    _ => {}
                }
                keys.push(Key { skip: 0, len: value.len(), rest: Class::Nothing, kind: NAMED_VALUE });
            } else if !place.is_end && value.starts_with(text) {
                return None;
            }
        }
        Some(())
    }
}

/// A key in the text, by places in the whole of it.
struct Span {
    from: usize,
    to: usize,
    rest: Class,
    kind: &'static str,
}

/// The state between two pieces of a text.
pub(crate) struct Scanner {
    wanted: Arc<Wanted>,
    /// Up to [`LOOKBACK`] bytes that are decided, and all that are not.
    text: Vec<u8>,
    /// How many bytes of `text` are decided.
    decided: usize,
    /// Where `text` begins in the whole.
    base: usize,
    /// The keys that the next byte may belong to, or a byte behind it.
    spans: Vec<Span>,
    /// Whether the byte before is part of a key.
    is_inside: bool,
    /// Up to where in the whole a line of a private key may begin.
    pem_until: usize,
    /// Whether the private key had no line yet.
    pem_is_new: bool,
    /// What was taken out: the first pieces and the newest one.
    taken: Vec<Vec<u8>>,
    /// Whether each byte of a key becomes a `*`, in the place of one mark.
    blanks: bool,
}

impl Scanner {
    pub(crate) fn new(wanted: Arc<Wanted>) -> Scanner {
        Scanner {
            wanted,
            text: Vec::new(),
            decided: 0,
            base: 0,
            spans: Vec::new(),
            is_inside: false,
            pem_until: 0,
            pem_is_new: true,
            taken: Vec::new(),
            blanks: false,
        }
    }

    /// Keeps the length of a text: each byte of a key becomes a `*`.
    #[cfg(any(test, feature = "_wire"))]
    pub(crate) fn with_blanks(mut self) -> Scanner {
        self.blanks = true;
        self
    }

    /// Takes a piece, and returns the part of the text that is decided now.
    pub(crate) fn push(&mut self, piece: &[u8], out: &mut Vec<u8>) {
        self.text.extend_from_slice(piece);
        self.advance(false, out);
    }

    /// Returns the rest of the text.
    pub(crate) fn finish(&mut self, out: &mut Vec<u8>) {
        self.advance(true, out);
    }

    /// What was taken out of the text so far.
    pub(crate) fn taken(&self) -> impl Iterator<Item = &str> {
        self.taken.iter().filter_map(|piece| std::str::from_utf8(piece).ok())
    }

    fn advance(&mut self, is_end: bool, out: &mut Vec<u8>) {
        let text = std::mem::take(&mut self.text);
        let (mut at, mut run_end, mut keys) = (self.decided, 0, Vec::new());
        while at < text.len() {
            let calm = if self.is_calm(at) { self.calm_bytes(&text[at..]) } else { 0 };
            if calm > 0 {
                out.extend_from_slice(&text[at..at + calm]);
                (at, self.is_inside) = (at + calm, false);
                continue;
            }
            let place = Place { text: &text, at, is_end, is_inside: self.is_inside };
            if self.look(&place, &mut run_end, &mut keys).is_none() {
                break;
            }
            self.put(text[at], at, out);
            at += 1;
        }
        let kept_from = at.saturating_sub(LOOKBACK);
        self.base += kept_from;
        self.decided = at - kept_from;
        self.text = text;
        self.text.drain(..kept_from);
    }

    /// Whether no key covers a place, and none of its bytes may belong to a private key.
    fn is_calm(&self, at: usize) -> bool {
        self.spans.is_empty() && self.pem_until <= self.base + at
    }

    /// How many bytes pass before the next at which something may begin.
    fn calm_bytes(&self, text: &[u8]) -> usize {
        (0..text.len()).find(|from| self.wanted.may_begin(&text[*from..])).unwrap_or(text.len())
    }

    /// Finds the keys that begin at a place. `None` if more text is needed; nothing is changed then.
    fn look(&mut self, place: &Place<'_>, run_end: &mut usize, keys: &mut Vec<Key>) -> Option<()> {
        let here = self.base + place.at;
        keys.clear();
        let mut pem = None;
        if self.wanted.may_begin(&place.text[place.at..]) {
            // The shapes first: they say what kind a named value is.
            self.wanted.rows.keys_at(place, run_end, keys)?;
            self.wanted.values_at(place, keys)?;
            match border(place) {
                Border::No => {}
                Border::More => return None,
                Border::Begin => pem = Some((here + PEM_HEADERS_BYTES_MAX, true)),
                Border::End => pem = Some((here, true)),
            }
        }
        if here < self.pem_until && pem.is_none() {
            match key_line(place, self.pem_is_new) {
                Found::Nothing => {}
                Found::More => return None,
                Found::Key(key) => keys.push(key),
            }
        }
        if let Some((until, is_new)) = pem {
            (self.pem_until, self.pem_is_new) = (until, is_new);
        }
        self.spans.extend(keys.drain(..).map(|Key { skip, len, rest, kind }| Span {
            from: here + skip,
            to: here + skip + len,
            rest,
            kind,
        }));
        Some(())
    }

    /// Writes one byte, or the mark of the key that it begins, or nothing within a key.
    fn put(&mut self, byte: u8, at: usize, out: &mut Vec<u8>) {
        let here = self.base + at;
        self.spans.retain(|span| here < span.to || span.rest.has(byte));
        let Some(span) = self.spans.iter().find(|span| span.from <= here) else {
            self.is_inside = false;
            return out.push(byte);
        };
        if span.kind == PRIVATE_KEY && here < self.pem_until {
            // Each byte of a line moves on the place where the next line must begin.
            (self.pem_until, self.pem_is_new) = (here + PEM_GAP_BYTES_MAX, false);
        }
        if self.blanks {
            out.push(b'*');
        } else if !self.is_inside {
            out.extend_from_slice(mark(span.kind).as_bytes());
            if self.taken.len() == TAKEN_MAX {
                self.taken.pop();
            }
            self.taken.push(Vec::new());
        }
        if let Some(taken) = self.taken.last_mut().filter(|taken| taken.len() < TAKEN_BYTES_MAX) {
            taken.push(byte);
        }
        self.is_inside = true;
    }
}
