//! No large circle of files inside a room: read from the sources themselves.
//!
//! A file imports another if it names an item that is defined in it, in a `use` or in a path. A re-export is seen through: it leads
//! to the file that defines the item, and is an import of its own file only if the code there has the name too. Methods do not
//! count, because a reader finds them by their type.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

/// Files by their module path, such as `kernel::turn::advance`.
type Files = BTreeMap<String, Parsed>;

/// What the finder knows of a file.
#[derive(Default)]
struct Parsed {
    /// The items that it defines.
    items: BTreeSet<String>,
    /// All words in it beside its imports. An item that a macro defines is among them.
    words: BTreeSet<String>,
    /// The names that it imports or re-exports, with the paths that they stand for; `*` for all of a module.
    uses: Vec<(String, Vec<String>)>,
    /// Those that it re-exports.
    exported: BTreeSet<String>,
    /// The paths in its code.
    paths: Vec<Vec<String>>,
}

/// The words and signs of a piece of code, without comments, texts, lifetimes and the tests at its end.
fn tokens(code: &str) -> Vec<String> {
    let code: Vec<char> = code.split("\nmod tests {").next().unwrap().chars().collect();
    let (mut found, mut at) = (Vec::new(), 0);
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let find = |from: usize, end: &str| {
        let end: Vec<char> = end.chars().collect();
        (from..code.len()).find(|at| code[*at..].starts_with(&end)).map_or(code.len(), |at| at + end.len())
    };
    while at < code.len() {
        let next = code.get(at + 1).copied();
        match code[at] {
            '/' if next == Some('/') => at = find(at, "\n"),
            'r' if next == Some('#') && code.get(at + 2) == Some(&'"') => at = find(at + 3, "\"#"),
            '"' => {
                at += 1;
                while at < code.len() && code[at] != '"' {
                    at += 1 + usize::from(code[at] == '\\');
                }
                at += 1;
            }
            '\'' if next == Some('\\') => at = find(at + 3, "'"),
            '\'' if code.get(at + 2) == Some(&'\'') => at += 3,
            '\'' => at += 1 + code[at + 1..].iter().take_while(|c| is_word(**c)).count(),
            ':' if next == Some(':') => {
                found.push("::".to_owned());
                at += 2;
            }
            c if is_word(c) => {
                let word: String = code[at..].iter().take_while(|c| is_word(**c)).collect();
                at += word.chars().count();
                found.push(word);
            }
            c if c.is_whitespace() => at += 1,
            c => {
                found.push(c.to_string());
                at += 1;
            }
        }
    }
    found
}

/// The paths of a `use` behind `before`, each with the name that it gets.
fn tree(tokens: &mut std::slice::Iter<'_, String>, before: &[String], uses: &mut Vec<(String, Vec<String>)>) {
    let mut path = before.to_vec();
    let mut name = None;
    let mut push = |path: &mut Vec<String>, name: &mut Option<String>| {
        if path.last().is_some_and(|last| last == "self") && path.len() > 1 {
            path.pop();
        }
        if let Some(last) = path.last().filter(|_| path.len() > before.len() || name.is_some()).cloned() {
            uses.push((name.take().unwrap_or(last), path.clone()));
        }
        *path = before.to_vec();
    };
    let mut groups = Vec::new();
    while let Some(token) = tokens.next() {
        match token.as_str() {
            "::" => {}
            "as" => name = tokens.next().cloned(),
            "," => push(&mut path, &mut name),
            "{" => {
                tree(tokens, &path, &mut groups);
                path = before.to_vec();
            }
            "}" | ";" => break,
            word => {
                if word == "self" && path.len() == before.len() && !before.is_empty() {
                    name = before.last().cloned();
                } else {
                    path.push(word.to_owned());
                }
            }
        }
    }
    push(&mut path, &mut name);
    uses.extend(groups);
}

fn parse(code: &str) -> Parsed {
    let tokens = tokens(code);
    let mut parsed = Parsed::default();
    let (mut depth, mut at) = (0_usize, 0);
    let is_word = |token: &String| token.starts_with(|c: char| c.is_alphabetic() || c == '_');
    while at < tokens.len() {
        match tokens[at].as_str() {
            "use" if tokens.get(at + 1).is_some_and(|next| next != "<") => {
                let end = at + tokens[at..].iter().position(|token| token == ";").unwrap();
                let mut uses = Vec::new();
                tree(&mut tokens[at + 1..=end].iter(), &[], &mut uses);
                if at > 0 && matches!(tokens[at - 1].as_str(), "pub" | ")") {
                    parsed.exported.extend(uses.iter().map(|(name, _)| name.clone()));
                }
                parsed.uses.extend(uses);
                at = end;
            }
            "{" => depth += 1,
            "}" => depth -= 1,
            "fn" | "struct" | "enum" | "trait" | "type" | "const" | "static" if depth == 0 => {
                parsed.items.extend(tokens.get(at + 1).filter(|name| name.as_str() != "fn").cloned());
            }
            _ if is_word(&tokens[at]) && tokens.get(at + 1).is_some_and(|next| next == "::") => {
                let mut path = vec![tokens[at].clone()];
                while tokens.get(at + 1).is_some_and(|next| next == "::") && tokens.get(at + 2).is_some_and(is_word) {
                    path.push(tokens[at + 2].clone());
                    at += 2;
                }
                parsed.words.extend(path.iter().cloned());
                parsed.paths.push(path);
            }
            word => drop(parsed.words.insert(word.to_owned())),
        }
        at += 1;
    }
    parsed
}

