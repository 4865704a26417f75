//! Keys of providers. A [`Secret`] shows its text only to a caller of [`Secret::reveal`]: it has no `Display` and no `Serialize`,
//! and its `Debug` is `Secret(***)`, so that no log, error or tape shows a key by accident.
//!
//! A change must not give it `Display` or `Serialize`. `reveal` belongs only in code that sends the key, checks that it can be sent
//! (`model/http.rs`, `model/http/client.rs`) or masks it in a text (`model/redact.rs`).

use std::{fmt, sync::Arc};

/// A key or token. Cloning shares it; printing it is impossible by accident.
///
/// ```
/// use tamtam::model::Secret;
/// assert_eq!(format!("{:?}", Secret::new("sk-canary")), "Secret(***)");
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Arc<str>);

impl Secret {
    /// Wraps a key. White space around it is dropped, because a key read from a file often ends with a newline.
    #[must_use]
    pub fn new(key: impl AsRef<str>) -> Secret {
        Secret(key.as_ref().trim().into())
    }

    /// The key itself, for code that sends it or masks it in a text.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Whether the key is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(***)")
    }
}

impl From<String> for Secret {
    fn from(key: String) -> Secret {
        Secret::new(key)
    }
}

impl From<&str> for Secret {
    fn from(key: &str) -> Secret {
        Secret::new(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// K01
    #[test]
    fn debug_never_shows_a_key() {
        assert_eq!(format!("{:?}", Some(Secret::new("sk-CANARY-0123456789"))), "Some(Secret(***))");
    }
}
