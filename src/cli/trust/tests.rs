#![allow(clippy::unwrap_used)]

use std::{os::unix::fs::symlink, process::Command};

use tamtam::permission::Action;

use super::*;

struct World {
    folder: tempfile::TempDir,
    trust: Trust,
}

impl World {
    fn new() -> World {
        let folder = tempfile::tempdir().unwrap();
        let trust =
            Trust { path: Some(folder.path().join("data/tamtam/trust.json")), now: "2026-11-25T00:00:00Z".into() };
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

    fn say_trusted(&self) {
        self.trust.trust(&self.work(), &project::read(&self.work()).unwrap()).unwrap();
    }

    fn why(&self) -> String {
        match self.trust.look(&self.work()).unwrap() {
            Project::Untrusted(why) => why,
            other => format!("{other:?}"),
        }
    }

    fn is_trusted(&self) -> bool {
        matches!(self.trust.look(&self.work()).unwrap(), Project::Trusted(_))
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
    let files = vec![(world.file(), "max_steps = 3\n".to_owned())];
    assert_eq!(world.trust.look(&world.work()).unwrap(), Project::Trusted(files));
    world.write("max_steps = 4\n");
    assert!(world.why().contains("has changed"), "{}", world.why());
    world.write("max_steps = 3\n");
    assert!(world.is_trusted());
    std::fs::remove_file(world.file()).unwrap();
    assert!(world.why().contains("is gone"), "{}", world.why());
}

/// A folder that was made anew at the same path is another one: neither trust nor grants go over to it.
#[test]
fn a_folder_that_was_made_anew_has_nothing() {
    let world = World::new();
    world.say_trusted();
    world.trust.add_project_rules(&world.work(), &[rule("ls")], None).unwrap();
    std::fs::rename(world.work(), world.folder.path().join("old")).unwrap();
    world.make();
    assert!(world.why().contains("is not trusted"), "{}", world.why());
    assert_eq!(world.trust.project_rules(&world.work()).unwrap(), []);
    // What is added for the new one does not bring back what the old one had.
    world.trust.add_project_rules(&world.work(), &[rule("make")], None).unwrap();
    let rules: Vec<_> =
        world.trust.project_rules(&world.work()).unwrap().into_iter().map(|granted| granted.rule).collect();
    assert_eq!(rules, [rule("make")]);
    assert!(!world.is_trusted());
}

/// A hostile file costs a line and no time: huge, binary, a FIFO, an endless device, a link that leads out.
#[test]
fn hostile_files_are_refused() {
    let world = World::new();
    world.say_trusted();
    let refused = |world: &World, why: &str| {
        let read = project::read(&world.work()).unwrap_err();
        assert!(read.contains(why), "{read}");
        assert!(world.why().contains("was trusted, and is not read now"), "{}", world.why());
        std::fs::remove_file(world.file()).unwrap();
    };
    world.write(&"#".repeat((1 << 20) + 1));
    refused(&world, "bytes");
    std::fs::write(world.file(), b"\xff\xfe\x00").unwrap();
    refused(&world, "is not UTF-8 text");
    assert!(Command::new("mkfifo").arg(world.file()).status().unwrap().success());
    refused(&world, "FIFO");
    symlink("/dev/zero", world.file()).unwrap();
    refused(&world, "config.toml");
    symlink("/etc/passwd", world.file()).unwrap();
    refused(&world, "config.toml");
    std::fs::create_dir(world.file()).unwrap();
    assert!(project::read(&world.work()).is_err());
    std::fs::remove_dir_all(world.work().join(".tamtam")).unwrap();
    symlink("/etc", world.work().join(".tamtam")).unwrap();
    assert!(project::read(&world.work()).unwrap_or_default().is_empty());
}

/// H-13: what was granted is kept in order, by whom, once each, and taken back one by one or all together.
#[test]
fn grants_are_kept_and_taken_back() {
    let world = World::new();
    let (trust, work) = (&world.trust, world.work());
    assert_eq!(trust.project_rules(&work).unwrap(), []);
    trust.add_project_rules(&work, &[rule("ls"), rule("make")], Some("ada")).unwrap();
    trust.add_project_rules(&work, &[rule("ls"), rule("pwd")], None).unwrap();
    let granted = trust.project_rules(&work).unwrap();
    let kept: Vec<_> = granted.iter().map(|granted| (granted.rule.pattern.as_str(), granted.who.as_deref())).collect();
    assert_eq!(kept, [("ls", Some("ada")), ("make", Some("ada")), ("pwd", None)]);
    assert!(!world.is_trusted(), "a grant trusts no file");
    world.say_trusted();
    assert_eq!(trust.project_rules(&work).unwrap(), granted, "trust keeps the grants");
    assert!(trust.revoke(&work, Some(4)).is_err() && trust.revoke(&work, Some(0)).is_err());
    assert_eq!(trust.revoke(&work, Some(2)).unwrap().0[0].rule, rule("make"));
    let (gone, was_trusted) = trust.revoke(&work, None).unwrap();
    assert_eq!((gone.len(), was_trusted), (2, true));
    assert_eq!(trust.project_rules(&work).unwrap(), []);
    assert!(!world.is_trusted() && trust.revoke(&work, None).is_err());
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
    let many: Vec<_> = (0..=1_000).map(|n| rule(&n.to_string())).collect();
    let full = world.trust.add_project_rules(&world.work(), &many, None).unwrap_err();
    assert!(full.message.contains("--revoke"), "{}", full.message);
    assert_eq!(world.trust.project_rules(&world.work()).unwrap(), [], "nothing of it was written");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o666)).unwrap();
    assert!(world.trust.look(&world.work()).unwrap_err().message.contains("others may write it"));
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    for (text, why) in [("{", "bad trust file"), (r#"{"version":2,"projects":[]}"#, "a newer tamtam wrote it")] {
        std::fs::write(&path, text).unwrap();
        let failure = world.trust.look(&world.work()).unwrap_err();
        assert!(failure.message.contains(why), "{}", failure.message);
        assert!(world.trust.add_project_rules(&world.work(), &[rule("ls")], None).is_err());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text, "a file that is not understood is left as it is");
    }
}

/// Several processes that add at once lose nothing.
#[test]
fn grants_that_are_added_at_once_are_all_kept() {
    let world = World::new();
    std::thread::scope(|scope| {
        for n in 0..8 {
            let world = &world;
            scope.spawn(move || world.trust.add_project_rules(&world.work(), &[rule(&n.to_string())], None).unwrap());
        }
    });
    assert_eq!(world.trust.project_rules(&world.work()).unwrap().len(), 8);
}
