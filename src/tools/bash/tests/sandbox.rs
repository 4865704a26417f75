//! What a confined command reaches, and what it does not.
//!
//! Each attempt runs twice: it must succeed without the sandbox, so that its failure within says something. On a system that can
//! hold no sandbox these tests show that no command runs.

mod corpus;
mod escapes;

use std::{collections::BTreeMap, net::TcpListener, os::unix::net::UnixListener};

use super::*;
use crate::{process::SandboxLevel, words::sandbox::Network};

const SECRET: &str = "a-secret-of-the-home";

/// A scene with a secret and a folder beside the workspace.
fn confined(sandbox: Sandbox) -> Scene {
    let scene = scene_with(|options| options.sandbox = sandbox);
    for folder in [scene.folder.path().join("outside"), scene.folder.path().join("outside/sub")] {
        fs::create_dir(folder).unwrap();
    }
    fs::write(scene.outside("secret"), SECRET).unwrap();
    scene
}

impl Scene {
    fn outside(&self, name: &str) -> PathBuf {
        self.folder.path().join("outside").join(name)
    }

    /// The command, with `OUT` for the folder outside.
    async fn tries(&self, command: &str) -> ToolResult {
        self.bash(&command.replace("OUT", &self.outside("").display().to_string())).await
    }
}

/// Everything in a folder: the path of each file with what is in it.
pub(super) fn all(folder: &Path) -> BTreeMap<PathBuf, Option<String>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let kind = path.symlink_metadata().unwrap().file_type();
        if kind.is_dir() {
            found.extend(all(&path));
        }
        let text = kind.is_file().then(|| String::from_utf8_lossy(&fs::read(&path).unwrap()).into_owned());
        found.insert(path, text);
    }
    found
}

/// Runs as a user whom root's rights do not help: nobody, where the tests run as root.
pub(super) fn as_nobody(work: impl FnOnce() + Send) {
    use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};
    if !rustix::process::geteuid().is_root() {
        return work();
    }
    let thread = || {
        let (user, group) = (rustix::fs::Uid::from_raw(65_534), rustix::fs::Gid::from_raw(65_534));
        set_thread_groups(&[]).unwrap();
        set_thread_res_gid(group, group, group).unwrap();
        set_thread_res_uid(user, user, user).unwrap();
        work();
    };
    std::thread::scope(|scope| scope.spawn(thread).join().unwrap());
}

pub(super) fn block_on(work: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work);
}

/// Whether this system can hold a sandbox. Where it cannot, a sandbox that is required lets no command run.
async fn is_held() -> bool {
    let level = SandboxLevel::probe();
    println!("this system holds: {level}");
    if !level.holds() {
        let refused = confined(Sandbox::required()).bash("echo ran").await;
        assert!(
            refused.is_error() && refused.content.contains(level.missing.as_deref().unwrap()),
            "{}",
            refused.content
        );
    }
    level.holds()
}

/// Ordinary work: files, folders, links and moves between folders, pipes, temporary files, devices, and what compilers need.
#[tokio::test]
async fn a_confined_command_works_in_its_workspace() {
    if !is_held().await {
        return;
    }
    let scene = confined(Sandbox::required());
    scene
        .says(
            "echo a > f && mkdir -p d/e && mv f d/e/g && ln d/e/g d/h && ln -s e/g d/i && cat d/e/g d/h d/i",
            "a\na\na",
        )
        .await;
    scene.says("rm -r d && mkfifo p && (echo b > p &) && cat p && truncate -s 3 t && wc -c < t", "b\n3").await;
    scene
        .says(
            "echo x > /dev/null; head -c 3 /dev/zero | wc -c; cat <(echo s) <<< h; echo e >&2; echo o > /dev/stdout",
            "3\ns\ne\no",
        )
        .await;
    scene.says("t=$(mktemp) && echo t > $t && cat $t && [[ $t == $TMPDIR/* ]] && stat -c %a $TMPDIR", "t\n700").await;
    scene
        .says(
            "printf '#!/bin/sh\\necho run\\n' > x && chmod +x x && ./x && git init -q && git status -s x",
            "run\n?? x",
        )
        .await;
    let folder = scene.bash("echo $TMPDIR; mkdir $TMPDIR/d; touch $TMPDIR/d/f; ln -s / $TMPDIR/l").await.content;
    assert!(folder.starts_with("/tmp/tamtam-") && !Path::new(&folder).exists(), "{folder}");
    scene.is_clean();
}

