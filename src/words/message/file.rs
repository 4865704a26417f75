//! The file part: a file or an image that goes with a message or a result.
//!
//! The part is a value: nothing here reads a file or fetches a URL, and neither the bytes nor the media type are checked. A
//! change must keep its JSON form, which is on tapes and in events.

use serde::{Deserialize, Serialize};

/// A file or an image.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(feature = "tools", feature = "schema"), derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct FilePart {
    /// `data:MIME;base64,…` for bytes in the message itself, else the URL or path of the file.
    pub url: String,
    /// The name of the file, for people and models.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filename: Option<String>,
    /// The media type, such as `image/png`.
    pub mime: String,
}

impl FilePart {
    /// A part that carries its bytes.
    #[must_use]
    pub fn inline(mime: impl Into<String>, filename: Option<String>, bytes: &[u8]) -> FilePart {
        use base64::Engine as _;
        let mime = mime.into();
        let data = base64::engine::general_purpose::STANDARD.encode(bytes);
        FilePart { url: format!("data:{mime};base64,{data}"), filename, mime }
    }

    /// Whether a model is shown the file itself, if it can be, and not its text or a line that names it.
    #[must_use]
    pub(crate) fn is_shown(&self) -> bool {
        self.mime.starts_with("image/") || self.mime == "application/pdf"
    }

    /// The base64 text of the bytes, if they are in the message itself.
    #[must_use]
    pub fn base64(&self) -> Option<&str> {
        let rest = self.url.strip_prefix("data:")?;
        let (_, data) = rest.split_once(";base64,")?;
        Some(data)
    }
}
