#![allow(clippy::unwrap_used, clippy::panic)]

use std::{
    fs,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink},
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
};

use tempfile::TempDir;

use super::*;

/// A workspace `ws` beside a folder `outside` with a secret.
struct Scene {
    _folder: TempDir,
    root: PathBuf,
    outside: PathBuf,
    workspace: Workspace,
}

fn scene() -> Scene {
    let folder = tempfile::tempdir().unwrap();
    let (root, outside) = (folder.path().join("ws"), folder.path().join("outside"));
    fs::create_dir(&root).unwrap();
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("secret"), "secret").unwrap();
    let workspace = Workspace::open(&root).unwrap();
    Scene { _folder: folder, root, outside, workspace }
}

impl Scene {
    fn path(&self, text: &str) -> WorkspacePath {
        self.workspace.resolve(text).unwrap()
    }

    fn read(&self, text: &str) -> Result<String, WorkspaceError> {
        self.workspace.read(&self.path(text), 1_000_000).map(|(content, _)| String::from_utf8(content).unwrap())
    }

    fn write(&self, text: &str, content: &str) -> Result<Written, WorkspaceError> {
        self.workspace.write(&self.path(text), content.as_bytes(), &WriteOptions::default())
    }

    fn outside_is_untouched(&self) {
        let names: Vec<_> = fs::read_dir(&self.outside).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["secret"]);
        assert_eq!(fs::read_to_string(self.outside.join("secret")).unwrap(), "secret");
    }

    fn names(&self) -> Vec<String> {
        let dir = self.workspace.open_dir(&self.path(".")).unwrap();
        let mut names: Vec<_> =
            dir.entries().unwrap().map(|entry| entry.unwrap().name.into_string().unwrap()).collect();
        names.sort();
        names
    }
}

struct SetOnDrop<'a>(&'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn is_outside(error: &WorkspaceError) -> bool {
    let text = error.to_string();
    matches!(error, WorkspaceError::Outside { .. })
        && text.contains("traversal")
        && text.contains("outside the workspace")
}

/// PATH-001, PATH-004
#[test]
fn path_001_dots_are_collapsed_and_every_path_is_absolute() {
    let scene = scene();
    let shown = |text: &str| scene.path(text).to_string();
    assert_eq!(shown("foo/../bar"), "bar");
    assert_eq!(shown("./foo//bar/./"), "foo/bar");
    assert_eq!(shown("."), ".");
    assert_eq!(shown(&format!("{}/foo/../bar", scene.root.display())), "bar");
    assert_eq!(shown("../ws/foo"), "foo", "it comes back in as text");
    assert_eq!(scene.workspace.absolute(&scene.path("foo/bar")), scene.root.join("foo/bar"));
}

/// PATH-003: a real tilde.
#[test]
fn path_003_a_tilde_is_the_home_that_was_handed_in() {
    let scene = scene();
    assert!(scene.workspace.resolve("~/x").unwrap_err().to_string().contains("no home directory"));
    assert_eq!(scene.path("~user/x").to_string(), "~user/x", "not expanded");
    let inside = scene.workspace.clone().with_home(scene.root.join("home"));
    assert_eq!(inside.resolve("~/x").unwrap().to_string(), "home/x");
    assert_eq!(inside.resolve("~").unwrap().to_string(), "home");
    let outside = scene.workspace.clone().with_home(scene.outside.clone());
    assert!(is_outside(&outside.resolve("~/secret").unwrap_err()));
}

#[test]
fn an_at_sign_and_unicode_spaces_are_dropped_unless_the_file_is_called_so() {
    let scene = scene();
    assert_eq!(scene.path("@src/a\u{a0}b\u{3000}c").to_string(), "src/a b c");
    let found = |text: &str| scene.workspace.resolve_existing(text).unwrap().to_string();
    assert_eq!(found("@new"), "new");
    fs::write(scene.root.join("@types"), "").unwrap();
    assert_eq!(found("@types"), "@types");
    fs::write(scene.root.join("Shot 3.42.10\u{202f}PM.png"), "").unwrap();
    assert_eq!(found("Shot 3.42.10 PM.png"), "Shot 3.42.10\u{202f}PM.png");
    fs::write(scene.root.join("Capture d\u{2019}écran"), "").unwrap();
    assert_eq!(found("Capture d'écran"), "Capture d\u{2019}écran");
}

