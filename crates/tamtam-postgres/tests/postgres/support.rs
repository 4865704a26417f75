//! What the claims about whole sessions need of the library's own tests.

#[path = "../../../../tests/it/support/bomb.rs"]
pub(crate) mod bomb;
