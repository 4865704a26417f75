//! A contract of the host behind a pointer: `Arc<dyn Tool>` and `Box<dyn Tool>` are tools themselves, and so with the other traits.
//!
//! A change must keep that every method is passed on, also those with a default: a pointer that answers with the default would
//! change what the host said. The test reads the traits and compares.

/// `pointers!(Trait { fn one(&self) -> u8; … })`: `Arc<T>` and `Box<T>` have the trait if `T` has it, with these methods passed on.
macro_rules! pointers {
    ($of:ident { $($methods:tt)* }) => {
        $crate::words::pointers::pointers!(@one std::sync::Arc, $of { $($methods)* });
        $crate::words::pointers::pointers!(@one std::boxed::Box, $of { $($methods)* });
    };
    (@one $($pointer:ident)::+, $of:ident { $(
        $(#[$attribute:meta])*
        fn $name:ident $(<$life:lifetime>)? (& $($own:lifetime)? self $(, $argument:ident: $what:ty)*) $(-> $gives:ty)?;
    )* }) => {
        impl<T: $of + ?Sized> $of for $($pointer)::+<T> {
            $($(#[$attribute])* fn $name $(<$life>)? (& $($own)? self $(, $argument: $what)*) $(-> $gives)? {
                (**self).$name($($argument),*)
            })*
        }
    };
}
pub(crate) use pointers;

#[cfg(test)]
mod tests {
    #![allow(clippy::panic)]

    use std::collections::BTreeSet;

    fn functions(text: &str) -> BTreeSet<&str> {
        let lines = text.lines().map(str::trim_start).filter(|line| !line.starts_with("//"));
        lines.filter_map(|line| line.strip_prefix("fn ")?.split(['(', '<']).next()).collect()
    }

    #[test]
    fn each_method_of_a_contract_is_passed_on() {
        let traits = [
            ("Tool", include_str!("../tool.rs")),
            ("Hook", include_str!("../hook.rs")),
            ("EnvironmentProvider", include_str!("../prompt/environment.rs")),
        ];
        for (name, text) in traits {
            let of = |head: &str| {
                let (_, rest) = text.split_once(head).unwrap_or_else(|| panic!("{name} has no {head}"));
                functions(rest.split("\n}").next().unwrap_or_default())
            };
            let (wanted, passed_on) = (of(&format!("pub trait {name}: ")), of(&format!("pointers!({name} {{")));
            assert!(!wanted.is_empty() && wanted == passed_on, "{name}: {wanted:?} {passed_on:?}");
        }
    }
}
