#![allow(clippy::unwrap_used, clippy::panic)]

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn lines(count: usize, length: usize) -> String {
    let line = |n: usize| format!("{:x<length$}", format!("line {n}"));
    (1..=count).map(line).collect::<Vec<_>>().join("\n")
}

/// BDD-TRC-001
#[test]
fn bdd_trc_001_head_of_nothing_is_nothing() {
    let cut = head("", CutLimits::bytes(1000));
    assert!(!cut.truncated);
    assert_eq!((cut.content.as_str(), cut.total_lines, cut.output_lines), ("", 0, 0));
}

/// BDD-TRC-002
#[test]
fn bdd_trc_002_head_leaves_a_small_text_alone() {
    let cut = head("hello\nworld", CutLimits::new(100, 1000));
    assert_eq!(cut, Truncation::whole("hello\nworld", CutLimits::new(100, 1000)));
    assert_eq!(cut.truncated_by, None);
}

/// G-06, BDD-TRC-003
#[test]
fn bdd_trc_003_head_keeps_whole_lines_within_the_bytes() {
    let cut = head(&lines(10, 100), CutLimits::bytes(200));
    assert_eq!(cut.truncated_by, Some(TruncatedBy::Bytes));
    assert_eq!((cut.total_bytes, cut.output_lines, cut.output_bytes), (1009, 1, 100));
}

/// G-06, BDD-TRC-004
#[test]
fn bdd_trc_004_head_keeps_the_first_lines() {
    let cut = head(&lines(100, 10), CutLimits::new(5, 100_000));
    assert_eq!(cut.truncated_by, Some(TruncatedBy::Lines));
    assert_eq!((cut.total_lines, cut.output_lines, cut.output_bytes), (100, 5, 54));
}

/// BDD-TRC-005
#[test]
fn bdd_trc_005_head_keeps_nothing_of_a_first_line_that_is_too_long() {
    let cut = head(&"x".repeat(500), CutLimits::bytes(100));
    assert_eq!(cut.truncated_by, Some(TruncatedBy::Bytes));
    assert!(cut.first_line_exceeds_limit);
    assert_eq!((cut.content.as_str(), cut.output_lines, cut.total_lines), ("", 0, 1));
}

/// BDD-TRC-006
#[test]
fn bdd_trc_006_tail_takes_a_text_that_is_exactly_at_its_limits() {
    assert!(!tail("aaa\nbbb\nccc", CutLimits::new(3, 11)).truncated);
    assert!(tail("aaa\nbbb\nccc", CutLimits::new(3, 10)).truncated);
    assert!(tail("aaa\nbbb\nccc", CutLimits::new(2, 11)).truncated);
}

/// BDD-TRC-007
#[test]
fn bdd_trc_007_tail_leaves_a_small_text_alone() {
    assert!(!tail("hello\nworld", CutLimits::default()).truncated);
}

/// BDD-TRC-008, FT-2
#[test]
fn bdd_trc_008_tail_keeps_the_boundary_line_in_part() {
    let text = lines(10, 100);
    let cut = tail(&text, CutLimits::bytes(200));
    assert_eq!(cut.truncated_by, Some(TruncatedBy::Bytes));
    assert_eq!((cut.output_lines, cut.output_bytes, cut.last_line_partial), (2, 200, true));
    assert!(text.ends_with(&cut.content));
}

/// BDD-TRC-009: and in the order of the original, which its forerunner got wrong.
#[test]
fn bdd_trc_009_tail_keeps_the_last_lines_in_order() {
    let cut = tail(&lines(100, 10), CutLimits::new(5, 100_000));
    assert_eq!(cut.truncated_by, Some(TruncatedBy::Lines));
    assert_eq!((cut.output_lines, cut.last_line_partial), (5, false));
    assert!(cut.content.starts_with("line 96") && cut.content.ends_with("line 100xx"));
}

