//! How calls end, and that nothing of them is left.

use super::*;

/// BDD-BASH-005, F-23, FT-11: the result has what was written until then, and says that the time was over.
#[tokio::test]
async fn bdd_bash_005_a_timeout_is_a_result_with_what_was_written() {
    let scene = scene();
    let result = scene.call(json!({ "command": "echo first; tail -f /dev/null", "timeout": 1 })).await;
    assert_eq!(result.content, "first\n\nCommand timed out after 1 seconds");
    assert_eq!((&result.details["timed_out"], &result.details["exit_code"]), (&json!(true), &Value::Null));
    assert!(!result.is_error());
    let result = scene.call(json!({ "command": "tail -f /dev/null", "timeout": "1" })).await;
    assert_eq!(result.content, "Command timed out after 1 seconds");
    scene.is_clean();
}

/// BDD-BASH-019: both children of a command that timed out are gone, and not only their shell.
/// BASH-ERR-004: when the call has returned, no process that it left behind runs anywhere.
///
/// F-23: the whole process group is killed.
#[tokio::test]
async fn bdd_bash_019_a_timeout_leaves_no_process() {
    let scene = scene();
    let result =
        scene.call(json!({ "command": "sleep 999 & echo $! > a; sleep 999 & echo $! > b; wait", "timeout": 1 })).await;
    assert_eq!(result.details["timed_out"], true);
    assert!(is_gone(&scene.path("a")) && is_gone(&scene.path("b")));
    scene.is_clean();
}

/// F-23: the signal is named.
#[tokio::test]
async fn a_signal_is_named() {
    let scene = scene();
    let result = scene.bash("kill -KILL $$").await;
    assert_eq!(result.content, "Command was ended by signal SIGKILL (9)");
    assert_eq!((&result.details["signal"], &result.details["exit_code"]), (&json!("SIGKILL"), &Value::Null));
    let result = scene.bash("bash -c 'kill -SEGV $$' 2>/dev/null; exit $?").await;
    assert!(result.content.contains("code 139") && result.content.contains("SIGSEGV"), "{}", result.content);
}

/// H01: the command ended, so the call does, and what it left running is killed.
#[tokio::test]
async fn h01_a_background_child_does_not_hold_up_the_call_and_does_not_outlive_it() {
    let scene = scene();
    let result = scene.bash("sleep 999 & echo $! > pid; echo ok").await;
    assert_eq!(result.content, "ok");
    assert_eq!(result.details["exit_code"], 0);
    assert!(number(&result.details["duration_ms"]) < 5_000);
    assert!(is_gone(&scene.path("pid")));
    // What it writes while it may is kept.
    let late = scene.bash("(sleep 0.05; echo late) & echo first").await;
    assert_eq!(late.content, "first\nlate");
    scene.is_clean();
}

/// The ways of getting away from a shell. Each leaves its process id in the file `pid`.
const ESCAPES: &[&str] = &[
    "setsid bash -c 'echo $$ > pid; exec sleep 999' &",
    "setsid setsid bash -c 'echo $$ > pid; exec sleep 999' & disown",
    "(setsid bash -c '(echo $BASHPID > pid; exec sleep 999) &' &)",
    "nohup bash -c 'echo $$ > pid; exec sleep 999' >/dev/null 2>&1 &",
    "setsid bash -c 'trap \"\" TERM HUP INT; echo $$ > pid; while :; do sleep 1; done' >/dev/null 2>&1 &",
    "env -i setsid bash -c 'echo $$ > pid; exec sleep 999' >/dev/null 2>&1 &",
    "env -i setsid bash -c '(echo $BASHPID > pid; exec -c sleep 999) & exit' >/dev/null 2>&1 &",
    "cd / && setsid bash -c \"cd '$OLDPWD'; echo \\$\\$ > pid; cd /; exec sleep 999\" </dev/null >/dev/null 2>&1 &",
    "python3 -c 'import os,time\nif os.fork()==0:\n os.setsid()\n if os.fork()==0:\n  open(\"pid\",\"w\").write(str(os.getpid()))\n  [os.close(n) for n in range(3)]\n  time.sleep(999)\n os._exit(0)'",
    "bash -c 'echo $$ > pid; kill -STOP $$' &",
];

