//! Text of strangers in a prompt: cut to a bound, and names on one line. The providers of the environment in this folder use it. A
//! change must keep that a name has no line break, or it could pass for lines of the prompt.

/// The beginning of a text, of at most `max` bytes, cut after a line if there is one, and whether something was cut off.
pub(super) fn cut_at_line(text: &str, max: usize) -> (&str, bool) {
    if text.len() <= max {
        return (text, false);
    }
    let head = &text[..text.floor_char_boundary(max)];
    (head.rfind('\n').map_or(head, |end| &head[..end]), true)
}

/// A name on one line: each control character becomes U+FFFD.
#[cfg(all(unix, feature = "tools"))]
pub(super) fn on_one_line(name: &str) -> String {
    name.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_behind_a_line_and_never_inside_a_character() {
        assert_eq!(cut_at_line("one\ntwo", 7), ("one\ntwo", false));
        assert_eq!(cut_at_line("one\ntwo", 6), ("one", true));
        assert_eq!(cut_at_line("öö", 3), ("ö", true));
        assert_eq!(cut_at_line("x", 0), ("", true));
    }
}
