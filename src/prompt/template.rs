//! A text with places that are filled in when it is used, for prompts of a host. (The templates of commands are filled in
//! `agent/command.rs`.)
//!
//! Filling is one pass over the text: what is filled in is never searched for places again, so an argument with the text of a place
//! (`{{name}}`) stays as it is. A change must keep that: arguments may be written by others than the template.

use std::collections::BTreeMap;

/// A text with places to fill in.
///
/// | place | becomes |
/// |---|---|
/// | `$ARGUMENTS` | all arguments, as they were typed |
/// | `$1`, `$2` … | one word of the arguments; the highest of them takes the rest as well, and one without a word is empty |
/// | `{{name}}` | the value of that name; without one, the place stays as it is |
///
/// For `$1`, `$2` …, quotes (`"…"` and `'…'`) hold words together, and are left out. A text with no place for arguments gets them
/// at its end, after an empty line.
///
/// ```
/// use tamtam::runtime::Template;
///
/// let review = Template::new("Review $1 for {{what}}. $2");
/// assert_eq!(review.fill("src/lib.rs Be brief.", [("what", "races")]), "Review src/lib.rs for races. Be brief.");
/// assert_eq!(review.variables(), ["what"]);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    text: String,
}

/// A piece of a template.
enum Piece<'a> {
    Text(&'a str),
    Arguments,
    /// A word of the arguments, from 1.
    Word(usize),
    Variable {
        name: &'a str,
        place: &'a str,
    },
}

impl Template {
    /// A template of this text. Every text is one: a place that is not understood is plain text.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Template {
        Template { text: text.into() }
    }

    /// The names of its `{{name}}` places, each once, in the order of their first place.
    #[must_use]
    pub fn variables(&self) -> Vec<&str> {
        let mut names = Vec::new();
        for piece in self.pieces() {
            if let Piece::Variable { name, .. } = piece
                && !names.contains(&name)
            {
                names.push(name);
            }
        }
        names
    }

    /// The text, filled in.
    #[must_use]
    pub fn fill<'a>(&self, arguments: &str, values: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
        let values: BTreeMap<&str, &str> = values.into_iter().collect();
        let (arguments, pieces) = (arguments.trim(), self.pieces());
        let words = words(arguments);
        let last = pieces.iter().filter_map(|piece| if let Piece::Word(n) = piece { Some(*n) } else { None }).max();
        let mut filled = String::new();
        for piece in &pieces {
            match piece {
                Piece::Text(text) => filled.push_str(text),
                Piece::Arguments => filled.push_str(arguments),
                Piece::Word(n) if Some(*n) == last => {
                    filled.push_str(&words.get(n - 1..).unwrap_or_default().join(" "));
                }
                Piece::Word(n) => filled.push_str(words.get(n - 1).copied().unwrap_or_default()),
                Piece::Variable { name, place } => filled.push_str(values.get(name).unwrap_or(place)),
            }
        }
        let takes_arguments = pieces.iter().any(|piece| matches!(piece, Piece::Arguments | Piece::Word(_)));
        if !takes_arguments && !arguments.is_empty() {
            filled.extend(["\n\n", arguments]);
        }
        filled
    }

    fn pieces(&self) -> Vec<Piece<'_>> {
        let (mut pieces, mut rest, mut plain) = (Vec::new(), self.text.as_str(), 0);
        while let Some(found) = rest[plain..].find(['$', '{']) {
            let at = plain + found;
            match place(&rest[at..]) {
                Some((piece, length)) => {
                    pieces.extend([Piece::Text(&rest[..at]), piece]);
                    (rest, plain) = (&rest[at + length..], 0);
                }
                None => plain = at + 1,
            }
        }
        pieces.push(Piece::Text(rest));
        pieces
    }
}

/// The place that a text begins with, and its length.
fn place(text: &str) -> Option<(Piece<'_>, usize)> {
    const ARGUMENTS: &str = "$ARGUMENTS";
    if text.starts_with(ARGUMENTS) {
        return Some((Piece::Arguments, ARGUMENTS.len()));
    }
    if let Some(rest) = text.strip_prefix('$') {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let word = rest[..digits].parse().ok().filter(|word| *word > 0)?;
        return Some((Piece::Word(word), digits + 1));
    }
    let (name, _) = text.strip_prefix("{{")?.split_once("}}")?;
    let place = &text[..name.len() + 4];
    let is_name = |name: &str| !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-'));
    is_name(name.trim()).then(|| (Piece::Variable { name: name.trim(), place }, place.len()))
}

/// The words of the arguments. An open quote holds until the end.
fn words(arguments: &str) -> Vec<&str> {
    let (mut words, mut rest) = (Vec::new(), arguments.trim_start());
    while let Some(first) = rest.chars().next() {
        let (word, behind) = match first {
            '"' | '\'' => rest[1..].split_once(first).unwrap_or((&rest[1..], "")),
            _ => rest.split_at(rest.find(char::is_whitespace).unwrap_or(rest.len())),
        };
        words.push(word);
        rest = behind.trim_start();
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(text: &str, arguments: &str) -> String {
        Template::new(text).fill(arguments, [])
    }

    /// TEMPLATE-002, TEMPLATE-003, TEMPLATE-006, TEMPLATE-007: named places are listed once and filled in wherever they occur;
    /// one without a value stays.
    #[test]
    fn named_places_are_listed_and_filled_in_and_stay_without_a_value() {
        let template = Template::new("Do {{action}} on {{ content }}.\n{{action}}!");
        assert_eq!(template.variables(), ["action", "content"]);
        let values = [("action", "a review"), ("content", "hello world")];
        assert_eq!(template.fill("", values), "Do a review on hello world.\na review!");
        assert_eq!(template.fill("", []), "Do {{action}} on {{ content }}.\n{{action}}!");
    }

    #[test]
    fn words_of_the_arguments_go_to_their_places_and_the_rest_to_the_last() {
        assert_eq!(filled("all: $ARGUMENTS.", " a  'b c' "), "all: a  'b c'.");
        assert_eq!(filled("$1-$2", "a 'b c' d"), "a-b c d");
        assert_eq!(filled("$2 before $1", "a b c"), "b c before a");
        assert_eq!(filled("$1 and $3", "a"), "a and ");
        assert_eq!(filled("no place", "a b"), "no place\n\na b");
        assert_eq!(filled("no place", " "), "no place");
    }

    /// Other text stays as it is, and filled-in text is not searched for places.
    #[test]
    fn only_places_of_the_template_are_filled_in() {
        for plain in ["$", "$0 $x {", "{{}} {{a b}} {{open", "ä{{é $é", "$99999999999999999999999"] {
            assert_eq!(filled(plain, ""), plain);
        }
        let template = Template::new("$1 {{name}} $2");
        assert_eq!(template.fill("{{name}} $1", [("name", "$2 $ARGUMENTS")]), "{{name}} $2 $ARGUMENTS $1");
    }
}
