//! The shapes of keys: the tables, and the functions that tell whether a key begins at one place of a text.
//!
//! Each function looks at one place only, at no more than [`LOOKBACK`] bytes before it, and at a bounded number of bytes behind it
//! (`web_token` passes a longer run, once for all its places). Where the text ends before the answer is known, and more text may
//! come, the answer is [`Found::More`].
//!
//! A change must keep two things. A match elsewhere may make a match here more likely ([`Place::is_inside`], the border of a
//! private key) and never prevents one, so that no key around another hides it. And a longer text never takes a match back: the
//! text comes in pieces, and the result must not depend on where they are cut.

use Begins::{Anywhere, AtAnEdge};

/// How many bytes before a place are looked at.
pub(super) const LOOKBACK: usize = 16;
/// How much of a key is looked at before it counts as one.
const WINDOW: usize = 64;
/// The most bytes of user and password in a URL.
const USERINFO_BYTES_MAX: usize = 512;
/// The most bytes of the first part of a JSON web token.
const JWT_HEADER_BYTES_MAX: usize = 2048;
/// The fewest characters of a line of a private key, but for its last one.
const PEM_LINE_MIN: usize = 32;
/// The fewest characters of the last line of a private key that are taken out.
const PEM_LAST_MIN: usize = 8;

/// The kind of a line of a private key.
pub(super) const PRIVATE_KEY: &str = "private key";

/// The characters that a key, or a part of one, is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    /// No character: the key has ended.
    Nothing,
    /// `A-Z 0-9`
    Upper,
    /// `A-Z a-z 0-9`
    Alnum,
    /// `A-Z a-z 0-9 _ -`
    Word,
    /// `A-Z a-z 0-9 _ - .`
    Dotted,
    /// `A-Z a-z 0-9 + / =`
    Base64,
    /// `A-Z a-z 0-9 _ - . ~ + / =`
    Token,
}

impl Class {
    pub(super) fn has(self, byte: u8) -> bool {
        match self {
            Class::Nothing => false,
            Class::Upper => byte.is_ascii_uppercase() || byte.is_ascii_digit(),
            Class::Alnum => byte.is_ascii_alphanumeric(),
            Class::Word => byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'),
            Class::Dotted => byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.'),
            Class::Base64 => byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'='),
            Class::Token => {
                byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b'~' | b'+' | b'/' | b'=')
            }
        }
    }
}

/// What a key has that a word has not.
#[derive(Clone, Copy, Debug)]
enum Need {
    /// The prefix says enough.
    Nothing,
    /// A digit.
    Digit,
    /// A digit, a capital and a small letter.
    Mixed,
}

impl Need {
    fn is_met(self, bytes: &[u8]) -> bool {
        let any = |is: fn(&u8) -> bool| bytes.iter().any(is);
        match self {
            Need::Nothing => true,
            Need::Digit => any(u8::is_ascii_digit),
            Need::Mixed => any(u8::is_ascii_digit) && any(u8::is_ascii_uppercase) && any(u8::is_ascii_lowercase),
        }
    }
}

/// Where a key may begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Begins {
    Anywhere,
    /// Not behind a letter or a digit: the prefix is short, and would be found by chance in base64 and in words.
    AtAnEdge,
}

/// A key that is known by its prefix: prefix, characters behind it, the fewest of them, what they need, place, kind.
struct Shape(&'static str, Class, usize, Need, Begins, &'static str);

/// A key that is known by the name before it: name, characters, the fewest of them, what they need, kind.
struct Named(&'static str, Class, usize, Need, &'static str);

