//! TOML, JSON and YAML as one kind of value ([`Node`]) that knows the position of each part in the text, so that an error can
//! name the line. Files of rules, agents and commands are read through it.
//!
//! No parser is asked for the order of fields, because each part has its place (in YAML, the beginning of its line). A value
//! without a JSON form, such as a date, is kept as its kind, for messages. Pure functions of a text.
//!
//! A change must keep two things, because such files may come from strangers. The same field twice in one table is an error in each
//! format: one of the two would be lost. Nesting is bounded: by the parser of TOML at 80 levels, in JSON and YAML by the constants
//! here.

#[cfg(feature = "agent-files")]
mod yaml;

use std::{borrow::Cow, collections::BTreeSet};

use jsonc_parser::{CollectOptions, ParseOptions, Scanner, ScannerOptions, ast, common::Ranged as _, tokens::Token};
use serde::de::IgnoredAny;
use serde_json::Number;
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
    /// Its kind, for messages.
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

    /// The part at a path of field names and of places in lists, if it exists.
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

/// A number, if JSON can express it exactly.
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

/// Reads one JSON value, also with the comments and the commas after a last item that people write.
#[cfg(feature = "agent-files")]
pub(crate) fn json_with_comments(text: &str) -> Result<Node, Fault> {
    let options = ParseOptions { allow_comments: true, allow_trailing_commas: true, ..JSON };
    of_json(text, 0, &options, DEPTH_MAX)
}

/// Reads the values of a JSON text, one after the other. Lines that begin with `#` are passed over.
pub(super) fn json(text: &str) -> Result<Vec<Node>, Fault> {
    let text = without_remarks(text);
    let (mut nodes, mut begins) = (Vec::new(), 0);
    let mut values = serde_json::Deserializer::from_str(&text).into_iter::<IgnoredAny>();
    while let Some(value) = values.next() {
        // The parser names the place by its line.
        let start = |line: usize| text.split_inclusive('\n').take(line.saturating_sub(1)).map(str::len).sum();
        value.map_err(|error| Fault::new(start(error.line()), "", format!("not JSON: {}", without_place(&error))))?;
        let ends = values.byte_offset();
        nodes.push(of_json(&text[begins..ends], begins, &JSON, RULES_DEPTH_MAX)?);
        begins = ends;
    }
    Ok(nodes)
}

/// The text with remarks blanked out, so that each part keeps its place.
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

/// JSON as its standard has it: what the parser takes beyond that is off.
const JSON: ParseOptions = ParseOptions {
    allow_comments: false,
    allow_loose_object_property_names: false,
    allow_trailing_commas: false,
    allow_missing_commas: false,
    allow_single_quoted_strings: false,
    allow_hexadecimal_numbers: false,
    allow_unary_plus_numbers: false,
    allow_bare_decimal_point_numbers: false,
    allow_non_finite_numbers: false,
    allow_extended_string_escapes: false,
};

/// How deep the parser of JSON may recurse. Its own bound (512) is too much for a small stack.
const PARSED_DEPTH_MAX: usize = 128;

/// Reads one value, which begins at byte `at` of its file.
fn of_json(text: &str, at: usize, options: &ParseOptions, depth: usize) -> Result<Node, Fault> {
    let (mut scanner, mut deep) = (Scanner::new(text, &ScannerOptions::default()), 0_usize);
    // A text that cannot be scanned to its end is refused by the parser at the same place.
    while let Ok(Some(token)) = scanner.scan() {
        match token {
            Token::OpenBrace | Token::OpenBracket => deep += 1,
            Token::CloseBrace | Token::CloseBracket => deep = deep.saturating_sub(1),
            _ => {}
        }
        if deep > PARSED_DEPTH_MAX {
            let why = format!("nested too deep: more than {PARSED_DEPTH_MAX} levels");
            return Err(Fault::new(at + scanner.token_start(), "", why));
        }
    }
    let parsed = jsonc_parser::parse_to_ast(text, &CollectOptions::default(), options).map_err(|error| {
        let said = error.kind().to_string().to_lowercase();
        Fault::new(at + error.range().start, "", format!("not JSON: {said}"))
    })?;
    let value = parsed.value.ok_or_else(|| Fault::new(at, "", "not JSON: the text has no value"))?;
    of_ast(value, at, depth)
}

fn of_ast(value: ast::Value<'_>, file: usize, depth: usize) -> Result<Node, Fault> {
    let at = file + value.start();
    let value = match value {
        ast::Value::Object(_) | ast::Value::Array(_) if depth == 0 => Value::Other("so many levels"),
        ast::Value::StringLit(text) => Value::Text(text.value.into_owned()),
        ast::Value::Array(list) => {
            let items = list.elements.into_iter().map(|item| of_ast(item, file, depth - 1));
            Value::List(items.collect::<Result<_, _>>()?)
        }
        ast::Value::Object(object) => {
            let mut fields: Vec<Field> = Vec::with_capacity(object.properties.len());
            let mut names = BTreeSet::new();
            for property in object.properties {
                let name = property.name.into_string();
                let node = of_ast(property.value, file, depth - 1)?;
                if !names.insert(name.clone()) {
                    return Err(Fault::new(node.at, quoted(&name), "the field occurs twice: write it once"));
                }
                fields.push(Field { name, node });
            }
            Value::Map(fields)
        }
        ast::Value::BooleanLit(is) => Value::Bool(is.value),
        ast::Value::NullKeyword(_) => Value::Null,
        ast::Value::NumberLit(number) => {
            let wrong = |error| Fault::new(at, "", format!("not JSON: {}", without_place(&error)));
            Value::Number(serde_json::from_str(number.value).map_err(wrong)?)
        }
    };
    Ok(Node { at, value })
}