/// F01: every spelling of "elsewhere" is refused, or means a place inside.
#[test]
fn f01_no_text_leads_out() {
    let scene = scene();
    let root = scene.root.display();
    let refused = [
        "..".to_owned(),
        "../".into(),
        "../outside/secret".into(),
        "a/../../outside/secret".into(),
        "./../outside".into(),
        "a/b/../../../outside".into(),
        "/".into(),
        "//".into(),
        "/etc/passwd".into(),
        "//etc/passwd".into(),
        "/etc/../etc/passwd".into(),
        "/proc/self/environ".into(),
        "/dev/zero".into(),
        "../../../../../../../../etc/passwd".into(),
        format!("{root}/../outside/secret"),
        format!("{root}/.."),
        format!("{root}/a/../../outside"),
        format!("{root}-evil/secret"),
        format!("{root}evil"),
        "../ws-evil/x".into(),
        "@../outside/secret".into(),
        "@/etc/passwd".into(),
        "../\u{a0}".into(),
    ];
    for text in refused {
        let error = scene.workspace.resolve(&text).unwrap_err();
        assert!(is_outside(&error), "{text}: {error}");
    }
    let unusable = [String::new(), "a\0b".into(), "\0".into(), "x/".repeat(3000), "~".into(), "~/x".into()];
    for text in unusable {
        let error = scene.workspace.resolve(&text).unwrap_err();
        assert!(matches!(error, WorkspaceError::BadPath { .. }), "{error}");
        assert!(error.to_string().len() < 500);
    }
    let confined = [
        "...",
        "....//",
        "a...",
        "a ",
        " ",
        "a.",
        "..a",
        "..\\outside",
        "%2e%2e/outside",
        "%2e%2e%2foutside",
        "file:///etc/passwd",
        "file:..",
        "$HOME/x",
        "${HOME}",
        "`pwd`",
        "~root/x",
        "~+",
        "C:\\windows",
        "\\\\server\\share",
        "a\nb",
        "-rf",
        "．．/outside",
        "..／outside",
        "a/./b",
        "a//b",
        "@~/x/..",
        "http://x/../y",
    ];
    for text in confined {
        match scene.workspace.resolve(text) {
            Ok(path) => {
                assert!(scene.workspace.absolute(&path).starts_with(&scene.root), "{text}");
                let written = scene.workspace.write(&path, b"x", &WriteOptions::default());
                assert!(written.is_ok() || path.relative().as_os_str().is_empty(), "{text}: {written:?}");
            }
            Err(error) => assert!(matches!(error, WorkspaceError::BadPath { .. }), "{text}: {error}"),
        }
    }
    scene.outside_is_untouched();
}

/// F02
#[test]
fn f02_a_sibling_with_the_same_beginning_is_outside() {
    let scene = scene();
    let evil = scene.root.with_file_name("ws-evil");
    fs::create_dir(&evil).unwrap();
    fs::write(evil.join("f"), "").unwrap();
    for text in [format!("{}/f", evil.display()), "../ws-evil/f".into()] {
        assert!(is_outside(&scene.workspace.resolve(&text).unwrap_err()));
    }
    symlink(&evil, scene.root.join("link")).unwrap();
    assert!(is_outside(&scene.read("link/f").unwrap_err()));
}

