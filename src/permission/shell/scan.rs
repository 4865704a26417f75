//! Collects what a command would run, read and write, while the tree of its text is walked, and the trees of the texts in it.
//!
//! The folders that the command may be in when it opens a file are collected on the way, because `cd` changes what a relative path
//! means. The bounds of the walk are kept here. A change must keep that anything beyond a bound makes the whole command unclear,
//! even if the walk drops the error ([`Scan::beyond`]).

use crate::permission::shell::{
    ANY, Arg, Found, HOME, Role, Simple, Unclear,
    bounds::Steps,
    paths,
    statements::Reader,
    tree::{Source, gap, parse},
    unclear,
};

/// How deep statements may be nested. A list of commands is as deep as it is long.
const DEPTH_MAX: usize = 90;
/// How many commands may be found in one text.
const COMMANDS_MAX: usize = 1_000;
/// In how many folders a command may possibly be.
const FOLDERS_MAX: usize = 16;

/// What is known while the tree of a command is walked, and the trees of the texts in it.
pub(super) struct Scan {
    pub(super) found: Found,
    /// The folders that the command may be in by now, relative to the one where it starts.
    pub(super) folders: Vec<String>,
    /// How many loops surround the walked command: inside of one it may run more than once.
    pub(super) loops: usize,
    depth: usize,
    /// What is found counts only for rules that deny or ask.
    looks_only: bool,
    /// How many programs that run commands in many ways surround the text that is read.
    pub(super) runners: usize,
    /// Why something that may run was not checked: the whole command is unclear then, even if the walk drops the error.
    lost: Option<String>,
    steps: Steps,
}

/// Everything that a command would run, read and write that starts in a folder (empty: the workspace).
pub(super) fn read(text: &str, folder: &str) -> Result<Found, Unclear> {
    if sets_how_characters_are_read(text) {
        return unclear("it sets how the shell reads its characters");
    }
    let mut scan = Scan::new();
    scan.folders = vec![paths::start(folder)];
    if !folder.is_empty() {
        let to = Arg::plain(folder);
        let reads = Some(vec![paths::joined("", folder)]);
        scan.found(Simple { name: "cd".into(), args: vec![to], role: Role::Command, reads })?;
    }
    scan.text(text)?;
    match scan.lost {
        Some(why) => unclear(why),
        None => Ok(scan.found),
    }
}

/// Whether a text with characters beyond ASCII names a variable of the locale. In some locales (Shift-JIS, Big5, GBK) a backslash or
/// a pipe may be the second byte of a character, and bash reads the next line of a text, or the text of another shell, by the
/// locale that was set.
fn sets_how_characters_are_read(text: &str) -> bool {
    let bare = || text.replace(['"', '\'', '\\'], "");
    !text.is_ascii() && ["LANG", "LC_"].iter().any(|name| bare().contains(name))
}

/// How many steps it takes to read a command.
#[cfg(test)]
pub(super) fn steps(text: &str) -> usize {
    let mut scan = Scan::new();
    drop(scan.text(text));
    scan.steps.taken()
}

impl Scan {
    fn new() -> Scan {
        Scan {
            found: Found::default(),
            folders: vec![String::new()],
            loops: 0,
            depth: 0,
            looks_only: false,
            runners: 0,
            lost: None,
            steps: Steps::new(),
        }
    }

    /// Something is beyond a bound. An error about one word of many may be skipped if it only says that the word is not a
    /// command; this error never is.
    pub(super) fn beyond<T>(&mut self, why: &str) -> Result<T, Unclear> {
        self.lost.get_or_insert_with(|| why.to_owned());
        unclear(why)
    }

    /// Counts steps of work. If too many were taken, or something was lost before, the walk ends.
    pub(super) fn take(&mut self, steps: usize) -> Result<(), Unclear> {
        if let Some(why) = &self.lost {
            return unclear(why.clone());
        }
        self.steps.take(steps).or_else(|Unclear(why)| self.beyond(&why))
    }

    /// A text that a shell runs.
    pub(super) fn text(&mut self, text: &str) -> Result<(), Unclear> {
        self.take(text.len())?;
        let tree = parse(text)?;
        let root = tree.root_node();
        gap(text.get(..root.start_byte()).unwrap_or_default())?;
        gap(text.get(root.end_byte()..).unwrap_or_default())?;
        Reader { source: Source(text), scan: self }.statements(root)
    }

    /// Goes one level deeper. An error ends the whole walk, so only a success goes back ([`Scan::leave`]).
    pub(super) fn enter(&mut self) -> Result<(), Unclear> {
        self.depth += 1;
        self.take(1)?;
        if self.depth > DEPTH_MAX { self.beyond("it is nested too deep") } else { Ok(()) }
    }

    pub(super) fn leave(&mut self) {
        self.depth -= 1;
    }

    /// Takes a command.
    pub(super) fn found(&mut self, mut simple: Simple) -> Result<(), Unclear> {
        if self.found.commands.len() >= COMMANDS_MAX {
            return self.beyond("it has too many commands");
        }
        for arg in &mut simple.args {
            arg.text = arg.text.replace(HOME, ANY.encode_utf8(&mut [0; 4]));
        }
        if self.looks_only {
            (simple.role, simple.reads) = (Role::Also, None);
        }
        // Some disks do not tell `RM` from `rm`.
        let small = simple.name.to_ascii_lowercase();
        if small != simple.name {
            self.found.commands.push(Simple { name: small, args: simple.args.clone(), role: Role::Also, reads: None });
        }
        self.found.commands.push(simple);
        Ok(())
    }

    /// Takes what a part finds as something that it may run: for the rules that deny or ask, and for no rule that allows.
    pub(super) fn looked_at_only(
        &mut self,
        part: impl FnOnce(&mut Scan) -> Result<(), Unclear>,
    ) -> Result<(), Unclear> {
        let (depth, runners, before) = (self.depth, self.runners, std::mem::replace(&mut self.looks_only, true));
        part(self)?;
        (self.depth, self.runners, self.looks_only) = (depth, runners, before);
        Ok(())
    }

    /// From here on the command may be in one more folder.
    pub(super) fn change_folder(&mut self, to: &Arg) -> Result<(), Unclear> {
        if self.loops > 0 {
            return unclear("it changes its folder in a loop");
        }
        if to.is_unknown() || to.text.is_empty() || to.text.starts_with('-') {
            return unclear("it changes to a folder that is not known before it runs");
        }
        for at in 0..self.folders.len() {
            let there = paths::joined(&self.folders[at], &to.text);
            if !self.folders.contains(&there) {
                self.folders.push(there);
            }
        }
        if self.folders.len() > FOLDERS_MAX { self.beyond("it changes its folder too often") } else { Ok(()) }
    }

    /// A path in each of the folders that it may start from.
    pub(super) fn places(&mut self, path: &str) -> Result<Vec<String>, Unclear> {
        self.take(self.folders.iter().map(|folder| folder.len() + path.len() + 1).sum())?;
        Ok(self.folders.iter().map(|folder| paths::joined(folder, path)).collect())
    }
}
