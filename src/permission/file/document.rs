//! TOML, JSON and YAML as one kind of value ([`Node`]) that knows where in the text each part stands, so that an error can name the
//! line. Files of rules, agents and commands are read through it.
//!
//! No parser is asked for the order of fields, because each part has its place (in YAML, the beginning of its line). What has no
//! JSON form, such as a date, is there by its kind, for messages. Pure functions of a text.
//!
//! A change must keep two things, because such files may come from strangers. The same field twice in one table is an error in each
//! format: one of the two would be lost. Nesting is bounded: by the parser of TOML at 80 levels, in JSON and YAML by the constants
//! here.

#[cfg(feature = "agent-files")]
mod yaml;

use std::{borrow::Cow, fmt};

use serde::{
    Deserializer as _,
    de::{MapAccess, SeqAccess, Visitor},
};
use serde_json::{Number, value::RawValue};
use toml::de::{DeTable, DeValue};

use super::Fault;
#[cfg(feature = "agent-files")]
pub(crate) use yaml::yaml;

/// A part of a text.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    /// Where it begins, in bytes.
    pub(crate) at: usize,
    pub(crate) value: Value,
}

#[derive(Clone, Debug)]
pub(crate) enum Value {
    Text(String),
    Map(Vec<Field>),
    List(Vec<Node>),
    Bool(bool),
    #[cfg_attr(
        not(feature = "agent-files"),
        allow(dead_code, reason = "only files of agents have numbers that are read")
    )]
    Number(Number),
    Null,
    /// Something that has no JSON form, or is nested too deep, by its kind.
    Other(&'static str),
}

/// A field of a map.
#[derive(Clone, Debug)]
pub(crate) struct Field {
    pub(crate) name: String,
    pub(crate) node: Node,
}

impl Value {
    /// What it is, for messages.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Value::Text(_) => "a text",
            Value::Map(_) => "a table",
            Value::List(_) => "a list",
            Value::Bool(_) => "true or false",
            Value::Number(_) => "a number",
            Value::Null => "null",
            Value::Other(kind) => kind,
        }
    }
}

/// A text in quotes, with its quotes and control characters escaped.
pub(crate) fn quoted(text: &str) -> String {
    format!("{text:?}")
}

#[cfg(feature = "agent-files")]
impl Node {
    /// The same value in the types of `serde_json`.
    pub(crate) fn to_json(&self) -> Result<serde_json::Value, Fault> {
        Ok(match &self.value {
            Value::Text(text) => text.clone().into(),
            Value::Bool(is) => (*is).into(),
            Value::Number(number) => number.clone().into(),
            Value::Null => serde_json::Value::Null,
            Value::List(items) => items.iter().map(Node::to_json).collect::<Result<Vec<_>, _>>()?.into(),
            Value::Map(fields) => {
                let field = |field: &Field| Ok((field.name.clone(), field.node.to_json()?));
                serde_json::Value::Object(fields.iter().map(field).collect::<Result<_, Fault>>()?)
            }
            Value::Other(kind) => return Err(Fault::new(self.at, "", format!("{kind} cannot be written here"))),
        })
    }

    /// The part at a path of field names and of places in lists, as far as it is there.
    pub(crate) fn at_path<'a>(&self, mut path: impl Iterator<Item = &'a str>) -> &Node {
        let Some(step) = path.next() else { return self };
        let part = match &self.value {
            Value::Map(fields) => fields.iter().find(|field| field.name == step).map(|field| &field.node),
            Value::List(items) => step.parse().ok().and_then(|place: usize| items.get(place)),
            _ => None,
        };
        part.map_or(self, |part| part.at_path(path))
    }
}

/// Reads TOML. The parser refuses what is nested deeper than 80 levels.
pub(crate) fn toml(text: &str) -> Result<Node, Fault> {
    let table = DeTable::parse(text).map_err(|error| {
        let at = error.span().map_or(text.len(), |span| span.start);
        Fault::new(at, "", format!("not TOML: {}", error.message().replace('\n', ", ")))
    })?;
    Ok(Node { at: 0, value: of_table(table.get_ref()) })
}