/// F03: links are judged by where they end.
#[test]
fn f03_links_that_stay_inside_work_and_others_are_refused() {
    let scene = scene();
    let root = &scene.root;
    fs::create_dir_all(root.join("real/deep")).unwrap();
    fs::write(root.join("real/deep/f"), "inside").unwrap();
    // Stay inside: relative, absolute, of directories, in chains, through `..`.
    symlink("real/deep/f", root.join("relative")).unwrap();
    symlink(root.join("real/deep/f"), root.join("absolute")).unwrap();
    symlink("real", root.join("dir")).unwrap();
    symlink(root.join("dir"), root.join("dir2")).unwrap();
    symlink("../deep/../deep/f", root.join("real/deep/up")).unwrap();
    for text in ["relative", "absolute", "dir/deep/f", "dir2/deep/f", "dir2/deep/up"] {
        assert_eq!(scene.read(text).unwrap(), "inside", "{text}");
        assert_eq!(scene.workspace.info(&scene.path(text)).unwrap().kind, FileKind::File);
    }
    assert_eq!(scene.workspace.link_info(&scene.path("relative")).unwrap().kind, FileKind::Symlink);
    // Lead out, in every shape, also to what does not exist.
    symlink(scene.outside.join("secret"), root.join("out")).unwrap();
    symlink("../outside/secret", root.join("out_relative")).unwrap();
    symlink(&scene.outside, root.join("out_dir")).unwrap();
    symlink("out_dir", root.join("out_chain")).unwrap();
    symlink(scene.outside.join("new"), root.join("out_dangling")).unwrap();
    symlink("../outside/new", root.join("out_dangling_relative")).unwrap();
    symlink("/", root.join("slash")).unwrap();
    symlink("..", root.join("up")).unwrap();
    symlink(format!("{}/../outside/secret", root.display()), root.join("through_root")).unwrap();
    let out = [
        "out",
        "out_relative",
        "out_dir/secret",
        "out_dir/new",
        "out_dir/new/newer",
        "out_chain/secret",
        "out_dangling",
        "out_dangling_relative",
        "slash/etc/passwd",
        "up/outside/secret",
        "through_root",
    ];
    for text in out {
        let path = scene.path(text);
        for error in [
            scene.read(text).unwrap_err(),
            scene.write(text, "changed").unwrap_err(),
            scene.workspace.info(&path).unwrap_err(),
            scene.workspace.open_dir(&path).unwrap_err(),
            scene.workspace.create_dir_all(&path).unwrap_err(),
        ] {
            assert!(is_outside(&error), "{text}: {error}");
        }
    }
    assert!(is_outside(&scene.workspace.remove_file(&scene.path("out_dir/secret")).unwrap_err()));
    scene.outside_is_untouched();
    // A link itself may go; what it points to stays.
    scene.workspace.remove_file(&scene.path("out")).unwrap();
    scene.outside_is_untouched();
    symlink("loop2", root.join("loop1")).unwrap();
    symlink("loop1", root.join("loop2")).unwrap();
    assert!(matches!(scene.read("loop1").unwrap_err(), WorkspaceError::Io { .. }));
}

/// F03, BDD-WRITE-010: a link that stays inside is written through and stays a link, also where its target is missing.
#[test]
fn f03_a_write_goes_through_a_link_that_stays_inside() {
    let scene = scene();
    fs::create_dir(scene.root.join("real")).unwrap();
    fs::write(scene.root.join("real/f"), "old").unwrap();
    symlink("real/f", scene.root.join("link")).unwrap();
    symlink(scene.root.join("real/new"), scene.root.join("dangling")).unwrap();
    assert!(!scene.write("link", "via link").unwrap().created);
    assert!(scene.write("dangling", "made").unwrap().created);
    assert_eq!(fs::read_to_string(scene.root.join("real/f")).unwrap(), "via link");
    assert_eq!(fs::read_to_string(scene.root.join("real/new")).unwrap(), "made");
    assert!(fs::symlink_metadata(scene.root.join("link")).unwrap().is_symlink());
}

