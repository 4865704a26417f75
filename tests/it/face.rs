//! The public API can grow, and each of its types has one name: read from docs/API.txt, which `tests/api.py` keeps equal to the code.

use std::collections::{BTreeMap, BTreeSet};

/// The most lines of the listing: 4,460 before skills, servers of tools, gates of operations, the turn view, requests to servers that
/// are no models, deferred tools, hooks at all points, telemetry and lines for other engines. One line each have: a module, type,
/// trait, function, constant, field, variant and method; a member of a trait, at the trait alone and not at each type that has it;
/// and the traits that a type has, together.
const LINES_MAX: usize = 4_920;

/// Types that may be built and matched to the last field, each with the reason.
const CLOSED: [(&str, &str); 7] = [
    ("tamtam::Millis", "a number with a unit"),
    ("tamtam::Seq", "a number of an entry"),
    ("tamtam::tape::Appended", "an append is answered now or later: an engine and its caller agree on both"),
    ("tamtam::model::BadUsd", "the text that is no amount"),
    ("tamtam::model::MicroUsd", "a number with a unit"),
    ("tamtam::model::PicoUsd", "a number with a unit"),
    ("tamtam::tool::Json", "a wrapper that marks its value, which the caller takes out"),
];

/// Names with two paths, each with the reason.
const TWICE: [(&str, &str); 2] = [
    ("Runtime", "a module about one type shows it; the root names it too, as most hosts do"),
    ("Session", "a module about one type shows it; the root names it too, as most hosts do"),
];

/// Crates whose types may be in signatures, each with the reason.
const FOREIGN: [(&str, &str); 5] = [
    ("serde_json", "values of JSON; its version is that of the formats on tapes and wires"),
    ("schemars", "the bound of typed tools; it is `tamtam::schemars`"),
    ("tokio::process::ChildStdin", "the input of a process of a host's: a pipe of tokio's own, which every host has"),
    ("futures_core::stream::Stream", "the trait of all streams; std has none yet"),
    ("tracing::span::Span", "a host's tracing system is reached through a span of `tracing`"),
];

/// The lines of the listing, and what they declare.
#[derive(Default)]
struct Listing<'l> {
    lines: Vec<&'l str>,
    /// The types and traits, by their public paths.
    types: BTreeMap<&'l str, Type>,
    /// The modules, functions, constants and re-exported crates.
    others: BTreeSet<&'l str>,
}

#[derive(Default)]
struct Type {
    is_enum: bool,
    is_struct: bool,
    may_grow: bool,
    has_public_fields: bool,
}

/// The path at the beginning of a text, such as `tamtam::Seq` of `tamtam::Seq(pub u64)`.
fn path(text: &str) -> &str {
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_' && c != ':').unwrap_or(text.len());
    text[..end].trim_end_matches(':')
}

/// All paths of a line with at least one `::`.
fn paths(line: &str) -> impl Iterator<Item = &str> {
    let words = line.split(|c: char| !c.is_alphanumeric() && c != '_' && c != ':');
    words.map(|word| word.trim_matches(':')).filter(|word| word.contains("::"))
}

fn parent(path: &str) -> &str {
    path.rsplit_once("::").map_or("", |(parent, _)| parent)
}

fn name(path: &str) -> &str {
    path.rsplit("::").next().unwrap_or(path)
}

impl<'l> Listing<'l> {
    fn of(text: &'l str) -> Listing<'l> {
        let mut listing = Listing { lines: text.lines().collect(), ..Listing::default() };
        for line in &listing.lines {
            let declared = line.trim_start_matches("#[non_exhaustive] ");
            let Some(mut words) = declared.strip_prefix("pub ") else { continue };
            while let Some(rest) = ["async ", "const fn", "unsafe "].iter().find_map(|word| words.strip_prefix(word)) {
                words = if rest.starts_with(' ') { rest.trim_start() } else { rest };
                if rest.starts_with(' ') {
                    listing.others.insert(path(words));
                }
            }
            let Some((kind, rest)) = words.split_once(' ') else { continue };
            let is_type = matches!(kind, "struct" | "enum" | "union" | "trait" | "type");
            match kind {
                "fn" | "mod" | "const" | "static" | "macro" | "use" => drop(listing.others.insert(path(rest))),
                _ if is_type => {
                    let (is_enum, is_struct) = (kind == "enum", kind == "struct");
                    let (may_grow, has_public_fields) = (line.starts_with('#'), rest.contains("(pub "));
                    listing.types.insert(path(rest), Type { is_enum, is_struct, may_grow, has_public_fields });
                }
                _ => {}
            }
        }
        for line in &listing.lines {
            let field = line.strip_prefix("pub ").filter(|rest| rest.starts_with("tamtam::"));
            if let Some(of) = field.and_then(|rest| listing.types.get_mut(parent(path(rest)))) {
                of.has_public_fields = true;
            }
        }
        listing
    }

    /// Enums and structs with public fields that cannot grow.
    fn closed(&self) -> Vec<&'l str> {
        let is_closed = |of: &Type| !of.may_grow && (of.is_enum || of.is_struct && of.has_public_fields);
        self.types.iter().filter(|(_, of)| is_closed(of)).map(|(path, _)| *path).collect()
    }

