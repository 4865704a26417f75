//! [`ChildId`]: the id of a child among the children of one supervisor. Cheap to clone.
//!
//! Ids are parts of the paths of the tree. To make a [`ChildId`] checks nothing: a spec with an id that is empty, or has a slash
//! or a control character in it, is refused in `check.rs`. So no id may reach the tree except in a spec that was checked.

use std::{fmt, sync::Arc};

use serde::Serialize;

/// The id of a child among the children of one supervisor.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
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
