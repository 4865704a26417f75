#![allow(clippy::unwrap_used)]

use std::{os::unix::fs::symlink, process::Command};

use proptest::prelude::*;
use tamtam::permission::{Action, Ruleset};

use super::*;

struct World {
    folder: tempfile::TempDir,
    trust: Trust,
}

impl World {
    fn new() -> World {
        let folder = tempfile::tempdir().unwrap();
        let trust = Trust { path: Some(folder.path().join("data/tamtam/trust.json")) };
        let world = World { folder, trust };
        world.make();
        world
    }

    fn make(&self) {
        std::fs::create_dir_all(self.work().join(".tamtam")).unwrap();
        self.write("max_steps = 3\n");
    }

    fn work(&self) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join("work")
    }

    fn file(&self) -> PathBuf {
        self.work().join(".tamtam/config.toml")
    }

    fn write(&self, text: &str) {
        std::fs::write(self.file(), text).unwrap();
    }

    fn read(&self) -> Result<project::Files, String> {
        project::read(&self.work(), &project::all())
    }

    fn say_trusted(&self) {
        self.trust.trust(&self.work(), &self.read().unwrap()).unwrap();
    }

    fn look(&self) -> Project {
        self.trust.look(&self.work(), &[CONFIG]).unwrap()
    }

    fn why(&self) -> String {
        match self.look() {
            Project::Untrusted(why) => why,
            other => format!("{other:?}"),
        }
    }

    fn is_trusted(&self) -> bool {
        matches!(self.look(), Project::Trusted { .. })
    }

    fn granted(&self) -> Vec<Granted> {
        match self.look() {
            Project::Trusted { granted, .. } => granted,
            _ => Vec::new(),
        }
    }

    fn grant(&self, rules: &[Rule], who: Option<&str>) -> Result<(), Failure> {
        self.trust.add_project_rules(&self.work(), rules, who)
    }
}

fn rule(pattern: &str) -> Rule {
    Rule::new("bash", pattern, Action::Allow)
}

/// C01, C02: a folder's files say nothing before they are trusted, and nothing once a byte of them has changed.
#[test]
fn trust_is_bound_to_the_bytes_of_the_files() {
    let world = World::new();
    assert!(world.why().contains("is not trusted") && world.why().contains("tamtam trust"), "{}", world.why());
    world.say_trusted();
    let files = project::Files::from([(".tamtam/config.toml".to_owned(), "max_steps = 3\n".to_owned())]);
    assert_eq!(world.look(), Project::Trusted { files, granted: vec![] });
    world.write("max_steps = 4\n");
    assert!(world.why().contains("config.toml has changed"), "{}", world.why());
    world.write("max_steps = 3\n");
    assert!(world.is_trusted());
    std::fs::remove_file(world.file()).unwrap();
    assert!(world.why().contains("config.toml is gone"), "{}", world.why());
}