/// The keys that are known by their prefix.
const SHAPES: &[Shape] = &[
    Shape("sk-ant-", Class::Word, 20, Need::Mixed, Anywhere, "Anthropic key"),
    Shape("sk-proj-", Class::Word, 20, Need::Mixed, Anywhere, "OpenAI key"),
    Shape("sk-svcacct-", Class::Word, 20, Need::Mixed, Anywhere, "OpenAI key"),
    Shape("sk-admin-", Class::Word, 20, Need::Mixed, Anywhere, "OpenAI key"),
    Shape("sk-or-v1-", Class::Alnum, 32, Need::Digit, Anywhere, "OpenRouter key"),
    Shape("sk-", Class::Alnum, 20, Need::Digit, AtAnEdge, "OpenAI key"),
    Shape("ghp_", Class::Alnum, 30, Need::Nothing, Anywhere, "GitHub token"),
    Shape("gho_", Class::Alnum, 30, Need::Nothing, Anywhere, "GitHub token"),
    Shape("ghu_", Class::Alnum, 30, Need::Nothing, Anywhere, "GitHub token"),
    Shape("ghs_", Class::Alnum, 30, Need::Nothing, Anywhere, "GitHub token"),
    Shape("ghr_", Class::Alnum, 30, Need::Nothing, Anywhere, "GitHub token"),
    Shape("github_pat_", Class::Word, 30, Need::Digit, Anywhere, "GitHub token"),
    Shape("glpat-", Class::Dotted, 20, Need::Nothing, Anywhere, "GitLab token"),
    Shape("glptt-", Class::Dotted, 20, Need::Nothing, Anywhere, "GitLab token"),
    Shape("gldt-", Class::Dotted, 20, Need::Nothing, Anywhere, "GitLab token"),
    Shape("glrt-", Class::Dotted, 20, Need::Nothing, Anywhere, "GitLab token"),
    Shape("AKIA", Class::Upper, 16, Need::Nothing, AtAnEdge, "AWS key id"),
    Shape("ASIA", Class::Upper, 16, Need::Nothing, AtAnEdge, "AWS key id"),
    Shape("AIza", Class::Word, 35, Need::Nothing, AtAnEdge, "Google key"),
    Shape("GOCSPX-", Class::Word, 20, Need::Nothing, Anywhere, "Google client secret"),
    Shape("ya29.", Class::Dotted, 20, Need::Nothing, AtAnEdge, "Google token"),
    Shape("xoxb-", Class::Word, 10, Need::Digit, Anywhere, "Slack token"),
    Shape("xoxp-", Class::Word, 10, Need::Digit, Anywhere, "Slack token"),
    Shape("xoxa-", Class::Word, 10, Need::Digit, Anywhere, "Slack token"),
    Shape("xoxr-", Class::Word, 10, Need::Digit, Anywhere, "Slack token"),
    Shape("xoxs-", Class::Word, 10, Need::Digit, Anywhere, "Slack token"),
    Shape("xoxe-", Class::Word, 10, Need::Digit, Anywhere, "Slack token"),
    Shape("xoxe.", Class::Dotted, 10, Need::Digit, Anywhere, "Slack token"),
    Shape("xoxd-", Class::Token, 10, Need::Digit, Anywhere, "Slack token"),
    Shape("xapp-", Class::Word, 10, Need::Digit, Anywhere, "Slack token"),
    Shape("sk_live_", Class::Alnum, 16, Need::Nothing, Anywhere, "Stripe key"),
    Shape("rk_live_", Class::Alnum, 16, Need::Nothing, Anywhere, "Stripe key"),
    Shape("sk_test_", Class::Alnum, 16, Need::Digit, Anywhere, "Stripe key"),
    Shape("rk_test_", Class::Alnum, 16, Need::Digit, Anywhere, "Stripe key"),
    Shape("whsec_", Class::Base64, 24, Need::Digit, Anywhere, "Stripe secret"),
    Shape("npm_", Class::Alnum, 30, Need::Nothing, Anywhere, "npm token"),
    Shape("pypi-", Class::Word, 40, Need::Mixed, Anywhere, "PyPI token"),
    Shape("hf_", Class::Alnum, 30, Need::Nothing, AtAnEdge, "Hugging Face token"),
    Shape("gsk_", Class::Alnum, 40, Need::Nothing, AtAnEdge, "Groq key"),
    Shape("xai-", Class::Alnum, 40, Need::Nothing, AtAnEdge, "xAI key"),
];

/// The keys that are known by the name before them. Capitals and small letters of a name are the same.
const NAMED: &[Named] = &[
    Named("bearer", Class::Token, 16, Need::Digit, "bearer token"),
    Named("authorization", Class::Token, 8, Need::Digit, "authorization"),
    Named("x-api-key", Class::Token, 16, Need::Digit, "API key"),
    Named("private-token", Class::Token, 16, Need::Digit, "GitLab token"),
    Named("secret_access_key", Class::Base64, 40, Need::Nothing, "AWS secret key"),
    Named("secret-access-key", Class::Base64, 40, Need::Nothing, "AWS secret key"),
    Named("secret access key", Class::Base64, 40, Need::Nothing, "AWS secret key"),
    Named("secretaccesskey", Class::Base64, 40, Need::Nothing, "AWS secret key"),
    Named("session_token", Class::Base64, 40, Need::Nothing, "AWS session token"),
    Named("sessiontoken", Class::Base64, 40, Need::Nothing, "AWS session token"),
];

/// What stands at one place of a text.
pub(super) enum Found {
    Nothing,
    /// It depends on text that has not come yet.
    More,
    Key(Key),
}

/// A key: where it is from the place on that was looked at.
pub(super) struct Key {
    /// How many bytes before the key stay: a name, a user.
    pub(super) skip: usize,
    /// How many bytes are the key.
    pub(super) len: usize,
    /// The characters behind these bytes that belong to the key too.
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
enum Start {
    No,
    Cut,
    Yes,
}

impl<'a> Place<'a> {
    fn rest(&self) -> &'a [u8] {
        &self.text[self.at..]
    }