fn of_table(table: &DeTable<'_>) -> Value {
    let field = |(name, value): (&toml::Spanned<Cow<'_, str>>, &toml::Spanned<DeValue<'_>>)| Field {
        name: name.get_ref().clone().into_owned(),
        node: of_toml(value),
    };
    Value::Map(table.iter().map(field).collect())
}

fn of_toml(value: &toml::Spanned<DeValue<'_>>) -> Node {
    let read = match value.get_ref() {
        DeValue::String(text) => Value::Text(text.clone().into_owned()),
        DeValue::Table(table) => of_table(table),
        DeValue::Array(items) => Value::List(items.iter().map(of_toml).collect()),
        DeValue::Boolean(is) => Value::Bool(*is),
        DeValue::Datetime(_) => Value::Other("a date"),
        DeValue::Integer(number) => number_of(number.as_str(), number.radix()),
        DeValue::Float(number) => number_of(number.as_str(), 10),
    };
    Node { at: value.span().start, value: read }
}

/// A number, where JSON has one that is the same.
fn number_of(text: &str, radix: u32) -> Value {
    let whole = i64::from_str_radix(text, radix).ok().map(Number::from);
    let number = whole.or_else(|| text.parse().ok().and_then(Number::from_f64));
    number.map_or(Value::Other("a number that JSON does not have"), Value::Number)
}

/// How deep maps and lists of rules are read: a list of values, a rule in it, and one level for the message.
const RULES_DEPTH_MAX: usize = 4;

/// How deep maps and lists of other texts are read.
#[cfg(feature = "agent-files")]
const DEPTH_MAX: usize = 16;

/// Reads one JSON value, also with the comments and the commas behind a last item that people write.
#[cfg(feature = "agent-files")]
pub(crate) fn json_with_comments(text: &str) -> Result<Node, Fault> {
    let text = without_comments(text);
    let wrong = |at, error: &serde_json::Error| Fault::new(at, "", format!("not JSON: {}", without_place(error)));
    let start = |line: usize| text.split_inclusive('\n').take(line.saturating_sub(1)).map(str::len).sum();
    let value: &RawValue = serde_json::from_str(&text).map_err(|error| wrong(start(error.line()), &error))?;
    of_json(value, &text, DEPTH_MAX)
}

/// The text with blanks in the place of comments and of commas behind a last item, so that each part keeps its place.
#[cfg(feature = "agent-files")]
fn without_comments(text: &str) -> String {
    let mut bytes = text.as_bytes().to_vec();
    let (mut at, mut comma) = (0, None);
    while let Some(byte) = bytes.get(at).copied() {
        let end = match (byte, bytes.get(at + 1)) {
            (b'"', _) => {
                let mut escaped = false;
                let is_end = |byte: &u8| {
                    let was = escaped;
                    escaped = !was && *byte == b'\\';
                    !was && *byte == b'"'
                };
                at + 2 + bytes[at + 1..].iter().position(is_end).unwrap_or(bytes.len())
            }
            (b'/', Some(b'/')) => at + bytes[at..].iter().position(|byte| *byte == b'\n').unwrap_or(bytes.len()),
            (b'/', Some(b'*')) => {
                at + 2 + bytes[at + 2..].windows(2).position(|two| two == b"*/").map_or(bytes.len(), |at| at + 2)
            }
            _ => at + 1,
        };
        let end = end.min(bytes.len());
        match byte {
            b'/' if end > at + 1 => {
                bytes[at..end].iter_mut().filter(|byte| **byte != b'\n').for_each(|byte| *byte = b' ');
            }
            b',' => comma = Some(at),
            b'}' | b']' => {
                if let Some(comma) = comma.take() {
                    bytes[comma] = b' ';
                }
            }
            byte if byte.is_ascii_whitespace() => {}
            _ => comma = None,
        }
        at = end;
    }
    // Only whole comments and commas were replaced.
    String::from_utf8(bytes).unwrap_or_default()
}

