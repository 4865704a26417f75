//! [`Redact`]: a hook that takes keys out of what tools give, and if asked out of what the model answers, before a listener or a
//! tape has it.
//!
//! The hook knows the shapes of the usual keys (`words/secrets/table.rs`), and the values that the host names. It sees whole
//! results, and the streams of calls that run (`words/secrets/scan.rs`). A key that has no known shape and was not named is not
//! found: shapes are a net, not a proof.
//!
//! A change must keep this: a text without keys passes byte by byte, and no key that is found leaves a part of it behind. The
//! fields of a result pass as one text, and what was taken out of the content is taken out of the rest too.
//!
//! Rejected: the crate `regex`. Its engine does not work on a stream: a key that is cut in two would pass. Rejected too: entropy,
//! which takes every hash in a lock file for a key.

#[cfg(test)]
mod tests;

use std::{fmt, sync::Arc};

use serde_json::Value;

use crate::{
    hook::{Hook, HookCall, HookContext, Input},
    model::{AnswerPart, BoxFuture},
    tool::{OutputFilter, ToolResult},
    words::message::{FilePart, Message, Part},
    words::secrets::{Scanner, Wanted, pass_texts, redacted},
};

/// The fewest bytes of a value that a host names.
const VALUE_BYTES_MIN: usize = 6;
/// The fewest bytes of a line of a named value, and of a piece that was taken out of a content, that is a secret on its own.
const LINE_BYTES_MIN: usize = 16;
/// Results of more bytes than this are read on a thread for blocking work.
const INLINE_BYTES_MAX: usize = 256 * 1024;

/// A hook that replaces keys in the output of tools by `[redacted: kind]`.
///
/// It knows keys of OpenAI, Anthropic, GitHub, GitLab, AWS, Google, Slack, Stripe, npm, PyPI, Hugging Face and others by their
/// shape, JSON web tokens, private keys in PEM, `Authorization` headers and passwords in URLs. Hashes, ids and base64 stay. A host
/// names further values with [`Redact::value`].
///
/// Content, title, details and attached texts of each result are read, and the output of calls that run ([`Hook::output_filter`]).
/// The time is linear in the length of the text, and a stream needs a few KiB of memory. Files that tools change keep their
/// content, and so do the copies by which a restore puts them back.
///
/// ```
/// use tamtam::hook::Redact;
///
/// let redact = Redact::new().value("correct horse");
/// assert_eq!(redact.text("the word is correct horse"), "the word is [redacted: secret]");
/// assert_eq!(redact.text("postgres://app:hunter2@db/x"), "postgres://app:[redacted: password in a URL]@db/x");
/// assert_eq!(redact.text("commit 95548dd0c3"), "commit 95548dd0c3");
/// // In a host: Runtime::builder().hook(redact)
/// ```
#[derive(Clone)]
pub struct Redact {
    values: Vec<Box<str>>,
    wanted: Arc<Wanted>,
    answers: bool,
    inputs: bool,
}

impl Default for Redact {
    fn default() -> Redact {
        Redact::new()
    }
}

impl Redact {
    /// A hook that knows the shapes of keys.
    #[must_use]
    pub fn new() -> Redact {
        Redact { values: Vec::new(), wanted: Arc::new(Wanted::new(&[])), answers: false, inputs: false }
    }

    /// Takes this value out too, wherever it occurs: as it is, and as written in JSON. White space around it is dropped. A value
    /// of fewer than six bytes is not taken, because it occurs in ordinary words; one of six or seven bytes is taken if no letter
    /// or digit is next to it. Of a value of several lines each line of 16 bytes or more is taken too, because tools show files
    /// line by line. The value is kept in memory, and is not cleared there.
    #[must_use]
    pub fn value(self, secret: impl AsRef<str>) -> Redact {
        self.values([secret])
    }

    /// As [`Redact::value`], for several.
    #[must_use]
    pub fn values(mut self, secrets: impl IntoIterator<Item = impl AsRef<str>>) -> Redact {
        for secret in secrets {
            let secret = secret.as_ref().trim();
            let json = Value::from(secret).to_string();
            let lines = secret.lines().map(str::trim).filter(|line| line.len() >= LINE_BYTES_MIN);
            for form in [secret, &json[1..json.len() - 1]].into_iter().chain(lines) {
                if form.len() >= VALUE_BYTES_MIN && !self.values.iter().any(|known| **known == *form) {
                    self.values.push(form.into());
                }
            }
        }
        self.wanted = Arc::new(Wanted::new(&self.values));
        self
    }

    /// Takes keys out of the model's answers too: texts, reasoning and arguments of calls. Answers are then not shown piece by
    /// piece ([`Hook::sees_answers`]).
    #[must_use]
    pub fn answers(mut self) -> Redact {
        self.answers = true;
        self
    }

