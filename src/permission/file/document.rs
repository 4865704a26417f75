//! TOML and JSON as one kind of value that knows where in the text each part stands.
//!
//! Only what rules need: texts, maps, lists, true and false; of everything else its kind, for messages. Neither parser is asked for the order
//! of fields, because each part has its place.

use std::{borrow::Cow, fmt};

use serde::{
    Deserializer as _,
    de::{MapAccess, SeqAccess, Visitor},
};
use serde_json::value::RawValue;
use toml::de::{DeTable, DeValue};

use super::Fault;

/// A part of a text.
#[derive(Debug)]
pub(super) struct Node {
    /// Where it begins, in bytes.
    pub(super) at: usize,
    pub(super) value: Value,
}

#[derive(Debug)]
pub(super) enum Value {
    Text(String),
    Map(Vec<Field>),
    List(Vec<Node>),
    Flag(bool),
    /// Something that no rule has, by its kind.
    Other(&'static str),
}

/// A field of a map.
#[derive(Debug)]
pub(super) struct Field {
    pub(super) name: String,
    pub(super) node: Node,
}

impl Value {
    /// What it is, for messages.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Value::Text(_) => "a text",
            Value::Map(_) => "a table",
            Value::List(_) => "a list",
            Value::Flag(_) => "true or false",
            Value::Other(kind) => kind,
        }
    }
}

/// A text in quotes, with its quotes and control characters escaped.
pub(super) fn quoted(text: &str) -> String {
    format!("{text:?}")
}

/// Reads TOML. The parser refuses what is nested deeper than 80 levels.
pub(super) fn toml(text: &str) -> Result<Node, Fault> {
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
        DeValue::Boolean(is) => Value::Flag(*is),
        DeValue::Datetime(_) => Value::Other("a date"),
        DeValue::Integer(_) | DeValue::Float(_) => Value::Other("a number"),
    };
    Node { at: value.span().start, value: read }
}

/// How deep maps and lists are read: a list of values, a rule in it, and one level for the message.
const DEPTH_MAX: usize = 4;

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
        nodes.push(of_json(value.map_err(wrong)?, &text, DEPTH_MAX)?);
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
        Some(b't' | b'f') => Value::Flag(raw.get() == "true"),
        Some(b'n') => Value::Other("null"),
        _ => Value::Other("a number"),
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
