//! The trace that a message belongs to ([`TraceContext`]), as W3C Trace Context writes it.

use serde::{Deserialize, Serialize};

/// The most bytes of a `tracestate`: what every tracing system must pass on, at least.
const STATE_BYTES_MAX: usize = 512;

/// Where in a trace something happens: a `traceparent`, and a `tracestate` where there is one (W3C Trace Context).
///
/// A message carries one in, and requests, calls and tasks of its turn carry one on. The library never reads the ids in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(try_from = "Written", into = "Written")]
pub struct TraceContext {
    parent: Box<str>,
    state: Option<Box<str>>,
}

/// Why a text is no trace context.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadTraceContext {
    /// The `traceparent` has another form.
    #[error("bad traceparent: use 00-<32 hex digits>-<16 hex digits>-<2 hex digits>, in lower case and not all zero")]
    Parent,
    /// The `tracestate` is too long, or has characters beyond printable ASCII.
    #[error("bad tracestate: use at most {STATE_BYTES_MAX} printable ASCII characters")]
    State,
}

impl TraceContext {
    /// The context of a `traceparent` and a `tracestate`. A later version's `traceparent` may have more fields, which are kept out.
    pub fn new(traceparent: &str, tracestate: Option<&str>) -> Result<TraceContext, BadTraceContext> {
        let parent = parent_of(traceparent).ok_or(BadTraceContext::Parent)?;
        let state = tracestate.map(str::trim).filter(|state| !state.is_empty());
        let is_plain = |state: &str| state.len() <= STATE_BYTES_MAX && state.bytes().all(|b| (0x20..0x7f).contains(&b));
        if !state.is_none_or(is_plain) {
            return Err(BadTraceContext::State);
        }
        Ok(TraceContext { parent: parent.into(), state: state.map(Into::into) })
    }

    /// The `traceparent`.
    #[must_use]
    pub fn traceparent(&self) -> &str {
        &self.parent
    }

    /// The `tracestate`; `None` where there is none.
    #[must_use]
    pub fn tracestate(&self) -> Option<&str> {
        self.state.as_deref()
    }
}

/// The four fields of a `traceparent` that every version has.
fn parent_of(text: &str) -> Option<&str> {
    let parent = text.trim().get(..55)?;
    let rest = &text.trim()[55..];
    let is_hex = |field: &str| field.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
    let mut fields = parent.split('-');
    let (version, trace, span, flags) = (fields.next()?, fields.next()?, fields.next()?, fields.next()?);
    let is_zero = |field: &str| field.bytes().all(|b| b == b'0');
    let is_good = fields.next().is_none()
        && [version, trace, span, flags].map(str::len) == [2, 32, 16, 2]
        && [version, trace, span, flags].iter().all(|field| is_hex(field))
        && version != "ff"
        && !is_zero(trace)
        && !is_zero(span)
        && (rest.is_empty() || version != "00" && rest.starts_with('-'));
    is_good.then_some(parent)
}

/// How it is written in JSON.
#[derive(Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct Written {
    traceparent: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tracestate: Option<String>,
}

impl TryFrom<Written> for TraceContext {
    type Error = BadTraceContext;

    fn try_from(Written { traceparent, tracestate }: Written) -> Result<TraceContext, BadTraceContext> {
        TraceContext::new(&traceparent, tracestate.as_deref())
    }
}

impl From<TraceContext> for Written {
    fn from(TraceContext { parent, state }: TraceContext) -> Written {
        Written { traceparent: parent.into(), tracestate: state.map(Into::into) }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn a_context_is_read_as_w3c_writes_it_and_anything_else_is_refused() {
        let read = |parent: &str, state: Option<&str>| TraceContext::new(parent, state);
        let context = read(PARENT, Some("rojo=00f067aa0ba902b7")).unwrap();
        assert_eq!(context.traceparent(), PARENT);
        assert_eq!(context.tracestate(), Some("rojo=00f067aa0ba902b7"));
        assert_eq!(read(&format!(" {PARENT} "), Some("  ")).unwrap(), read(PARENT, None).unwrap());
        // A later version may have more fields; this one may not.
        let later = PARENT.replacen("00", "01", 1);
        assert_eq!(read(&format!("{later}-more"), None).unwrap().traceparent(), later);
        let bad = [
            "",
            "00",
            &PARENT[..54],
            &PARENT.to_uppercase(),
            &PARENT.replacen("00", "ff", 1),
            &format!("{PARENT}-more"),
            &format!("{later}more"),
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "00-0af7651916cd43dd8448eb211c80319cb-7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319é-b7ad6b716920333-01",
            "ééééééééééééééééééééééééééééééééééééééééééééééééééééééé",
        ];
        for text in bad {
            assert_eq!(read(text, None), Err(BadTraceContext::Parent), "{text}");
        }
        for state in ["a\nb", "é", &"a".repeat(513)] {
            assert_eq!(read(PARENT, Some(state)), Err(BadTraceContext::State), "{state}");
        }
    }

    #[test]
    fn json_that_is_no_context_is_refused() {
        let context = TraceContext::new(PARENT, None).unwrap();
        let json = serde_json::to_value(&context).unwrap();
        assert_eq!(json, serde_json::json!({ "traceparent": PARENT }));
        assert_eq!(serde_json::from_value::<TraceContext>(json).unwrap(), context);
        assert!(serde_json::from_value::<TraceContext>(serde_json::json!({ "traceparent": "x" })).is_err());
    }
}
