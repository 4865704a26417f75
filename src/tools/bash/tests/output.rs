//! What the model is given of a command's output, and where the rest is.

use super::*;
use crate::process::Streams;

/// BDD-BASH-008, FT-10, C-32: the model reads both streams in exactly the order in which they were written.
#[tokio::test]
async fn bdd_bash_008_both_streams_come_in_the_order_in_which_they_were_written() {
    let scene = scene();
    let expected: Vec<_> = (1..=300).flat_map(|n| [format!("out {n}"), format!("err {n}")]).collect();
    for _ in 0..5 {
        let result = scene.bash("for n in {1..300}; do echo out $n; echo err $n >&2; done").await;
        assert_eq!(result.content, expected.join("\n"));
        assert_eq!((&result.details["stdout"], &result.details["stderr_bytes"]), (&Value::Null, &Value::Null));
    }
    // What opens them by name works as well.
    scene.says("echo a > /dev/stdout; echo b > /dev/stderr; echo c", "a\nb\nc").await;
}

/// FT-10, C-32: a host that wants to tell the streams apart asks for it, and gets them in about their order.
#[tokio::test]
async fn ft_10_streams_are_kept_apart_where_the_host_asks_for_it() {
    let scene = scene_with(|options| options.streams = Streams::Apart);
    let result = scene.bash("echo out; sleep 0.1; echo err >&2; sleep 0.1; echo more").await;
    assert_eq!(result.content, "out\nerr\nmore");
    assert_eq!((&result.details["stdout"], &result.details["stderr"]), (&json!("out\nmore\n"), &json!("err\n")));
    assert_eq!((number(&result.details["stdout_bytes"]), number(&result.details["stderr_bytes"])), (9, 4));
    let torn = scene.bash(r"printf '\xe4\xbd'; sleep 0.1; echo x >&2; sleep 0.1; printf '\xa0\n'").await;
    assert!(torn.content.contains('你') && !torn.content.contains('\u{fffd}'), "{}", torn.content);
}

/// BDD-BASH-015 (both meanings), BDD-BASH-021, BASH-ERR-002, F-25, FT-4, G-04: of too many lines the result has the last ones,
/// that it was cut, and where the whole is.
#[tokio::test]
async fn bdd_bash_015_too_many_lines_keep_the_last_ones_and_a_file() {
    let scene = scene();
    for (lines, omitted) in [(3000, 1000), (2500, 500), (5000, 3000)] {
        let result = scene.bash(&format!("seq 1 {lines}")).await;
        let (notice, shown) = result.content.split_once('\n').unwrap();
        assert!(notice.contains(&format!("{omitted} lines omitted")), "{notice}");
        let expected: Vec<_> = (omitted + 1..=lines).map(|n| n.to_string()).collect();
        assert_eq!(shown, expected.join("\n"), "the last lines, in order");
        assert_eq!(result.details["truncated"], true);
        let file = result.details["temp_file"].as_str().unwrap();
        assert!(notice.contains(file));
        assert_eq!(fs::read_to_string(file).unwrap().lines().count(), lines);
    }
    let result = scene.bash("seq 1 2000").await;
    assert!(result.content.starts_with("1\n2\n") && result.content.ends_with("\n2000"));
    assert_eq!((&result.details["truncated"], &result.details["temp_file"]), (&json!(false), &Value::Null));
}

