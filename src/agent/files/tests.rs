//! Files as people have them, good and broken, and what becomes of each: the table is `tests/data/agents/expected.tsv`.

#![allow(clippy::unwrap_used)]

use std::{collections::BTreeMap, fs};

use super::*;
use crate::agent::{AgentSpec, Does};

fn data() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/agents")
}

fn models() -> BTreeMap<String, ModelRef> {
    let named = [("sonnet", "claude-sonnet-5"), ("opus", "claude-opus-5"), ("haiku", "claude-haiku-4-5")];
    named.map(|(word, model)| (word.to_owned(), format!("anthropic/{model}").parse().unwrap())).into()
}

fn read(folder: &Path, dialect: Dialect) -> AgentFiles {
    AgentFiles::read(&[AgentFolder::new(folder, dialect)], &models())
}

fn of_agent(spec: &AgentSpec) -> BTreeMap<&'static str, String> {
    let tools = spec.tools.as_ref().and_then(|tools| tools.over(None));
    let rules = spec.permission.iter().flatten().map(ToString::to_string).collect::<Vec<_>>();
    let steps = spec.steps.or(spec.limits.unwrap_or_default().steps_max);
    [
        ("description", spec.description.clone().unwrap_or_default()),
        ("mode", spec.mode.map(|mode| serde_json::json!(mode).as_str().unwrap().to_owned()).unwrap_or_default()),
        ("model", spec.model.as_ref().map_or("none".to_owned(), ToString::to_string)),
        ("tools", tools.map_or("all".to_owned(), |tools| tools.into_iter().collect::<Vec<_>>().join(","))),
        ("rules", rules.join("|")),
        ("steps", steps.unwrap_or_default().to_string()),
        ("temperature", spec.temperature.map_or("none".to_owned(), |number| number.to_string())),
        ("color", spec.color.clone().unwrap_or_default()),
        ("options", spec.options.to_string()),
        ("hidden", spec.hidden.unwrap_or_default().to_string()),
        ("disable", spec.disable.unwrap_or_default().to_string()),
        ("prompt", spec.prompt.clone().unwrap_or_default()),
    ]
    .into()
}

fn of_command(command: &Command) -> BTreeMap<&'static str, String> {
    let Does::Say(says) = &command.does else { return BTreeMap::new() };
    [
        ("arguments", command.arguments.clone().unwrap_or_default()),
        ("agent", command.agent.clone().unwrap_or_default()),
        ("model", command.model.as_ref().map_or("none".to_owned(), ToString::to_string)),
        ("subtask", command.subtask.to_string()),
        ("says", says.clone()),
    ]
    .into()
}

/// What was read, by its file and name.
fn found(files: &AgentFiles) -> BTreeMap<(PathBuf, String), BTreeMap<&'static str, String>> {
    let agents = files.config.agents.iter();
    let agents = agents.map(|(name, spec, source)| ((source.clone().unwrap(), name.clone()), of_agent(spec)));
    let commands = files.commands.iter();
    let commands =
        commands.map(|command| ((command.source.clone().unwrap(), command.name.clone()), of_command(command)));
    agents.chain(commands).collect()
}