/// C-01, BDD-TRC-010, FT-2, G-07: the end is kept, the line at the border in part, and no character is torn.
#[test]
fn bdd_trc_010_tail_cuts_between_characters() {
    let text = "你好世界测试\n第二行中文\n第三行数据\n第四行内容\n第五行结束";
    let cut = tail(text, CutLimits::bytes(40));
    assert_eq!(cut.content, "数据\n第四行内容\n第五行结束");
    assert_eq!((cut.total_bytes, cut.output_bytes, cut.output_lines), (82, 38, 3));
    assert!(cut.last_line_partial);
}

/// BDD-TRC-011
#[test]
fn bdd_trc_011_a_short_line_is_left_alone() {
    assert_eq!(line("short line", 500).content, "short line");
    assert!(!line(&"你".repeat(500), 500).truncated, "characters count, not bytes");
}

/// BDD-TRC-012, FT-18, G-08
#[test]
fn bdd_trc_012_a_long_line_is_cut_and_marked() {
    let cut = line(&"x".repeat(1000), 50);
    assert_eq!(cut.content, format!("{}... [truncated]", "x".repeat(50)));
    assert_eq!(cut.truncated_by, Some(TruncatedBy::Chars));
    assert_eq!(cut.total_bytes, 1000);
}

/// G-05: what was done to a text is a record of eleven fields, and each of them is true for each way to cut.
#[test]
fn what_was_done_to_a_text_is_told_in_eleven_fields() {
    let text = "one\ntwo\nthree\nfour";
    let told = |cut: Truncation| serde_json::to_value(cut).unwrap();
    let expected = |content: &str, by: serde_json::Value, output_lines: usize, limits: (usize, usize)| {
        json!({
            "content": content, "truncated": !by.is_null(), "truncated_by": by, "total_lines": 4, "total_bytes": 18,
            "output_lines": output_lines, "output_bytes": content.len(), "last_line_partial": false,
            "first_line_exceeds_limit": false, "max_lines": limits.0, "max_bytes": limits.1,
        })
    };
    assert_eq!(told(head(text, CutLimits::new(9, 99))), expected(text, json!(null), 4, (9, 99)));
    assert_eq!(told(head(text, CutLimits::new(2, 99))), expected("one\ntwo", json!("lines"), 2, (2, 99)));
    assert_eq!(told(head(text, CutLimits::new(9, 8))), expected("one\ntwo", json!("bytes"), 2, (9, 8)));
    let chars = CutLimits { max_chars: 8, ..CutLimits::new(9, 99) };
    assert_eq!(told(head(text, chars)), expected("one\ntwo", json!("chars"), 2, (9, 99)));
    let mut nothing = expected("", json!("bytes"), 0, (9, 2));
    nothing["first_line_exceeds_limit"] = json!(true);
    assert_eq!(told(head(text, CutLimits::new(9, 2))), nothing);
    assert_eq!(told(tail(text, CutLimits::new(2, 99))), expected("three\nfour", json!("lines"), 2, (2, 99)));
    let mut partial = expected("ree\nfour", json!("bytes"), 2, (9, 8));
    partial["last_line_partial"] = json!(true);
    assert_eq!(told(tail(text, CutLimits::new(9, 8))), partial);
}

/// TRUNC-001: as `truncate_file` did with ten lines and a limit of five.
#[test]
fn trunc_001_exactly_the_first_lines_are_kept() {
    let cut = head(&lines(10, 6), CutLimits::new(5, BYTES_MAX));
    assert_eq!(cut.content, "line 1\nline 2\nline 3\nline 4\nline 5");
    assert_eq!((cut.output_lines, cut.total_lines, cut.truncated), (5, 10, true));
}

/// TRUNC-002: what is within the limits is left alone, also when it is cut a second time.
#[test]
fn trunc_002_what_fits_is_not_cut_again() {
    let limits = CutLimits::new(100, BYTES_MAX);
    assert_eq!(head("one\ntwo\nthree", limits).content, "one\ntwo\nthree");
    let once = head(&lines(500, 8), limits);
    assert_eq!(head(&once.content, limits), Truncation::whole(&once.content, limits));
    let once = tail(&lines(500, 8), limits);
    assert_eq!(tail(&once.content, limits), Truncation::whole(&once.content, limits));
}