    /// Takes keys out of what people and other programs send, too: texts and attached texts of messages, and the task of a child.
    /// Neither the model nor a tape gets them. Off by default: a key sent to a model is mostly sent on purpose.
    #[must_use]
    pub fn inputs(mut self) -> Redact {
        self.inputs = true;
        self
    }

    /// A text without the keys. A text that has none comes back as it is.
    #[must_use]
    pub fn text(&self, text: &str) -> String {
        // Keys are found at whole characters, so nothing is lost here.
        String::from_utf8(self.bytes(text.as_bytes()))
            .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
    }

    fn bytes(&self, bytes: &[u8]) -> Vec<u8> {
        redacted(&self.wanted, bytes).0
    }

    fn replace(&self, text: &mut String) {
        *text = self.text(text);
    }

    fn json(&self, value: &mut Value) {
        pass_texts(value, |text| self.text(text));
    }

    /// A file's name and address, and its text where it carries one.
    fn file(&self, file: &mut FilePart) {
        use base64::Engine as _;
        let engine = base64::engine::general_purpose::STANDARD;
        if let Some(name) = &mut file.filename {
            self.replace(name);
        }
        let Some(data) = file.base64() else { return self.replace(&mut file.url) };
        let is_text = file.mime.starts_with("text/")
            || ["json", "xml", "yaml", "toml", "javascript", "x-sh", "svg"].iter().any(|word| file.mime.contains(word));
        let Some(bytes) = is_text.then(|| engine.decode(data).ok()).flatten() else { return };
        let passed = self.bytes(&bytes);
        if passed != bytes {
            file.url = format!("data:{};base64,{}", file.mime, engine.encode(passed));
        }
    }

    fn result(&self, mut result: ToolResult) -> ToolResult {
        let (content, taken) = redacted(&self.wanted, result.content.as_bytes());
        // Keys are found at whole characters, so nothing is lost here.
        result.content = String::from_utf8_lossy(&content).into_owned();
        // A field may have a line of a key without the lines that revealed it.
        let long = taken.iter().filter(|taken| taken.len() >= LINE_BYTES_MIN);
        let rest = if taken.is_empty() { self.clone() } else { self.clone().values(long) };
        rest.json(&mut result.details);
        result.title.iter_mut().for_each(|title| rest.replace(title));
        result.attachments.iter_mut().for_each(|file| rest.file(file));
        result
    }

    fn part(&self, part: &mut AnswerPart) {
        match part {
            AnswerPart::Text { text, .. } => self.replace(text),
            AnswerPart::Reasoning { text, extra, .. } => {
                let passed = self.text(text);
                // A provider's signature holds for the thought as it was; a changed one is not sent back.
                if passed != *text {
                    (*text, *extra) = (passed, None);
                }
            }
            // The arguments are JSON as it was received, and stay JSON: the replacement of a key needs no escape.
            AnswerPart::Call { input, .. } => self.replace(input),
        }
    }
}

impl fmt::Debug for Redact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redact")
            .field("values", &self.values.len())
            .field("answers", &self.answers)
            .field("inputs", &self.inputs)
            .finish()
    }
}

impl Hook for Redact {
    fn name(&self) -> &str {
        "redact"
    }

    fn sees_answers(&self) -> bool {
        self.answers
    }

    fn sees_events(&self) -> bool {
        false
    }

    fn on_input<'a>(&'a self, _: &'a HookContext, mut message: Message) -> BoxFuture<'a, Input> {
        Box::pin(async move {
            if self.inputs {
                message.parts.iter_mut().for_each(|part| match part {
                    Part::Text(text) => self.replace(&mut text.text),
                    Part::File(file) => self.file(file),
                    _ => {}
                });
            }
            Input::Pass(Box::new(message))
        })
    }

    fn on_answer<'a>(&'a self, _: &'a HookContext, mut parts: Vec<AnswerPart>) -> BoxFuture<'a, Vec<AnswerPart>> {
        Box::pin(async move {
            parts.iter_mut().for_each(|part| self.part(part));
            parts
        })
    }

    fn on_result<'a>(&'a self, _: &'a HookCall, result: ToolResult) -> BoxFuture<'a, ToolResult> {
        Box::pin(async move {
            if result.bytes() <= INLINE_BYTES_MAX as u64 {
                return self.result(result);
            }
            let redact = self.clone();
            match tokio::task::spawn_blocking(move || redact.result(result)).await {
                Ok(result) => result,
                // It ends only with a panic, and a hook that panics withholds the result.
                Err(lost) => std::panic::resume_unwind(lost.into_panic()),
            }
        })
    }

    fn output_filter(&self) -> Option<Box<dyn OutputFilter>> {
        Some(Box::new(Scanner::new(self.wanted.clone())))
    }
}

impl OutputFilter for Scanner {
    fn push(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(bytes.len());
        Scanner::push(self, bytes, &mut out);
        out
    }

    fn finish(&mut self) -> Vec<u8> {
        let mut out = Vec::new();
        Scanner::finish(self, &mut out);
        out
    }
}
