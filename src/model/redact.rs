//! Masks keys in what a provider's server says, such as an error that repeats the key of the request. The messages of model errors
//! are made of such texts, and go to people, logs and tapes.
//!
//! The key of the request is masked wherever it stands letter for letter, unless it is too short to be one. Any other key is found only by its look: a word that
//! begins like the keys of known providers and goes on for six characters, or a long word with a digit behind a word such as
//! `api_key`. A key of another look stays. A change may mask more, and must not mask less.

use super::Secret;

/// The text that replaces a key.
const MASK: &str = "[redacted]";

/// How the keys of the known providers and forges begin.
const KEY_PREFIXES: &[&str] = &[
    "sk-",
    "sk_",
    "pk-",
    "gsk_",
    "xai-",
    "AIza",
    "hf_",
    "ghp_",
    "gho_",
    "ghs_",
    "github_pat_",
    "glpat-",
    "xox",
    "AKIA",
    "ASIA",
    "eyJ",
];

/// Words that a key follows: in a repeated header, in a URL, in JSON.
const KEY_NAMES: &[&str] =
    &["bearer", "api-key", "api_key", "apikey", "x-api-key", "access_token", "token", "key", "authorization"];

/// The fewest characters of a key after its prefix. Fewer make a word, not a key.
const KEY_REST_MIN: usize = 6;

/// The fewest bytes of a key that is searched for. Servers of one's own want a key but do not care which, and people give them a
/// letter or a word: masked wherever it stands, that would make an error unreadable, and it opens nothing.
const KEY_BYTES_MIN: usize = 8;

/// Masks the keys in a text: the given key, words that begin like a key, and values that follow the name of a key.
#[must_use]
pub(crate) fn redact(text: &str, key: Option<&Secret>) -> String {
    let text = match key.filter(|key| key.reveal().len() >= KEY_BYTES_MIN) {
        Some(key) => text.replace(key.reveal(), MASK),
        None => text.to_owned(),
    };
    let mut out = String::with_capacity(text.len());
    let mut rest = text.as_str();
    // Whether the word before the current one names a key, as in `Authorization: Bearer` or `?key=`.
    let mut named = false;
    while !rest.is_empty() {
        let word_len = rest.find(|c: char| !is_key_char(c)).unwrap_or(rest.len());
        if word_len == 0 {
            let c_len = rest.chars().next().map_or(1, char::len_utf8);
            out.push_str(&rest[..c_len]);
            // The effect of such a word reaches over `: "` and `=`, but not over the end of a sentence or of a field.
            named &= matches!(rest.as_bytes()[0], b' ' | b':' | b'=' | b'"' | b'\'');
            rest = &rest[c_len..];
            continue;
        }
        let (word, after) = rest.split_at(word_len);
        if is_shaped_like_a_key(word) || (named && is_value(word)) {
            out.push_str(MASK);
            named = false;
        } else {
            out.push_str(word);
            named = KEY_NAMES.iter().any(|name| word.eq_ignore_ascii_case(name));
        }
        rest = after;
    }
    out
}

fn is_key_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '*' | '+' | '/')
}

fn is_shaped_like_a_key(word: &str) -> bool {
    KEY_PREFIXES.iter().any(|prefix| word.strip_prefix(prefix).is_some_and(|rest| rest.len() >= KEY_REST_MIN))
}

/// A long run with a digit in it, as opposed to the words of a sentence such as "api key provided".
fn is_value(word: &str) -> bool {
    word.len() >= 8 && word.bytes().any(|b| b.is_ascii_digit() || b == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    /// K01, K02
    #[test]
    fn keys_are_taken_out_and_words_stay() {
        let own = Secret::new(" my-own-odd-key\n");
        let cases = [
            ("no such key my-own-odd-key here", "no such key [redacted] here"),
            ("Incorrect API key provided: sk-abc***1234.", "Incorrect API key provided: [redacted]"),
            ("x-api-key: 0123456789abcdef", "x-api-key: [redacted]"),
            ("Authorization: Bearer abc.def.012345", "Authorization: Bearer [redacted]"),
            ("https://h/v1?key=AIzaSyA1234567&alt=sse", "https://h/v1?key=[redacted]&alt=sse"),
            ("{\"api_key\":\"aaaa1111bbbb\"}", "{\"api_key\":\"[redacted]\"}"),
            ("the token limit of 128000 tokens", "the token limit of 128000 tokens"),
            ("request req_011CSHoEeqs5C35K2UUqR7Fy failed", "request req_011CSHoEeqs5C35K2UUqR7Fy failed"),
            ("sk-it is", "sk-it is"),
        ];
        for (text, expected) in cases {
            assert_eq!(redact(text, Some(&own)), expected, "{text}");
        }
    }

    /// A server of one's own is often given a key of one letter, which stands in many words.
    #[test]
    fn a_key_that_is_too_short_to_be_one_is_not_searched_for() {
        for (key, expected) in [("k", "thinking is kept"), ("thinking", "[redacted] is kept")] {
            assert_eq!(redact("thinking is kept", Some(&Secret::new(key))), expected);
        }
    }
}
