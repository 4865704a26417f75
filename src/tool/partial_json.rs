//! The arguments of a call while the model still writes them: a JSON object that breaks off anywhere.
//!
//! **For display only.** A call is carried out with its complete arguments or not at all; nothing here decides anything. What
//! is shown is what is certain so far: strings as far as they go, and neither a key without a value nor a word that is not
//! finished. A number at the very end may still grow.
//!
//! [`PartialJson`] takes the text piece by piece and looks at each byte once; [`parse`] is the same for a text at hand.

use serde_json::{Map, Value};

/// How much of the arguments is looked at, in bytes. What comes behind it is not shown.
pub const PARTIAL_JSON_BYTES_MAX: usize = 1024 * 1024;

/// What is known of the arguments.
#[derive(Clone, Debug, PartialEq)]
pub enum Parsed {
    /// They are complete. Nothing at all, and what is no object, counts as an empty one.
    Complete(Map<String, Value>),
    /// There is more to come.
    Partial(Map<String, Value>),
}

impl Parsed {
    /// The fields that are known.
    #[must_use]
    pub fn fields(&self) -> &Map<String, Value> {
        let (Parsed::Complete(fields) | Parsed::Partial(fields)) = self;
        fields
    }
}

/// A text that is not the beginning of a JSON object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the text is not the beginning of a json object")]
pub struct NotJson;

/// Arguments as they arrive. Nothing is lost however the text is cut into pieces.
///
/// ```
/// use tamtam::tool::{Parsed, PartialJson};
/// let mut arguments = PartialJson::new();
/// arguments.push(r#"{"path": "src/ma"#);
/// let Parsed::Partial(fields) = arguments.parsed()? else { return Ok(()) };
/// assert_eq!(fields["path"], "src/ma");
/// # Ok::<(), tamtam::tool::NotJson>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct PartialJson {
    text: String,
    /// The brackets that are open.
    open: Vec<u8>,
    /// Up to here the text is whole once the open brackets are closed.
    whole: usize,
    /// Whether the next string names a field.
    wants_key: bool,
    at: At,
    /// Whether a piece was cut: what comes behind it must not close the gap.
    is_full: bool,
}

/// Where in the text the scan is.
#[derive(Clone, Copy, Debug, Default)]
enum At {
    #[default]
    Between,
    /// In a number, `true`, `false` or `null`, since that byte.
    Word { start: usize },
    /// In a string.
    String(InString),
}

#[derive(Clone, Copy, Debug)]
struct InString {
    is_key: bool,
    /// Up to here it can be closed with a quote.
    whole: usize,
    escape: Escape,
    /// The first half of a character in two escapes has been read.
    half: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Escape {
    None,
    /// Behind the backslash.
    Begun,
    /// Behind `\u`: the digits so far, and how many.
    Code(u32, u8),
}

impl PartialJson {
    /// Nothing yet.
    #[must_use]
    pub fn new() -> PartialJson {
        PartialJson::default()
    }

    /// Takes the next piece.
    pub fn push(&mut self, piece: &str) {
        if self.is_full {
            return;
        }
        let room = PARTIAL_JSON_BYTES_MAX.saturating_sub(self.text.len());
        let from = self.text.len();
        let taken = piece.floor_char_boundary(room);
        self.is_full = taken < piece.len();
        self.text.push_str(&piece[..taken]);
        for at in from..self.text.len() {
            let byte = self.text.as_bytes()[at];
            self.at = self.scan(at, byte);
        }
    }

    /// What is known so far.
    pub fn parsed(&self) -> Result<Parsed, NotJson> {
        if self.text.trim().is_empty() {
            return Ok(Parsed::Complete(Map::new()));
        }
        if let Ok(value) = serde_json::from_str::<Value>(&self.text) {
            return Ok(Parsed::Complete(fields(value).unwrap_or_default()));
        }
        if self.open.is_empty() || !self.text.trim_start().starts_with('{') {
            return Err(NotJson);
        }
        let value = serde_json::from_str(&self.closed().ok_or(NotJson)?).map_err(|_| NotJson)?;
        fields(value).map(Parsed::Partial).ok_or(NotJson)
    }

