//! Masks keys in what a provider's server says, such as an error that repeats the key of the request. The messages of model errors
//! are made of such texts, and go to people, logs and tapes.
//!
//! The key of the request is masked wherever it occurs letter for letter, if it has at least eight bytes: a shorter one occurs in
//! ordinary words. Keys of a known shape are masked (`words/secrets/table.rs`), and with less certainty a word that begins like a
//! key and has six more characters, because servers show keys with a part left out, and a long word with a digit after a word
//! such as `api_key`. A key of another form stays. A change may mask more, and must not mask less.

use std::sync::Arc;

use super::Secret;
use crate::words::secrets::{Wanted, begins_like_a_key, blanked, names, redacted};

/// The text that replaces a key that is known with less certainty.
const MASK: &str = "[redacted]";

/// Words that a key follows in what servers say, besides the names of the table.
const KEY_NAMES: [&str; 2] = ["token", "key"];

/// The fewest bytes of a request's key that is searched for.
const OWN_KEY_BYTES_MIN: usize = 8;

/// A text of the same length, with `*` for the given key and for keys of a known shape. It masks less than [`redact`]: a word that is
/// less certainly a key stays.
#[must_use]
pub(crate) fn blank(text: &[u8], key: Option<&Secret>) -> Vec<u8> {
    blanked(&wanted(key), text)
}

/// The keys that are looked for: the own one, and the shapes.
fn wanted(key: Option<&Secret>) -> Arc<Wanted> {
    let own = key.map(Secret::reveal).filter(|key| key.len() >= OWN_KEY_BYTES_MIN);
    Arc::new(Wanted::new(&own.map(Box::from).into_iter().collect::<Vec<_>>()))
}

/// Masks the keys in a text: the given key, words that begin like a key, and values that follow the name of a key.
#[must_use]
pub(crate) fn redact(text: &str, key: Option<&Secret>) -> String {
    let (passed, _) = redacted(&wanted(key), text.as_bytes());
    let text = String::from_utf8_lossy(&passed);
    let mut out = String::with_capacity(text.len());
    let mut rest = &*text;
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
        if begins_like_a_key(word) || (named && is_value(word)) {
            out.push_str(MASK);
            named = false;
        } else {
            out.push_str(word);
            named = KEY_NAMES.into_iter().chain(names()).any(|name| word.eq_ignore_ascii_case(name));
        }
        rest = after;
    }
    out
}

fn is_key_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '*' | '+' | '/')
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
            ("no such key my-own-odd-key here", "no such key [redacted: secret] here"),
            ("Incorrect API key provided: sk-abc***1234.", "Incorrect API key provided: [redacted]"),
            ("x-api-key: 0123456789abcdef", "x-api-key: [redacted: API key]"),
            ("Authorization: Bearer abc.def.012345", "Authorization: Bearer [redacted: authorization]"),
            ("https://h/v1?key=AIzaSyA1234567&alt=sse", "https://h/v1?key=[redacted]&alt=sse"),
            ("{\"api_key\":\"aaaa1111bbbb\"}", "{\"api_key\":\"[redacted]\"}"),
            ("the token limit of 128000 tokens", "the token limit of 128000 tokens"),
            ("request req_011CSHoEeqs5C35K2UUqR7Fy failed", "request req_011CSHoEeqs5C35K2UUqR7Fy failed"),
            ("sk-it is", "sk-it is"),
            ("postgres://app:hunter2@db/x", "postgres://app:[redacted: password in a URL]@db/x"),
        ];
        for (text, expected) in cases {
            assert_eq!(redact(text, Some(&own)), expected, "{text}");
        }
        // A short key occurs in ordinary words, and masking it would garble the text.
        assert_eq!(redact("a model has a name", Some(&Secret::new("a"))), "a model has a name");
        assert_eq!(redact("model llama-7 is not there", Some(&Secret::new("llama-7"))), "model llama-7 is not there");
    }
}
