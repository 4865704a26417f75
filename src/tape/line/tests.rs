#![allow(clippy::unwrap_used, clippy::panic)]
use serde_json::value::RawValue;

use super::*;
use crate::words::ids::MessageId;

fn session() -> SessionId {
    "s".parse().unwrap()
}

fn entry(seq: u64, data: &str) -> TapeEntry {
    TapeEntry {
        seq: Seq(seq),
        time: Millis(1_732_000_000_000 + seq),
        cause: None,
        turn: None,
        step: None,
        ticket: None,
        input: None,
        kind: "note".into(),
        data: RawValue::from_string(data.into()).unwrap(),
    }
}

fn chain() -> Chain {
    Chain::start(&session(), "001_session-start")
}

/// Several appends, each of several entries.
fn tape(appends: &[usize]) -> (Vec<u8>, Vec<TapeEntry>) {
    let (mut chain, mut bytes, mut entries) = (chain(), Vec::new(), Vec::new());
    for append in appends {
        let next: Vec<TapeEntry> = (0..*append)
            .map(|n| {
                let seq = (entries.len() + n) as u64 + 1;
                entry(seq, &format!(r#"{{"text":"错误 😀 \u0000 \"{seq}\"","n":[1,2.50,null]}}"#))
            })
            .collect();
        bytes.extend(encode_lines(&mut chain, &next).unwrap());
        entries.extend(next);
    }
    (bytes, entries)
}

#[test]
fn what_is_written_is_what_is_read() {
    let full = TapeEntry {
        cause: Some(Cause::Message(MessageId::from("m\"1"))),
        turn: Some(Seq(1)),
        step: Some(2),
        ticket: Some(Seq(1)),
        kind: "odd \"kind\"\n".into(),
        ..entry(1, r#"{"args":"{\"path\": \"a\\nb\"}"}"#)
    };
    let caused = TapeEntry { cause: Some(Cause::Entry(Seq(1))), ..entry(2, "null") };
    let entries = vec![full, caused, entry(3, "[]")];
    let bytes = encode_lines(&mut chain(), &entries).unwrap();
    let read = decode_lines(&chain(), &bytes).unwrap();
    assert_eq!(read.rest, Rest::Nothing);
    assert_eq!(read.entries, entries);
    assert_eq!(read.good_bytes, bytes.len());
    assert!(
        bytes
            .split(|b| *b == b'\n')
            .filter(|l| !l.is_empty())
            .all(|l| serde_json::from_slice::<serde_json::Value>(l).is_ok())
    );
}

/// The format is a promise: this line must be read, and written so, by every later version.
#[test]
fn a_line_looks_like_this() {
    let mut chain = chain();
    let bytes = encode_lines(&mut chain, &[entry(1, r#"{"a":1}"#), entry(2, "{}")]).unwrap();
    insta::assert_snapshot!(String::from_utf8(bytes).unwrap());
    let next = encode_lines(&mut chain.in_file("002_later"), &[entry(3, "{}")]).unwrap();
    insta::assert_snapshot!(String::from_utf8(next).unwrap());
}

#[test]
fn line_breaks_in_data_become_spaces() {
    let pretty = "{\n  \"a\": \"x\\ny\"\r\n}";
    let bytes = encode_lines(&mut chain(), &[entry(1, pretty)]).unwrap();
    let read = decode_lines(&chain(), &bytes).unwrap();
    assert_eq!(read.entries[0].data.get(), "{   \"a\": \"x\\ny\"  }");
}

#[test]
fn entries_that_do_not_follow_are_refused_and_nothing_is_taken() {
    let mut chain = chain();
    for wrong in [vec![entry(2, "1")], vec![entry(1, "1"), entry(3, "1")], vec![entry(0, "1")]] {
        assert!(matches!(encode_lines(&mut chain, &wrong), Err(TapeError::Gap { .. })));
        assert_eq!(chain.seq, Seq::ZERO);
    }
    let huge = format!("\"{}\"", "x".repeat(LINE_BYTES_MAX));
    assert!(matches!(encode_lines(&mut chain, &[entry(1, &huge)]), Err(TapeError::TooLarge { .. })));
}

/// D05, promise 6: at any byte at which a crash stops the writer, the tape is the whole appends before it.
#[test]
fn a_tape_cut_at_any_byte_is_the_appends_that_are_whole() {
    let appends = [1, 3, 2, 1];
    let (bytes, entries) = tape(&appends);
    let mut ends = vec![(0, 0)];
    for n in 1..=appends.len() {
        let (before, said) = tape(&appends[..n]);
        ends.push((before.len(), said.len()));
    }
    for cut in 0..=bytes.len() {
        let read = decode_lines(&chain(), &bytes[..cut]).unwrap();
        let (end, count) = *ends.iter().rfind(|(end, _)| *end <= cut).unwrap();
        assert_eq!(read.entries, entries[..count], "cut at {cut}");
        assert_eq!(read.good_bytes, end, "cut at {cut}");
        assert_eq!(read.rest == Rest::Nothing, end == cut, "cut at {cut}: {:?}", read.rest);
        assert!(!matches!(read.rest, Rest::Bad { .. }), "cut at {cut}");
    }
}

/// D05: no changed bit is read, wherever it is; the first bad line is named.
#[test]
fn a_flipped_bit_is_found_in_its_line() {
    let (bytes, entries) = tape(&[1, 1, 1]);
    let ends: Vec<usize> = memchr::memchr_iter(b'\n', &bytes).collect();
    for at in 0..bytes.len() {
        let mut bad = bytes.clone();
        bad[at] ^= 1 << (at % 7);
        let line = ends.iter().position(|end| at <= *end).unwrap();
        // A line break that is gone joins its line with the next one.
        let read = decode_lines(&chain(), &bad).unwrap();
        assert_eq!(read.entries, entries[..line], "bit at {at}");
        match read.rest {
            Rest::Bad { line: named, .. } | Rest::Torn { line: named, .. } => {
                assert_eq!(named, line + 1, "bit at {at}")
            }
            Rest::Nothing => panic!("bit at {at} was not found"),
        }
    }
}

/// D05: a block of zeros, as a power cut leaves it.
#[test]
fn a_block_of_zeros_ends_the_tape_and_is_torn_only_at_its_end() {
    let (bytes, entries) = tape(&[1, 1, 1]);
    let ends: Vec<usize> = memchr::memchr_iter(b'\n', &bytes).map(|end| end + 1).collect();
    let mut middle = bytes.clone();
    middle[ends[0] + 10..ends[0] + 60].fill(0);
    let read = decode_lines(&chain(), &middle).unwrap();
    assert_eq!((&read.entries[..], matches!(read.rest, Rest::Bad { line: 2, .. })), (&entries[..1], true));
    let mut end = bytes;
    end[ends[1]..].fill(0);
    let read = decode_lines(&chain(), &end).unwrap();
    assert_eq!((&read.entries[..], matches!(read.rest, Rest::Torn { line: 3, .. })), (&entries[..2], true));
}

/// D05: lines that are sound in themselves but in the wrong place.
#[test]
fn a_line_that_is_missing_doubled_or_swapped_is_found() {
    let (bytes, _) = tape(&[1, 1, 1]);
    let lines: Vec<&[u8]> = bytes.split_inclusive(|b| *b == b'\n').collect();
    for order in [vec![1, 2], vec![0, 2, 2], vec![0, 0, 1], vec![1, 0, 2]] {
        let wrong: Vec<u8> = order.iter().flat_map(|n| lines[*n]).copied().collect();
        let read = decode_lines(&chain(), &wrong).unwrap();
        let sound = order.iter().zip(0..).take_while(|(n, at)| *n == at).count();
        assert_eq!(read.entries.len(), sound, "{order:?}");
        assert_ne!(read.rest, Rest::Nothing, "{order:?}");
    }
    let other = Chain::start(&"other".parse().unwrap(), "001_session-start");
    assert!(decode_lines(&other, &bytes).unwrap().entries.is_empty());
}

/// Re-seals a line after its text was changed.
fn reseal(line: &str) -> Vec<u8> {
    let body = &line.trim_end()[..line.trim_end().len() - SUM_FIELD_BYTES];
    let sum = Sum::START.next(body.as_bytes());
    format!("{body},\"sum\":\"{}\"}}\n", sum.as_str()).into_bytes()
}

/// D08: old reader, new data.
#[test]
fn a_newer_version_is_refused_by_name_and_never_called_damage() {
    let (bytes, _) = tape(&[1]);
    let text = String::from_utf8(bytes).unwrap();
    let newer = reseal(&text.replacen("{\"v\":1,", "{\"v\":3,\"novelty\":true,", 1));
    assert!(matches!(decode_lines(&chain(), &newer), Err(TapeError::Newer { found: 3, known: 1, .. })));
    // Not sealed: then it is a changed line, not a newer one.
    let changed = text.replacen("{\"v\":1,", "{\"v\":0,", 1);
    assert!(matches!(decode_lines(&chain(), changed.as_bytes()).unwrap().rest, Rest::Torn { line: 1, .. }));
}

/// A sealed line that is not an entry is refused as well: wrong types, missing and unknown fields.
#[test]
fn a_sealed_line_must_still_be_an_entry() {
    let (bytes, _) = tape(&[1]);
    let text = String::from_utf8(bytes).unwrap();
    for (from, to) in [
        ("\"seq\":1", "\"seq\":\"1\""),
        ("\"seq\":1", "\"seq\":2"),
        ("\"seq\":1,", ""),
        ("\"kind\":\"note\"", "\"kind\":123"),
        ("\"kind\":\"note\"", "\"kind\":null"),
        ("\"time\":17", "\"time\":-17"),
        ("\"v\":1", "\"v\":0"),
        ("\"v\":1", "\"v\":1,\"unknown\":1"),
        ("\"session\":\"s\"", "\"session\":\"t\""),
        ("\"anchor\":\"001_session-start\"", "\"anchor\":\"002_x\""),
        ("\"kind\"", "\"more\":1,\"kind\""),
        ("\"kind\"", "\"prev\":\"0000000000000000\",\"kind\""),
        ("\"data\":", "\"data\":1,\"data\":"),
    ] {
        let changed = text.replacen(from, to, 1);
        assert_ne!(changed, text, "{from}");
        let read = decode_lines(&chain(), &reseal(&changed)).unwrap();
        assert!(read.entries.is_empty(), "{to}");
        assert!(matches!(read.rest, Rest::Torn { line: 1, .. }), "{to}: {:?}", read.rest);
    }
}

#[test]
fn ids_are_uuids_of_the_entrys_time_and_the_same_in_every_run() {
    let ids = |bytes: &[u8]| -> Vec<Uuid> {
        let lines = bytes.split(|b| *b == b'\n').filter(|line| !line.is_empty());
        lines.map(|line| serde_json::from_slice::<Line<'_>>(line).unwrap().id).collect()
    };
    let (first, entries) = tape(&[2, 2]);
    let seen = ids(&first);
    assert_eq!(seen, ids(&tape(&[2, 2]).0));
    for (id, entry) in seen.iter().zip(&entries) {
        let (seconds, nanos) = id.get_timestamp().unwrap().to_unix();
        assert_eq!(seconds * 1000 + u64::from(nanos) / 1_000_000, entry.time.0);
    }
    let mut sorted = seen.clone();
    sorted.sort();
    sorted.dedup();
    assert_eq!(sorted, seen);
    let elsewhere = encode_lines(&mut Chain::start(&"t".parse().unwrap(), "001_session-start"), &entries).unwrap();
    assert!(ids(&elsewhere).iter().all(|id| !seen.contains(id)));
}

/// A file after the first begins with what it continues from, so it is read without the others.
#[test]
fn a_later_file_is_read_by_itself_and_names_its_predecessor() {
    let mut chain = chain();
    encode_lines(&mut chain, &[entry(1, "1"), entry(2, "2")]).unwrap();
    let before = chain.clone();
    let mut later = chain.in_file("002_later");
    let bytes = encode_lines(&mut later, &[entry(3, "3"), entry(4, "4")]).unwrap();
    for known in [before.in_file("002_later"), Chain::unknown(&session(), "002_later")] {
        let read = decode_lines(&known, &bytes).unwrap();
        assert_eq!((read.rest, read.entries.len()), (Rest::Nothing, 2));
        assert_eq!(read.began, (Seq(2), before.sum));
    }
    let elsewhere = Chain { sum: Sum::START.next(b"x"), ..before.in_file("002_later") };
    assert!(decode_lines(&elsewhere, &bytes).unwrap().entries.is_empty());
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig { failure_persistence: None, ..Default::default() })]

    /// Reading any bytes ends and does not panic.
    #[test]
    fn any_bytes_can_be_read(bytes: Vec<u8>, cut in 0usize..2000) {
        let (mut tape, _) = tape(&[2, 1]);
        tape.truncate(cut);
        tape.extend(&bytes);
        let read = decode_lines(&chain(), &tape);
        if let Ok(read) = read {
            proptest::prop_assert!(read.good_bytes <= tape.len());
        }
        let _ = decode_lines(&chain(), &bytes);
    }
}
