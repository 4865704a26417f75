//! Reads YAML into the kind of value that [`document`](super) has, for the front matter of agents and commands: the JSON part of
//! YAML 1.2, with its plain words for true, false, null and numbers. Tags and anchors are passed over.
//!
//! A change must keep the refusals, because these files may come from strangers: aliases (a short text with them can expand to a
//! huge one), nesting beyond `DEPTH_MAX`, a second document, and a key that is a list or a map or occurs twice.

use std::collections::BTreeSet;

use saphyr_parser::{Event, Parser, ScalarStyle, ScanError, Span, StrInput};

use super::{DEPTH_MAX, Fault, Field, Node, Value, number_of, quoted};

/// Reads one document. A text without one is `null`. Places are those of the same line in `written`, of which `text` may be a copy
/// with other characters in its lines.
pub(crate) fn yaml(text: &str, written: &str) -> Result<Node, Fault> {
    let mut reader = Reader { events: Parser::new_from_str(text), written };
    loop {
        match reader.next()? {
            (Event::StreamEnd, _) => return Ok(Node { at: 0, value: Value::Null }),
            (Event::StreamStart | Event::DocumentStart(_) | Event::Nothing, _) => {}
            (first, span) => {
                let node = reader.node(first, span, DEPTH_MAX)?;
                return reader.nothing_more().map(|()| node);
            }
        }
    }
}

struct Reader<'a> {
    events: Parser<'a, StrInput<'a>>,
    written: &'a str,
}

impl<'a> Reader<'a> {
    fn next(&mut self) -> Result<(Event<'a>, Span), Fault> {
        match self.events.next_event() {
            Some(Ok(event)) => Ok(event),
            Some(Err(error)) => Err(self.unreadable(&error)),
            None => Ok((Event::StreamEnd, Span::default())),
        }
    }

    fn unreadable(&self, error: &ScanError) -> Fault {
        Fault::new(self.line(error.marker().line()), "", format!("not YAML: {}", error.info()))
    }

    /// Where a line begins. The parser counts characters and not bytes; of its places, lines are enough for messages.
    fn line(&self, line: usize) -> usize {
        self.written.split_inclusive('\n').take(line.saturating_sub(1)).map(str::len).sum()
    }

    /// The node that begins with this event.
    fn node(&mut self, first: Event<'a>, span: Span, depth: usize) -> Result<Node, Fault> {
        let at = self.line(span.start.line());
        if depth == 0 {
            return Err(Fault::new(at, "", "nested too deep"));
        }
        let value = match first {
            Event::Scalar(text, ScalarStyle::Plain, ..) => plain(&text),
            Event::Scalar(text, ..) => Value::Text(text.into_owned()),
            Event::SequenceStart(..) => Value::List(self.items(depth)?),
            Event::MappingStart(..) => Value::Map(self.fields(depth)?),
            Event::Alias(_) => return Err(Fault::new(at, "", "an alias (*name) is not read: write the value itself")),
            _ => return Err(Fault::new(at, "", "not YAML: a value is missing")),
        };
        Ok(Node { at, value })
    }

    fn items(&mut self, depth: usize) -> Result<Vec<Node>, Fault> {
        let mut items = Vec::new();
        loop {
            match self.next()? {
                (Event::SequenceEnd | Event::StreamEnd, _) => return Ok(items),
                (first, span) => items.push(self.node(first, span, depth - 1)?),
            }
        }
    }

    fn fields(&mut self, depth: usize) -> Result<Vec<Field>, Fault> {
        let (mut fields, mut names) = (Vec::new(), BTreeSet::new());
        loop {
            let (name, at) = match self.next()? {
                (Event::MappingEnd | Event::StreamEnd, _) => return Ok(fields),
                (Event::Scalar(name, ..), span) => (name.into_owned(), self.line(span.start.line())),
                (_, span) => {
                    return Err(Fault::new(self.line(span.start.line()), "", "a field name is not text"));
                }
            };
            if !names.insert(name.clone()) {
                return Err(Fault::new(at, quoted(&name), "the field occurs twice: write it once"));
            }
            let (first, span) = self.next()?;
            let node = self.node(first, span, depth - 1)?;
            // An empty value has the position of the next one; a message means the line of its name.
            fields.push(Field { name, node: Node { at, ..node } });
        }
    }

    fn nothing_more(&mut self) -> Result<(), Fault> {
        loop {
            match self.next()? {
                (Event::StreamEnd, _) => return Ok(()),
                (Event::DocumentEnd | Event::Nothing, _) => {}
                (_, span) => return Err(Fault::new(self.line(span.start.line()), "", "a second document: write one")),
            }
        }
    }
}

/// The value of a word without quotes.
fn plain(text: &str) -> Value {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "true" | "True" | "TRUE" => Value::Bool(true),
        "false" | "False" | "FALSE" => Value::Bool(false),
        _ if text.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '-' | '+' | '.')) => {
            match number_of(text, 10) {
                number @ Value::Number(_) => number,
                _ => Value::Text(text.to_owned()),
            }
        }
        _ => Value::Text(text.to_owned()),
    }
}
