//! The payload of a node in the supervision tree: a value that the owner of the node puts on it, besides the facts that every node
//! has. The figures of a session are one.
//!
//! A payload is shown as text and as JSON, and is read back by its type. It is put, replaced and mostly dropped under the node's
//! lock, so its code must not wait, and its drop must not touch the node. It must hold no words of a conversation, because the tree
//! and crash reports show it to operators and write it to logs.

use std::{any::Any, fmt, sync::Arc};

use serde::{Serialize, Serializer};

/// A value that the owner of a node puts on it: shown in the tree as text and as JSON, and read back by its type.
///
/// ```
/// use serde::Serialize;
/// use tamtam::supervisor::{NodePayload, Payload};
///
/// #[derive(Debug, Serialize)]
/// struct Served {
///     requests: u64,
/// }
///
/// impl Payload for Served {
///     fn facts(&self) -> Vec<String> {
///         vec![format!("{} requests", self.requests)]
///     }
///
///     fn fields(&self) -> serde_json::Value {
///         serde_json::to_value(self).unwrap_or_default()
///     }
/// }
///
/// let payload = NodePayload::of(Served { requests: 3 });
/// assert_eq!(payload.get::<Served>().unwrap().requests, 3);
/// assert_eq!(payload.facts(), ["3 requests"]);
/// ```
pub trait Payload: Any + fmt::Debug + Send + Sync {
    /// The facts for its line in the tree, each in a few words.
    fn facts(&self) -> Vec<String>;

    /// The fields that it adds to the node's JSON. Must be an object; any other value is not shown.
    fn fields(&self) -> serde_json::Value;
}

/// The payload of a node, if its owner has put one on it. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct NodePayload(Option<Arc<dyn Payload>>);

impl NodePayload {
    /// A payload.
    pub fn of<P: Payload>(payload: P) -> NodePayload {
        NodePayload(Some(Arc::new(payload)))
    }

    /// The payload, if it is of this type.
    #[must_use]
    pub fn get<P: Payload>(&self) -> Option<&P> {
        let payload: &dyn Any = self.0.as_deref()?;
        payload.downcast_ref()
    }

    /// The facts for its line in the tree; empty if there is no payload.
    #[must_use]
    pub fn facts(&self) -> Vec<String> {
        self.0.as_ref().map(|payload| payload.facts()).unwrap_or_default()
    }

    /// The fields that it adds to the node's JSON; none if there is no payload.
    #[must_use]
    pub fn fields(&self) -> serde_json::Map<String, serde_json::Value> {
        match self.0.as_ref().map(|payload| payload.fields()) {
            Some(serde_json::Value::Object(fields)) => fields,
            _ => serde_json::Map::new(),
        }
    }

    /// Replaces the payload. Reuses the allocation of the previous one if it has the same type and no reader.
    pub(crate) fn put<P: Payload>(&mut self, payload: P) {
        let before = self.0.as_mut().and_then(Arc::get_mut);
        let before = before.and_then(|before| (before as &mut dyn Any).downcast_mut::<P>());
        match before {
            Some(before) => *before = payload,
            None => *self = NodePayload::of(payload),
        }
    }
}

/// Two payloads are equal if they show the same fields.
impl PartialEq for NodePayload {
    fn eq(&self, other: &NodePayload) -> bool {
        self.fields() == other.fields()
    }
}

crate::words::schema::schema!(NodePayload, "NodePayload", {
    "description": "The fields that the owner of the node adds to it.",
    "type": "object",
});

impl Serialize for NodePayload {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.fields().serialize(serializer)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[derive(Debug, Serialize)]
    struct Number(u64);

    impl Payload for Number {
        fn facts(&self) -> Vec<String> {
            vec![self.0.to_string()]
        }

        fn fields(&self) -> serde_json::Value {
            serde_json::json!(self.0)
        }
    }

    #[test]
    fn a_payload_is_read_by_its_type_and_keeps_its_place_while_nobody_reads_it() {
        let mut payload = NodePayload::default();
        assert!(payload.get::<Number>().is_none() && payload.facts().is_empty() && payload.fields().is_empty());
        payload.put(Number(1));
        let place = std::ptr::from_ref(payload.get::<Number>().unwrap());
        payload.put(Number(2));
        assert_eq!((payload.get::<Number>().unwrap().0, std::ptr::from_ref(payload.get().unwrap())), (2, place));
        let read = payload.clone();
        payload.put(Number(3));
        assert_eq!((read.get::<Number>().unwrap().0, payload.get::<Number>().unwrap().0), (2, 3));
        assert!(payload.fields().is_empty(), "other JSON than an object adds no field");
    }
}