    fn starts(&self, with: &[u8], same: fn(&u8, &u8) -> bool) -> Start {
        let rest = self.rest();
        match rest.iter().zip(with).all(|(a, b)| same(a, b)) {
            true if rest.len() >= with.len() => Start::Yes,
            true if !self.is_end => Start::Cut,
            _ => Start::No,
        }
    }

    /// The characters of a class at `skip` bytes from here, at most so many, and whether more of them may come.
    fn run(&self, skip: usize, class: Class, max: usize) -> (&'a [u8], bool) {
        let text = self.rest().get(skip..).unwrap_or_default();
        let len = text.iter().take(max).take_while(|byte| class.has(**byte)).count();
        (&text[..len], !self.is_end && len == text.len() && len < max)
    }

    /// Whether something new begins here: no letter or digit stands before, or one that belongs to an escape.
    fn is_edge(&self) -> bool {
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

/// A key with this prefix.
fn shaped(place: &Place<'_>, Shape(prefix, class, min, need, begins, kind): &Shape) -> Found {
    match place.starts(prefix.as_bytes(), u8::eq) {
        Start::No => return Found::Nothing,
        _ if *begins == AtAnEdge && !place.is_edge() => return Found::Nothing,
        Start::Cut => return Found::More,
        Start::Yes => {}
    }
    let (run, is_open) = place.run(prefix.len(), *class, WINDOW);
    if run.len() >= *min && need.is_met(run) {
        return Found::Key(Key { skip: 0, len: prefix.len() + run.len(), rest: *class, kind });
    }
    if is_open { Found::More } else { Found::Nothing }
}

/// A key behind this name.
fn named(place: &Place<'_>, Named(name, class, min, need, kind): &Named) -> Found {
    match place.starts(name.as_bytes(), u8::eq_ignore_ascii_case) {
        Start::No => return Found::Nothing,
        Start::Cut => return Found::More,
        Start::Yes => {}
    }
    let behind = |skip: usize, is: fn(u8) -> bool, max: usize| {
        let text = place.rest().get(skip..).unwrap_or_default();
        let len = text.iter().take(max).take_while(|byte| is(**byte)).count();
        (skip + len, !place.is_end && len == text.len())
    };
    let (mut skip, is_open) = behind(name.len(), |byte| b" \t\"'=:>,(\\".contains(&byte), 12);
    if is_open {
        return Found::More;
    }
    if skip == name.len() {
        return Found::Nothing;
    }
    if *name == "authorization" {
        // The scheme: `Basic`, `Token`.
        let (word, is_open) = behind(skip, |byte| byte.is_ascii_alphabetic(), 12);
        let (value, is_open_too) = behind(word, |byte| byte == b' ', 4);
        if is_open || is_open_too {
            return Found::More;
        }
        skip = if value > word { value } else { skip };
    }
    let (run, is_open) = place.run(skip, *class, WINDOW);
    if run.len() >= *min && need.is_met(run) {
        return Found::Key(Key { skip, len: run.len(), rest: *class, kind });
    }
    if is_open { Found::More } else { Found::Nothing }
}

/// The password of a URL: `://user:password@`.
fn password(place: &Place<'_>) -> Found {
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
fn web_token(place: &Place<'_>, run_end: &mut usize) -> Found {
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

/// Every key with a known shape that begins at a place. `None` where more text is needed.
pub(super) fn keys_at(place: &Place<'_>, run_end: &mut usize, keys: &mut Vec<Key>) -> Option<()> {
    let mut take = |found: Found| match found {
        Found::Nothing => Some(()),
        Found::More => None,
        Found::Key(key) => {
            keys.push(key);
            Some(())
        }
    };
    let first = place.text[place.at];
    for shape in SHAPES.iter().filter(|shape| shape.0.as_bytes()[0] == first) {
        take(shaped(place, shape))?;
    }
    for name in NAMED.iter().filter(|name| name.0.as_bytes()[0] == first.to_ascii_lowercase()) {
        take(named(place, name))?;
    }
    match first {
        b':' => take(password(place)),
        b'e' => take(web_token(place, run_end)),
        _ => Some(()),
    }
}

/// The first two bytes of everything that [`keys_at`] and [`border`] know.
pub(super) fn beginnings() -> impl Iterator<Item = [u8; 2]> {
    let others = ["://", "eyJ", "-----"];
    let exact = SHAPES.iter().map(|shape| shape.0).chain(others).map(|text| [text.as_bytes()[0], text.as_bytes()[1]]);
    let either = |byte: u8| [byte.to_ascii_lowercase(), byte.to_ascii_uppercase()];
    let any_case = NAMED.iter().flat_map(move |name| {
        let [first, second] = [either(name.0.as_bytes()[0]), either(name.0.as_bytes()[1])];
        first.into_iter().flat_map(move |first| second.into_iter().map(move |second| [first, second]))
    });
    exact.chain(any_case)
}
