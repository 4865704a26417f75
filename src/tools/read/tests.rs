#![allow(clippy::unwrap_used, clippy::panic)]

use std::io::{Seek as _, SeekFrom, Write as _};

use serde_json::{Value, json};

use crate::tools::lab::{Lab, as_nobody, lines, png};

fn lab(content: impl AsRef<[u8]>) -> Lab {
    let lab = Lab::new();
    lab.put("f.txt", content);
    lab
}

fn page(lab: &Lab, offset: usize, limit: usize) -> String {
    lab.ok("read", json!({"path": "f.txt", "offset": offset, "limit": limit}))
}

/// F-01, BDD-READ-001
#[test]
fn bdd_read_001_a_text_file() {
    let lab = lab("line1\nline2\nline3\n");
    let result = lab.call("read", json!({"path": "f.txt"}));
    assert_eq!(result.content, "     1\tline1\n     2\tline2\n     3\tline3");
    assert_eq!(result.details, json!({"path": "f.txt", "truncated": false, "truncated_details": null}));
}

/// F-03, BDD-READ-002: an error for the model, which names the file.
#[test]
fn bdd_read_002_a_missing_file() {
    assert_eq!(Lab::new().error("read", json!({"path": "x.txt"})), "x.txt: No such file or directory (ENOENT)");
}

/// F-04, BDD-READ-003: the result says that the file is empty.
#[test]
fn bdd_read_003_an_empty_file() {
    let result = lab("").call("read", json!({"path": "f.txt"}));
    assert_eq!((result.content.as_str(), &result.details["truncated"]), ("[The file is empty.]", &json!(false)));
}

#[test]
fn bdd_read_004_an_offset() {
    let text = page(&lab(lines(100, 20)), 51, 2000);
    assert!(text.starts_with("    51\tline 51") && text.lines().count() == 50 && !text.contains("line 50"));
}

#[test]
fn bdd_read_005_a_limit() {
    let lab = lab(lines(100, 20));
    let result = lab.call("read", json!({"path": "f.txt", "limit": 10}));
    assert!(result.content.ends_with("\n[Showing lines 1-10 of 100; 90 more lines. Use offset=11 to continue.]"));
    assert_eq!(result.details["truncated"], true);
    assert_eq!(page(&lab, 1, 0), "[Showing no lines of 100; 100 more lines. Use offset=1 to continue.]");
}

/// F-01, BDD-READ-006
#[test]
fn bdd_read_006_offset_and_limit() {
    let text = page(&lab(lines(100, 20)), 41, 20);
    assert!(text.contains("line 41") && text.contains("line 60") && !text.contains("line 61"));
}

#[test]
fn bdd_read_007_offset_0_and_1_are_the_first_line() {
    let lab = lab("aaa\nbbb\nccc\n");
    assert!(page(&lab, 1, 9).starts_with("     1\taaa"));
    assert_eq!(page(&lab, 0, 9), page(&lab, 1, 9));
}

/// F-04, FT-5, BDD-READ-008: an error that names the number of lines.
#[test]
fn bdd_read_008_an_offset_past_the_end() {
    let lab = lab("a\nb\nc\n");
    for offset in [4, 100, usize::MAX] {
        let error = lab.error("read", json!({"path": "f.txt", "offset": offset}));
        assert_eq!(error, format!("Offset {offset} is beyond end of file (3 lines total)"));
    }
    assert_eq!(page(&lab, 3, 9), "     3\tc");
}

#[test]
fn bdd_read_009_014_more_than_2000_lines() {
    let lab = lab(lines(2500, 10));
    let result = lab.call("read", json!({"path": "f.txt", "limit": 9999}));
    let details = &result.details["truncated_details"];
    assert_eq!((&details["truncated_by"], &details["total_lines"]), (&json!("lines"), &json!(2500)));
    assert_eq!(details["output_lines"], 2000);
    assert!(result.content.ends_with("[Showing lines 1-2000 of 2500; 500 more lines. Use offset=2001 to continue.]"));
    assert!(page(&lab, 2001, 2000).starts_with("  2001\tline 2001"));
    let exact = self::lab(lines(2000, 10)).call("read", json!({"path": "f.txt"}));
    assert_eq!(exact.details["truncated"], false, "2000 lines and a final line feed are 2000 lines");
}

