//! Says which variables a command may set without changing what other programs do.
//!
//! Many programs run what a variable names (`PAGER`, `GIT_SSH_COMMAND`, `NODE_OPTIONS`, `RUSTC_WRAPPER`), and no list of these is
//! ever complete. So a variable is judged harmless by name, or it makes the command unclear: it is on the list, or (if it is not
//! given to one program) its name has small letters only, as the shell's own variables have by custom. A change must not list a
//! variable whose value a program runs, loads or takes options from.

use tree_sitter::Node;

use crate::permission::shell::{Unclear, statements::Reader, tree::Gap, unclear, words::is_name};

/// Variables of the environment whose values no program runs or loads: most change how a program prints or how much it says.
const HARMLESS: &[&str] = &[
    "CARGO_TERM_COLOR",
    "CI",
    "CLICOLOR",
    "CLICOLOR_FORCE",
    "COLUMNS",
    "DEBIAN_FRONTEND",
    "FORCE_COLOR",
    "LANG",
    "LANGUAGE",
    "LC_ALL",
    "LC_COLLATE",
    "LC_CTYPE",
    "LC_MESSAGES",
    "LC_NUMERIC",
    "LC_TIME",
    "LINES",
    "LOG_LEVEL",
    "NODE_ENV",
    "NO_COLOR",
    "PYTHONDONTWRITEBYTECODE",
    "PYTHONUNBUFFERED",
    "RUST_BACKTRACE",
    "RUST_LIB_BACKTRACE",
    "RUST_LOG",
    "TERM",
    "TZ",
    "VERBOSE",
    "RUST_TEST_THREADS",
];

/// Whether a variable may be given to a program.
pub(super) fn may_be_given(name: &str) -> Result<(), Unclear> {
    if HARMLESS.contains(&name) { Ok(()) } else { unclear(format!("it sets the variable {name}")) }
}

/// Whether a variable of the shell may be set. One in small letters is the command's own by custom, and reaches no program; the
/// exceptions are those that programs read in small letters.
pub(super) fn may_be_set(name: &str) -> Result<(), Unclear> {
    let own = name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    let read = name.contains("proxy") || name.starts_with("npm_") || name.starts_with('_');
    if own && !read { Ok(()) } else { may_be_given(name) }
}

impl Reader<'_> {
    /// An assignment, to a variable that `may` be set.
    pub(super) fn assigned(&mut self, node: Node<'_>, may: fn(&str) -> Result<(), Unclear>) -> Result<(), Unclear> {
        for (before, child) in self.source.children(node)? {
            if before != Gap::None {
                return unclear("it has an assignment with a blank in it");
            }
            match child.kind() {
                "variable_name" if !is_name(self.source.of(child)) => {
                    return unclear("it has an assignment to an odd name");
                }
                "variable_name" => may(self.source.of(child))?,
                "=" | "+=" => {}
                // An item may say its index, which is evaluated.
                "array" => return unclear("it sets an array"),
                "subscript" => return unclear("it sets an item of an array"),
                _ => drop(self.word(child)?),
            }
        }
        Ok(())
    }

    /// `export NAME=value`. The other declarations evaluate what they are given.
    pub(super) fn exported(&mut self, node: Node<'_>) -> Result<(), Unclear> {
        for (at, (before, child)) in self.source.children(node)?.into_iter().enumerate() {
            match child.kind() {
                "export" if at == 0 => {}
                "variable_assignment" if before == Gap::Blank => self.assigned(child, may_be_given)?,
                _ => return unclear("it declares a variable"),
            }
        }
        Ok(())
    }
}
