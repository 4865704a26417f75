//! What the wires (the code for one provider's format each) render items from: the texts and files of a message as pieces, and ids,
//! tool names and arguments in a form that no server refuses.
//!
//! A file that a model cannot be shown becomes text: the content of a text file, for any other file a line that names it. No file
//! is dropped in silence. Pure functions of values.
//!
//! A change must keep this: the same item renders to the same bytes each time, for the providers' caches; text that the runtime put
//! in the user's place is marked as not the user's; and two different call ids do not become one, short of a hash collision or
//! an id that is made to look like a hashed one. Nothing rests on different tool names, which may become one.

use std::borrow::Cow;

use base64::Engine as _;

use crate::{
    model::{Endpoint, UserItem, image, object},
    words::message::{FilePart, Part},
};

#[cfg(any(feature = "openai", feature = "anthropic"))]
use crate::words::ids::CallId;
pub(crate) use crate::words::message::NOT_THE_USER;

/// Something a model can be shown.
#[derive(Debug, PartialEq)]
pub(crate) enum Piece<'a> {
    Text(Cow<'a, str>),
    /// An image, with its media type by its bytes.
    Image(&'a FilePart, &'a str),
    Pdf(&'a FilePart),
}

impl Piece<'_> {
    /// The text, where the piece is a text.
    pub(crate) fn text(&self) -> Option<&str> {
        match self {
            Piece::Text(text) => Some(text),
            Piece::Image(..) | Piece::Pdf(_) => None,
        }
    }
}

/// What a model can be shown besides text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Takes {
    pub(crate) images: bool,
    pub(crate) pdf: bool,
    /// Whether GIF is among the images.
    pub(crate) gif: bool,
    /// The most bytes of one image as base64.
    pub(crate) image_bytes_max: usize,
}

impl Takes {
    /// What the model behind an endpoint takes; PDF files only on a wire that has a place for them.
    pub(crate) fn of(endpoint: &Endpoint, pdf: bool) -> Takes {
        let images = endpoint.limits.images;
        Takes { images, pdf: images && pdf, gif: true, image_bytes_max: endpoint.quirks.image_bytes_max }
    }
}

/// The images that providers with images take; one of them takes no GIF.
const IMAGE_TYPES: &[&str] = &["image/png", "image/jpeg", "image/gif", "image/webp"];

/// The pieces of a message in the user's place. What the runtime wrote is marked so, in the same piece: others may follow it.
pub(crate) fn said_by_user(user: &UserItem, takes: Takes) -> Vec<Piece<'_>> {
    let mut pieces = pieces(&user.parts, takes);
    if user.id.is_of_runtime()
        && let Some(Piece::Text(text)) = pieces.first_mut()
    {
        *text = format!("{NOT_THE_USER}\n{text}").into();
    }
    pieces
}

/// The pieces of a user's message. Text replaces a file that the model cannot be shown. Blank texts and parts of other kinds are
/// skipped; a message of which nothing is left becomes `(empty message)`.
fn pieces(parts: &[Part], takes: Takes) -> Vec<Piece<'_>> {
    let pieces = parts.iter().filter_map(|part| match part {
        Part::Text(text) => Some(Piece::Text(text.text.as_str().into())),
        Part::File(file) => Some(file_piece(file, takes)),
        _ => None,
    });
    let is_blank = |piece: &Piece<'_>| piece.text().is_some_and(|text| text.trim().is_empty());
    let mut pieces: Vec<Piece<'_>> = pieces.filter(|piece| !is_blank(piece)).collect();
    if pieces.is_empty() {
        pieces.push(Piece::Text("(empty message)".into()));
    }
    pieces
}

/// One file as a piece.
pub(crate) fn file_piece(file: &FilePart, takes: Takes) -> Piece<'_> {
    let name = file.filename.as_deref().unwrap_or("unnamed");
    let is_remote = file.url.starts_with("https://") || file.url.starts_with("http://");
    let can_go = file.base64().is_some() || is_remote;
    if file.mime.starts_with("image/") {
        let why = match image_kind(file, takes) {
            Ok(kind) => return Piece::Image(file, kind),
            Err(why) => why,
        };
        return Piece::Text(format!("[image {name:?} ({}) left out: {why}]", file.mime).into());
    }
    if file.mime == "application/pdf" && takes.pdf && can_go {
        return Piece::Pdf(file);
    }
    match text_of(file) {
        Some(text) => Piece::Text(format!("[file {name:?}]\n{text}").into()),
        None => Piece::Text(format!("[file {name:?} ({}) left out: this model cannot be sent it]", file.mime).into()),
    }
}