/// F-05, BDD-READ-010, BDD-TRC-013: the last line says with which offset to continue, and that offset shows the next line.
#[test]
fn bdd_read_010_bdd_trc_013_more_than_50_kb() {
    let lab = lab(lines(500, 200));
    let result = lab.call("read", json!({"path": "f.txt"}));
    let details = &result.details["truncated_details"];
    assert_eq!((&details["truncated_by"], &details["output_lines"]), (&json!("bytes"), &json!(246)));
    assert!(
        result.content.ends_with("[Showing lines 1-246 of 500 (50.0KB limit). Use offset=247 to continue reading]")
    );
    assert!(page(&lab, 247, 1).starts_with("   247\tline 247x"));
}

/// F-02, BDD-READ-011: cut at 2,000 characters and marked; what is shorter is whole.
#[test]
fn bdd_read_011_a_long_line() {
    let result = lab("x".repeat(60_000)).call("read", json!({"path": "f.txt"}));
    let how = "sed -n '1p' f.txt | tail -c +2001 | head -c 20000";
    let hint = format!("\n[1 lines cut at 2000 characters. To go on in line 1 use bash: {how}]");
    assert!(result.content.ends_with(&format!("xxx... [58000 chars truncated]{hint}")), "{}", result.content);
    assert_eq!(result.details["truncated"], false);
    let wide = lab("好".repeat(1_500)).ok("read", json!({"path": "f.txt"}));
    assert!(!wide.contains("truncated"), "1,500 characters are within the limit, whatever their bytes");
}

/// BDD-READ-012: the bytes of a PNG under the name of a text are shown as a PNG.
/// BDD-READ-023: the bytes of a PNG under the name of a JPEG are shown as a PNG, with these bytes.
#[test]
fn bdd_read_012_023_an_image_by_its_bytes() {
    for name in ["image.txt", "photo.jpg"] {
        let lab = Lab::new();
        lab.put(name, png());
        let result = lab.call("read", json!({ "path": name }));
        assert_eq!(result.content, "[Image: image/png, 108 bytes]");
        assert_eq!(result.details["image"], json!({"mime_type": "image/png", "bytes": 108}));
        assert_eq!(result.attachments[0].mime, "image/png");
        assert!(result.attachments[0].base64().unwrap().starts_with("iVBORw0KGgo"));
    }
    let lab = lab([png(), vec![0; 5_000_000]].concat());
    assert!(
        lab.error("read", json!({"path": "f.txt"})).contains("too large to be shown: 5000108 bytes, at most 4718592")
    );
}

#[test]
fn bdd_read_013_text_under_the_name_of_an_image() {
    let lab = Lab::new();
    lab.put("fake.png", "plain text");
    let result = lab.call("read", json!({"path": "fake.png"}));
    assert_eq!((result.content.as_str(), result.attachments.len()), ("     1\tplain text", 0));
}

#[test]
fn bdd_read_015_the_last_line_alone() {
    let text = page(&lab(lines(100, 20)), 100, 2000);
    assert!(text.starts_with("   100\tline 100") && text.lines().count() == 1);
}

#[test]
fn bdd_read_016_through_a_symlink() {
    let lab = Lab::new();
    lab.put("real.txt", "target");
    lab.link(lab.path("real.txt"), "link.txt");
    assert_eq!(lab.ok("read", json!({"path": "link.txt"})), "     1\ttarget");
}

/// BDD-READ-017: as a user whom modes stop.
#[test]
fn bdd_read_017_no_permission() {
    let lab = lab("x");
    std::fs::set_permissions(lab.path("f.txt"), std::os::unix::fs::PermissionsExt::from_mode(0o000)).unwrap();
    let error = as_nobody(&lab, || lab.error("read", json!({"path": "f.txt"})));
    assert!(error.contains("EACCES"), "{error}");
}

#[test]
fn bdd_read_018_names_with_spaces_and_cjk() {
    let lab = Lab::new();
    for name in ["截图 2024-01-01 下午3.42.10.png", "Screenshot 3.42.10\u{202f}PM.png", "it\u{2019}s.txt"] {
        lab.put(name, "here");
        let typed = name.replace('\u{202f}', " ").replace('\u{2019}', "'");
        assert_eq!(lab.ok("read", json!({ "path": typed })), "     1\there");
    }
}