/// Ways to write outside: each works without the sandbox.
const WRITES: &[&str] = &[
    "echo x > OUT/f",
    "echo x >> OUT/secret",
    "touch OUT/f",
    "truncate -s 0 OUT/secret",
    ": > OUT/secret",
    "rm OUT/secret",
    "rmdir OUT/sub",
    "mv OUT/secret .",
    "echo x > f; mv f OUT/f",
    "echo x > f; ln f OUT/f",
    "echo x > f; cp f OUT/f",
    "mv OUT/sub OUT/moved",
    "mkdir OUT/d",
    "mkfifo OUT/p",
    "ln -s x OUT/l",
    "sed -i s/a/b/ OUT/secret",
    "dd if=/dev/zero of=OUT/f count=1",
    "ln -s OUT link; echo x > link/f",
    "ln -s OUT/secret link; echo x > link",
    "echo x > ../outside/f",
    "cd OUT && echo x > f",
    "echo x > /proc/self/root/OUT/f",
    "echo x > /proc/self/cwd/../outside/f",
    "exec 9< OUT; echo x > /proc/self/fd/9/f",
    "ln OUT/secret hard; echo x > hard",
    "sh -c 'sh -c \"echo x > OUT/f\"'",
    "setsid sh -c 'echo x > OUT/f' & wait",
    "setsid -w sh -c 'echo x > OUT/f'",
    "nohup sh -c 'echo x > OUT/f' 2>&1",
    "(env -i /bin/sh -c 'echo x > OUT/f' &) ; while [ ! -e OUT/f ] && [ $((n+=1)) -lt 40 ]; do sleep 0.01; done",
    "exec -c /bin/sh -c 'echo x > OUT/f'",
    "flock f touch OUT/f",
];

/// P09, S12, F03 and "write outside refused": in every way that a command takes, and with anything that it starts, nothing
/// outside changes.
#[tokio::test]
async fn nothing_outside_of_the_workspace_is_written() {
    if !is_held().await {
        return;
    }
    for command in WRITES {
        let (free, held) = (confined(Sandbox::off()), confined(Sandbox::required()));
        let before = all(&free.outside(""));
        free.tries(command).await;
        let relative = |scene: &Scene| {
            let strip =
                |(path, text): (PathBuf, _)| (path.strip_prefix(scene.outside("")).unwrap().to_path_buf(), text);
            all(&scene.outside("")).into_iter().map(strip).collect::<BTreeMap<_, _>>()
        };
        assert_ne!(all(&free.outside("")), before, "{command}: does not even work without a sandbox");
        let before = relative(&held);
        let result = held.tries(command).await;
        assert_eq!(relative(&held), before, "{command}: {}", result.content);
        held.is_clean();
    }
}

