//! [`ChildId`]: the id of a child among the children of one supervisor, or of a root. Cheap to clone.
//!
//! Ids are parts of the paths of the tree. Making a [`ChildId`] checks nothing: `supervisor/spec/check.rs` refuses a spec or child
//! whose id is empty, or has a slash or a control character in it. So a change must not let a [`ChildId`] reach the tree unchecked:
//! a slash would make paths ambiguous, and a control character would reach the terminal. In JSON an id is a plain string, which
//! hosts read.

use std::{fmt, sync::Arc};

use serde::Serialize;

/// The id of a child among the children of one supervisor, or of a root.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct ChildId(Arc<str>);

impl ChildId {
    /// The id as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&str> for ChildId {
    fn from(text: &str) -> ChildId {
        ChildId(text.into())
    }
}

impl From<String> for ChildId {
    fn from(text: String) -> ChildId {
        ChildId(text.into())
    }
}

impl From<&ChildId> for ChildId {
    fn from(id: &ChildId) -> ChildId {
        id.clone()
    }
}

impl fmt::Display for ChildId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
