//! Ways out of a sandbox that no word of a shell shows: system calls, other processes, sockets, links that are swapped meanwhile.
//!
//! Each attempt is a program of Python that prints `got-out` where it got out. It is first run without the sandbox, and must get out
//! there, unless the system itself may refuse it or it would do harm. All run as a user whom root's rights do not help. A system
//! without Python or without a sandbox shows nothing here.
#![cfg(target_arch = "x86_64")]

use std::{
    os::{linux::net::SocketAddrExt as _, unix::net::SocketAddr},
    process::{Child, Command},
    sync::atomic::{AtomicUsize, Ordering},
};

use super::*;

const PYTHON: &str = "/usr/bin/python3";

const PRELUDE: &str = r#"
import ctypes, os, socket, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
def call(*words):
    return libc.syscall(*[ctypes.c_long(w) if isinstance(w, int) else w for w in words])
def done(got_out=True):
    print("got" + "-out" if got_out else "kept in: errno %d" % ctypes.get_errno())
"#;

/// Gets out without a sandbox.
const SHOWN: &[(&str, &str)] = &[
    ("an abstract socket", r#"socket.socket(socket.AF_UNIX).connect("\0ABSTRACT"); done()"#),
    ("a socket in a folder outside", r#"socket.socket(socket.AF_UNIX).connect("OUT/socket"); done()"#),
    (
        "a datagram to a socket outside",
        r#"socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(b"x", "OUT/datagrams"); done()"#,
    ),
    ("ptrace: seize", r#"done(call(101, 0x4206, VICTIM, 0, 0) == 0)"#),
    ("ptrace: attach", r#"done(call(101, 16, VICTIM, 0, 0) == 0)"#),
    (
        "the memory of a process outside, as a file",
        r#"
at = int(open("/proc/VICTIM/maps").readline().split("-")[0], 16)
memory = open("/proc/VICTIM/mem", "rb", 0); memory.seek(at); done(memory.read(4) == b"\x7fELF")"#,
    ),
    (
        "the memory of a process outside, by a system call",
        r#"
# Any readable place will do: EFAULT (14) says that the process was reached.
into = ctypes.create_string_buffer(8)
local, remote = (ctypes.c_ulong * 2)(ctypes.addressof(into), 8), (ctypes.c_ulong * 2)(8, 8)
got = call(310, VICTIM, local, 1, remote, 1, 0); done(got >= 0 or ctypes.get_errno() == 14)"#,
    ),
    ("the environment of a process outside", r#"done(b"TOKEN=" in open("/proc/VICTIM/environ", "rb").read())"#),
    ("the files of a process outside", r#"os.stat("/proc/VICTIM/fd/0"); done()"#),
    ("the root of a process outside", r#"done(bool(os.listdir("/proc/VICTIM/root/")))"#),
    ("a file of a process outside, taken over", r#"fd = call(434, VICTIM, 0); done(call(438, fd, 0, 0) >= 0)"#),
    ("tgkill", r#"done(call(234, VICTIM, VICTIM, 0) == 0)"#),
    ("pidfd_send_signal", r#"fd = call(434, VICTIM, 0); done(call(424, fd, 0, 0, 0) == 0)"#),
    ("kill of a process", r#"os.kill(VICTIM, 0); done()"#),
    ("settings of a process outside", r#"os.open("/proc/VICTIM/oom_score_adj", os.O_WRONLY); done()"#),
    (
        "a program in memory",
        r#"
fd = os.memfd_create("cat"); os.write(fd, open("/bin/cat", "rb").read()); os.execve(fd, ["cat", "OUT/secret"], {})"#,
    ),
    ("a program outside", r#"os.execv("OUT/program", ["program"])"#),
    ("a program outside, by the loader", r#"os.execv("/bin/sh", ["sh", "OUT/program"])"#),
    (
        "a file opened as a path",
        r#"fd = os.open("OUT/secret", os.O_PATH); print(open("/proc/self/fd/%d" % fd).read())"#,
    ),
    ("files exchanged", r#"open("own", "w"); done(call(316, -100, b"own", -100, b"OUT/secret", 2) == 0)"#),
    ("a file cut by its path", r#"done(call(76, b"OUT/secret", 0) == 0)"#),
    ("a terminal", r#"os.open("/dev/ptmx", os.O_RDWR | os.O_NOCTTY); done()"#),
    ("news of a folder outside", r#"fd = call(294, 0); done(call(254, fd, b"OUT", 0x100) >= 0)"#),
    (
        "memory that all programs share",
        r#"open("/dev/shm/tamtam-%d" % os.getpid(), "w"); os.unlink("/dev/shm/tamtam-%d" % os.getpid()); done()"#,
    ),
    ("a privilege of programs given back", r#"done(call(157, 39, 0, 0, 0, 0) == 0)"#),
];

/// The system may refuse these without a sandbox too, or they would do harm then.
const HELD_ONLY: &[(&str, &str)] = &[
    ("io_uring", r#"done(call(425, 8, ctypes.create_string_buffer(120)) >= 0)"#),
    ("a namespace of users", r#"done(call(272, 0x10000000) == 0)"#),
    ("a namespace of users, by clone", r#"done(call(56, 0x10000011, 0, 0, 0, 0) > 0)"#),
    ("a namespace of mounts", r#"done(call(272, 0x20000) == 0)"#),
    ("a mount", r#"os.mkdir("m"); done(call(165, b"x", b"m", b"tmpfs", 0, 0) == 0)"#),
    ("a mount by its new calls", r#"done(call(430, b"tmpfs", 0) >= 0 or call(428, -100, b"OUT", 1) >= 0)"#),
    ("the namespaces of a process outside", r#"done(call(308, call(434, VICTIM, 0), 0x20000) == 0)"#),
    ("another root", r#"done(call(161, b"OUT") == 0)"#),
    ("the handler of core files", r#"os.open("/proc/sys/kernel/core_pattern", os.O_WRONLY); done()"#),
    ("the name of the machine", r#"os.open("/proc/sys/kernel/hostname", os.O_WRONLY); done()"#),
    ("the keys of the kernel", r#"os.open("/proc/sysrq-trigger", os.O_WRONLY); done()"#),
    ("a group of processes", r#"os.open("/sys/fs/cgroup/cgroup.procs", os.O_WRONLY); done()"#),
    ("a new group of processes", r#"os.mkdir("/sys/fs/cgroup/tamtam"); done()"#),
    ("the user's keys", r#"done(call(250, 0, -4, 1) >= 0)"#),
    ("a new key", r#"done(call(248, b"user", b"x", b"y", 1, -4) >= 0)"#),
    ("the terminal of the host", r#"import fcntl; fcntl.ioctl(os.open("/dev/tty", os.O_RDWR), 0x5412, b"x"); done()"#),
    ("keys typed at the input", r#"import fcntl; fcntl.ioctl(0, 0x5412, b"x"); done()"#),
    (
        "a file by its handle",
        r#"done(call(304, -100, ctypes.create_string_buffer(64), 0) >= 0 or ctypes.get_errno() != 1)"#,
    ),
    ("rights that programs do not get", r#"done(call(157, 38, 0, 0, 0, 0) == 0)"#),
    ("the rights of root", r#"done(os.system("su -c true root < /dev/null > /dev/null 2>&1") == 0)"#),
];

/// A process outside of any sandbox, of the same user.
struct Victim(Child);

impl Victim {
    fn start() -> Victim {
        Victim(Command::new("sleep").arg("600").env("TOKEN", SECRET).spawn().unwrap())
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

/// The sockets outside, for as long as they are kept.
struct Sockets {
    _abstract: UnixListener,
    _socket: UnixListener,
    _datagrams: std::os::unix::net::UnixDatagram,
}

fn sockets(scene: &Scene, name: &str) -> Sockets {
    let address = SocketAddr::from_abstract_name(name).unwrap();
    Sockets {
        _abstract: UnixListener::bind_addr(&address).unwrap(),
        _socket: UnixListener::bind(scene.outside("socket")).unwrap(),
        _datagrams: std::os::unix::net::UnixDatagram::bind(scene.outside("datagrams")).unwrap(),
    }
}

/// Runs a program, and says whether it got out: by its own word, by what it printed, or by what is outside now; and what it printed.
async fn gets_out(sandbox: Sandbox, name: &str, program: &str) -> (bool, String) {
    let scene = confined(sandbox);
    fs::write(scene.outside("program"), "#!/bin/sh\necho got-out\n").unwrap();
    fs::set_permissions(scene.outside("program"), fs::Permissions::from_mode(0o755)).unwrap();
    let victim = Victim::start();
    // A new name each time: a process that another test is starting holds the old socket until it has its program.
    static TIMES: AtomicUsize = AtomicUsize::new(0);
    let spoken = format!("tamtam-{}-{}", std::process::id(), TIMES.fetch_add(1, Ordering::Relaxed));
    let sockets = sockets(&scene, &spoken);
    let before = all(&scene.outside(""));
    let out = scene.outside("").display().to_string();
    let program = format!("{PRELUDE}\n{program}\n").replace("VICTIM", &victim.0.id().to_string());
    let program = program.replace("ABSTRACT", &spoken).replace("OUT", out.trim_end_matches('/'));
    fs::write(scene.path("attempt.py"), program).unwrap();
    let result = scene.bash(&format!("{PYTHON} attempt.py")).await;
    assert!(!result.is_error(), "{name}: {}", result.content);
    let got_out =
        result.content.contains("got-out") || result.content.contains(SECRET) || all(&scene.outside("")) != before;
    scene.is_clean();
    drop(sockets);
    (got_out, result.content)
}

fn held(work: impl AsyncFnOnce() + Send) {
    as_nobody(|| {
        block_on(async {
            if is_held().await && Path::new(PYTHON).exists() {
                work().await;
            }
        });
    });
}

/// Must show 5 of the issue: each way out is refused, also where the network is on.
#[test]
fn no_way_out_of_the_sandbox_leads_out() {
    held(async || {
        let mut failed = Vec::new();
        for (attempts, is_shown) in [(SHOWN, true), (HELD_ONLY, false)] {
            for (name, program) in attempts {
                if is_shown && !gets_out(Sandbox::off(), name, program).await.0 {
                    failed.push(format!("{name}: does not even work without a sandbox"));
                }
                // Of what the network changes, the sockets are all.
                let networks = if name.contains("socket") { &[Network::Off, Network::Ip][..] } else { &[Network::Off] };
                for network in networks {
                    let mut sandbox = Sandbox::required();
                    sandbox.network = *network;
                    let signals = ["tgkill", "pidfd_send_signal", "kill of a process"];
                    let is_free = signals.contains(name) && !SandboxLevel::probe().holds_signals();
                    let (got_out, said) = gets_out(sandbox, name, program).await;
                    if got_out && !is_free {
                        failed.push(format!("{name} ({network:?}): {said}"));
                    }
                }
            }
        }
        assert!(failed.is_empty(), "{failed:#?}");
    });
}

/// A program that leaves its session and its parent ends with its call.
#[test]
fn a_process_that_hides_ends_with_its_call() {
    held(async || {
        for sandbox in [Sandbox::off(), Sandbox::required()] {
            let scene = confined(sandbox);
            let program = r#"
if os.fork(): os._exit(0)
os.setsid()
if os.fork(): os._exit(0)
open("pid", "w").write(str(os.getpid()))
for fd in range(3): os.close(fd)
import time; time.sleep(99)"#;
            fs::write(scene.path("hide.py"), format!("{PRELUDE}{program}")).unwrap();
            let hides = format!("{PYTHON} hide.py; until [ -s pid ]; do sleep 0.01; done");
            assert_eq!(scene.bash(&hides).await.details["exit_code"], 0);
            let until = Instant::now() + Duration::from_secs(30);
            while !is_gone(&scene.path("pid")) {
                assert!(Instant::now() < until, "it outlived its call");
                tokio::task::yield_now().await;
            }
            scene.is_clean();
        }
    });
}

/// A name that leads inside at one moment and outside at the next leads nowhere outside: the kernel looks at the file, not the name.
#[test]
fn links_that_are_swapped_lead_nowhere() {
    held(async || {
        let swaps = "echo own > own; ln -s own l
            (n=0; while [ $((n+=1)) -lt 400 ]; do ln -sfn OUT/secret m; mv -T m l; ln -sfn own m; mv -T m l; done) & 
            while kill -0 $! 2> /dev/null; do cat l 2> /dev/null; echo x >> l; done 2> /dev/null";
        for (sandbox, leads_out) in [(Sandbox::off(), true), (Sandbox::required(), false)] {
            let scene = confined(sandbox);
            let before = all(&scene.outside(""));
            let said = scene.tries(swaps).await.content;
            let got_out = said.contains(SECRET) || all(&scene.outside("")) != before;
            assert_eq!(got_out, leads_out, "{said}");
            assert!(leads_out || said.contains("own"), "{said}");
        }
    });
}

/// While a command runs, its workspace is moved away and a link to a folder outside takes its place.
#[test]
fn a_workspace_that_is_moved_while_a_command_runs_leads_nowhere() {
    held(async || {
        let works =
            "here=$PWD; touch started; until [ -e go ]; do sleep 0.01; done; echo x > $here/f; cat $here/secret";
        for (sandbox, leads_out) in [(Sandbox::off(), true), (Sandbox::required(), false)] {
            let scene = confined(sandbox);
            let moved = scene.folder.path().join("moved");
            let moves = async {
                while !scene.path("started").exists() {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
                fs::rename(scene.path(""), &moved).unwrap();
                std::os::unix::fs::symlink(scene.outside(""), scene.folder.path().join("ws")).unwrap();
                fs::write(moved.join("go"), "").unwrap();
            };
            let (result, ()) = tokio::join!(scene.bash(works), moves);
            let got_out = scene.outside("f").exists() || result.content.contains(SECRET);
            assert_eq!(got_out, leads_out, "{}", result.content);
        }
    });
}

/// `inotify` is not there for a confined command, and what watches files looks at them instead.
#[test]
fn a_file_is_followed_without_inotify() {
    held(async || {
        let scene = confined(Sandbox::required());
        let follows = "echo one > f; (sleep 0.3; echo two >> f) & timeout 5 tail -f f 2> /dev/null | head -2";
        scene.says(follows, "one\ntwo").await;
    });
}
