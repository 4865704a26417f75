//! Tokens: how a text is cut into the units that can be searched for. A pure function of texts.
//!
//! A run of letters and digits is one token. In scripts that are written without spaces between words (Chinese, Japanese,
//! Thai, …) each character is one, and so is each emoji. Tokens are folded: no case, no accents, one form for each letter.
//!
//! A change must keep: texts and queries go through the same function, so that words typed as they are in a text are found; a
//! token never has a space or a quote in it, because `query.rs` puts tokens between quotes. Another way of cutting needs a new
//! `schema::VERSION`, or old rows and new queries do not meet.

use std::ops::Range;

use unicode_normalization::UnicodeNormalization as _;

/// How many characters of a token count. Longer ones (encoded data) are distinguished by their beginning alone.
const TOKEN_CHARS_MAX: usize = 64;

/// One token of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Token {
    /// Its position in the text, in bytes.
    pub(super) range: Range<usize>,
    /// ASCII letters and digits, and anything that is not ASCII: never a space or a quote.
    pub(super) folded: String,
    /// Whether it is one character of a script without spaces, or an emoji.
    pub(super) is_character: bool,
}

/// The tokens of a text, in order.
pub(super) fn tokens(text: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut word_from = None;
    let end_word = |from: &mut Option<usize>, to: usize, tokens: &mut Vec<Token>| {
        if let Some(from) = from.take() {
            push(text, from..to, false, tokens);
        }
    };
    for (at, c) in text.char_indices() {
        if stands_alone(c) {
            end_word(&mut word_from, at, &mut tokens);
            push(text, at..at + c.len_utf8(), true, &mut tokens);
        } else if c.is_alphanumeric() || (is_accent(c) && word_from.is_some()) {
            word_from.get_or_insert(at);
        } else {
            end_word(&mut word_from, at, &mut tokens);
        }
    }
    end_word(&mut word_from, text.len(), &mut tokens);
    tokens
}

fn push(text: &str, range: Range<usize>, is_character: bool, tokens: &mut Vec<Token>) {
    let folded = fold(&text[range.clone()]);
    if !folded.is_empty() {
        tokens.push(Token { range, folded, is_character });
    }
}

fn fold(word: &str) -> String {
    if word.is_ascii() {
        return word.chars().take(TOKEN_CHARS_MAX).map(|c| c.to_ascii_lowercase()).collect();
    }
    let lower = word.nfkd().flat_map(char::to_lowercase);
    let kept = lower.filter(|c| !is_accent(*c) && (c.is_ascii_alphanumeric() || (!c.is_ascii() && !c.is_whitespace())));
    kept.take(TOKEN_CHARS_MAX).collect()
}

fn is_accent(c: char) -> bool {
    matches!(c, '\u{300}'..='\u{36f}')
}

/// Whether a character is a token alone: its script puts no spaces between words, or it is a picture.
fn stands_alone(c: char) -> bool {
    matches!(c,
        '\u{e01}'..='\u{eff}' // Thai, Lao
        | '\u{1000}'..='\u{109f}' // Burmese
        | '\u{1780}'..='\u{17ff}' // Khmer
        | '\u{2600}'..='\u{27bf}' // pictures
        | '\u{2e80}'..='\u{2fdf}' // parts of ideographs
        | '\u{3005}'..='\u{3007}' | '\u{3021}'..='\u{3029}'
        | '\u{3041}'..='\u{3096}' | '\u{309d}'..='\u{309f}' // Hiragana
        | '\u{30a1}'..='\u{30fa}' | '\u{30fc}'..='\u{30ff}' // Katakana
        | '\u{3105}'..='\u{312f}' | '\u{31a0}'..='\u{31bf}' | '\u{31f0}'..='\u{31ff}'
        | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}'
        | '\u{ff66}'..='\u{ff9d}'
        | '\u{1f300}'..='\u{1faff}' // pictures
        | '\u{20000}'..='\u{3ffff}')
}

/// The content of the search table for one text.
pub(super) struct Searchable {
    /// All tokens, with spaces between them.
    pub(super) words: String,
    /// Each two characters that follow each other in a script without spaces: such a run is found by its pairs, of which there
    /// are far more different ones than of characters, so that each occurs in few texts.
    pub(super) pairs: String,
}

impl Searchable {
    pub(super) fn of(text: &str) -> Searchable {
        let (mut words, mut pairs) = (String::with_capacity(text.len() + 16), String::new());
        let tokens = tokens(text);
        let mut before: Option<&Token> = None;
        for token in &tokens {
            words.push_str(&token.folded);
            words.push(' ');
            let follows = |b: &&Token| b.is_character && token.is_character && b.range.end == token.range.start;
            if let Some(before) = before.filter(follows) {
                pairs.push_str(&before.folded);
                pairs.push_str(&token.folded);
                pairs.push(' ');
            } else if !pairs.is_empty() {
                // Between two runs, so that the last pair of one and the first of the next are not taken for neighbours.
                pairs.push_str("0 ");
            }
            before = Some(token);
        }
        Searchable { words, pairs }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;

    fn folded(text: &str) -> Vec<String> {
        tokens(text).into_iter().map(|token| token.folded).collect()
    }

    #[test]
    fn words_are_told_apart_and_folded() {
        assert_eq!(
            folded("Fehler: call_started(42) — ÉCOLE e\u{301}tude Ｆｕｌｌ"),
            ["fehler", "call", "started", "42", "ecole", "etude", "full"]
        );
        assert_eq!(folded("  \t\n \"'*-()^:  "), Vec::<String>::new());
        assert_eq!(folded(&"x".repeat(1000)), ["x".repeat(TOKEN_CHARS_MAX)]);
        assert_eq!(folded("\0a\0b"), ["a", "b"]);
    }

    #[test]
    fn each_character_of_a_script_without_spaces_is_a_token() {
        assert_eq!(folded("发生API错误🎉"), ["发", "生", "api", "错", "误", "🎉"]);
        assert_eq!(folded("カタカナ").len(), 4);
        assert_eq!(folded("한국어 검색").len(), 2);
        let searchable = Searchable::of("发生了 错误, one 信");
        assert_eq!(searchable.pairs, "发生 生了 0 错误 0 0 ");
        assert_eq!(searchable.words, "发 生 了 错 误 one 信 ");
    }

    #[test]
    fn no_token_holds_what_a_query_is_written_with() {
        for text in ["\u{fdfa}", "½ ㎏ ℀ ´ İ", "a\u{300}\"b", "ﬁ ² ①"] {
            for token in tokens(text) {
                let odd = |c: char| c.is_whitespace() || (c.is_ascii() && !c.is_ascii_alphanumeric());
                assert!(!token.folded.contains(odd), "{token:?}");
                assert!(token.range.end <= text.len());
            }
        }
    }
}