#[test]
fn bdd_read_020_a_directory() {
    let lab = Lab::new();
    lab.put("d/x", "");
    assert!(lab.error("read", json!({"path": "d"})).contains("Is a directory"));
}

/// BDD-READ-021: the mark at the beginning is not part of the first line that is shown.
#[test]
fn bdd_read_021_a_bom_is_not_shown() {
    let shown = lab("\u{feff}BOM content").ok("read", json!({"path": "f.txt"}));
    assert_eq!(
        shown,
        "     1\tBOM content\n[The file begins with a byte order mark (BOM), which edit and write keep.]"
    );
}

/// F-04, BDD-READ-022: a file is binary where its first 8 KiB have a zero byte that no text has, and only there.
#[test]
fn bdd_read_022_a_binary_file() {
    let error = lab([&[0][..], &[b'x'; 99]].concat()).error("read", json!({"path": "f.txt"}));
    assert_eq!(error, "f.txt: Binary file detected, cannot display as text (100 bytes)");
    let zero_at = |place: usize| {
        let lab = lab([vec![b'\n'; place - 1], vec![1, 0, b'b', b'\n']].concat());
        lab.call("read", json!({"path": "f.txt", "offset": place})).is_error()
    };
    assert!(zero_at(8_191) && !zero_at(8_192));
}

/// F-04: a path leads out of the workspace neither as text nor over a link.
#[test]
fn f_04_a_read_stays_in_the_workspace() {
    let lab = lab("inside");
    std::fs::write(lab.outside().join("secret"), "secret").unwrap();
    lab.link("../secret", "link");
    for path in ["../secret", "d/../../secret", "link"] {
        let error = lab.error("read", json!({ "path": path }));
        assert!(error.contains("traversal blocked") && !error.contains("secret\n"), "{path}: {error}");
    }
    assert_eq!(lab.ok("read", json!({"path": "../ws/f.txt"})), "     1\tinside", "back in, as text");
}

/// FILE-ERR-001: the name in both Unicode forms
#[test]
fn bdd_file_err_001_a_name_with_an_accent() {
    let lab = Lab::new();
    lab.put("café.txt", "noir");
    assert_eq!(lab.ok("read", json!({"path": "café.txt"})), "     1\tnoir");
    assert_eq!(lab.ok("read", json!({"path": "cafe\u{301}.txt"})), "     1\tnoir");
    lab.put("the\u{301}.txt", "vert");
    assert_eq!(lab.ok("read", json!({"path": "thé.txt"})), "     1\tvert");
}

/// Nasty case 6: what comes out is valid text and says what was wrong.
#[test]
fn nasty_06_other_encodings_are_named() {
    let utf16: Vec<u8> = "\u{feff}größe\nzwei\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
    let text = lab(utf16).ok("read", json!({"path": "f.txt"}));
    assert_eq!(text, "     1\tgröße\n     2\tzwei\n[The file is encoded in UTF-16LE.]");
    let latin = lab(b"caf\xe9\n").call("read", json!({"path": "f.txt"}));
    let guess = "[The file is not UTF-8; it is shown as windows-1252, which is a guess. An edit keeps its encoding.]";
    assert_eq!(latin.content, format!("     1\tcafé\n{guess}"));
    assert_eq!(latin.details["encoding"], "windows-1252");
    // Damage in what is UTF-8 otherwise is shown as damage.
    let text = lab(b"caf\xc3\xa9 \xe9\n").ok("read", json!({"path": "f.txt"}));
    assert!(text.starts_with("     1\tcafé \u{fffd}\n[Not valid UTF-8 in 1 places"), "{text}");
    let late = [vec![b'\n'; 8_192], vec![0, b'b']].concat();
    assert!(page(&lab(late), 8_193, 9).contains("1 NUL bytes"));
}