/// The path from the root of the crate that a path in this file stands for; `None` if it leads out of the room.
fn absolute(files: &Files, file: &str, path: &[String]) -> Option<Vec<String>> {
    let mut from: Vec<String> = file.split("::").map(str::to_owned).collect();
    let rest = match path.first()?.as_str() {
        "crate" => return Some(path[1..].to_vec()),
        "self" => &path[1..],
        "super" => {
            let up = path.iter().take_while(|part| *part == "super").count();
            from.truncate(from.len().checked_sub(up)?);
            &path[up..]
        }
        first if files.contains_key(&format!("{file}::{first}")) => path,
        _ => return None,
    };
    from.extend_from_slice(rest);
    Some(from)
}

/// The file that defines what a path names. `None` for a module, for what lies outside, and for a name that goes round in a ring.
fn definer(files: &Files, path: &[String], seen: &mut Vec<Vec<String>>) -> Option<String> {
    if seen.iter().any(|known| known == path) {
        return None;
    }
    seen.push(path.to_vec());
    let mut file = path.first().filter(|room| files.contains_key(*room))?.clone();
    for (at, part) in path.iter().enumerate().skip(1) {
        let inner = format!("{file}::{part}");
        let parsed = &files[&file];
        let is_last = at + 1 == path.len();
        if files.contains_key(&inner) && !(is_last && parsed.items.contains(part)) {
            file = inner;
            continue;
        }
        if parsed.items.contains(part) {
            return Some(file);
        }
        let rest = |used: &[String]| [used, &path[at + 1..]].concat();
        let named = parsed.uses.iter().filter(|(name, _)| name == part).map(|(_, used)| rest(used));
        let globs = parsed.uses.iter().filter(|(name, _)| name == "*");
        let globs = globs.map(|(_, used)| [&used[..used.len() - 1], &path[at..]].concat());
        for used in named.chain(globs).filter_map(|used| absolute(files, &file, &used)) {
            if let Some(found) = definer(files, &used, seen) {
                return Some(found);
            }
        }
        return parsed.words.contains(part).then_some(file);
    }
    None
}

/// Which files each file imports.
fn imports(files: &Files) -> BTreeMap<&str, BTreeSet<String>> {
    let of = |file: &String, parsed: &Parsed| {
        let mut found = BTreeSet::new();
        let is_own = |name: &String| !parsed.exported.contains(name) || parsed.words.contains(name);
        let used = parsed.uses.iter().filter(|(name, _)| is_own(name)).map(|(_, path)| path.clone());
        let through = |path: &Vec<String>| {
            let (_, used) = parsed.uses.iter().find(|(name, _)| *name == path[0])?;
            Some([used.as_slice(), &path[1..]].concat())
        };
        let paths = parsed.paths.iter().map(|path| through(path).unwrap_or_else(|| path.clone()));
        for path in used.chain(paths).filter_map(|path| absolute(files, file, &path)) {
            // A path may go on behind the item: a variant, a constant of a type.
            found.extend((2..=path.len()).filter_map(|end| definer(files, &path[..end], &mut Vec::new())).next());
        }
        found.remove(file);
        found
    };
    files.iter().map(|(file, parsed)| (file.as_str(), of(file, parsed))).collect()
}

/// The sets of files that import each other in a circle, the largest first.
fn circles(texts: &[(&str, &str)]) -> Vec<BTreeSet<String>> {
    let files: Files = texts.iter().map(|(file, code)| ((*file).to_owned(), parse(code))).collect();
    let imports = imports(&files);
    let reached = |from: &str| {
        let (mut reached, mut open) = (BTreeSet::new(), vec![from.to_owned()]);
        while let Some(file) = open.pop() {
            open.extend(imports[file.as_str()].iter().filter(|next| reached.insert((*next).clone())).cloned());
        }
        reached
    };
    let reached: BTreeMap<&str, BTreeSet<String>> = files.keys().map(|file| (file.as_str(), reached(file))).collect();
    let circle = |file: &str| {
        let back = |other: &&String| reached[other.as_str()].contains(file);
        reached[file].iter().filter(back).cloned().collect::<BTreeSet<_>>()
    };
    let found: BTreeSet<_> = files.keys().map(|file| circle(file)).filter(|circle| circle.len() > 1).collect();
    let mut found: Vec<_> = found.into_iter().collect();
    found.sort_by_key(|circle| std::cmp::Reverse(circle.len()));
    found
}

