//! The schemas of values that have a form of their own in JSON, such as an id that is written as a text.
//!
//! Every other schema is derived from its type. A change of what such a value writes must change its schema too.

/// Gives a type this schema, under this name.
macro_rules! schema {
    ($type:ty, $name:literal, $schema:tt) => {
        #[cfg(feature = "schema")]
        impl schemars::JsonSchema for $type {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                $name.into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!($schema)
            }
        }
    };
}

pub(crate) use schema;