/// The media type of an image that can be sent, or why it cannot. An image sent as an address is fetched by the provider.
fn image_kind(file: &FilePart, takes: Takes) -> Result<&str, Cow<'static, str>> {
    if !takes.images {
        return Err("this model takes no images".into());
    }
    if !IMAGE_TYPES.contains(&file.mime.as_str()) {
        return Err("this kind of image cannot be sent".into());
    }
    let kind = match file.base64() {
        None if file.url.starts_with("https://") || file.url.starts_with("http://") => &*file.mime,
        None => return Err("this kind of image cannot be sent".into()),
        Some(data) if data.len() > takes.image_bytes_max => {
            let bytes_max = takes.image_bytes_max / 4 * 3;
            return Err(format!("it has more than {bytes_max} bytes, which this provider does not take").into());
        }
        Some(data) => image::kind(data)?,
    };
    match kind {
        "image/gif" if !takes.gif => Err("this provider takes no GIF images".into()),
        kind => Ok(kind),
    }
}

/// The text of a text file that travels in the message.
fn text_of(file: &FilePart) -> Option<String> {
    let is_text =
        file.mime.starts_with("text/") || matches!(file.mime.as_str(), "application/json" | "application/xml");
    let data = file.base64().filter(|_| is_text)?;
    String::from_utf8(base64::engine::general_purpose::STANDARD.decode(data).ok()?).ok()
}

/// The text of a result that has none: some servers refuse an empty one.
pub(crate) const NO_OUTPUT: &str = "(no output)";

/// The arguments of a call as every server takes them: a JSON object.
///
/// A JSON object goes back as it was written, without white space around it. Arguments that mean an object (`model/arguments.rs`)
/// go back as that object. Any other text, such as arguments that were cut off, becomes a string in an object, so that the model
/// still sees what it wrote.
pub(crate) fn arguments(input: &str) -> Cow<'_, str> {
    let text = input.trim();
    // A full parse, and not a look at the braces: servers refuse lone surrogates and numbers out of range too.
    if text.starts_with('{') && serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(text).is_ok() {
        return text.into();
    }
    match object(text) {
        Ok(fields) => serde_json::Value::Object(fields).to_string().into(),
        Err(_) => serde_json::json!({ "invalid_arguments": text }).to_string().into(),
    }
}

/// The longest call id that OpenAI takes, in bytes.
#[cfg(feature = "openai")]
const CALL_ID_BYTES_MAX: usize = 40;

/// A call id within the bounds of Chat Completions.
#[cfg(feature = "openai")]
pub(crate) fn short_id(id: &CallId) -> Cow<'_, str> {
    id_or_hash(id, id.as_str().len() <= CALL_ID_BYTES_MAX)
}

/// A call id with only the characters that Anthropic's Messages API accepts. An id of another provider may have a colon or a dot.
#[cfg(feature = "anthropic")]
pub(crate) fn plain_id(id: &CallId) -> Cow<'_, str> {
    id_or_hash(id, id.as_str().bytes().all(is_plain))
}

/// The id, where it can be sent. Otherwise its hash: so two ids never become one, short of a hash collision.
#[cfg(any(feature = "openai", feature = "anthropic"))]
fn id_or_hash(id: &CallId, can_go: bool) -> Cow<'_, str> {
    if can_go && !id.as_str().is_empty() {
        return id.as_str().into();
    }
    format!("call_{}", &blake3::hash(id.as_str().as_bytes()).to_hex()[..24]).into()
}

/// A tool's name as the APIs take it. Models sometimes call tools whose names no API takes.
pub(crate) fn plain_name(name: &str) -> Cow<'_, str> {
    if name.is_empty() {
        return "unnamed".into();
    }
    if name.len() <= 64 && name.bytes().all(is_plain) {
        return name.into();
    }
    name.chars().map(|c| if c.is_ascii() && is_plain(c as u8) { c } else { '_' }).take(64).collect::<String>().into()
}

fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-'
}

/// Writes a value as JSON.
///
/// The values here are strings, numbers, and trees of them with text keys. Such values always serialize, so there is no error to
/// return.
pub(crate) fn write_json(out: &mut Vec<u8>, value: &(impl serde::Serialize + ?Sized)) {
    let written = serde_json::to_writer(&mut *out, value);
    debug_assert!(written.is_ok(), "plain values always serialize");
}

#[cfg(all(test, feature = "http"))]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]

    use super::*;
    use crate::model::samples::PNG;

    const ALL: Takes = Takes { images: true, pdf: true, gif: true, image_bytes_max: 200 };
    const NONE: Takes = Takes { images: false, ..ALL };

    #[test]
    fn an_image_for_a_model_without_images_is_a_line_that_names_it() {
        let image = Part::file("image/png", Some("shot.png".into()), PNG);
        let parts = [image];
        assert!(matches!(pieces(&parts, ALL)[..], [Piece::Image(_, "image/png")]));
        let expected = "[image \"shot.png\" (image/png) left out: this model takes no images]";
        assert_eq!(pieces(&parts, NONE), [Piece::Text(expected.into())]);
    }

    /// An image that a provider would refuse is a line that says why, and an image under a wrong type is sent under its own.
    #[test]
    fn an_image_that_would_be_refused_is_not_sent() {
        let large = [PNG, &[0; 99]].concat();
        for (mime, bytes, why) in [
            ("image/png", &PNG[..40], "it is not whole"),
            ("image/png", b"<html>", "its bytes are not an image of a known kind"),
            ("image/png", &large, "it has more than 150 bytes, which this provider does not take"),
            ("image/tiff", PNG, "this kind of image cannot be sent"),
        ] {
            let parts = [Part::file(mime, Some("a".into()), bytes)];
            let expected = format!("[image \"a\" ({mime}) left out: {why}]");
            assert_eq!(pieces(&parts, ALL), [Piece::Text(expected.into())]);
        }
        let renamed = [Part::file("image/jpeg", None, PNG)];
        assert!(matches!(pieces(&renamed, ALL)[..], [Piece::Image(_, "image/png")]));
    }

    #[test]
    fn text_files_are_told_and_other_files_named() {
        let parts = [
            Part::file("text/plain", Some("a.txt".into()), "né".as_bytes()),
            Part::file("application/zip", None, b"PK"),
        ];
        let expected = [
            Piece::Text("[file \"a.txt\"]\nné".into()),
            Piece::Text("[file \"unnamed\" (application/zip) left out: this model cannot be sent it]".into()),
        ];
        assert_eq!(pieces(&parts, ALL), expected);
    }

    #[test]
    fn arguments_are_an_object_whatever_the_model_wrote() {
        assert_eq!(arguments("{\"b\": 1, \"a\":2}"), "{\"b\": 1, \"a\":2}");
        assert_eq!(arguments(""), "{}");
        assert_eq!(arguments("null"), "{}");
        assert_eq!(arguments("{}{\"b\": 1}"), "{\"b\":1}", "what was run is what goes back");
        assert_eq!(arguments("\"{\\\"b\\\": 1}\""), "{\"b\":1}");
        assert_eq!(arguments("[1]"), "{\"invalid_arguments\":\"[1]\"}");
        assert_eq!(arguments("{\"path\": \"a"), "{\"invalid_arguments\":\"{\\\"path\\\": \\\"a\"}");
        assert!(arguments("{\"a\":\"\\ud800\"}").contains("invalid_arguments"));
    }

    #[test]
    fn ids_and_names_are_put_into_the_alphabet_of_the_servers() {
        assert_eq!(plain_id(&"toolu_01-A".into()), "toolu_01-A");
        assert!(plain_id(&"functions.bash:0".into()).starts_with("call_"));
        assert_ne!(plain_id(&"a.b".into()), plain_id(&"a:b".into()));
        assert_eq!(short_id(&"functions.bash:0".into()), "functions.bash:0");
        assert_eq!(short_id(&"x".repeat(41).into()).len(), 29);
        assert_eq!(plain_name(""), "unnamed");
        assert_eq!(plain_name("read file é"), "read_file__");
    }
}