/// F04, nasty case 1, issue 2 "must show" 6: while a thread swaps a directory, and a file, for links to outside.
#[test]
fn f04_a_link_that_is_swapped_in_is_never_followed_out() {
    const ROUNDS: usize = 2_000;
    let scene = scene();
    let (root, outside) = (&scene.root, &scene.outside);
    fs::create_dir(root.join("real")).unwrap();
    fs::write(root.join("real/secret"), "inside").unwrap();
    fs::write(root.join("real_file"), "inside").unwrap();
    fs::create_dir(root.join("d")).unwrap();
    symlink(outside, root.join("d_link")).unwrap();
    symlink(outside.join("secret"), root.join("f_link")).unwrap();
    symlink(outside.join("planted"), root.join("g_link")).unwrap();
    let stop = AtomicBool::new(false);
    let (done, refused) = (AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        // The thread also ends when an assertion fails.
        let _stop = SetOnDrop(&stop);
        scope.spawn(|| {
            use rustix::fs::{CWD, RenameFlags, renameat_with};
            let swap = |a: &str, b: &str| {
                let _ = renameat_with(CWD, root.join(a), CWD, root.join(b), RenameFlags::EXCHANGE);
            };
            while !stop.load(Ordering::Relaxed) {
                swap("d", "d_link");
                swap("real_file", "f_link");
                // A name that is now missing, now a dangling link to outside.
                let _ = fs::rename(root.join("g_link"), root.join("g"));
                let _ = fs::rename(root.join("g"), root.join("g_link"));
            }
        });
        let count = |result: Result<(), WorkspaceError>| match result {
            Ok(()) => done.fetch_add(1, Ordering::Relaxed),
            Err(_) => refused.fetch_add(1, Ordering::Relaxed),
        };
        for round in 0..ROUNDS {
            for file in ["d/f", "real_file", "g", "d/deep/f"] {
                count(scene.write(file, &format!("round {round}")).map(drop));
            }
            for file in ["d/secret", "real_file", "f_link"] {
                let read = scene.read(file);
                assert!(read.as_ref().map_or(true, |text| text != "secret"), "escaped by {file}");
                count(read.map(drop));
            }
            let listed = scene.workspace.open_dir(&scene.path("d")).map(|dir| {
                let mut names = dir.entries().unwrap().map(|entry| entry.unwrap().name);
                assert!(!names.any(|name| name == "secret"), "listed outside");
            });
            count(listed);
        }
    });
    let (done, refused) = (done.into_inner(), refused.into_inner());
    assert!(done > 0 && refused > 0, "both sides were met: {done} done, {refused} refused");
    scene.outside_is_untouched();
    let strays = scene.names().into_iter().filter(|name| name.starts_with(".tamtam"));
    assert_eq!(strays.count(), 0);
}

/// F06: nothing here waits, and nothing here is read.
#[test]
fn f06_what_is_no_file_is_refused_at_once() {
    let scene = scene();
    let fifo = scene.root.join("fifo");
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, Mode::from_bits_truncate(0o600), 0)
        .unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(scene.root.join("socket")).unwrap();
    for (name, kind) in [("fifo", FileKind::Fifo), ("socket", FileKind::Socket)] {
        for error in [scene.read(name).unwrap_err(), scene.write(name, "x").unwrap_err()] {
            assert!(matches!(error, WorkspaceError::NotRegular { kind: found, .. } if found == kind), "{error}");
            assert!(error.to_string().contains("not a regular file"));
        }
        let root = scene.workspace.open_dir(&scene.path(".")).unwrap();
        assert!(matches!(root.open_read(name.as_ref()), Err(WorkspaceError::NotRegular { .. })));
    }
    for target in ["/dev/zero", "/dev/tty", "/proc/self/environ", "/proc/self/mem", "/proc/self/root/etc/passwd"] {
        let link = scene.root.join("link");
        symlink(target, &link).unwrap();
        assert!(is_outside(&scene.read("link").unwrap_err()), "{target}");
        fs::remove_file(link).unwrap();
    }
    // Ten gigabytes that take no disk.
    fs::File::create(scene.root.join("sparse")).unwrap().set_len(10 << 30).unwrap();
    assert!(matches!(scene.read("sparse").unwrap_err(), WorkspaceError::TooLarge { bytes, .. } if bytes == 10 << 30));
}

/// F06: a device inside the workspace. Making one needs root, so elsewhere this shows nothing.
#[test]
fn f06_a_device_is_refused() {
    let scene = scene();
    let device = rustix::fs::makedev(1, 5);
    let zero = scene.root.join("zero");
    let kind = rustix::fs::FileType::CharacterDevice;
    if rustix::fs::mknodat(rustix::fs::CWD, &zero, kind, Mode::from_bits_truncate(0o666), device).is_err() {
        return;
    }
    for error in [scene.read("zero").unwrap_err(), scene.write("zero", "x").unwrap_err()] {
        assert!(matches!(error, WorkspaceError::NotRegular { .. } | WorkspaceError::Denied { .. }), "{error}");
    }
}