#[test]
fn a_carriage_return_alone_ends_no_line() {
    let shown = lab("a\rb\r\nc").ok("read", json!({"path": "f.txt"}));
    assert_eq!(shown, "     1\ta\rb\n     2\tc\n[Lines end in CRLF, which edit and write keep.]");
    let shown = lab("a\r\nb\nc").ok("read", json!({"path": "f.txt"}));
    assert!(shown.ends_with("\n[1 of 2 line ends are CRLF, the others LF; an edit keeps them.]"), "{shown}");
}

/// F06 and nasty case 5: a file of 10 GB is read as far as it must be, and not kept.
#[test]
fn nasty_05_a_huge_sparse_file_is_read_in_part() {
    let lab = lab(lines(2_000, 10));
    let mut file = std::fs::OpenOptions::new().append(true).open(lab.path("f.txt")).unwrap();
    file.set_len(10_000_000_000).unwrap();
    file.seek(SeekFrom::End(0)).unwrap();
    file.write_all(b"\nend\n").unwrap();
    let result = lab.call("read", json!({"path": "f.txt", "limit": 2}));
    assert_eq!(result.details["truncated_details"]["total_is_exact"], false);
    assert!(result.content.contains("\n[Showing lines 1-2 of more than 20"), "{}", result.content);
}

/// Nasty case 15: what an earlier call kept in the spill folder can be read, and not written.
#[test]
fn nasty_15_a_spilled_output_can_be_read() {
    let lab = lab("");
    let spill = lab.outside().join("spill");
    std::fs::create_dir(&spill).unwrap();
    std::fs::write(spill.join("out.log"), "kept\n").unwrap();
    let path = spill.join("out.log").display().to_string();
    assert_eq!(lab.ok("read", json!({ "path": path })), "     1\tkept");
    assert!(lab.ok("grep", json!({"path": path, "pattern": "kept"})).ends_with("out.log:1: kept"));
    assert!(lab.error("write", json!({"path": path, "content": "x"})).contains("Read-only"));
}

/// A call that is stopped lets go of a large file.
#[test]
fn a_read_stops_when_the_call_must() {
    let lab = Lab::new();
    // Enough text that it is not taken for binary, and then no end within reach.
    let text = lines(1_000, 20);
    lab.put("g.txt", &text);
    std::fs::OpenOptions::new().append(true).open(lab.path("g.txt")).unwrap().set_len(1_000_000_000_000).unwrap();
    let context = lab.context();
    let cancel = context.cancel.clone();
    let result = std::thread::scope(|scope| {
        let call = scope.spawn(|| lab.call_in("read", json!({"path": "g.txt", "offset": 5_000}), &context));
        std::thread::sleep(std::time::Duration::from_millis(30));
        cancel.cancel();
        call.join().unwrap()
    });
    assert_eq!(result.content, "Operation aborted");
}

#[test]
fn aliases_and_numbers_as_strings_are_taken() {
    let lab = lab(lines(10, 10));
    let arguments: Value = json!({"file_path": "f.txt", "offset": "3", "limit": "1"});
    let result = lab.call("read", arguments);
    assert!(result.content.starts_with("     3\tline 3"));
    // Repairs are shown to people, not to the model, which got what it meant.
    let repaired = json!([
        {"field": "limit", "given": "1", "taken_as": "number"},
        {"field": "offset", "given": "3", "taken_as": "number"},
    ]);
    assert_eq!(result.details["repaired"], repaired);
}

/// A read makes and leaves nothing: no file beside the tape or in the workspace, and no thread that the next read does not use.
#[test]
fn reads_leave_nothing_behind_and_share_a_thread() {
    let lab = lab(lines(20, 20));
    let mut context = lab.context();
    let kept = lab.outside().join("kept");
    context.changes = crate::tool::ChangeLog::new(Some(std::sync::Arc::new(kept.clone())), crate::words::ids::Seq(1));
    let before = crate::tools::lab::entries(lab.outside());
    let read = lab.tools.find("read").unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    for _ in 0..20 {
        let result = runtime.block_on(read.run(json!({"path": "f.txt"}), &context));
        assert!(!result.is_error(), "{}", result.content);
        // A thread is free a moment after its call was answered.
        while context.threads.free() == 0 {
            std::thread::yield_now();
        }
    }
    assert!(!kept.exists());
    assert_eq!(crate::tools::lab::entries(lab.outside()), before);
    assert_eq!(context.threads.started(), 1);
}
