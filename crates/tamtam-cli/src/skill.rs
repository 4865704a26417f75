//! `tamtam skill`: lists the skills that a session would be offered, and checks the files of skills.
//!
//! A check reads files that nobody has trusted, and shows what they say of themselves; nothing of them reaches a model.

use std::{
    fmt::Write as _,
    path::{Path, PathBuf},
};

use serde_json::json;
use tamtam::runtime::{BadFile, Skill};

use super::{
    arguments::SkillCommand,
    environment::Environment,
    escape,
    failure::{Exit, Failure},
    print,
    sessions::count,
    team::Team,
};

/// The folders of skills of a workspace.
const FOLDERS: [&str; 5] =
    [".claude/skills", ".opencode/skill", ".opencode/skills", ".agents/skills", ".tamtam/skills"];
/// Files that one check looks at, at most.
const FILES_MAX: usize = 1_000;

/// Carries out a command of `tamtam skill`.
pub(super) fn skill(given: SkillCommand, environment: &Environment) -> Result<Exit, Failure> {
    match given {
        SkillCommand::List { workspace, json } => list(workspace.as_deref(), json, environment),
        SkillCommand::Check { paths, json } => check(&paths, json, environment),
    }
}

fn list(workspace: Option<&Path>, json: bool, environment: &Environment) -> Result<Exit, Failure> {
    let team = Team::load(&environment.workspace(workspace)?, environment)?;
    let mut text = String::new();
    for skill in team.skills.iter() {
        text += &if json { format!("{}\n", json!(skill)) } else { shown(skill) };
    }
    if !json {
        team.not_used().iter().for_each(|line| text += &(escape::line(line) + "\n"));
    }
    print(&text)
}

fn shown(skill: &Skill) -> String {
    let origin = skill.source.as_ref().map_or_else(|| "built in".to_owned(), |file| file.display().to_string());
    let about = escape::line(skill.description.lines().next().unwrap_or_default());
    format!("{:<20} {about}\n{:<20} {}\n", skill.name, "", escape::line(&origin))
}

fn check(paths: &[PathBuf], json: bool, environment: &Environment) -> Result<Exit, Failure> {
    let mut files = Vec::new();
    match paths {
        [] => {
            let workspace = environment.workspace(None)?;
            let folders = FOLDERS.iter().map(|name| workspace.join(name)).filter(|folder| folder.is_dir());
            folders.for_each(|folder| files.extend(files_in(&folder)));
            if files.is_empty() {
                let why = format!("no skills in {}: name a SKILL.md or a folder", workspace.display());
                return Err(Failure::usage(why));
            }
        }
        paths => {
            for path in paths {
                let found = files_in(path);
                if found.is_empty() {
                    return Err(Failure::usage(format!("{} has no SKILL.md", path.display())));
                }
                files.extend(found);
            }
        }
    }
    if files.len() > FILES_MAX {
        return Err(Failure::usage(format!("more than {FILES_MAX} skills: check them in parts")));
    }
    let read: Vec<Result<Skill, BadFile>> = files.iter().map(|file| Skill::from_file(file)).collect();
    let (mut text, bad) = (String::new(), read.iter().filter(|read| read.is_err()).count());
    for (file, read) in files.iter().zip(read) {
        // Writing to a String cannot fail.
        let _ = match (read, json) {
            (Ok(skill), true) => writeln!(text, "{}", json!(skill)),
            (Err(BadFile { path, line, field, why, .. }), true) => {
                writeln!(text, "{}", json!({"bad_file": {"path": path, "line": line, "field": field, "why": why}}))
            }
            (Ok(skill), false) => {
                let notes: String = skill.notes.iter().map(|note| format!("\n  note: {note}")).collect();
                writeln!(text, "ok: {} ({}){notes}", skill.name, escape::line(&file.display().to_string()))
            }
            (Err(bad), false) => writeln!(text, "error: {}", escape::line(&bad.to_string())),
        };
    }
    if !json {
        let _ = writeln!(text, "{}, {bad} of them cannot be used", count(files.len() as u64, "skill"));
    }
    print(&text)?;
    Ok(if bad == 0 { Exit::Done } else { Exit::Failed })
}

/// The files of skills at a path: itself, one in it, or those of the folders in it; sorted.
fn files_in(path: &Path) -> Vec<PathBuf> {
    let in_folder =
        |folder: &Path| ["SKILL.md", "skill.md"].map(|name| folder.join(name)).into_iter().find(|file| file.is_file());
    if path.is_file() {
        return vec![path.to_owned()];
    }
    if let Some(file) = in_folder(path) {
        return vec![file];
    }
    let Ok(entries) = std::fs::read_dir(path) else { return Vec::new() };
    let mut files: Vec<_> = entries.flatten().filter_map(|entry| in_folder(&entry.path())).collect();
    files.sort();
    files
}