/// Links of `/proc` jump anywhere: a workspace in there must not follow them.
#[cfg(target_os = "linux")]
#[test]
fn magic_links_are_refused() {
    let proc = PathBuf::from(format!("/proc/{}", std::process::id()));
    let workspace = Workspace::open(&proc).unwrap();
    for text in ["root/etc/passwd", "cwd/Cargo.toml", "fd/0", "exe"] {
        let path = workspace.resolve(text).unwrap();
        assert!(workspace.open_read(&path).is_err(), "{text}");
    }
    let status = workspace.resolve("status").unwrap();
    assert!(!workspace.read(&status, 100_000).unwrap().0.is_empty(), "a file of size 0 that has text");
}

/// BDD-READ-002, BDD-READ-020, BDD-WRITE-006, BDD-LS-004, BDD-LS-005: the errors carry the system's words.
#[test]
fn errors_say_what_is_wrong_in_the_systems_words() {
    let scene = scene();
    fs::create_dir(scene.root.join("dir")).unwrap();
    fs::write(scene.root.join("file"), "").unwrap();
    let says = |error: WorkspaceError, text: &str| assert!(error.to_string().contains(text), "{error}");
    says(scene.read("none").unwrap_err(), "ENOENT");
    says(scene.read("none/deeper").unwrap_err(), "ENOENT");
    says(scene.read("dir").unwrap_err(), "Is a directory");
    says(scene.write("dir", "").unwrap_err(), "Is a directory");
    says(scene.write(".", "").unwrap_err(), "Is a directory");
    says(scene.write("file/below", "").unwrap_err(), "Not a directory");
    says(scene.read("file/below").unwrap_err(), "Not a directory");
    says(scene.workspace.open_dir(&scene.path("file")).unwrap_err(), "Not a directory");
    says(scene.workspace.open_dir(&scene.path("none")).unwrap_err(), "ENOENT");
    says(scene.workspace.create_dir_all(&scene.path("file")).unwrap_err(), "Not a directory");
    assert!(scene.write(&"n".repeat(256), "").is_err());
    scene.write(&"n".repeat(255), "long").unwrap();
    assert_eq!(scene.read(&"n".repeat(255)).unwrap(), "long");
}

/// BDD-WRITE-001 to 005: parents are made, old content is replaced, the mode is kept, nothing stays behind.
#[test]
fn a_write_replaces_the_whole_file_and_keeps_its_mode() {
    let scene = scene();
    let made = scene.write("a/b/c/f", "first").unwrap();
    assert!(made.created && made.atomic);
    assert_eq!(made.info.version, scene.workspace.info(&scene.path("a/b/c/f")).unwrap().version);
    let file = scene.root.join("a/b/c/f");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
    let before = fs::metadata(&file).unwrap().ino();
    let replaced = scene.write("a/b/c/f", "").unwrap();
    assert!(!replaced.created && replaced.atomic);
    assert_ne!(fs::metadata(&file).unwrap().ino(), before, "one step, so another file");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o640);
    assert_eq!(fs::read(&file).unwrap(), b"");
    assert_eq!(fs::read_dir(file.parent().unwrap()).unwrap().count(), 1);
    let options = WriteOptions { create_parents: false, ..WriteOptions::default() };
    let deep = scene.path("x/y");
    assert!(matches!(scene.workspace.write(&deep, b"", &options), Err(WorkspaceError::NotFound { .. })));
}

/// Nasty case 3: names of one file stay names of one file.
#[test]
fn a_file_with_two_names_is_written_in_place() {
    let scene = scene();
    fs::write(scene.root.join("one"), "a longer text").unwrap();
    fs::hard_link(scene.root.join("one"), scene.root.join("two")).unwrap();
    assert!(!scene.write("one", "short").unwrap().atomic);
    assert_eq!(fs::read_to_string(scene.root.join("two")).unwrap(), "short");
}