/// Reads the values of a JSON text, one after the other. Lines that begin with `#` are passed over.
pub(super) fn json(text: &str) -> Result<Vec<Node>, Fault> {
    let text = without_remarks(text);
    let mut nodes = Vec::new();
    for value in serde_json::Deserializer::from_str(&text).into_iter::<&RawValue>() {
        // The parser names the place by its line.
        let start = |line: usize| text.split_inclusive('\n').take(line.saturating_sub(1)).map(str::len).sum();
        let wrong = |error: serde_json::Error| {
            Fault::new(start(error.line()), "", format!("not JSON: {}", without_place(&error)))
        };
        nodes.push(of_json(value.map_err(wrong)?, &text, RULES_DEPTH_MAX)?);
    }
    Ok(nodes)
}

/// The text with blanks in the place of remarks, so that each part keeps its place.
fn without_remarks(text: &str) -> Cow<'_, str> {
    let is_remark = |line: &str| line.trim_start().starts_with('#');
    if !text.lines().any(is_remark) {
        return Cow::Borrowed(text);
    }
    let lines = text.split_inclusive('\n').map(|line| match line.strip_suffix('\n') {
        Some(remark) if is_remark(remark) => Cow::Owned(" ".repeat(remark.len()) + "\n"),
        None if is_remark(line) => Cow::Owned(" ".repeat(line.len())),
        _ => Cow::Borrowed(line),
    });
    Cow::Owned(lines.collect())
}

/// What is wrong, without the line and column that serde adds.
fn without_place(error: &serde_json::Error) -> String {
    let said = error.to_string();
    said.split(" at line ").next().unwrap_or_default().to_owned()
}

fn of_json(raw: &RawValue, text: &str, depth: usize) -> Result<Node, Fault> {
    // A raw value is a part of the text itself.
    let at = (raw.get().as_ptr() as usize).saturating_sub(text.as_ptr() as usize);
    let wrong = |error: serde_json::Error| Fault::new(at, "", format!("not JSON: {}", without_place(&error)));
    let value = match raw.get().as_bytes().first() {
        Some(b'{' | b'[') if depth == 0 => Value::Other("so many levels"),
        Some(b'"') => Value::Text(serde_json::from_str(raw.get()).map_err(wrong)?),
        Some(b'[') => {
            let parts = serde_json::Deserializer::from_str(raw.get()).deserialize_seq(Items).map_err(wrong)?;
            Value::List(parts.into_iter().map(|part| of_json(part, text, depth - 1)).collect::<Result<_, _>>()?)
        }
        Some(b'{') => {
            let parts = serde_json::Deserializer::from_str(raw.get()).deserialize_map(Fields).map_err(wrong)?;
            let mut fields: Vec<Field> = Vec::with_capacity(parts.len());
            let mut names = std::collections::BTreeSet::new();
            for (name, part) in parts {
                let node = of_json(part, text, depth - 1)?;
                if !names.insert(name.clone()) {
                    return Err(Fault::new(node.at, quoted(&name), "the field is there twice: write it once"));
                }
                fields.push(Field { name, node });
            }
            Value::Map(fields)
        }
        Some(b't' | b'f') => Value::Bool(raw.get() == "true"),
        Some(b'n') => Value::Null,
        _ => Value::Number(serde_json::from_str(raw.get()).map_err(wrong)?),
    };
    Ok(Node { at, value })
}

/// The items of an array, unread.
struct Items;

impl<'de> Visitor<'de> for Items {
    type Value = Vec<&'de RawValue>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
        let mut read = Vec::new();
        while let Some(item) = items.next_element()? {
            read.push(item);
        }
        Ok(read)
    }
}

/// The fields of an object in their order, unread. A map type of serde would lose order and fields that are there twice.
struct Fields;

impl<'de> Visitor<'de> for Fields {
    type Value = Vec<(String, &'de RawValue)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Self::Value, A::Error> {
        let mut read = Vec::new();
        while let Some(field) = fields.next_entry()? {
            read.push(field);
        }
        Ok(read)
    }
}