/// C-12, M-01, M-09, N-04: each file loads, or is refused with its line and field, and none disturbs another.
#[test]
fn each_file_is_read_or_refused_as_the_table_says() {
    let all = [("claude", Dialect::ClaudeCode), ("opencode", Dialect::OpenCode), ("tamtam", Dialect::Tamtam)];
    let all: Vec<_> = all.into_iter().map(|(name, dialect)| read(&data().join(name), dialect)).collect();
    let mut found: BTreeMap<_, _> = all.iter().flat_map(found).collect();
    let mut bad: Vec<_> = all.iter().flat_map(|files| files.bad.clone()).collect();
    let table = fs::read_to_string(data().join("expected.tsv")).unwrap();
    let foreign = table.lines().filter(|line| !line.starts_with("tamtam") && !line.contains("\tpart\t")).count();
    assert!(foreign >= 60, "{foreign} files of other programs");
    let mut wrong = Vec::new();
    for line in table.lines() {
        let cells: Vec<_> = line.split('\t').collect();
        let [path, verdict, what, rest] = cells[..] else { unreachable!("{line}") };
        let path = data().join(path);
        let told =
            |bad: &[BadFile]| bad.iter().filter(|bad| bad.path == path).map(ToString::to_string).collect::<Vec<_>>();
        if verdict == "bad" {
            let at_line = |bad: &BadFile| what.is_empty() || bad.line.to_string() == what;
            let is = |bad: &BadFile| bad.path == path && bad.to_string().contains(rest) && at_line(bad);
            match bad.iter().position(is) {
                Some(at) => drop(bad.remove(at)),
                None => wrong.push(format!("{line}\n  is {:?}", told(&bad))),
            }
            continue;
        }
        let name = what.rsplit(' ').next().unwrap();
        let Some(is) = found.remove(&(path.clone(), name.to_owned())) else {
            wrong.push(format!("{line}\n  is {:?}", told(&bad)));
            continue;
        };
        for wanted in rest.split(';') {
            let (key, value) = wanted.split_once('=').unwrap();
            let (value, is) = (value.replace("\\n", "\n"), &is[key]);
            let fits = if key == "prompt" { is.starts_with(&value) } else { *is == value };
            if !fits {
                wrong.push(format!("{line}\n  is {key} {is:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(bad.is_empty() && found.is_empty(), "not in the table: {bad:?} {:?}", found.keys());
}

/// M-04, M-05: what was read becomes agents next to those of the runtime, and what cannot be an agent is reported.
#[test]
fn files_become_agents_and_commands() {
    let (agents, commands, bad) = read(&data().join("opencode"), Dialect::OpenCode).build().unwrap();
    assert_eq!(agents.default_agent().name, "writer");
    assert_eq!(agents.get("build").unwrap().model.as_ref().unwrap().to_string(), "opencode/big");
    assert!(agents.get("old").is_none() && agents.get("review").is_some());
    assert!(commands.get("hi").is_some() && commands.get("undo").is_some());
    assert!(bad.iter().all(|bad| bad.path.starts_with(data())), "{bad:?}");
}

/// RESOURCE-003 to RESOURCE-008: a folder is read again each time, may be empty or missing, and is read once if given twice.
/// RESOURCE-008: the reader itself, given one folder twice, has each agent once.
#[test]
fn a_folder_is_read_as_it_is_now() {
    let home = tempfile::tempdir().unwrap();
    let folder = || AgentFolder::new(home.path(), Dialect::Tamtam);
    let count = |folders: &[AgentFolder]| AgentFiles::read(folders, &models()).config.agents.len();
    assert_eq!(count(&[folder()]), 0);
    fs::create_dir(home.path().join("agents")).unwrap();
    assert_eq!(count(&[folder()]), 0);
    let file = home.path().join("agents/a.md");
    fs::write(&file, "---\ndescription: one\n---\nbody").unwrap();
    fs::write(home.path().join("agents/notes.txt"), "no agent").unwrap();
    fs::write(home.path().join("agents/.hidden.md"), "no agent").unwrap();
    assert_eq!((count(&[folder()]), count(&[folder(), folder()])), (1, 1));
    fs::write(&file, "---\ndescription: two\n---\nbody").unwrap();
    let (agents, ..) = AgentFiles::read(&[folder()], &models()).build().unwrap();
    assert_eq!(agents.get("a").unwrap().description, "two");
}

/// Links, circles, pipes, large files and a missing description: each is reported, and the others load.
#[cfg(unix)]
#[test]
fn a_hostile_folder_is_read_within_bounds() {
    use std::os::unix::fs::symlink;
    let home = tempfile::tempdir().unwrap();
    let (outside, workspace) = (home.path().join("outside"), home.path().join("workspace"));
    let agents = workspace.join(".tamtam/agents");
    fs::create_dir_all(&outside).unwrap();
    fs::create_dir_all(agents.join("sub")).unwrap();
    let text = "---\ndescription: x\n---\nbody";
    fs::write(outside.join("secret.md"), text).unwrap();
    fs::write(agents.join("good.md"), text).unwrap();
    fs::write(agents.join("large.md"), "x".repeat(300_000)).unwrap();
    fs::write(agents.join("undescribed.md"), "body").unwrap();
    fs::write(workspace.join("inner.md"), text).unwrap();
    symlink(outside.join("secret.md"), agents.join("leaves.md")).unwrap();
    symlink(&outside, agents.join("away")).unwrap();
    symlink(workspace.join("inner.md"), agents.join("linked.md")).unwrap();
    symlink(&agents, agents.join("sub/circle")).unwrap();
    symlink(agents.join("nowhere"), agents.join("dangling.md")).unwrap();
    std::process::Command::new("mkfifo").arg(agents.join("pipe.md")).status().unwrap();
    let included = r#"{"agent": {"other": {"description": "x", "prompt": "{file:inner.md}"}}}"#;
    fs::write(workspace.join("opencode.json"), included).unwrap();
    let folders = AgentFolder::of_workspace(&workspace, |_, _| true);
    let (agents, _, bad) = AgentFiles::read(&folders, &models()).build().unwrap();
    assert!(agents.get("good").is_some() && agents.get("linked").is_some());
    let mut told: Vec<_> = bad.iter().map(|bad| bad.path.file_name().unwrap().to_str().unwrap()).collect();
    told.sort_unstable();
    assert_eq!(
        told,
        ["away", "circle", "dangling.md", "large.md", "leaves.md", "opencode.json", "pipe.md", "undescribed.md"],
        "{bad:?}"
    );
    assert!(bad.iter().any(|bad| bad.why.contains("write its text here")), "{bad:?}");
    // The judge sees each text as it is, and what it refuses is not used.
    let judged =
        AgentFolder::of_workspace(&workspace, |path, text| path.ends_with("good.md") && text.ends_with("body"));
    let (agents, _, bad) = AgentFiles::read(&judged, &models()).build().unwrap();
    assert!(agents.get("good").is_some() && agents.get("linked").is_none());
    let refused = bad.iter().filter(|bad| bad.why.contains("not as it was trusted"));
    let mut refused: Vec<_> = refused.map(|bad| bad.path.file_name().unwrap().to_str().unwrap()).collect();
    refused.sort_unstable();
    assert_eq!(refused, ["linked.md", "opencode.json", "undescribed.md"]);
}

/// A program beside us exchanges a folder for a link to one outside, again and again. Reading lists no name of the folder outside.
#[cfg(target_os = "linux")]
#[test]
fn a_folder_that_becomes_a_link_shows_nothing_outside() {
    use std::sync::atomic::{AtomicBool, Ordering};
    let home = tempfile::tempdir().unwrap();
    let (outside, workspace) = (home.path().join("outside"), home.path().join("workspace"));
    let agents = workspace.join(".tamtam/agents");
    fs::create_dir_all(&outside).unwrap();
    fs::create_dir_all(agents.join("sub")).unwrap();
    fs::write(outside.join("secret.md"), "").unwrap();
    std::os::unix::fs::symlink(&outside, home.path().join("link")).unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                let (here, there) = (agents.join("sub"), home.path().join("link"));
                let exchange = rustix::fs::RenameFlags::EXCHANGE;
                rustix::fs::renameat_with(rustix::fs::CWD, here, rustix::fs::CWD, there, exchange).unwrap();
            }
        });
        let folders = AgentFolder::of_workspace(&workspace, |_, _| true);
        let reads = (0..4_000).map(|_| AgentFiles::read(&folders, &models()));
        let shown = reads.flat_map(|files| files.bad).find(|bad| bad.path.ends_with("secret.md"));
        done.store(true, Ordering::Relaxed);
        assert!(shown.is_none(), "{shown:?}");
    });
}