/// Nasty case 13
#[test]
fn a_write_that_expects_a_state_refuses_another_one() {
    let scene = scene();
    fs::write(scene.root.join("f"), "one").unwrap();
    let (_, read) = scene.workspace.read(&scene.path("f"), 100).unwrap();
    let expect = |version| WriteOptions { expect: Some(version), ..WriteOptions::default() };
    let path = scene.path("f");
    let written = scene.workspace.write(&path, b"two", &expect(read.version)).unwrap();
    let stale = scene.workspace.write(&path, b"three", &expect(read.version)).unwrap_err();
    assert!(matches!(stale, WorkspaceError::Changed { .. }), "{stale}");
    scene.workspace.write(&path, b"four", &expect(written.info.version)).unwrap();
    fs::remove_file(scene.root.join("f")).unwrap();
    let gone = scene.workspace.write(&path, b"five", &expect(read.version)).unwrap_err();
    assert!(matches!(gone, WorkspaceError::Changed { .. }), "{gone}");
    assert!(scene.names().is_empty());
}

#[test]
fn a_read_only_folder_is_read_and_never_changed() {
    let scene = scene();
    let workspace = scene.workspace.clone().with_read_only(&scene.outside).unwrap();
    let secret = scene.outside.join("secret");
    let path = workspace.resolve(secret.to_str().unwrap()).unwrap();
    assert_eq!(path.to_string(), secret.display().to_string());
    assert_eq!(workspace.read(&path, 100).unwrap().0, b"secret");
    assert!(workspace.write(&path, b"x", &WriteOptions::default()).unwrap_err().to_string().contains("Read-only"));
    assert!(workspace.remove_file(&path).is_err());
    let new = workspace.resolve(scene.outside.join("new").to_str().unwrap()).unwrap();
    assert!(workspace.create_dir_all(&new).is_err());
    // A link from the one to the other still leads out.
    symlink(&secret, scene.root.join("link")).unwrap();
    assert!(is_outside(&workspace.read(&workspace.resolve("link").unwrap(), 100).unwrap_err()));
    scene.outside_is_untouched();
    assert!(workspace.with_read_only(Path::new("/no/such/folder")).is_err());
}

#[test]
fn a_walk_down_goes_by_names_and_follows_no_link() {
    let scene = scene();
    fs::create_dir_all(scene.root.join("a/b")).unwrap();
    fs::write(scene.root.join("a/b/f"), "text").unwrap();
    symlink(&scene.outside, scene.root.join("a/link")).unwrap();
    symlink("f", scene.root.join("a/b/f_link")).unwrap();
    let a = scene.workspace.open_dir(&scene.path("a")).unwrap();
    let b = a.open_dir("b".as_ref()).unwrap();
    assert_eq!(b.path().to_string(), "a/b");
    assert_eq!(b.open_read("f".as_ref()).unwrap().1.bytes, 4);
    assert!(matches!(a.open_dir("link".as_ref()), Err(WorkspaceError::NotDirectory { .. })));
    assert_eq!(a.info("link".as_ref()).unwrap().kind, FileKind::Symlink);
    assert!(matches!(b.open_read("f_link".as_ref()), Err(WorkspaceError::NotRegular { .. })));
    for name in ["..", ".", "b/f", "", "/etc", "b/"] {
        assert!(a.open_dir(name.as_ref()).is_err(), "{name}");
        assert!(a.info(name.as_ref()).is_err(), "{name}");
    }
}

#[test]
fn a_workspace_is_named_by_an_absolute_path_to_a_folder() {
    assert!(matches!(Workspace::open(Path::new("relative")), Err(WorkspaceError::BadPath { .. })));
    assert!(matches!(Workspace::open(Path::new("/no/such/folder")), Err(WorkspaceError::NotFound { .. })));
    let file = tempfile::NamedTempFile::new().unwrap();
    assert!(matches!(Workspace::open(file.path()), Err(WorkspaceError::NotDirectory { .. })));
}

/// A workspace that is reached through a link: both spellings of it are inside.
#[test]
fn a_workspace_behind_a_link_knows_both_its_names() {
    let folder = tempfile::tempdir().unwrap();
    let real = folder.path().join("real");
    fs::create_dir(&real).unwrap();
    fs::write(real.join("f"), "x").unwrap();
    let link = folder.path().join("link");
    symlink(&real, &link).unwrap();
    let workspace = Workspace::open(&link).unwrap();
    for spelling in [&real, &link] {
        let path = workspace.resolve(spelling.join("f").to_str().unwrap()).unwrap();
        assert_eq!((path.to_string().as_str(), workspace.read(&path, 9).unwrap().1.bytes), ("f", 1));
    }
}