/// The sources of a room by their module path, without its tests.
fn room(name: &str) -> Vec<(String, String)> {
    fn read(folder: &Path, module: &str, found: &mut Vec<(String, String)>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            if name == "tests" {
                continue;
            }
            let module = format!("{module}::{name}");
            match path.is_dir() {
                true => read(&path, &module, found),
                false => found.push((module, fs::read_to_string(&path).unwrap())),
            }
        }
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut found = vec![(name.to_owned(), fs::read_to_string(root.join(format!("{name}.rs"))).unwrap())];
    read(&root.join(name), name, &mut found);
    found
}

/// S-15: no circle of files inside these rooms has more files than its bound. Lower a bound when a circle gets smaller.
#[test]
fn no_circle_inside_a_room_is_large() {
    for (name, files_max) in [("kernel", 2), ("actor", 3)] {
        let files = room(name);
        let texts: Vec<(&str, &str)> = files.iter().map(|(file, code)| (file.as_str(), code.as_str())).collect();
        let largest = circles(&texts).into_iter().next().unwrap_or_default();
        assert!(largest.len() <= files_max, "a circle of {} files in {name}: {largest:#?}", largest.len());
    }
}

/// S-15: a circle is found however its files name each other: in a `use`, in braces, in a path, by a new name, through the head.
#[test]
fn a_circle_is_found_in_each_form_of_a_name() {
    let head = "mod a;\nmod b;\npub use a::A;\npub(crate) use b::*;";
    let found = |a: &str, b: &str| {
        let circles = circles(&[("room", head), ("room::a", a), ("room::b", b)]);
        circles.into_iter().map(|circle| circle.into_iter().collect::<Vec<_>>().join(" ")).collect::<Vec<_>>()
    };
    let both = ["room::a room::b"];
    let a = "use crate::room::B;\npub struct A(B);";
    for b in [
        "use crate::room::A;\npub struct B;\nfn f(_: A) {}",
        "use crate::{other::C, room::{a::{self, A as X}, D}};\npub struct B;",
        "use super::a;\npub struct B;\nfn f() { a::A::new() }",
        "pub struct B;\nimpl B { fn f() -> crate::room::A { todo!() } }",
        "macro_rules! make { () => { pub struct B; } }\nmake!();\nconst C: super::A = super::A;",
    ] {
        assert_eq!(found(a, b), both, "{b}");
    }
    for b in [
        "pub struct B;",
        "// use crate::room::A;\n/// See [`A`](crate::room::A).\npub struct B;\nconst T: &str = \"crate::room::A\";",
        "pub struct B;\n#[cfg(test)]\nmod tests {\n    use crate::room::A;\n}",
        "use crate::other::A;\npub struct B(A);",
    ] {
        assert_eq!(found(a, b), [""; 0], "{b}");
    }
    // A head that only re-exports imports nothing; one that has the name in its code does.
    let with_head = |head: &str| {
        let circles = circles(&[("room", head), ("room::a", "use super::N;\npub struct A(N);")]);
        circles.into_iter().map(|circle| circle.len()).collect::<Vec<_>>()
    };
    assert_eq!(with_head("mod a;\npub use a::A;\npub struct N;"), [0; 0]);
    assert_eq!(with_head("mod a;\npub use a::A;\npub struct N;\nfn f(_: A) {}"), [2]);
    // Two circles that one file joins are one; two that none joins are two.
    let three = |c: &str| {
        let texts =
            [("r", ""), ("r::a", "use super::b::B;\nstruct A;"), ("r::b", "use super::a::A;\nstruct B;"), ("r::c", c)];
        circles(&texts).into_iter().map(|circle| circle.len()).collect::<Vec<_>>()
    };
    assert_eq!(three("use super::a::A;\nstruct C;"), [2]);
    let joined = [("r", ""), ("r::a", "use super::{b::B, c::C};\nstruct A;"), ("r::b", "use super::a::A;\nstruct B;")];
    let joined = [&joined[..], &[("r::c", "use super::b::B;\nstruct C;")]].concat();
    assert_eq!(circles(&joined).into_iter().map(|circle| circle.len()).collect::<Vec<_>>(), [3]);
}