    /// The fields that are known so far; none where the text is no object.
    #[must_use]
    pub fn fields(&self) -> Map<String, Value> {
        self.parsed().map_or_else(|_| Map::new(), |parsed| parsed.fields().clone())
    }

    fn scan(&mut self, at: usize, byte: u8) -> At {
        match self.at {
            At::String(string) => self.scan_string(string, at, byte),
            At::Word { .. }
                if !matches!(byte, b',' | b'}' | b']' | b':' | b'"' | b'{' | b'[' | b' ' | b'\t' | b'\n' | b'\r') =>
            {
                self.at
            }
            At::Word { .. } => {
                self.whole = at;
                self.scan_between(at, byte)
            }
            At::Between => self.scan_between(at, byte),
        }
    }

    fn scan_between(&mut self, at: usize, byte: u8) -> At {
        match byte {
            b'{' | b'[' => {
                self.open.push(byte);
                self.whole = at + 1;
                self.wants_key = byte == b'{';
            }
            b'}' | b']' => {
                self.open.pop();
                self.whole = at + 1;
                self.wants_key = false;
            }
            b',' => self.wants_key = self.open.last() == Some(&b'{'),
            b':' => self.wants_key = false,
            b' ' | b'\t' | b'\n' | b'\r' => {}
            b'"' => {
                let (is_key, whole) = (self.wants_key, at + 1);
                return At::String(InString { is_key, whole, escape: Escape::None, half: false });
            }
            _ => return At::Word { start: at },
        }
        At::Between
    }

    fn scan_string(&mut self, mut string: InString, at: usize, byte: u8) -> At {
        match (string.escape, byte) {
            (Escape::None, b'"') => {
                if !string.is_key {
                    self.whole = at + 1;
                }
                return At::Between;
            }
            (Escape::None, b'\\') => string.escape = Escape::Begun,
            // A character is whole with its last byte.
            (Escape::None, _) if self.text.is_char_boundary(at + 1) => string.whole = at + 1,
            (Escape::None, _) => {}
            (Escape::Begun, b'u') => string.escape = Escape::Code(0, 0),
            (Escape::Begun, _) => {
                string.escape = Escape::None;
                string.whole = at + 1;
            }
            (Escape::Code(code, digits), _) => {
                let code = code << 4 | char::from(byte).to_digit(16).unwrap_or(0);
                string.escape = Escape::Code(code, digits + 1);
                if digits == 3 {
                    string.escape = Escape::None;
                    let is_first_half = !string.half && (0xd800..0xdc00).contains(&code);
                    string.half = is_first_half;
                    if !is_first_half {
                        string.whole = at + 1;
                    }
                }
            }
        }
        At::String(string)
    }