/// F-24, F-25, H04: too many bytes.
/// BDD-BASH-016: the last of 50,000 numbers is shown, and the notice names the file that has them all (both meanings).
/// BDD-TRC-014: the notice says that there were 108,894 bytes in 20,000 lines.
#[tokio::test]
async fn bdd_bash_016_too_many_bytes_keep_the_end_and_a_file_with_everything() {
    let scene = scene();
    for (last, bytes) in [(50_000_usize, 288_894_u64), (20_000, 108_894)] {
        let result = scene.bash(&format!("seq 1 {last}")).await;
        let notice = result.content.lines().next().unwrap();
        assert!(
            notice.contains(&format!("original {bytes} bytes")) && notice.contains(&format!("of {last} lines")),
            "{notice}"
        );
        assert!(result.content.ends_with(&format!("\n{}\n{last}", last - 1)));
        assert!(result.content.len() < 52_000);
        let file = result.details["temp_file"].as_str().unwrap();
        assert!(notice.contains(file));
        let whole: String = (1..=last).map(|n| format!("{n}\n")).collect();
        assert_eq!(fs::read_to_string(file).unwrap(), whole);
        assert_eq!(fs::metadata(file).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(number(&result.details["truncation"]["total_bytes"]), bytes);
    }
}

/// BASH-ERR-005: characters that are split between reads, and at the cut.
/// BDD-BASH-017: output over the limit, in characters of three bytes, is cut between two of them, so that no character is torn.
#[tokio::test]
async fn bdd_bash_017_characters_are_never_torn() {
    let scene = scene();
    scene.says("echo 中文测试输出", "中文测试输出").await;
    scene.says(r"printf '\xe4\xbd'; sleep 0.1; printf '\xa0\n'", "你").await;
    for command in
        ["yes 你好世界 | head -c 30000", "yes 你好世界 | head -n 20000", "yes 你 | head -c 299999 | tr -d '\\n'"]
    {
        let result = scene.bash(command).await;
        let shown = result.content.trim_end_matches('\u{fffd}');
        assert!(shown.contains('你') && !shown.contains('\u{fffd}'), "{command}");
    }
}

/// F-22: a command runs in bash, in the workspace or a folder of it, within a time limit; its streams are separate if the host
/// wants that, and of a long output the end is shown.
#[tokio::test]
async fn f_22_a_command_runs_in_bash_within_its_limits() {
    let scene = scene_with(|options| options.streams = Streams::Apart);
    fs::create_dir(scene.path("sub")).unwrap();
    let only_bash = "[[ $BASH_VERSION == [0-9]* ]] && a=(x y) && echo ${a[1]} $0; echo \"${PWD##*/}\" >&2";
    let result = scene.call(json!({ "command": only_bash, "cwd": "sub" })).await;
    assert_eq!((&result.details["stdout"], &result.details["stderr"]), (&json!("y bash\n"), &json!("sub\n")));
    assert_eq!(scene.bash("pwd").await.content, scene.path("").canonicalize().unwrap().display().to_string());
    let result = scene.call(json!({ "command": "echo begun; sleep 60", "timeout": 3 })).await;
    assert_eq!(result.content, "begun\n\nCommand timed out after 3 seconds");
    assert_eq!(result.details["timed_out"], true);
    let result = scene.bash("seq 1 9000").await;
    assert!(result.content.contains("7000 lines omitted") && result.content.ends_with("\n8999\n9000"));
    scene.is_clean();
}

/// BASH-ERR-001, BASH-ERR-003, H04: bytes that are not text.
#[tokio::test]
async fn bash_err_001_binary_output_does_no_harm() {
    let scene = scene();
    let result = scene.bash("head -c 40 /bin/ls").await;
    assert!(!result.is_error() && result.content.contains("ELF"));
    let result = scene.bash("head -c 300000 /dev/urandom; echo; echo end").await;
    assert!(result.content.ends_with("\nend") && result.content.len() < 52_000);
    assert_eq!(number(&result.details["truncation"]["total_bytes"]), 300_005);
    let result = scene.bash(r"printf '\033[31mred\033[0m normal\n'").await;
    assert!(result.content.contains("red") && result.content.contains("normal"));
}

/// Of a progress bar the model gets its last state, and no colours; the file has every byte.
#[tokio::test]
async fn a_progress_bar_is_one_line_and_the_file_has_it_whole() {
    let scene = scene();
    let bar = r#"echo begun; for i in $(seq 1 9000); do printf '\r\033[K\033[32m%5d/9000 done\033[0m' $i; done; echo; echo end"#;
    let result = scene.bash(bar).await;
    let (notice, shown) = result.content.split_once('\n').unwrap();
    assert_eq!(shown, "begun\n 9000/9000 done\nend");
    let begins = "bytes of overwritten lines and escape sequences are left out. Full output: ";
    assert!(notice.contains(begins), "{notice}");
    assert_eq!(result.details["truncated"], false);
    let file = fs::read(result.details["temp_file"].as_str().unwrap()).unwrap();
    assert_eq!(file.len() as u64, number(&result.details["truncation"]["total_bytes"]));
    assert!(file.starts_with(b"begun\n\r\x1b[K\x1b[32m    1/9000 done"));
    // What precedes a flood of progress is not pushed out by it, and a short output needs no notice.
    let result = scene.bash(r"echo first; head -c 3000000 /dev/zero | tr '\0' '\r'; echo last").await;
    assert!(result.content.ends_with("]\nfirst\nlast"), "{}", result.content);
    let result = scene.bash(r"printf '\033[31mred\033[0m normal\n'").await;
    assert_eq!(result.content, "red normal");
}

/// H04, nasty case 8: a flood costs no memory and no time beyond the limit; the file stops at its cap; the end is kept.
#[tokio::test]
async fn h04_a_flood_is_bounded() {
    let scene = scene_with(|options| options.spill_bytes_max = 1024 * 1024);
    let result = scene.bash("yes | head -c 50000000; echo end").await;
    assert!(result.content.ends_with("y\nend"));
    assert_eq!(number(&result.details["truncation"]["total_bytes"]), 50_000_004);
    assert_eq!(fs::metadata(result.details["temp_file"].as_str().unwrap()).unwrap().len(), 1024 * 1024);
    assert!(result.content.contains("the file is full"));
    let result = scene.call(json!({ "command": "cat /dev/zero", "timeout": 1 })).await;
    assert_eq!(result.details["timed_out"], true);
    assert!(number(&result.details["duration_ms"]) < 6_000);
    // A flood from a child that outlives the command.
    let result = scene.bash("yes & echo done").await;
    assert_eq!(result.details["exit_code"], 0);
    scene.is_clean();
}

/// Nasty case 8: where the file cannot be written, the end is still there.
#[tokio::test]
async fn an_output_that_cannot_be_kept_is_still_shown() {
    let scene = scene();
    fs::write(scene.folder.path().join("spill"), "in the way").unwrap();
    let result = scene.bash("seq 1 50000").await;
    assert!(result.content.ends_with("\n50000") && result.content.contains("could not be kept"));
    assert!(result.details["temp_file_error"].is_string());
}

/// pi #44: what runs long shows how far it is.
#[tokio::test]
async fn a_running_command_shows_the_end_of_its_output() {
    let scene = scene();
    let mut context = scene.context();
    let reports = Arc::new(Mutex::new(Vec::new()));
    let sink = reports.clone();
    context.progress = Progress::new(move |_, metadata| sink.lock().unwrap().push(metadata));
    scene
        .bash
        .run(
            json!({ "command": "for i in 1 2 3 4; do printf 'at %s\\r\\033[1m' $i; echo line $i; sleep 0.12; done" }),
            &context,
        )
        .await;
    let reports = reports.lock().unwrap();
    assert!(reports.len() >= 2, "{reports:?}");
    let last = reports.last().unwrap()["tail"].as_str().unwrap();
    assert!(last.contains("line 1\nline 2"), "{last}");
    assert!(!last.contains(['\r', '\x1b']), "{last}");
}
