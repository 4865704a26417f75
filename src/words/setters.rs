//! The setters of option structs: a new option gets one line beside its field, so that every option can be set in a chain.

/// `setters! { /// Sets the title. title: impl Into<String> = Some(title.into()); … }`: a method for each field, which takes the
/// field's value, or what becomes it.
macro_rules! setters {
    ($($(#[$attribute:meta])* $name:ident: $what:ty $(= $value:expr)?;)*) => {
        $(
            $(#[$attribute])*
            #[must_use]
            pub fn $name(mut self, $name: $what) -> Self {
                self.$name = $crate::words::setters::setters!(@value $name $(, $value)?);
                self
            }
        )*
    };
    (@value $name:ident) => { $name };
    (@value $name:ident, $value:expr) => { $value };
}
pub(crate) use setters;