    /// Our own types that a line names and no public path reaches.
    fn unnameable(&self) -> BTreeSet<&'l str> {
        let ours = self.lines.iter().flat_map(|line| paths(line)).filter(|path| path.starts_with("tamtam::"));
        ours.filter(|path| !self.reaches(path)).collect()
    }

    /// Whether the path, or a path that it goes through, is declared.
    fn reaches(&self, path: &str) -> bool {
        if self.others.contains(path) {
            return true;
        }
        let mut path = path;
        while !path.is_empty() {
            if self.types.contains_key(path) {
                return true;
            }
            path = parent(path);
        }
        false
    }

    /// The types of other crates that a line names.
    fn foreign(&self) -> BTreeSet<&'l str> {
        let paths = self.lines.iter().flat_map(|line| paths(line));
        let is_foreign = |path: &&str| {
            let first = path.split("::").next().unwrap_or("");
            first.starts_with(|c: char| c.is_lowercase()) && !["tamtam", "std", "core", "alloc", "str"].contains(&first)
        };
        paths.filter(is_foreign).collect()
    }

    /// Names that two paths have: two types of one name, or one type at two places.
    fn twice(&self) -> BTreeMap<&'l str, Vec<&'l str>> {
        let mut named = BTreeMap::<&'l str, Vec<&'l str>>::new();
        // What is below a type is a part of it, such as the associated type of a trait.
        for path in self.types.keys().filter(|path| !self.types.contains_key(parent(path))) {
            named.entry(name(path)).or_default().push(path);
        }
        named.retain(|_, paths| paths.len() > 1);
        named
    }
}

fn listed() -> Listing<'static> {
    Listing::of(include_str!("../../docs/API.txt"))
}

/// What was found and is no exception, and the exceptions that nothing needs.
fn beside<'f>(found: impl IntoIterator<Item = &'f str>, exceptions: &[(&'f str, &str)]) -> Vec<String> {
    let found: BTreeSet<&str> = found.into_iter().collect();
    let listed: BTreeSet<&str> = exceptions.iter().map(|(name, _)| *name).collect();
    let unknown = found.difference(&listed).map(|name| format!("{name}: no exception"));
    unknown.chain(listed.difference(&found).map(|name| format!("{name}: an exception without need"))).collect()
}

#[test]
fn enums_and_structs_with_public_fields_can_grow() {
    assert_eq!(beside(listed().closed(), &CLOSED), [""; 0], "`#[non_exhaustive]`, or an exception with its reason");
}

#[test]
fn each_type_of_a_signature_can_be_named() {
    assert_eq!(listed().unnameable(), BTreeSet::new(), "no public path reaches these");
}

#[test]
fn signatures_name_no_foreign_type() {
    let listing = listed();
    let exception = |path: &'static str| FOREIGN.iter().map(|(of, _)| *of).find(|of| path.starts_with(of));
    let found = listing.foreign().into_iter().map(|path| exception(path).unwrap_or(path)).collect::<Vec<_>>();
    assert_eq!(beside(found, &FOREIGN), [""; 0]);
}

#[test]
fn each_type_has_one_name_and_one_path() {
    let listing = listed();
    let twice = listing.twice();
    assert_eq!(beside(twice.keys().copied(), &TWICE), [""; 0], "{twice:#?}");
}

#[test]
fn the_public_api_stays_small() {
    let lines = listed().lines.len();
    assert!(lines <= LINES_MAX, "docs/API.txt has {lines} lines: the limit is {LINES_MAX}");
}

#[test]
fn the_judge_finds_what_cannot_grow() {
    let listing = Listing::of(
        "#[non_exhaustive] pub enum tamtam::Open\npub enum tamtam::Closed\npub tamtam::Closed::One\n\
         pub struct tamtam::Opaque\n#[non_exhaustive] pub struct tamtam::Grows\npub tamtam::Grows::field: u64\n\
         pub struct tamtam::Literal<T>\npub tamtam::Literal::field: T\npub struct tamtam::Tuple(pub u64)\n\
         pub struct tamtam::Hidden(_)",
    );
    assert_eq!(listing.closed(), ["tamtam::Closed", "tamtam::Literal", "tamtam::Tuple"]);
}

#[test]
fn the_judge_finds_types_that_no_path_reaches() {
    let listing = Listing::of(
        "pub mod tamtam::tool\npub struct tamtam::tool::Known\npub const tamtam::tool::MAX: usize\n\
         pub fn tamtam::tool::run(&tamtam::tool::Known) -> Vec<tamtam::inside::Hidden>\n\
         pub const fn tamtam::tool::Known::new(tamtam::tool::Known::Part) -> Self\npub async fn tamtam::tool::wait()",
    );
    assert_eq!(listing.unnameable(), BTreeSet::from(["tamtam::inside::Hidden"]));
}

#[test]
fn the_judge_finds_foreign_types_and_names_of_two_types() {
    let listing = Listing::of(
        "impl for tamtam::a::Kind: Clone; From<rustix::fs::FileType>\npub enum tamtam::a::Kind\npub enum tamtam::b::Kind\n\
         pub trait tamtam::a::Has\npub type tamtam::a::Has::Kind = serde_json::value::Value\n\
         pub fn tamtam::a::run(Self::Err, Vec<u8>)",
    );
    assert_eq!(listing.foreign(), BTreeSet::from(["rustix::fs::FileType", "serde_json::value::Value"]));
    assert_eq!(listing.twice(), BTreeMap::from([("Kind", vec!["tamtam::a::Kind", "tamtam::b::Kind"])]));
    let exceptions = [("old", "it was needed once"), ("known", "a reason")];
    assert_eq!(beside(["known", "new"], &exceptions), ["new: no exception", "old: an exception without need"]);
}