/// K04: a file of the home is read in no way.
#[tokio::test]
async fn a_secret_outside_is_not_read() {
    if !is_held().await {
        return;
    }
    let (free, held) = (confined(Sandbox::off()), confined(Sandbox::required()));
    for command in [
        "cat OUT/secret",
        "cat < OUT/secret",
        "cat ../outside/secret",
        "cd OUT; cat secret",
        "cat /proc/self/root/OUT/secret",
        "cat /proc/$$/root/OUT/secret",
        "rm -f l; ln -s OUT/secret l; cat l",
        "rm -f l; ln -s OUT l; cat l/secret",
        "rm -f l; ln OUT/secret l; cat l",
        "cp OUT/secret c; cat c",
        "rm -f c; mv OUT/secret c; cat c; mv c OUT/secret",
        "grep -r secret OUT",
        "tar c OUT 2>&1 | grep -a secret-of",
        "find OUT -exec cat {} +",
        "setsid -w cat OUT/secret",
        "sh -c 'sh -c \"cat OUT/secret\"'",
        "mapfile x < OUT/secret; echo $x",
        ". OUT/secret",
    ] {
        let read = |result: &ToolResult| result.content.contains(SECRET);
        assert!(read(&free.tries(command).await), "{command}: does not even work without a sandbox");
        let result = held.tries(command).await;
        assert!(!read(&result), "{command}: {}", result.content);
        assert!(!fs::read_to_string(held.path("c")).unwrap_or_default().contains(SECRET), "{command}");
    }
    // The names in a folder outside are not listed either.
    assert!(free.tries("ls OUT").await.content.contains("secret"));
    assert!(!held.tries("ls OUT").await.content.contains("secret\n"));
}

/// A host may let commands read more, write more, and less.
#[tokio::test]
async fn the_paths_of_the_options_hold() {
    if !is_held().await {
        return;
    }
    let mut scene = confined(Sandbox::off());
    let (read, written) = (scene.outside("sub"), scene.outside("written"));
    fs::create_dir(&written).unwrap();
    fs::write(read.join("f"), "there").unwrap();
    let mut options = BashOptions::new(environment());
    options.sandbox = Sandbox::required();
    options.sandbox.read.push(read);
    options.sandbox.write.extend([written, "/no/such/folder".into()]);
    options.sandbox.read.retain(|path| path != Path::new("/etc"));
    scene.bash = Bash::new(options);
    scene.tries("cat OUT/sub/f; echo w > OUT/written/f").await;
    assert_eq!(scene.tries("cat OUT/sub/f; cat OUT/written/f").await.content, "therew");
    let refused = scene.tries("echo x > OUT/sub/f; head -1 /etc/hosts; true").await.content;
    assert_eq!(refused.matches("Permission denied").count(), 2, "{refused}");
}