/// Files of other kinds are trusted together, and each kind is looked at by itself: one byte, one file more, one file less.
#[test]
fn files_of_each_kind_are_compared_by_themselves() {
    let world = World::new();
    let agents = [project::TEAM[0]];
    let put = |name: &str, text: &str| {
        let path = world.work().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    put(".tamtam/agents/deep/writer.md", "Writes.");
    put(".tamtam/agents/notes.txt", "no agent");
    let why = || match world.trust.look(&world.work(), &agents).unwrap() {
        Project::Trusted { files, .. } => format!("{files:?}"),
        Project::Untrusted(why) => why,
        Project::Nothing => "nothing".to_owned(),
    };
    assert!(why().contains("agents is ignored: it is not trusted"), "{}", why());
    world.say_trusted();
    let trusted = r#"{".tamtam/agents/deep/writer.md": "Writes."}"#;
    assert_eq!(why(), trusted);
    put(".tamtam/agents/notes.txt", "no agent still");
    world.write("max_steps = 4\n");
    assert_eq!(why(), trusted, "what is no agent changes nothing about agents");
    assert!(!world.is_trusted());
    world.write("max_steps = 3\n");
    put(".tamtam/agents/deep/writer.md", "Writes!");
    assert!(why().contains("writer.md has changed"), "{}", why());
    assert!(world.is_trusted(), "the configuration is as it was");
    put(".tamtam/agents/deep/writer.md", "Writes.");
    put(".tamtam/agents/more.md", "");
    assert!(why().contains("more.md is new"), "{}", why());
    std::fs::remove_file(world.work().join(".tamtam/agents/more.md")).unwrap();
    assert_eq!(why(), trusted);
    std::fs::remove_dir_all(world.work().join(".tamtam/agents")).unwrap();
    assert!(why().contains("writer.md is gone"), "{}", why());
}

/// A folder without files can be trusted. A file that appears later is not read.
#[test]
fn a_folder_without_files_can_be_trusted() {
    let world = World::new();
    std::fs::remove_file(world.file()).unwrap();
    assert_eq!(world.look(), Project::Nothing);
    world.say_trusted();
    world.grant(&[rule("ls")], None).unwrap();
    assert_eq!(world.granted().len(), 1);
    world.write("permission = 'auto'");
    assert!(world.why().contains("config.toml is new"), "{}", world.why());
    assert_eq!(world.granted(), [], "and what was granted waits too");
}

/// A folder that was made anew at the same path is another one: neither trust nor grants go over to it.
#[test]
fn a_folder_that_was_made_anew_has_nothing() {
    let world = World::new();
    world.say_trusted();
    world.grant(&[rule("ls")], None).unwrap();
    std::fs::rename(world.work(), world.folder.path().join("old")).unwrap();
    world.make();
    assert!(world.why().contains("is not trusted"), "{}", world.why());
    assert!(world.grant(&[rule("make")], None).is_err());
    // Trust of the new one does not bring back what the old one had.
    world.say_trusted();
    assert_eq!(world.granted(), []);
}

/// A hostile file costs a line and no time: huge, binary, a FIFO, an endless device, a link that leads out.
#[test]
fn hostile_files_are_refused() {
    let world = World::new();
    world.say_trusted();
    let refused = |world: &World, why: &str| {
        let read = world.read().unwrap_err();
        assert!(read.contains(why), "{read}");
        assert!(world.why().contains("is ignored: "), "{}", world.why());
        std::fs::remove_file(world.file()).unwrap();
    };
    world.write(&"#".repeat((1 << 20) + 1));
    refused(&world, "bytes");
    std::fs::write(world.file(), b"\xff\xfe\x00").unwrap();
    refused(&world, "is not UTF-8 text");
    assert!(Command::new("mkfifo").arg(world.file()).status().unwrap().success());
    refused(&world, "named pipe");
    symlink("/dev/zero", world.file()).unwrap();
    refused(&world, "config.toml");
    symlink("/etc/passwd", world.file()).unwrap();
    refused(&world, "config.toml");
    std::fs::create_dir(world.file()).unwrap();
    assert!(world.read().is_err());
    std::fs::remove_dir_all(world.work().join(".tamtam")).unwrap();
    symlink("/etc", world.work().join(".tamtam")).unwrap();
    assert!(world.read().unwrap_or_default().is_empty());
    std::fs::remove_file(world.work().join(".tamtam")).unwrap();
    let deep = world.work().join(".tamtam/commands/1/2/3/4/5/6/7/8/9");
    std::fs::create_dir_all(&deep).unwrap();
    assert!(world.read().unwrap_err().contains("folders deep"));
    std::fs::remove_dir_all(world.work().join(".tamtam/commands/1")).unwrap();
    (0..=1_000).for_each(|n| std::fs::write(world.work().join(format!(".tamtam/commands/{n}.md")), "").unwrap());
    assert!(world.read().unwrap_err().contains("more than 1000 files"));
}

/// H-13: nothing is granted for a folder that is not trusted. What was granted is kept in order, by whom, once each, and taken back one
/// by one or all together.
#[test]
fn grants_are_kept_and_taken_back() {
    let world = World::new();
    let (trust, work) = (&world.trust, world.work());
    let refused = world.grant(&[rule("ls")], None).unwrap_err();
    assert!(refused.message.contains("`tamtam trust "), "{}", refused.message);
    world.say_trusted();
    world.grant(&[rule("ls"), rule("ls *")], Some("ada")).unwrap();
    world.grant(&[rule("make")], None).unwrap();
    world.grant(&[rule("ls"), rule("ls *")], Some("bob")).unwrap();
    let kept: Vec<_> =
        world.granted().iter().map(|granted| (granted.id.0, granted.allows(), granted.who.clone())).collect();
    let ls = "Allows `ls` with any arguments.".to_owned();
    assert_eq!(kept, [(1, ls, Some("ada".into())), (2, "Allows the command `make`, exactly.".into(), None)]);
    let granted = world.granted();
    world.say_trusted();
    assert_eq!(world.granted(), granted, "trust keeps the grants");
    world.write("max_steps = 4\n");
    assert_eq!(world.granted(), [], "they hold while the configuration is as it was trusted");
    assert!(world.grant(&[rule("pwd")], None).unwrap_err().message.contains("has changed"));
    world.write("max_steps = 3\n");
    assert!(trust.revoke(&work, Some(3)).is_err() && trust.revoke(&work, Some(0)).is_err());
    assert_eq!(trust.revoke(&work, Some(1)).unwrap(), granted[..1]);
    assert_eq!(world.granted(), granted[1..], "the other one keeps its id");
    assert_eq!(trust.revoke(&work, None).unwrap(), granted[1..]);
    assert!(!world.is_trusted() && trust.revoke(&work, None).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    /// What is granted is read back as the same rules, from the file, and by whoever reads rules.
    #[test]
    fn rules_are_read_back_as_they_were_granted(
        rules in prop::collection::vec(("[a-z_]{1,9}|bash|read|edit", any::<String>(), any::<bool>()), 1..4)
    ) {
        let rules: Vec<_> = rules
            .into_iter()
            .map(|(permission, pattern, exact)| {
                // A path that is no glob is only ever granted exactly.
                let exact = exact || matches!(&*permission, "read" | "edit");
                Rule::new(permission, pattern, Action::Allow).exact(exact)
            })
            .collect();
        let world = World::new();
        world.say_trusted();
        world.grant(&rules, Some("ada")).unwrap();
        prop_assert_eq!(&world.granted()[0].rules, &rules);
        let text = serde_json::to_string(&rules).unwrap();
        prop_assert_eq!(&Ruleset::from_json("granted", &text).unwrap().rules, &rules);
    }
}

/// The file is its owner's, whole at each moment, bounded, and never guessed at.
#[test]
fn the_trust_file_is_private_bounded_and_understood() {
    use std::os::unix::fs::PermissionsExt as _;
    let world = World::new();
    world.say_trusted();
    let path = world.trust.path.clone().unwrap();
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
    (0..200).for_each(|n| world.grant(&[rule(&n.to_string())], None).unwrap());
    let full = world.grant(&[rule("one more")], None).unwrap_err();
    assert!(full.message.contains("--revoke"), "{}", full.message);
    assert_eq!(world.granted().len(), 200, "nothing of it was written");
    assert_eq!((mode(&path), path.with_extension("new").exists()), (0o600, false));
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o666)).unwrap();
    let refused = || world.trust.look(&world.work(), &[CONFIG]).unwrap_err().message;
    assert!(refused().contains("others may write it"));
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    let denies = std::fs::read_to_string(&path).unwrap().replacen("allow", "deny", 1);
    for (text, why) in [
        ("{", "bad trust file"),
        (r#"{"version":2,"projects":[]}"#, "a newer tamtam wrote it"),
        (&denies, "a grant allows, and `deny bash 0` does not"),
    ] {
        std::fs::write(&path, text).unwrap();
        assert!(refused().contains(why), "{}", refused());
        assert!(world.grant(&[rule("ls")], None).is_err());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text, "a file that is not understood is left as it is");
    }
}

/// Several writers that add at once lose nothing, and give no id twice.
#[test]
fn grants_that_are_added_at_once_are_all_kept() {
    let world = World::new();
    world.say_trusted();
    std::thread::scope(|scope| {
        for n in 0..8 {
            let world = &world;
            scope.spawn(move || world.grant(&[rule(&n.to_string())], None).unwrap());
        }
    });
    let ids: std::collections::BTreeSet<_> = world.granted().iter().map(|granted| granted.id).collect();
    assert_eq!(ids.len(), 8);
}
