//! How deep a JSON value may be nested, and how that is found out without a walk that could be too deep itself.
//!
//! A thread has a stack of a few megabytes, and every walk over a value (reading, cloning, comparing, dropping it) takes a piece of
//! the stack for each level. Past the end of the stack the process dies: no error and no panic handler stops that. So each value
//! that a host, a tool, a hook, a provider or a file brings has at most [`VALUE_DEPTH_MAX`] levels from the place on where it comes
//! in, and each line of a tape at most [`LINE_DEPTH_MAX`]. Behind these two doors every walk may be the plain recursive one.
//! The functions here keep their own stack. A change must keep that none of them calls itself, and that a refused value is also
//! taken apart here: dropping it is a walk as well.

use serde_json::Value;

/// How many levels of lists and objects a JSON value may have that comes in: details and progress of a tool, options of an agent or
/// a session, the schema of a tool, what a provider wants back. The value alone is 0 levels deep, `[]` is 1, `{"a": []}` is 2.
///
/// serde_json reads 127 levels, and a tape puts values some levels down: the whole state, which an anchor is, more than any other
/// entry, and 31 levels are left for it.
pub const VALUE_DEPTH_MAX: usize = 96;

/// How many levels a line of a tape may have: what serde_json reads.
pub(crate) const LINE_DEPTH_MAX: usize = 127;

/// How deep the braces of a pattern of file names may be nested.
pub(crate) const BRACES_MAX: usize = 16;

/// A value is deeper than [`VALUE_DEPTH_MAX`]. It is gone: `null` replaces it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("nested deeper than {VALUE_DEPTH_MAX} levels")]
pub(crate) struct TooDeep;

/// Replaces details of a result or of a progress that were too deep.
pub(crate) fn left_out() -> Value {
    serde_json::json!({ "left_out": TooDeep.to_string() })
}

/// Checks a value that comes in. A value that is too deep is taken apart, and replaced by `null`.
pub(crate) fn bound(value: &mut Value) -> Result<(), TooDeep> {
    if is_within(value, VALUE_DEPTH_MAX) {
        return Ok(());
    }
    take_apart(std::mem::take(value));
    Err(TooDeep)
}

/// Whether a value has at most `max` levels.
pub(crate) fn is_within(value: &Value, max: usize) -> bool {
    let mut rest = vec![(value, 0)];
    while let Some((value, above)) = rest.pop() {
        let inner: Box<dyn Iterator<Item = &Value>> = match value {
            Value::Array(items) => Box::new(items.iter()),
            Value::Object(fields) => Box::new(fields.values()),
            _ => continue,
        };
        if above >= max {
            return false;
        }
        // Texts and numbers add no level, and are the most frequent values.
        rest.extend(inner.filter(|value| value.is_array() || value.is_object()).map(|value| (value, above + 1)));
    }
    true
}

/// Drops a value, level by level.
fn take_apart(value: Value) {
    let mut rest = vec![value];
    while let Some(value) = rest.pop() {
        match value {
            Value::Array(items) => rest.extend(items),
            Value::Object(fields) => rest.extend(fields.into_iter().map(|(_, value)| value)),
            _ => {}
        }
    }
}

/// Whether a JSON text has at most `max` levels. For a text that is not JSON the answer is arbitrary.
pub(crate) fn text_is_within(text: &[u8], max: usize) -> bool {
    // A text with no more brackets than that cannot be deeper, and nearly every line of a tape is such a text.
    if memchr::memchr2_iter(b'[', b'{', text).nth(max).is_none() {
        return true;
    }
    let (mut depth, mut at) = (0_usize, 0);
    while let Some(byte) = text.get(at) {
        match byte {
            b'"' => at = end_of_string(text, at + 1),
            b'[' | b'{' => depth += 1,
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > max {
            return false;
        }
        at += 1;
    }
    true
}

/// Where the string ends whose first character is at `at`: the place of its closing quote.
fn end_of_string(text: &[u8], mut at: usize) -> usize {
    while let Some(next) = text.get(at..).and_then(|rest| memchr::memchr2(b'"', b'\\', rest)) {
        at += next;
        if text[at] == b'"' {
            return at;
        }
        at += 2;
    }
    text.len()
}

/// Whether the braces of a pattern of file names are nested at most `max` deep. Its compiler walks them recursively.
pub(crate) fn braces_are_within(pattern: &str, max: usize) -> bool {
    let mut depth = 0_usize;
    pattern.bytes().all(|byte| {
        match byte {
            b'{' => depth += 1,
            b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth <= max
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use serde_json::json;

    use super::*;

    /// A value of so many levels, lists and objects by turns.
    pub(crate) fn nested(depth: usize) -> Value {
        let level = |inner, n| if n % 2 == 0 { Value::Array(vec![inner]) } else { Value::from_iter([("a", inner)]) };
        (0..depth).fold(Value::Null, level)
    }

    #[test]
    fn a_value_is_taken_up_to_its_bound_and_one_level_more_is_not() {
        for (depth, is_fine) in [(0, true), (1, true), (VALUE_DEPTH_MAX, true), (VALUE_DEPTH_MAX + 1, false)] {
            let mut value = nested(depth);
            let whole = value.clone();
            assert_eq!(bound(&mut value).is_ok(), is_fine, "{depth}");
            assert_eq!(value, if is_fine { whole } else { Value::Null });
        }
        let mut wide = json!([nested(3), { "a": 1, "b": nested(VALUE_DEPTH_MAX - 2) }, "[[["]);
        assert_eq!(bound(&mut wide), Ok(()));
        let mut deep_beside = json!([nested(3), { "a": nested(VALUE_DEPTH_MAX - 1), "b": 1 }]);
        assert_eq!(bound(&mut deep_beside), Err(TooDeep));
    }

    /// The text is counted as the value is, and the content of strings does not count.
    #[test]
    fn a_text_has_as_many_levels_as_its_value() {
        for depth in [0, 1, 7, 40] {
            let text = nested(depth).to_string();
            assert!(text_is_within(text.as_bytes(), depth), "{text}");
            assert_eq!(text_is_within(text.as_bytes(), depth.saturating_sub(1)), depth == 0, "{text}");
        }
        let said = json!(["[[[[[{{{{{", "\\", "\"[[[[[", { "{{{{{{{{": "]]" }]).to_string();
        assert!(text_is_within(said.as_bytes(), 2), "{said}");
        assert!(!text_is_within(br#"["\\",[[[]]]]"#, 3));
        assert!(text_is_within(br#"["[[[[[[[["#, 2), "a string without an end");
    }
}
