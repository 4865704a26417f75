//! The words of the features. One step does one thing; what it asserts is what can be seen from outside.
//!
//! In texts `\n` is a new line. Tables have no head row.

mod given;
mod operator;
mod restarts;
mod team;
mod then;
mod when;

/// A text of a step, with its line ends.
fn text(written: &str) -> String {
    written.replace("\\n", "\n").replace("\\\"", "\"")
}

/// The texts of a step that lists several: `"a", "b"`.
fn quoted(written: &str) -> Vec<String> {
    serde_json::from_str(&format!("[{written}]")).expect("texts in quotes, with commas between them")
}