/// C-01, FT-20: two thousand lines with a final line feed are two thousand lines.
#[test]
fn a_final_line_feed_starts_no_line() {
    let text = "x\n".repeat(2000);
    assert_eq!(count_lines(&text), 2000);
    assert!(!head(&text, CutLimits::default()).truncated);
    assert!(!tail(&text, CutLimits::default()).truncated);
    let text = "x\n".repeat(2001);
    assert_eq!(head(&text, CutLimits::default()).output_lines, 2000);
    assert_eq!(tail(&text, CutLimits::default()).content, "x\n".repeat(2000));
    assert_eq!((count_lines("\n"), count_lines("a\n\n"), count_lines("a")), (1, 2, 1));
}

/// C-01: 51,200 bytes fit.
#[test]
fn exactly_the_usual_number_of_bytes_is_left_alone() {
    assert_eq!(BYTES_MAX, 51_200);
    let text = "x".repeat(BYTES_MAX);
    assert!(!head(&text, CutLimits::default()).truncated);
    assert!(!tail(&text, CutLimits::default()).truncated);
    assert!(tail(&format!("{text}x"), CutLimits::default()).truncated);
}

/// G-01, C-01
#[test]
fn a_limit_of_characters_counts_characters() {
    let text = "你\n".repeat(20_000);
    let cut = head(&text, CutLimits::chars(30_000));
    assert_eq!(cut.truncated_by, Some(TruncatedBy::Chars));
    assert_eq!(cut.output_lines, 15_000);
    assert_eq!(tail(&text, CutLimits::chars(30_000)).content.chars().count(), 30_000);
}

#[test]
fn totals_of_a_rolling_buffer_are_those_of_the_whole_output() {
    let cut = tail("c\nd\n", CutLimits::default()).with_totals(4, 8);
    assert_eq!((cut.truncated, cut.truncated_by), (true, Some(TruncatedBy::Bytes)));
    assert_eq!((cut.total_lines, cut.total_bytes, cut.output_lines), (4, 8, 2));
}

#[test]
fn both_ends_are_kept_around_one_marker() {
    let cut = head_tail(&lines(1000, 8), BothEnds::default());
    assert_eq!(cut.truncated_by, Some(TruncatedBy::Lines));
    assert!(cut.content.contains("900 lines"), "{}", cut.content);
    assert_eq!(cut.output_lines, 101);

    let cut = head_tail(&lines(20, 8), BothEnds { head_lines: 3, tail_lines: 3, max_bytes: 30_000 });
    assert!(cut.content.contains("14 lines"));

    for text in [lines(100, 8), lines(100, 8) + "\n"] {
        assert!(!head_tail(&text, BothEnds::default()).truncated);
    }
    let cut = head_tail(&"x".repeat(50_000), BothEnds::default());
    assert_eq!(cut.truncated_by, Some(TruncatedBy::Bytes));
    assert!(cut.output_bytes <= 30_000 && cut.output_bytes > 29_900);

    let cut = head_tail(&lines(200, 500), BothEnds::default());
    assert_eq!(cut.truncated_by, Some(TruncatedBy::Both));
    assert!(cut.output_bytes <= 30_000);
}

#[test]
fn sizes_are_written_for_people() {
    let shown = [512, 1024, 51_200, 1024 * 1024 * 9 / 2].map(format_bytes);
    assert_eq!(shown, ["512B", "1.0KB", "50.0KB", "4.5MB"]);
}

/// Texts with short and long lines, wide characters, and empty lines at all places.
fn texts() -> impl Strategy<Value = String> {
    proptest::collection::vec(prop_oneof!["[a-c\n]{0,12}", "[é你🎉\n]{0,6}", "\n{1,3}"], 0..12).prop_map(|v| v.concat())
}

