//! Content blocks: those of a prompt as the parts of a message, and our texts as blocks.
//!
//! Pure. A link is named and never followed: the model reads the file with its own tools, under their rules.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde::Deserialize;
use serde_json::{Value, json};
use tamtam::{Message, Part, session::FilePart};

use crate::rpc::Fault;

/// The longest text of one update, in bytes: a longer one comes in pieces.
const TEXT_BYTES_MAX: usize = 64 << 10;

/// One block of a prompt.
#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum Block {
    Text {
        text: String,
    },
    Image {
        data: String,
        #[serde(rename = "mimeType")]
        mime: String,
    },
    Audio {},
    ResourceLink {
        name: String,
        uri: String,
    },
    Resource {
        resource: Resource,
    },
}

/// A file whose content is in the prompt.
#[derive(Debug, Deserialize)]
pub(crate) struct Resource {
    uri: String,
    #[serde(rename = "mimeType")]
    mime: Option<String>,
    text: Option<String>,
    blob: Option<String>,
}

/// The message of a prompt.
pub(crate) fn message(blocks: Vec<Block>) -> Result<Message, Fault> {
    let parts = blocks.into_iter().map(part).collect::<Result<Vec<_>, _>>()?;
    if parts.is_empty() {
        return Err(Fault::bad_params("prompt: it is empty"));
    }
    let mut message = Message::user("");
    message.parts = parts;
    Ok(message)
}

fn part(block: Block) -> Result<Part, Fault> {
    match block {
        Block::Text { text } => Ok(Part::text(text)),
        Block::Image { data, mime } if mime.starts_with("image/") => bytes(&data, &mime, None),
        Block::Image { mime, .. } => Err(Fault::bad_params(format!("prompt: {mime:?} is no image"))),
        Block::Audio {} => Err(Fault::bad_params("prompt: sound is not taken: send its words")),
        Block::ResourceLink { name, uri } => Ok(Part::text(format!("[{name}]({uri})"))),
        Block::Resource { resource: Resource { uri, text: Some(text), .. } } => {
            Ok(Part::file("text/plain", Some(uri), text.as_bytes()))
        }
        Block::Resource { resource: Resource { uri, mime, blob: Some(blob), .. } } => {
            bytes(&blob, mime.as_deref().unwrap_or("application/octet-stream"), Some(uri))
        }
        Block::Resource { .. } => Err(Fault::bad_params("prompt: a resource has neither `text` nor `blob`")),
    }
}

fn bytes(data: &str, mime: &str, name: Option<String>) -> Result<Part, Fault> {
    let bytes = STANDARD.decode(data).map_err(|error| Fault::bad_params(format!("prompt: no base64: {error}")))?;
    Ok(Part::file(mime, name, &bytes))
}

/// A text as a block.
pub(crate) fn text(text: &str) -> Value {
    json!({ "type": "text", "text": text })
}

/// A file as a block: an image that is in the message as one, anything else by its name.
pub(crate) fn file(file: &FilePart) -> Value {
    match file.base64() {
        Some(data) if file.mime.starts_with("image/") => {
            json!({ "type": "image", "data": data, "mimeType": file.mime })
        }
        _ => {
            let name = file.filename.as_deref().unwrap_or("file");
            let uri = if file.url.starts_with("data:") { name } else { &file.url };
            json!({ "type": "resource_link", "name": name, "uri": uri, "mimeType": file.mime })
        }
    }
}

/// The parts of a message of a user as blocks.
pub(crate) fn blocks(message: &Message) -> Vec<Value> {
    let blocks = message.parts.iter().flat_map(|part| match part {
        Part::Text(part) => pieces(&part.text).map(text).collect(),
        Part::File(part) => vec![file(part)],
        _ => Vec::new(),
    });
    blocks.collect()
}

/// A text in pieces that an update can carry. Empty for an empty one.
pub(crate) fn pieces(mut text: &str) -> impl Iterator<Item = &str> {
    std::iter::from_fn(move || {
        let (piece, rest) = text.split_at(text.floor_char_boundary(TEXT_BYTES_MAX));
        text = rest;
        (!piece.is_empty()).then_some(piece)
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn read(blocks: Value) -> Result<Message, Fault> {
        message(serde_json::from_value(blocks).unwrap())
    }

    #[test]
    fn a_prompt_is_text_images_files_and_names_of_files() {
        let said = read(json!([
            { "type": "text", "text": "Look at " },
            { "type": "resource_link", "name": "a.rs", "uri": "file:///w/a.rs" },
            { "type": "image", "data": "aGk=", "mimeType": "image/png" },
            { "type": "resource", "resource": { "uri": "file:///w/b.rs", "text": "fn b() {}" } },
        ]))
        .unwrap();
        assert_eq!(said.text(), "Look at [a.rs](file:///w/a.rs)");
        let files: Vec<_> = said.parts.iter().filter(|part| matches!(part, Part::File(_))).cloned().collect();
        let text = Part::file("text/plain", Some("file:///w/b.rs".into()), b"fn b() {}");
        assert_eq!(files, [Part::file("image/png", None, b"hi"), text]);
    }

    #[test]
    fn what_cannot_be_sent_to_a_model_is_refused() {
        for (bad, why) in [
            (json!([]), "empty"),
            (json!([{ "type": "audio", "data": "", "mimeType": "audio/wav" }]), "sound"),
            (json!([{ "type": "image", "data": "aGk=", "mimeType": "text/html" }]), "no image"),
            (json!([{ "type": "image", "data": "%", "mimeType": "image/png" }]), "base64"),
            (json!([{ "type": "resource", "resource": { "uri": "x" } }]), "neither"),
        ] {
            let fault = read(bad).unwrap_err();
            assert!(fault.message.contains(why), "{}", fault.message);
        }
    }

    #[test]
    fn a_long_text_comes_in_pieces_that_are_whole_characters() {
        let long = "é".repeat(TEXT_BYTES_MAX);
        let pieces: Vec<_> = pieces(&long).collect();
        assert_eq!((pieces.len(), pieces.concat()), (2, long));
    }
}
