//! Words: the values that all rooms share: ids, times, labels, messages, usage.
//!
//! They are plain values: no I/O and no decision. There is one exception: [`clock`] and the functions of [`ids`] that make an id
//! or a moment read the machine's clock, and a new id has random bits. This room uses no other room. Most of the types are stored
//! formats and parts of the public API, so a change must keep their serialized form.

pub(crate) mod clock;
pub(crate) mod depth;
pub(crate) mod ids;
pub(crate) mod labels;
pub(crate) mod message;
pub(crate) mod pointers;
pub(crate) mod sandbox;
pub(crate) mod schema;
pub(crate) mod secrets;
pub(crate) mod setters;
pub(crate) mod trace;
pub(crate) mod usage;

/// The words of a caught panic.
pub(crate) fn panic_text(payload: &(dyn std::any::Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| payload.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a panic whose payload is not text".to_owned())
}

/// Whether a value equals its default, so that it is left out if it is written.
pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Writes a path as text for JSON; what is not UTF-8 in it is replaced.
pub(crate) fn path_text<S: serde::Serializer>(path: &std::path::Path, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&path.display())
}

/// [`path_text`] for a path that may be absent.
pub(crate) fn maybe_path_text<S: serde::Serializer>(
    path: &Option<std::path::PathBuf>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serde::Serialize::serialize(&path.as_ref().map(|path| path.display().to_string()), serializer)
}
