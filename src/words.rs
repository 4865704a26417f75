//! Words: what all rooms speak in. They are values, and do nothing.

pub(crate) mod ids;
pub(crate) mod message;
pub(crate) mod usage;

/// Whether a value says nothing, so that it is not written.
pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