/// H02, promise 10, issue 2 "must show" 6, nasty case 7: nothing is left after a plain end, a timeout, an abort and a drop.
#[tokio::test]
async fn h02_nothing_gets_away() {
    let until_pid = "\nwhile [ ! -s pid ]; do sleep 0.01; done\n";
    for escape in ESCAPES {
        for how in ["end", "timeout", "abort", "drop"] {
            let scene = scene();
            let pid = scene.path("pid");
            let wait = if how == "end" { "" } else { "touch ready; sleep 999" };
            let command = json!({ "command": format!("{escape}{until_pid}{wait}"), "timeout": if how == "timeout" { 1 } else { 20 } });
            let context = scene.context();
            let ready = async {
                while !scene.path("ready").exists() {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            };
            match how {
                "abort" => {
                    let abort = async {
                        ready.await;
                        scene.cancel.cancel();
                    };
                    let (result, ()) = tokio::join!(scene.bash.run(command, &context), abort);
                    assert_eq!(result.details["aborted"], true);
                }
                "drop" => {
                    let call = scene.bash.run(command, &context);
                    tokio::select! { _ = call => panic!("it ended"), () = ready => {} }
                }
                _ => {
                    let result = scene.bash.run(command, &context).await;
                    assert_eq!(result.details["timed_out"], how == "timeout", "{escape}: {}", result.content);
                    assert_eq!(result.details["left"], json!([]));
                }
            }
            assert!(is_gone(&pid), "{how}: {escape}");
            scene.is_clean();
        }
    }
}

/// Promise 10: a process whose first thread has ended looks dead, and is not.
#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
#[tokio::test]
async fn h02_a_program_whose_first_thread_has_ended_is_killed() {
    let exit = if cfg!(target_arch = "x86_64") { 60 } else { 93 };
    let program = format!(
        "import ctypes, os, threading, time\nthreading.Thread(target=lambda: time.sleep(999)).start()\n\
         open('pid', 'w').write(str(os.getpid()))\nctypes.CDLL(None).syscall({exit}, 0)\n"
    );
    let scene = scene();
    fs::write(scene.path("half_dead.py"), program).unwrap();
    let until_half_dead = "while ! grep -qs '^State:.Z' /proc/$(cat pid)/status; do sleep 0.01; done";
    for start in ["setsid python3 half_dead.py >/dev/null 2>&1 &", "python3 half_dead.py >/dev/null 2>&1 &"] {
        let _ = fs::remove_file(scene.path("pid"));
        let result =
            scene.bash(&format!("({start})\nwhile [ ! -s pid ]; do sleep 0.01; done\n{until_half_dead}")).await;
        assert_eq!(
            (&result.details["exit_code"], &result.details["left"]),
            (&json!(0), &json!([])),
            "{}",
            result.content
        );
        let pid = fs::read_to_string(scene.path("pid")).unwrap();
        let threads = fs::read_dir(format!("/proc/{pid}/task")).map_or(0, Iterator::count);
        assert!(threads <= 1, "{threads} threads of it live: {start}");
        scene.is_clean();
    }
}

/// Promise 10: what took off its tag is still known by its parents, also once those are gone.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn h02_what_hides_under_a_parent_that_is_asked_to_end_is_killed() {
    let hide = "setsid env -i /bin/bash -c 'ulimit -S -f unlimited; echo $$ > pid; exec sleep 999' &";
    for how in ["timeout", "drop"] {
        let scene = scene();
        let context = scene.context();
        let command = json!({ "command": format!("{hide} wait"), "timeout": if how == "timeout" { 1 } else { 60 } });
        let call = scene.bash.run(command, &context);
        let ready = async {
            while how == "timeout" || !fs::read_to_string(scene.path("pid")).is_ok_and(|pid| pid.ends_with('\n')) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            // It is what it looks like once it has become the program that sleeps.
            let pid = fs::read_to_string(scene.path("pid")).unwrap();
            while fs::read_to_string(format!("/proc/{}/comm", pid.trim())).unwrap() != "sleep\n" {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::select! { result = call => assert_eq!(result.details["timed_out"], true), () = ready => {} }
        assert!(is_gone(&scene.path("pid")), "{how}");
    }
}

/// H06: stopped, 126, 127; a timeout still works on what is stopped.
#[tokio::test]
async fn h06_every_kind_of_end_is_reported_truly() {
    let scene = scene();
    let stopped = scene.call(json!({ "command": "kill -STOP $$", "timeout": 1 })).await;
    assert_eq!(stopped.details["timed_out"], true);
    fs::write(scene.path("plain"), "").unwrap();
    fs::set_permissions(scene.path("plain"), fs::Permissions::from_mode(0o644)).unwrap();
    assert_eq!(scene.bash("./plain").await.details["exit_code"], 126);
    assert_eq!(scene.bash("./none").await.details["exit_code"], 127);
    assert_eq!(scene.bash("if then").await.details["exit_code"], 2);
    assert_eq!(scene.bash("kill -TERM $$").await.details["signal"], "SIGTERM");
    scene.is_clean();
}

/// H07, scaled: no zombie and no handle stays behind.
/// It counts for its whole process, so it has its own: other tests open and close handles meanwhile.
#[tokio::test]
async fn h07_many_commands_leave_no_zombie_and_no_handle() {
    const ALONE: &str = "TAMTAM_TEST_ALONE";
    if std::env::var_os(ALONE).is_none() {
        let name = "tools::bash::tests::ends::h07_many_commands_leave_no_zombie_and_no_handle";
        let mut alone = std::process::Command::new(std::env::current_exe().unwrap());
        let output = alone.args(["--exact", name, "--nocapture"]).env(ALONE, "1").output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
        assert!(said.contains("1 passed"), "{said}");
        return;
    }
    let scene = scene();
    let handles = || fs::read_dir("/proc/self/fd").unwrap().count();
    let zombies = || {
        let is_zombie = |pid: &&str| {
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('Z'))
        };
        let children: Vec<String> = fs::read_dir("/proc/self/task")
            .unwrap()
            .flatten()
            .map(|task| fs::read_to_string(task.path().join("children")).unwrap_or_default())
            .collect();
        children.iter().flat_map(|pids| pids.split_whitespace()).filter(is_zombie).count()
    };
    for _ in 0..3 {
        scene.says("echo warm", "warm").await;
    }
    let before = handles();
    for _ in 0..60 {
        scene.says("echo x | cat", "x").await;
    }
    // What the last command used is given back by other threads, a moment after its answer.
    for _ in 0..200 {
        if handles() <= before && zombies() == 0 {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(25)).await;
    }
    panic!("{before} handles before and {} after, {} zombies", handles(), zombies());
}

/// H08: a fork bomb and a memory hog. The limit of processes binds no root, so there the bomb runs as another user.
#[tokio::test]
async fn h08_a_bomb_and_a_hog_are_contained() {
    let scene = scene_with(|options| {
        options.memory_bytes_max = Some(300 * 1024 * 1024);
        options.processes_max = Some(200);
    });
    let result = scene.bash("python3 -c 'x = bytearray(10**9)'").await;
    assert_eq!(result.details["exit_code"], 1);
    assert!(result.content.contains("MemoryError"), "{}", result.content);
    let bomb = "b() { b | b & }; b; sleep 999";
    let command = match rustix::process::geteuid().is_root() {
        true => format!("setpriv --reuid 65534 --clear-groups bash -c '{bomb}' 2>/dev/null"),
        false => format!("{bomb} 2>/dev/null"),
    };
    let result = scene.call(json!({ "command": command, "timeout": 1 })).await;
    assert_eq!(result.details["left"], json!([]));
    scene.is_clean();
}

/// Already aborted: nothing is started.
#[tokio::test]
async fn an_aborted_call_starts_nothing_and_a_running_one_says_what_is_known() {
    let scene = scene();
    scene.cancel.cancel();
    let result = scene.bash("touch started").await;
    assert_eq!(result.error, Some(ErrorReason::Aborted));
    assert!(result.content.contains("Operation aborted") && !scene.path("started").exists());

    let scene = self::scene();
    let context = scene.context();
    let abort = async {
        while !scene.path("ready").exists() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        scene.cancel.cancel();
    };
    let command =
        json!({ "command": "trap 'echo tidy; exit' TERM; echo begun; touch ready; while :; do sleep 0.05; done" });
    let (result, ()) = tokio::join!(scene.bash.run(command, &context), abort);
    assert_eq!(result.error, Some(ErrorReason::Aborted));
    // The shell itself may say that its `sleep` was terminated.
    let told = &result.content;
    assert!(told.starts_with("begun\n") && told.contains("tidy") && told.ends_with("\n\nCommand aborted"), "{told}");
    scene.is_clean();
}

/// Two calls at once do not end each other's processes.
#[tokio::test]
async fn calls_leave_each_other_alone() {
    let scene = scene();
    let (long, short) =
        tokio::join!(scene.bash("setsid sleep 0.6; echo done"), scene.bash("setsid sleep 999 & echo short"));
    assert_eq!((long.content.as_str(), short.content.as_str()), ("done", "short"));
    scene.is_clean();
}
