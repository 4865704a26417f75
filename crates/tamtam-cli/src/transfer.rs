//! `tamtam tape export` and `import`: moves a session between stores as one file.
//!
//! An export goes to stdout, or to a new file that only its owner can read. The file is written whole, or removed if that fails.
//!
//! A change must keep this: an export never replaces a file; and an import trusts nothing by default. Only with `--as-it-was`
//! does it keep the rules, grants, workspace and unfinished work of the file.

use std::{
    io::{BufReader, BufWriter, Write as _},
    path::Path,
};

use tamtam::{
    Millis,
    tape::{Exported, ImportOptions, Imported, Spills, Store, StoreOptions, TapeError, TapeStoreExt as _},
};

use super::{
    arguments::{ExportArguments, ImportArguments},
    environment::Environment,
    escape,
    failure::{Exit, Failure},
    named_file, print, tapes,
};

/// Carries out `export`: writes a session to a file that must not exist yet, or to stdout.
pub(super) fn export(given: &ExportArguments, path: &Path) -> Result<Exit, Failure> {
    let store = tapes::open_for(path, &given.id)?;
    let spills = if given.spills { Spills::Taken } else { Spills::Left };
    let Some(to) = given.to.as_deref() else {
        // Collected in memory first, so that stdout never gets part of an export that fails.
        let mut file = Vec::new();
        store.export(&given.id, spills, &mut file)?;
        return print(&String::from_utf8(file).map_err(|_| Failure::failed("the tape is not text"))?);
    };
    let Exported { last, anchors, spills, .. } = export_to(&store, given, spills, to)?;
    print(&format!("{last} entries, {anchors} anchors, {spills} large outputs: {}\n", to.display()))
}

fn export_to(store: &Store, given: &ExportArguments, spills: Spills, to: &Path) -> Result<Exported, Failure> {
    let failed = |error: std::io::Error| {
        Failure::usage(format!("cannot write {}: {error}: name another file with --to", to.display()))
    };
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    // The file holds the whole conversation, so only its owner may read it, as with a tape.
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let file = options.open(to).map_err(failed)?;
    let mut out = BufWriter::new(file);
    let exported = store.export(&given.id, spills, &mut out).map_err(Failure::from).and_then(|exported| {
        out.flush().and_then(|()| out.get_ref().sync_all()).map_err(failed)?;
        Ok(exported)
    });
    if exported.is_err() {
        // An import would refuse part of an export, so the file is of no use.
        drop(std::fs::remove_file(to));
    }
    exported
}

/// Carries out `import`: adds the session of a file to the store.
pub(super) fn import(given: &ImportArguments, path: &Path, environment: &Environment) -> Result<Exit, Failure> {
    let file = named_file::open(&given.file)
        .map_err(|error| Failure::usage(format!("cannot read {}: {error}", given.file.display())))?;
    let (options, standing) = match given.as_it_was {
        true => (
            ImportOptions::as_it_was(),
            "It is as the file has it, with its workspace, rules, grants and open calls; unfinished work continues when it is opened.\n".to_owned(),
        ),
        false => {
            let workspace = environment.workspace(given.workspace.as_deref())?.display().to_string();
            let standing = format!(
                "It works in {workspace}, has no unfinished work, and asks a person about each call. Its messages \
                 are those of the file.\n"
            );
            (ImportOptions::into_workspace(workspace, Millis::now()), standing)
        }
    };
    let options = given.as_id.clone().into_iter().fold(options, ImportOptions::under);
    let store = Store::open(path, StoreOptions::default())?;
    let imported = store.import(&mut BufReader::new(file), &options);
    let Imported { session, last, anchors, spills, .. } = imported.map_err(|error| match error {
        TapeError::Exists { .. } => Failure::failed(format!("{error}: import it under another id with --as ID")),
        other => other.into(),
    })?;
    print(&escape::text(&format!(
        "session {session}: {last} entries, {anchors} anchors, {spills} large outputs\n{standing}\
         Read it: tamtam tape show {session}\n"
    )))
}
