//! The result of a call, from what the server answered.
//!
//! A pure function. Text is passed on as it is, and bounded by the runtime as every result is; images become attachments; what no
//! model is shown (sound, bytes, links) becomes a line that names it. Nothing is fetched.

use base64::Engine as _;
use serde_json::Value;
use tamtam::{session::FilePart, tool::ToolResult};

use crate::text::clean_line;

/// The kinds of images that models are shown.
const IMAGES: &[&str] = &["image/png", "image/jpeg", "image/gif", "image/webp"];
/// How many images of one result are kept.
const IMAGES_MAX: usize = 8;
/// How many bytes the images of one result may have together.
const IMAGE_BYTES_MAX: usize = 4 * 1024 * 1024;
/// How many parts of one result are read.
const PARTS_MAX: usize = 1_000;

/// Makes a result of a server's answer to `tools/call`.
pub(crate) fn result(answer: &Value) -> ToolResult {
    let (mut texts, mut images, mut image_bytes) = (Vec::new(), Vec::new(), 0);
    let parts = answer["content"].as_array().map(Vec::as_slice).unwrap_or_default();
    for part in parts.iter().take(PARTS_MAX) {
        match part["type"].as_str() {
            Some("text") => texts.push(part["text"].as_str().unwrap_or_default().to_owned()),
            Some("image") => match image(part) {
                Ok((mime, bytes)) if images.len() < IMAGES_MAX && image_bytes + bytes.len() <= IMAGE_BYTES_MAX => {
                    image_bytes += bytes.len();
                    images.push(FilePart::inline(mime, None, &bytes));
                }
                Ok((mime, bytes)) => texts.push(format!("[an {mime} of {} bytes was left out: too much]", bytes.len())),
                Err(why) => texts.push(format!("[an image was left out: {why}]")),
            },
            Some("resource") => texts.push(embedded(&part["resource"])),
            Some("resource_link") => texts.push(format!("[link: {}]", named(part))),
            Some("audio") => texts.push(format!("[sound was left out: {}]", named(part))),
            kind => texts.push(format!("[a part was left out: {:?}]", clean_line(kind.unwrap_or("no type"), 64))),
        }
    }
    if parts.len() > PARTS_MAX {
        texts.push(format!("[{} more parts were left out]", parts.len() - PARTS_MAX));
    }
    let structured = &answer["structuredContent"];
    if texts.is_empty() && !structured.is_null() {
        texts.push(structured.to_string());
    }
    let is_error = answer["isError"] == true;
    let text = texts.join("\n");
    let mut result = if is_error { ToolResult::error(text) } else { ToolResult::ok(text) };
    result.details = structured.clone();
    result.attachments = images;
    result
}

/// The kind and the bytes of an image.
fn image(part: &Value) -> Result<(&'static str, Vec<u8>), String> {
    let said = part["mimeType"].as_str().unwrap_or_default();
    let mime = IMAGES.iter().find(|mime| **mime == said);
    let mime = mime.ok_or_else(|| format!("no model is shown {:?}", clean_line(said, 64)))?;
    let data = part["data"].as_str().unwrap_or_default();
    let bytes = base64::engine::general_purpose::STANDARD.decode(data).map_err(|_| "its data is not base64")?;
    Ok((mime, bytes))
}

/// A resource that comes with the result: its text, under its name.
fn embedded(resource: &Value) -> String {
    match resource["text"].as_str() {
        Some(text) => format!("[{}]\n{text}", named(resource)),
        None => format!("[bytes were left out: {}]", named(resource)),
    }
}

/// What a part says of itself, on one line.
fn named(part: &Value) -> String {
    let said = ["title", "name", "uri", "mimeType"].iter().filter_map(|field| part[*field].as_str());
    said.map(|text| clean_line(text, 512)).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn text_passes_and_the_rest_is_named() {
        let png = base64::engine::general_purpose::STANDARD.encode([1, 2, 3]);
        let answer = json!({"content": [
            {"type": "text", "text": "one"},
            {"type": "image", "mimeType": "image/png", "data": png},
            {"type": "image", "mimeType": "image/svg+xml", "data": png},
            {"type": "image", "mimeType": "image/png", "data": "%"},
            {"type": "audio", "mimeType": "audio/wav", "data": png},
            {"type": "resource", "resource": {"uri": "file:///a\u{1b}", "mimeType": "text/plain", "text": "inside"}},
            {"type": "resource", "resource": {"uri": "file:///b", "blob": png}},
            {"type": "resource_link", "uri": "http://x/y", "name": "y\nz"},
            {"type": "hologram"},
            7,
        ], "structuredContent": {"n": 1}});
        let result = result(&answer);
        assert_eq!(
            result.content,
            "one\n[an image was left out: no model is shown \"image/svg+xml\"]\n[an image was left out: its data is not base64]\n\
             [sound was left out: audio/wav]\n[file:///a, text/plain]\ninside\n[bytes were left out: file:///b]\n\
             [link: y z, http://x/y]\n[a part was left out: \"hologram\"]\n[a part was left out: \"no type\"]"
        );
        assert_eq!(result.details, json!({"n": 1}));
        assert_eq!(result.attachments, [FilePart::inline("image/png", None, &[1, 2, 3])]);
        assert!(!result.is_error());
    }

    #[test]
    fn an_error_of_the_tool_is_an_error_and_values_alone_are_shown_as_json() {
        let failed = result(&json!({"content": [{"type": "text", "text": "no such file"}], "isError": true}));
        assert_eq!((failed.content.as_str(), failed.is_error()), ("no such file", true));
        assert_eq!(result(&json!({"structuredContent": {"n": 1}})).content, "{\"n\":1}");
        assert_eq!(result(&json!({})), ToolResult::ok(""));
        assert_eq!(result(&json!("nothing of the kind")), ToolResult::ok(""));
    }

    #[test]
    fn images_are_bounded_in_number_and_in_size() {
        let image = |bytes: usize| {
            let data = base64::engine::general_purpose::STANDARD.encode(vec![0; bytes]);
            json!({"type": "image", "mimeType": "image/png", "data": data})
        };
        let many = result(&json!({"content": vec![image(1); 10]}));
        assert_eq!((many.attachments.len(), many.content.lines().count()), (8, 2));
        let large = result(&json!({"content": [image(IMAGE_BYTES_MAX), image(1)]}));
        assert_eq!(large.content, "[an image/png of 1 bytes was left out: too much]");
        let parts = result(&json!({"content": vec![json!({"type": "text", "text": "x"}); 1_002]}));
        assert!(parts.content.ends_with("x\n[2 more parts were left out]"));
    }
}