/// The parser recurses, so its bound must fit into the stack of any thread, in a build without optimisation too.
#[test]
fn deep_json_is_refused_on_a_small_stack() {
    let read = |text: String| {
        let thread = std::thread::Builder::new().stack_size(512 << 10);
        thread.spawn(move || document::json_with_comments(&text).map(drop)).unwrap().join().unwrap()
    };
    for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
        for deep in [128, 129, 100_000] {
            let nested = format!("{}1{}", open.repeat(deep), close.repeat(deep));
            assert_eq!(read(nested).is_ok(), deep == 128, "{open} {deep}");
        }
        assert!(read(open.repeat(100_000)).is_err());
    }
}

/// No text makes the readers panic: bytes at random between the marks of front matter, and pieces of YAML and JSON.
#[test]
fn no_text_makes_a_reader_panic() {
    use proptest::prelude::*;
    let pieces =
        "---|\n|\t| |: |- |? |&a |*a |!t |\"|'|[|]|{|}|,|#|%|@|`|>|\u{2028}|\u{feff}|\0|name|tools|0|1e9|//|/*|*/|\\";
    let pieces: Vec<_> = pieces.split('|').chain(["|"]).map(str::to_owned).collect();
    let texts = prop::collection::vec(prop::sample::select(pieces), 0..24).prop_map(|pieces| pieces.concat());
    proptest!(ProptestConfig::with_cases(2_000), |(text in texts)| {
        for dialect in [Dialect::Tamtam, Dialect::OpenCode, Dialect::ClaudeCode] {
            for text in [text.clone(), format!("---\n{text}\n---\nbody")] {
                if let Ok((node, body)) = read::front_matter(&text, dialect) {
                    let _ = read::agent(node.clone(), Some(body), &Names::of_text("a"), dialect, &models());
                    let _ = read::command(node, Some(body), &Names::of_text("a"), dialect, &models());
                }
            }
        }
        let _ = document::json_with_comments(&text);
    });
}

/// A call of a command whose file is not used names the file, and why.
#[test]
fn an_unknown_command_names_its_file_that_is_not_used() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir_all(folder.path().join("commands/team")).unwrap();
    fs::write(folder.path().join("commands/team/Pull Request.md"), "---\ndescription: {\n---\nBody.\n").unwrap();
    fs::write(folder.path().join("commands/good.md"), "Body.\n").unwrap();
    let files = AgentFiles::read(&[AgentFolder::new(folder.path(), Dialect::ClaudeCode)], &BTreeMap::new());
    let (_, commands, bad) = files.build().unwrap();
    let said = commands.read("/team/pull-request 1").unwrap().unwrap_err().to_string();
    let begins = format!("unknown command /team/pull-request (not used: {}): use one of ", bad[0]);
    assert!(said.starts_with(&begins), "{said}");
    let said = commands.read("/other").unwrap().unwrap_err().to_string();
    assert!(said.starts_with("unknown command /other: use one of "), "{said}");
}
