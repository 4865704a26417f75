//! Reads the arguments of a call while the model still writes them: a JSON object that breaks off anywhere.
//!
//! **For display only**: hosts show the arguments of a pending call with it. A call runs with its complete arguments or not at all.
//! A change must not let anything be decided or run by what is read here.
//!
//! Of a text that becomes JSON without repeated keys, the answer holds only what later text cannot undo, with two exceptions that
//! may still grow: a string and a number at the very end. A key without a value and an unfinished word are left out.
//!
//! [`PartialJson`] takes the text piece by piece and keeps at most [`PARTIAL_JSON_BYTES_MAX`] of it. Each call of `parsed` or
//! `fields` parses the kept text from its start, so a display should ask no more often than its screen needs. The code is pure.

use serde_json::{Map, Value};

/// How much of the arguments is read, in bytes. The text after it is not shown.
pub const PARTIAL_JSON_BYTES_MAX: usize = 1024 * 1024;

/// The arguments as far as they are known.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Parsed {
    /// The text so far is a whole JSON value, or empty. Anything but an object counts as an empty object.
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

/// The text is neither a whole JSON value nor the beginning of an object, or it is nested too deeply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the text is not the beginning of a json object")]
pub struct NotJson;

/// Arguments as they arrive. How the text is cut into pieces makes no difference.
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
    /// Whether a piece did not fit any more. Then no later piece may be taken: it would be in the wrong place.
    is_full: bool,
}

impl PartialJson {
    /// No arguments yet.
    #[must_use]
    pub fn new() -> PartialJson {
        PartialJson::default()
    }

    /// Takes the next piece of the text.
    pub fn push(&mut self, piece: &str) {
        if !self.is_full {
            let room = PARTIAL_JSON_BYTES_MAX.saturating_sub(self.text.len());
            let taken = piece.floor_char_boundary(room);
            self.is_full = taken < piece.len();
            self.text.push_str(&piece[..taken]);
        }
    }

    /// The arguments as far as they are known now.
    pub fn parsed(&self) -> Result<Parsed, NotJson> {
        let text = self.text.trim_start();
        if text.is_empty() {
            return Ok(Parsed::Complete(Map::new()));
        }
        match serde_json::from_str(text) {
            Ok(Value::Object(fields)) => return Ok(Parsed::Complete(fields)),
            Ok(_) => return Ok(Parsed::Complete(Map::new())),
            Err(_) => {}
        }
        let closed = closed(text).filter(|_| text.starts_with('{')).ok_or(NotJson)?;
        serde_json::from_str(&closed).map(Parsed::Partial).map_err(|_| NotJson)
    }

    /// The fields that are known now; none if the text is not JSON.
    #[must_use]
    pub fn fields(&self) -> Map<String, Value> {
        self.parsed().map_or_else(|_| Map::new(), |parsed| parsed.fields().clone())
    }
}

/// The text as far as it is certain, with every open string, list and object closed. `None` if no list or object is open, or if
/// the word at the end is not JSON or is in the place of a key.
fn closed(text: &str) -> Option<String> {
    let mut open = Vec::new();
    let mut wants_key = false;
    // The place where the last whole value ended, or the last bracket.
    let (mut at, mut whole) = (0, 0);
    let mut end = "";
    while let Some(byte) = text.as_bytes().get(at) {
        let rest = &text[at..];
        at += 1;
        match byte {
            b'{' | b'[' => {
                open.push(if *byte == b'{' { '}' } else { ']' });
                wants_key = *byte == b'{';
                whole = at;
            }
            b'}' | b']' => {
                open.pop();
                wants_key = false;
                whole = at;
            }
            b',' => wants_key = open.last() == Some(&'}'),
            b':' => wants_key = false,
            b' ' | b'\t' | b'\n' | b'\r' => {}
            b'"' => {
                let (length, has_ended) = string(rest);
                at += length - 1;
                if !wants_key {
                    whole = at;
                    end = if has_ended { "" } else { "\"" };
                }
                if !has_ended {
                    break;
                }
            }
            _ => {
                let length = rest.find([',', '}', ']', ':', '"', '{', '[', ' ', '\t', '\n', '\r']);
                at += length.unwrap_or(rest.len()) - 1;
                match length {
                    Some(_) => whole = at,
                    None if wants_key => return None,
                    None => whole = word(rest)?.map_or(whole, |length| at - rest.len() + length),
                }
            }
        }
    }
    open.last()?;
    Some(format!("{}{end}{}", &text[..whole], open.iter().rev().collect::<String>()))
}

/// How much of a string is certain, from its quote on, and whether that is the whole string. An unfinished escape is not certain,
/// nor is the first of two escapes that make one character together.
fn string(text: &str) -> (usize, bool) {
    let bytes = text.as_bytes();
    let mut at = 1;
    while at < bytes.len() {
        let length = match &bytes[at..] {
            [b'"', ..] => return (at + 1, true),
            [b'\\', b'u', b'd' | b'D', b'8' | b'9' | b'a' | b'b' | b'A' | b'B', _, _, b'\\', ..] => 12,
            [b'\\', b'u', b'd' | b'D', b'8' | b'9' | b'a' | b'b' | b'A' | b'B', _, _] => 12,
            [b'\\', b'u', ..] => 6,
            [b'\\', ..] => 2,
            _ => 1,
        };
        if at + length > bytes.len() {
            break;
        }
        at += length;
    }
    (at, false)
}

/// How much of a word at the end of the text is certain: all of `true`, `1.5` of `1.5e`, nothing of `tr`. `None` for a text that
/// cannot become a word.
fn word(text: &str) -> Option<Option<usize>> {
    let is_whole = |text: &str| serde_json::from_str::<Value>(text).is_ok();
    let number = text.trim_end_matches(['.', 'e', 'E', '+', '-']);
    let begins = text == "-" || ["true", "false", "null"].iter().any(|word| word.starts_with(text));
    match [text, number].into_iter().find(|text| is_whole(text)) {
        Some(whole) => Some(Some(whole.len())),
        None => begins.then_some(None),
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

    /// Cases that the original of this code could not show: a key, a word, an escape or half a character at the end.
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

    /// A bounded part of any amount of text is read.
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
