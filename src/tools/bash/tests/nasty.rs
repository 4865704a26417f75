//! The nasty cases that concern bash, by their numbers. 8 in full is in `crates/tamtam-cli/tests/program/flood.rs`; 15 continues in `tool::truncate`.

use super::*;

/// Nasty case 7, R4: who holds the pipe, who is stopped, who asks on the terminal, who dies: the call returns soon after its
/// shell, and says how it ended. (What tries to get away, and all four ways of ending: `h02_nothing_gets_away`.)
#[tokio::test]
async fn nasty_07_pipe_holders_do_not_hold_up_a_call() {
    let scene = scene();
    for command in [
        "sleep 300 & echo ok",
        "setsid sleep 300 & echo ok",
        "(setsid sleep 300 &) & echo ok",
        "bash -c 'kill -STOP $$' & echo ok",
        "bash -c 'read x < /dev/tty' 2>/dev/null; echo ok",
        "exec 3>&1; sleep 300 >&3 & echo ok",
    ] {
        let result = scene.call(json!({ "command": command, "timeout": 60 })).await;
        assert_eq!(result.content, "ok", "{command}");
        assert!(number(&result.details["duration_ms"]) < 30_000, "{command}");
        scene.is_clean();
    }
    let killed = scene.bash("echo begun; kill -TERM $$").await;
    assert_eq!(killed.content, "begun\n\nCommand was ended by signal SIGTERM (15)");
}

/// Nasty case 12: the limits of one argument, a NUL byte, and a folder that goes away.
#[tokio::test]
async fn nasty_12_the_limits_of_exec_are_errors_or_work() {
    let scene = scene();
    let long = |bytes: usize| format!("echo {}", "x".repeat(bytes - "echo ".len()));
    let fits = scene.bash(&long(COMMAND_BYTES_MAX)).await;
    assert_eq!(fits.details["exit_code"], 0, "{}", &fits.content[..200.min(fits.content.len())]);
    assert_eq!(number(&fits.details["truncation"]["total_bytes"]), (COMMAND_BYTES_MAX - "echo ".len() + 1) as u64);
    let too_long = scene.bash(&long(COMMAND_BYTES_MAX + 1)).await;
    assert!(too_long.is_error() && too_long.content.contains("too long"), "{}", too_long.content);
    let nul = scene.bash("echo a\0b").await;
    assert!(nul.is_error() && nul.content.contains("NUL"), "{}", nul.content);

    fs::create_dir(scene.path("gone")).unwrap();
    let during = scene.call(json!({ "command": "rmdir ../gone; echo still; pwd", "cwd": "gone" })).await;
    assert!(during.content.starts_with("still\n") && during.details["exit_code"].is_number(), "{}", during.content);
    let after = scene.call(json!({ "command": "pwd", "cwd": "gone" })).await;
    assert!(after.is_error() && after.content.contains("ENOENT"), "{}", after.content);
}

/// Nasty case 12, with a prefix of the host's: together they are too long for the system, which is a clean error.
#[tokio::test]
async fn nasty_12_a_prefix_that_makes_a_command_too_long_is_an_error() {
    let scene = scene_with(|options| options.prefix = Some(format!("# {}", "x".repeat(100_000))));
    let result = scene.bash(&format!("echo {}", "x".repeat(100_000))).await;
    assert!(result.is_error() && result.content.contains("failed to start"), "{}", result.content);
}

/// Nasty case 15: raw bytes in full, and the file that the notice names can be read by the read tool.
#[tokio::test]
async fn nasty_15_a_spill_file_holds_raw_bytes_and_can_be_read() {
    let scene = scene();
    let result = scene.bash("printf 'a\\377\\000b\\n'; seq 1 20000").await;
    let file = result.details["temp_file"].as_str().unwrap();
    assert!(result.content.lines().next().unwrap().contains(file));
    let numbers: String = (1..=20_000).map(|n| format!("{n}\n")).collect();
    assert_eq!(fs::read(file).unwrap(), [b"a\xff\x00b\n", numbers.as_bytes()].concat());
    let result = scene.bash("seq 1 20000").await;
    let tools = crate::tools::full();
    let read = json!({ "path": result.details["temp_file"], "offset": 19_999 });
    let read = tools.find("read").unwrap().run(read, &scene.context()).await;
    assert!(read.content.contains("19999") && read.content.contains("20000"), "{}", read.content);
}

/// Nasty case 15: a call that was cut off leaves no unreported file.
#[tokio::test]
async fn nasty_15_a_call_that_was_cut_off_leaves_no_spill_file() {
    let scene = scene();
    let spill = scene.folder.path().join("spill");
    let files = || fs::read_dir(&spill).map_or(0, Iterator::count);
    let context = scene.context();
    let call = scene.bash.run(json!({ "command": "yes" }), &context);
    let begun = async {
        while files() == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::select! { _ = call => panic!("it ended"), () = begun => {} }
    // A write that was on its way to the disk may end a little later.
    for _ in 0..200 {
        if files() == 0 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(files(), 0);
    scene.is_clean();
}

/// Nasty case 12: a command that begins with a dash is a command, and no option of the shell.
#[tokio::test]
async fn nasty_12_a_command_that_begins_with_a_dash_is_no_option() {
    let scene = scene();
    for command in ["-x", "-i", "--version", "-c echo hi", "--", "- ", "-o posix"] {
        let result = scene.bash(command).await;
        assert_eq!(result.details["exit_code"], 127, "{command}: {}", result.content);
        assert!(result.content.contains("command not found"), "{command}: {}", result.content);
    }
}

/// Nasty case 8: a disk that does not answer holds up neither the clock nor an abort, and costs the file alone.
#[test]
fn nasty_08_a_disk_that_hangs_holds_nothing_up() {
    // The one thread that may wait for the disk waits.
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(2).max_blocking_threads(1).enable_all().build().unwrap();
    let scene = scene();
    let (free, hang) = std::sync::mpsc::channel::<()>();
    let result = runtime.block_on(async {
        let call =
            scene.call(json!({ "command": "touch ready; until [ -e go ]; do sleep 0.02; done; yes", "timeout": 4 }));
        let disk = async {
            while !scene.path("ready").exists() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            tokio::task::spawn_blocking(move || hang.recv_timeout(Duration::from_secs(60)));
            // Only then there is something to keep, and it is queued after that.
            fs::write(scene.path("go"), "").unwrap();
        };
        tokio::join!(call, disk).0
    });
    assert_eq!(result.details["timed_out"], true);
    assert!(number(&result.details["duration_ms"]) < 20_000, "{}", result.details["duration_ms"]);
    assert!(result.content.contains("could not be kept: the disk did not answer in time"), "{}", result.content);
    assert!(result.content.ends_with("y\ny\n\nCommand timed out after 4 seconds"));
    drop(free);
    runtime.shutdown_timeout(Duration::from_secs(10));
    assert_eq!(fs::read_dir(scene.folder.path().join("spill")).map_or(0, Iterator::count), 0);
    scene.is_clean();
}