    /// The text as far as it is certain, with everything closed that is open; `None` where it cannot become JSON.
    fn closed(&self) -> Option<String> {
        let mut closed = match self.at {
            At::String(string) if !string.is_key => format!("{}\"", &self.text[..string.whole]),
            At::Word { .. } if self.wants_key => return None,
            At::Word { start } => match word(&self.text[start..])? {
                0 => self.text[..self.whole].to_owned(),
                length => self.text[..start + length].to_owned(),
            },
            _ => self.text[..self.whole].to_owned(),
        };
        closed.extend(self.open.iter().rev().map(|bracket| if *bracket == b'{' { '}' } else { ']' }));
        Some(closed)
    }
}

/// How much of an unfinished word can be shown: all of a whole one, a number without a dot or sign that nothing follows, and
/// nothing of the beginning of one. `None` where it is no beginning of any.
fn word(text: &str) -> Option<usize> {
    let is_whole = |text: &str| serde_json::from_str::<Value>(text).is_ok();
    let number = text.trim_end_matches(['.', 'e', 'E', '+', '-']);
    let begins = text == "-" || ["true", "false", "null"].iter().any(|word| word.starts_with(text));
    [text, number].into_iter().find(|text| is_whole(text)).map(str::len).or(begins.then_some(0))
}

fn fields(value: Value) -> Option<Map<String, Value>> {
    match value {
        Value::Object(fields) => Some(fields),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]

    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn parse(text: &str) -> Result<Parsed, NotJson> {
        let mut arguments = PartialJson::new();
        arguments.push(text);
        arguments.parsed()
    }

    fn partial(text: &str) -> Value {
        match parse(text) {
            Ok(Parsed::Partial(fields)) => Value::Object(fields),
            other => panic!("{text}: {other:?}"),
        }
    }

    fn complete(text: &str) -> Value {
        match parse(text) {
            Ok(Parsed::Complete(fields)) => Value::Object(fields),
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn pjson_001_whole_arguments_are_what_they_are() {
        assert_eq!(complete(r#"{"a":1}"#), json!({"a": 1}));
    }

    /// STREAM-ERR-002: `{"name": "val` has the name "val".
    #[test]
    fn pjson_002_a_text_that_breaks_off_is_shown_as_far_as_it_goes() {
        assert_eq!(partial(r#"{"file":"/src/ma"#), json!({"file": "/src/ma"}));
        assert_eq!(partial(r#"{"name": "val"#), json!({"name": "val"}));
    }

    #[test]
    fn pjson_003_a_number_at_the_end_is_shown() {
        assert_eq!(partial(r#"{"a":1,"b":2"#), json!({"a": 1, "b": 2}));
        assert_eq!(partial(r#"{"a":1.5e"#), json!({"a": 1.5}));
        assert_eq!(partial(r#"{"a":-"#), json!({}));
    }

    #[test]
    fn pjson_004_what_is_nested_is_closed_from_inside() {
        assert_eq!(partial(r#"{"outer":{"inner":1"#), json!({"outer": {"inner": 1}}));
        assert_eq!(partial(r#"{"a":{"b":"#), json!({"a": {}}));
        assert_eq!(partial(r#"{"a":[{"b":[1,{"c":"#), json!({"a": [{"b": [1, {}]}]}));
    }

    #[test]
    fn pjson_005_a_list_has_its_elements() {
        assert_eq!(partial(r#"{"items":[1,2,3"#), json!({"items": [1, 2, 3]}));
    }

    #[test]
    fn pjson_006_nothing_and_what_is_no_object_are_empty() {
        for text in ["", "  \n", "[1,2]", "3", "\"a\"", "null"] {
            assert_eq!(complete(text), json!({}), "{text}");
        }
    }

    #[test]
    fn pjson_007_pieces_make_the_same_as_the_whole() {
        let mut arguments = PartialJson::new();
        let mut names = Vec::new();
        for piece in [r#"{"name":"he"#, "llo", r#""}"#] {
            arguments.push(piece);
            names.push(arguments.fields()["name"].clone());
        }
        assert_eq!(names, ["he", "hello", "hello"]);
        assert!(matches!(arguments.parsed(), Ok(Parsed::Complete(_))));
    }

    #[test]
    fn pjson_008_a_comma_at_the_end_is_dropped() {
        assert_eq!(partial(r#"{"a":1,"#), json!({"a": 1}));
        assert_eq!(partial(r#"{"a":1,"b":"#), json!({"a": 1}));
        assert_eq!(partial("{"), json!({}));
    }

    /// What the code that this follows could not show: a key, a word, an escape or half a character at the end.
    #[test]
    fn what_is_not_certain_yet_is_left_out() {
        for text in [r#"{"a"#, r#"{"a""#, r#"{"a":tr"#, r#"{"a":"#] {
            assert_eq!(partial(text), json!({}), "{text}");
        }
        assert_eq!(partial(r#"{"a":true"#), json!({"a": true}));
        for text in [r#"{"a":"x\"#, r#"{"a":"x\u00"#, r#"{"a":"x\ud83d"#, r#"{"a":"x\ud83d\u"#] {
            assert_eq!(partial(text), json!({"a": "x"}), "{text}");
        }
        assert_eq!(partial(r#"{"a":"x\ud83d\ude00"#), json!({"a": "x😀"}));
        assert_eq!(partial(r#"{"a":"x\n"#), json!({"a": "x\n"}));
    }

    #[test]
    fn what_is_no_json_is_said_to_be_none() {
        for text in ["hello", "{a", "{]", "[1,2", r#"{"a" 1"#, r#"{"a":1}}"#] {
            assert_eq!(parse(text), Err(NotJson), "{text}");
        }
        let mut arguments = PartialJson::new();
        arguments.push("hello");
        assert!(arguments.fields().is_empty());
    }

    /// However much a model writes, a bounded part of it is looked at.
    #[test]
    fn arguments_without_end_take_bounded_memory() {
        let mut arguments = PartialJson::new();
        arguments.push(r#"{"content":""#);
        for _ in 0..40 {
            arguments.push(&"é".repeat(50_000));
        }
        assert!(arguments.text.len() <= PARTIAL_JSON_BYTES_MAX);
        let shown = arguments.fields()["content"].as_str().unwrap().len();
        assert!(shown > PARTIAL_JSON_BYTES_MAX - 100);
        // A smaller piece that would still fit is not what comes next.
        let mut arguments = PartialJson::new();
        arguments.push(&format!("{{\"a\":\"{}", "x".repeat(PARTIAL_JSON_BYTES_MAX - 7)));
        arguments.push("é");
        arguments.push("y");
        assert!(arguments.fields()["a"].as_str().unwrap().ends_with("xx"));
        assert_eq!(parse(&"{\"a\":".repeat(100_000)), Err(NotJson), "no depth ends the process");
    }

    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            any::<bool>().prop_map(Value::from),
            Just(Value::Null),
            any::<i32>().prop_map(Value::from),
            any::<f32>().prop_filter("finite", |number| number.is_finite()).prop_map(|number| json!(number)),
            "[a\\\\\"\n😀é,:{}\\[\\]]{0,6}".prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 12, 4, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                proptest::collection::btree_map("[ab\"\\\\é]{0,3}", inner, 0..4)
                    .prop_map(|fields| Value::Object(fields.into_iter().collect())),
            ]
        })
    }

    /// Whether what is shown is a part of the whole: its fields and elements in order, the last one perhaps cut.
    fn is_part(shown: &Value, whole: &Value) -> bool {
        match (shown, whole) {
            (Value::Object(shown), Value::Object(whole)) => {
                shown.iter().all(|(name, value)| whole.get(name).is_some_and(|other| is_part(value, other)))
            }
            (Value::Array(shown), Value::Array(whole)) => {
                shown.len() <= whole.len() && shown.iter().zip(whole).all(|(shown, whole)| is_part(shown, whole))
            }
            (Value::String(shown), Value::String(whole)) => whole.starts_with(shown.as_str()),
            (Value::Number(_), Value::Number(_)) => true,
            (shown, whole) => shown == whole,
        }
    }

    proptest! {
        /// At each place where a text can break off there is something to show, and it is a part of the whole; in pieces or not.
        #[test]
        fn every_beginning_is_shown_truly(fields in proptest::collection::btree_map("[a-c]{1,2}", value(), 0..4), ascii: bool) {
            let whole = json!(fields);
            let mut text = if ascii { serde_json::to_string(&whole).unwrap() } else { serde_json::to_string_pretty(&whole).unwrap() };
            if ascii {
                text = text.chars().map(|c| match c {
                    c if c.is_ascii() => c.to_string(),
                    c => c.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04x}")).collect(),
                }).collect();
            }
            let mut arguments = PartialJson::new();
            for (at, c) in text.char_indices() {
                arguments.push(c.encode_utf8(&mut [0; 4]));
                let shown = arguments.parsed();
                prop_assert!(shown.is_ok(), "{}", &text[..=at]);
                let shown = Value::Object(shown.unwrap().fields().clone());
                prop_assert!(is_part(&shown, &whole), "{} is shown as {shown}", &text[..=at]);
            }
            prop_assert_eq!(Value::Object(arguments.fields()), whole);
        }
    }
}