proptest! {
    #[test]
    fn head_is_a_prefix_within_its_limits(text in texts(), max_lines in 0usize..12, max_bytes in 0usize..60, max_chars in 0usize..60) {
        let limits = CutLimits { max_lines, max_bytes, max_chars };
        let cut = head(&text, limits);
        prop_assert!(text.starts_with(&cut.content));
        prop_assert_eq!(cut.truncated, cut.content != text);
        prop_assert_eq!(cut.truncated, cut.truncated_by.is_some());
        prop_assert!(cut.content.len() <= max_bytes && cut.content.chars().count() <= max_chars);
        prop_assert!(cut.output_lines <= max_lines.min(cut.total_lines));
        prop_assert_eq!((cut.total_lines, cut.total_bytes), (text.lines().count(), text.len()));
        // Whole lines: the original continues with a line feed, or nothing is left.
        prop_assert!(cut.content.is_empty() || matches!(text.as_bytes().get(cut.content.len()), None | Some(b'\n')));
    }

    #[test]
    fn tail_is_a_suffix_within_its_limits(text in texts(), max_lines in 0usize..12, max_bytes in 0usize..60, max_chars in 0usize..60) {
        let limits = CutLimits { max_lines, max_bytes, max_chars };
        let cut = tail(&text, limits);
        prop_assert!(text.ends_with(&cut.content));
        prop_assert_eq!(cut.truncated, cut.content != text);
        prop_assert_eq!(cut.truncated, cut.truncated_by.is_some());
        prop_assert!(cut.content.len() <= max_bytes && cut.content.chars().count() <= max_chars);
        prop_assert!(cut.output_lines <= max_lines);
        prop_assert_eq!(cut.output_lines, count_lines(&cut.content));
        prop_assert_eq!((cut.total_lines, cut.total_bytes), (text.lines().count(), text.len()));
        let start = text.len() - cut.content.len();
        prop_assert_eq!(cut.last_line_partial, !cut.content.is_empty() && !starts_line(&text, start));
    }

    /// With the totals that a rolling buffer counted, however little of the text it still has.
    #[test]
    fn totals_are_those_of_the_whole(text in texts(), kept in 0usize..80, max_lines in 0usize..12, max_bytes in 0usize..60) {
        let start = text.ceil_char_boundary(text.len().saturating_sub(kept));
        let cut = tail(&text[start..], CutLimits::new(max_lines, max_bytes)).with_totals(count_lines(&text), text.len());
        prop_assert!(text.ends_with(&cut.content) && cut.content.len() <= max_bytes);
        prop_assert_eq!((cut.total_lines, cut.total_bytes), (text.lines().count(), text.len()));
        prop_assert_eq!(cut.truncated, cut.content.len() < text.len());
        prop_assert_eq!(cut.output_bytes, cut.content.len());
    }

    #[test]
    fn a_line_keeps_its_beginning(text in "[a-cé你🎉 ]{0,40}", max_chars in 0usize..40) {
        let cut = line(&text, max_chars);
        let kept = cut.content.strip_suffix(LINE_MARKER).filter(|_| cut.truncated).unwrap_or(&cut.content);
        prop_assert!(text.starts_with(kept));
        prop_assert_eq!(kept.chars().count(), text.chars().count().min(max_chars));
        prop_assert_eq!(cut.truncated, kept.len() < text.len());
        prop_assert_eq!(cut.total_bytes, text.len());
    }

    #[test]
    fn both_ends_are_within_their_bytes(text in texts(), head_lines in 0usize..5, tail_lines in 0usize..5, max_bytes in 0usize..80) {
        let cut = head_tail(&text, BothEnds { head_lines, tail_lines, max_bytes });
        prop_assert!(cut.content.len() <= max_bytes);
        prop_assert!(cut.truncated || cut.content == text);
        prop_assert_eq!((cut.total_lines, cut.total_bytes), (text.lines().count(), text.len()));
        // A beginning and an end of the text surround the marker. (Where both limits cut, the second may cut the marker of the
        // first.)
        if let (false, Some(at)) = (cut.truncated_by == Some(TruncatedBy::Both), cut.content.find("[... ")) {
            let (head, rest) = cut.content.split_at(at);
            prop_assert!(text.starts_with(head.trim_end_matches('\n')));
            prop_assert!(rest.split_once("...]\n").is_none_or(|(_, tail)| text.ends_with(tail)));
        }
    }
}