/// TCP on the machine itself: refused, and works where the network is on.
#[tokio::test]
async fn the_network_is_off_unless_it_is_on() {
    if !is_held().await {
        return;
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let connect = format!("exec 3<>/dev/tcp/127.0.0.1/{port} && echo connected");
    let with = |network| {
        let mut sandbox = Sandbox::required();
        sandbox.network = network;
        confined(sandbox)
    };
    for (network, connects) in [(Network::Off, false), (Network::Ip, true), (Network::All, true)] {
        let scene = with(network);
        for command in [
            &connect,
            &format!("setsid -w bash -c '{connect}'"),
            &format!("exec 3>/dev/udp/127.0.0.1/{port} && echo connected"),
        ] {
            let result = scene.bash(command).await;
            assert_eq!(result.content.contains("connected"), connects, "{network:?} {command}: {}", result.content);
            assert!(connects || result.content.contains("Operation not permitted"), "{}", result.content);
            assert_eq!(result.details["sandbox"]["network"], network.name());
        }
        // The other promises hold with any network.
        assert!(!scene.tries("cat OUT/secret").await.content.contains(SECRET));
    }
}

/// Signals, memory and environment of the host are out of reach; those of the command's own processes are not.
#[tokio::test]
async fn the_processes_of_others_are_out_of_reach() {
    if !is_held().await {
        return;
    }
    let (free, held) = (confined(Sandbox::off()), confined(Sandbox::required()));
    let host = std::process::id();
    for command in [
        format!("cat /proc/{host}/environ > /dev/null && echo done"),
        format!("cat /proc/{host}/maps > /dev/null && echo done"),
        format!("readlink /proc/{host}/exe > /dev/null && echo done"),
        format!("ls /proc/{host}/root/ > /dev/null && echo done"),
        format!("kill -0 {host} && echo done"),
        format!("prlimit --pid {host} --core=0:unlimited && echo done"),
    ] {
        assert!(free.bash(&command).await.content.contains("done"), "{command}: does not even work without a sandbox");
        let result = held.bash(&command).await;
        let is_free = command.starts_with("kill") && !SandboxLevel::probe().holds_signals();
        assert_eq!(result.content.contains("done"), is_free, "{command}: {}", result.content);
    }
    held.says(
        "sleep 99 & kill -0 $! && cat /proc/$!/environ > /dev/null && kill $!; grep NoNewPrivs /proc/self/status",
        "NoNewPrivs:\t1",
    )
    .await;
}

/// What would lead out as root: mounts and namespaces.
#[tokio::test]
async fn mounts_and_namespaces_are_refused() {
    if !is_held().await {
        return;
    }
    let held = confined(Sandbox::required());
    for command in [
        "mkdir m; mount -t tmpfs x m && echo done",
        "mkdir -p m; mount --bind OUT m && cat m/secret && echo done",
        "unshare -r true && echo done",
        "unshare -m true && echo done",
        "unshare -n true && echo done",
        "unshare -T true && echo done",
        "unshare -Urm sh -c 'mount --bind OUT m; cat m/secret' && echo done",
        "nsenter -t 1 -m true && echo done",
        "chroot / cat OUT/secret && echo done",
        "mknod dev b 8 0 && echo done",
        "sudo -n true && echo done",
    ] {
        let result = held.tries(command).await;
        assert!(!result.content.contains("done") && !result.content.contains(SECRET), "{command}: {}", result.content);
    }
}

/// System calls that no ordinary program makes, each by its number: io_uring and the second form of x86-64 are ways round a filter
/// of sockets, and a Unix socket is the way to Docker.
#[cfg(target_arch = "x86_64")]
#[tokio::test]
async fn ways_round_the_filter_are_refused() {
    if !is_held().await || !Path::new("/usr/bin/perl").exists() {
        println!("not held, or no perl here to make system calls with");
        return;
    }
    let with = |network| {
        let mut sandbox = Sandbox::required();
        sandbox.network = network;
        confined(sandbox)
    };
    let (off, ip) = (with(Network::Off), with(Network::Ip));
    let answer = async |scene: &Scene, call: &str| {
        scene
            .bash(&format!("perl -e '$r = syscall({call}); print $r < 0 ? \"error \".($!+0) : \"done\"'"))
            .await
            .content
    };
    // EPERM is 1, ENOSYS is 38.
    for call in [
        "425, 1, 0",                  // io_uring_setup
        "41 | 0x40000000, 1, 1, 0",   // a Unix socket, x32
        "41, 1, 1, 0",                // a Unix socket
        "41, 17, 3, 0",               // a packet socket
        "41, 38, 5, 0",               // the kernel's ciphers
        "41, 16, 3, 9",               // netlink of the audit
        "41, 40, 1, 0",               // a socket to the machine's own host
        "41, 1 | 0x100000000, 1, 0",  // a Unix socket, with a bit that the kernel does not look at
        "250, 0, 0, 0, 0",            // keyctl
        "304, 0, 0, 0",               // open_by_handle_at
        "321, 0, 0, 0",               // bpf
        "272, 0x10000000",            // unshare: users
        "56, 0x10000011, 0, 0, 0, 0", // clone: users
        "308, 0, 0",                  // setns
        "170, 0, 0",                  // sethostname
        "227, 0, 0",                  // clock_settime
    ] {
        assert_eq!(answer(&off, call).await, "error 1", "off: {call}");
        assert_eq!(answer(&ip, call).await, "error 1", "ip: {call}");
    }
    for (call, works) in
        [("41, 2, 1, 0", true), ("41, 10, 2, 0", true), ("41, 16, 3, 0", true), ("53, 1, 1, 0, 0", false)]
    {
        assert_eq!(answer(&off, call).await == "error 1", works, "off: {call}");
        assert_ne!(answer(&ip, call).await, "error 1", "ip: {call}");
    }
    assert_eq!(answer(&off, "435, 0, 0").await, "error 38", "clone3 makes programs take clone");
    // ptrace ends at the sandbox.
    let host = std::process::id();
    assert_eq!(answer(&off, &format!("101, 16, {host}, 0, 0")).await, "error 1");
}

/// With the network as IP only, the socket of a service on this machine is out of reach.
#[tokio::test]
async fn a_unix_socket_of_a_service_is_out_of_reach() {
    if !is_held().await || !Path::new("/usr/bin/perl").exists() {
        println!("not held, or no perl here to connect with");
        return;
    }
    for (network, connects) in [(Network::Off, false), (Network::Ip, false), (Network::All, true)] {
        let mut sandbox = Sandbox::required();
        sandbox.network = network;
        let scene = confined(sandbox);
        let path = scene.path("service");
        let _listener = UnixListener::bind(&path).unwrap();
        let connect = "perl -MSocket -e 'socket(S, PF_UNIX, SOCK_STREAM, 0) && connect(S, sockaddr_un(\"service\")) && print \"done\"'";
        let result = scene.bash(connect).await;
        assert_eq!(result.content.contains("done"), connects, "{network:?}: {}", result.content);
    }
}

/// The injected answer of a probe: no Landlock here.
fn without(sandbox: Sandbox) -> Scene {
    let mut scene = confined(sandbox);
    scene.bash.sandbox.level = SandboxLevel::none("the kernel has no Landlock: Linux 5.13 or later has it");
    scene
}

/// A sandbox that is required and cannot be held is an error with its cause and what to do, and nothing runs.
#[tokio::test]
async fn a_required_sandbox_that_cannot_be_held_is_an_error() {
    let scene = without(Sandbox::required());
    let result = scene.tries("echo ran > f; echo x > OUT/f").await;
    assert!(result.is_error());
    assert!(
        result.content.contains("no Landlock: Linux 5.13") && result.content.contains("`preferred`"),
        "{}",
        result.content
    );
    assert!(!scene.path("f").exists() && !scene.outside("f").exists());
    assert_eq!(result.details["sandbox"]["held"], false);
    assert_eq!(scene.bash("echo again").await.content, result.content);
}

/// A preferred one lets the command run, and the result says that it ran free.
#[tokio::test]
async fn a_preferred_sandbox_that_cannot_be_held_says_so() {
    let scene = without(Sandbox::preferred());
    let (result, titles) = with_titles(&scene, "echo ran; echo ${TMPDIR-none}").await;
    let said = "[This command ran without a sandbox: the kernel has no Landlock: Linux 5.13 or later has it]";
    assert_eq!((result.content.clone(), result.is_error()), (format!("ran\nnone\n\n{said}"), false));
    assert_eq!(scene.bash("true").await.content, format!("(no output)\n\n{said}"));
    let expected = json!({
        "mode": "preferred", "held": false, "files": false, "network": "all", "signals": false, "landlock": 0,
        "why_not": "the kernel has no Landlock: Linux 5.13 or later has it",
    });
    assert_eq!(result.details["sandbox"], expected);
    assert_eq!(titles, ["sandbox: none: the kernel has no Landlock: Linux 5.13 or later has it"]);
}

/// F19: a session that began with a sandbox has no command run with a weaker one, and keeps a stricter one.
#[tokio::test]
async fn a_call_of_a_session_with_a_stricter_sandbox_is_refused() {
    let began = Sandbox::required().terms();
    let mut wider = Sandbox::required();
    wider.write.push("/srv".into());
    for (sandbox, runs) in [
        (Sandbox::off(), false),
        (Sandbox::preferred(), false),
        (wider, false),
        (Sandbox::required(), SandboxLevel::probe().holds()),
    ] {
        let scene = confined(sandbox);
        assert_eq!(scene.bash.sandbox(), scene.bash.options.sandbox.terms());
        let mut context = scene.context();
        context.sandbox = began.clone().map(Arc::new);
        let result = scene.bash.run(json!({ "command": "touch ran" }), &context).await;
        assert_eq!(scene.path("ran").exists(), runs, "{}", result.content);
        let why = "this session began with a sandbox (required, network off), and here the sandbox is weaker";
        assert!(runs || !SandboxLevel::probe().holds() || result.content.contains(why), "{}", result.content);
    }
    for sandbox in [Sandbox::off(), Sandbox::preferred(), Sandbox::required()] {
        assert_eq!(Sandbox::of_terms(sandbox.terms().as_ref()).terms(), sandbox.terms());
    }
}

/// The result of a command, and the titles that its node in the tree had.
async fn with_titles(scene: &Scene, command: &str) -> (ToolResult, Vec<String>) {
    let titles = Arc::new(Mutex::new(Vec::new()));
    let (sink, mut context) = (titles.clone(), scene.context());
    context.progress = Progress::new(move |title, _| sink.lock().unwrap().extend(title));
    let result = scene.bash.run(json!({ "command": command }), &context).await;
    let titles = titles.lock().unwrap().clone();
    (result, titles)
}

/// What holds is in the details, in the tree, and in the words for the model.
#[tokio::test]
async fn what_holds_is_shown() {
    let off = confined(Sandbox::off());
    let (result, titles) = with_titles(&off, "true").await;
    assert_eq!((result.details.get("sandbox"), titles), (None, Vec::new()));
    if !is_held().await {
        return;
    }
    let scene = confined(Sandbox::preferred());
    let (result, titles) = with_titles(&scene, "true").await;
    let details = &result.details["sandbox"];
    let level = SandboxLevel::probe();
    assert_eq!(
        (&details["mode"], &details["held"], &details["network"]),
        (&json!("preferred"), &json!(true), &json!("off"))
    );
    assert_eq!((&details["landlock"], &details["why_not"]), (&json!(level.landlock), &Value::Null));
    assert_eq!(details["signals"], level.holds_signals());
    assert_eq!(
        titles,
        [if level.holds_signals() {
            "sandbox: files, network, signals"
        } else {
            "sandbox: files, network; not signals"
        }]
    );
    assert!(scene.bash.description().ends_with("and have no network.") && !off.bash.description().contains("confined"));
}

/// A call that is dropped or aborted while it runs leaves no process and no folder; the host itself is never bound.
#[tokio::test]
async fn a_dropped_call_leaves_nothing_and_the_host_is_free() {
    if !is_held().await {
        return;
    }
    let scene = confined(Sandbox::required());
    let (temporary, file) = (scene.folder.path().join("tmp"), scene.path("pid"));
    fs::create_dir(&temporary).unwrap();
    let mut options = BashOptions::new(environment());
    options.environment.push(("TMPDIR".into(), temporary.clone().into()));
    options.sandbox = Sandbox::required();
    let bash = Bash::new(options);
    let context = scene.context();
    let mut call = bash.run(json!({ "command": "setsid sleep 999 & echo $! > pid; sleep 999" }), &context);
    let written = async {
        while fs::read_to_string(&file).unwrap_or_default().trim().is_empty() {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        _ = &mut call => panic!("it runs for long"),
        () = written => {}
    }
    assert_eq!(fs::read_dir(&temporary).unwrap().count(), 1);
    drop(call);
    // The kernel takes a moment for a killed process, and a thread removes the folder.
    let until = Instant::now() + Duration::from_secs(30);
    while !is_gone(&file) || fs::read_dir(&temporary).unwrap().count() > 0 {
        assert!(Instant::now() < until, "a process or a folder is left");
        tokio::task::yield_now().await;
    }
    scene.is_clean();
    fs::write(scene.outside("secret"), "changed").unwrap();
    TcpListener::bind("127.0.0.1:0").unwrap();
}
