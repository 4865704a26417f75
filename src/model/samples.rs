//! Short constructors of conversation items, for the tests of the wires and of the context. Test code only. What a test does not
//! name is fixed: every message has the id `m`, every call and result is of the tool `read`. A change of these values changes the
//! requests that the tests expect.

use super::{
    AnswerPart, Delta, Endpoint, History, Item, ModelAnswer, ModelError, Request, ToolResultItem, UserItem, sse::Event,
    wire::Reading,
};
use crate::words::message::{Extra, Finish, Part, Span};

pub(crate) fn user(text: &str) -> Item {
    user_of(vec![Part::text(text)])
}

pub(crate) fn user_of(parts: Vec<Part>) -> Item {
    Item::User(UserItem { id: "m".into(), parts, fragment: Default::default() })
}

pub(crate) fn answer(parts: Vec<AnswerPart>) -> Item {
    Item::Assistant(ModelAnswer::new(parts, Finish::Stop))
}

pub(crate) fn text(text: &str) -> AnswerPart {
    AnswerPart::Text { text: text.into(), extra: None }
}

/// A thought that came from that endpoint's API under this provider's name.
pub(crate) fn thought(endpoint: &Endpoint, provider: &str, text: &str, value: serde_json::Value) -> AnswerPart {
    let extra = Some(Extra { provider: provider.into(), api: endpoint.api.name().into(), value });
    AnswerPart::Reasoning { text: text.into(), time: Span::default(), extra }
}

pub(crate) fn call(id: &str, input: &str) -> AnswerPart {
    AnswerPart::Call { id: id.into(), name: "read".into(), input: input.into(), extra: None }
}

pub(crate) fn result(call: &str, content: &str) -> ToolResultItem {
    ToolResultItem {
        call: call.into(),
        name: "read".into(),
        content: content.into(),
        is_error: false,
        attachments: vec![],
        time: crate::words::ids::Millis(0),
        seq: Default::default(),
        fragment: Default::default(),
    }
}

/// What the wire of an endpoint reads of a stream with these events, and what it showed meanwhile.
pub(crate) fn read(endpoint: &Endpoint, events: &[impl AsRef<str>]) -> (Result<ModelAnswer, ModelError>, Vec<Delta>) {
    let mut deltas = Vec::new();
    let mut push = |delta| deltas.push(delta);
    let mut reading = Reading::new(endpoint, &Request::new(History::default()), &mut push);
    let failed = events.iter().find_map(|data| {
        let event = Event { data: data.as_ref().to_owned(), ..Event::default() };
        reading.event(&event).err()
    });
    let answer = failed.map_or_else(|| reading.finish(), Err);
    (answer, deltas)
}

/// The smallest image: one black pixel.
pub(crate) const PNG: &[u8] = b"\x89PNG\x0d\x0a\x1a\x0a\x00\x00\x00\x0dIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x00\x00\x00\x00:~\x9bU\x00\x00\x00\x0aIDATx\x9cc`\x00\x00\x00\x02\x00\x01H\xaf\xa4q\x00\x00\x00\x00IEND\xaeB`\x82";
