//! Tests: every known key goes, in any surroundings and any cuts; other text stays.

#![allow(clippy::unwrap_used, clippy::panic)]

use proptest::prelude::*;
use serde_json::json;

use super::*;

/// A key, the text that must precede it to make it a key, and whether it is found after a letter too.
#[derive(Clone, Debug)]
struct Sample {
    before: &'static str,
    key: String,
    after: &'static str,
    anywhere: bool,
}

/// Kind, text before, prefix, alphabet, length of what follows, text after, anywhere.
type Row = (&'static str, &'static str, &'static str, &'static str, usize, &'static str, bool);

const UPPER: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
const ALNUM: &str = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
const WORD: &str = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";
const BASE64: &str = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+/";

const ROWS: &[Row] = &[
    ("Anthropic key", "", "sk-ant-api03-", WORD, 95, "", true),
    ("OpenAI key", "", "sk-proj-", WORD, 120, "", true),
    ("OpenAI key", "", "sk-", ALNUM, 48, "", false),
    ("GitHub token", "", "ghp_", ALNUM, 36, "", true),
    ("GitHub token", "", "gho_", ALNUM, 36, "", true),
    ("GitHub token", "", "ghs_", ALNUM, 36, "", true),
    ("GitHub token", "", "github_pat_", ALNUM, 82, "", true),
    ("AWS key id", "", "AKIA", UPPER, 16, "", false),
    ("AWS secret key", "aws_secret_access_key = ", "", BASE64, 40, "", true),
    ("AWS secret key", "\"SecretAccessKey\": \"", "", BASE64, 40, "\"", true),
    ("Google key", "", "AIza", WORD, 35, "", false),
    ("Slack token", "", "xoxb-", ALNUM, 40, "", true),
    ("Stripe key", "", "sk_live_", ALNUM, 24, "", true),
    ("npm token", "", "npm_", ALNUM, 36, "", true),
    ("PyPI token", "", "pypi-AgEIcHlwaS5vcmc", WORD, 100, "", true),
    ("GitLab token", "", "glpat-", WORD, 20, "", true),
    ("Hugging Face token", "", "hf_", ALNUM, 34, "", false),
    ("bearer token", "curl -H 'bearer ", "", WORD, 40, "'", true),
    ("authorization", "Authorization: Bearer ", "", WORD, 40, "", true),
    ("authorization", "authorization: Basic ", "", BASE64, 24, "", true),
    ("password in a URL", "postgres://app:", "", BASE64, 20, "@db.example/x", true),
    ("web token", "", "eyJhbGciOiJIUzI1NiJ9.eyJ", WORD, 60, ".c2lnbmF0dXJl", false),
    ("private key", "-----BEGIN RSA PRIVATE KEY-----\n", "", BASE64, 64, "\n-----END RSA PRIVATE KEY-----", true),
];

/// A key of that row: random, with a digit, a small letter and a capital in it.
fn key(row: &Row, seed: u64) -> Sample {
    let (_, before, prefix, alphabet, length, after, anywhere) = *row;
    let (mut seed, letters) = (seed, alphabet.as_bytes());
    let mut letter = || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        char::from(letters[usize::try_from(seed >> 33).unwrap() % letters.len()])
    };
    // A password has no separator of a URL.
    let mut random: String = (0..length).map(|_| letter()).collect();
    if after.starts_with('@') {
        random = random.replace('/', "x");
    }
    let fixed = if alphabet == UPPER { "A0" } else { "Aa0" };
    random.replace_range(..fixed.len(), fixed);
    Sample { before, key: format!("{prefix}{random}"), after, anywhere }
}

/// No piece of eight bytes of the key is in the text.
fn is_gone(text: &str, key: &str) -> bool {
    key.as_bytes().windows(8).all(|piece| !text.contains(std::str::from_utf8(piece).unwrap()))
}

fn in_pieces(redact: &Redact, text: &str, cuts: &[usize]) -> String {
    let mut filter = redact.output_filter().unwrap();
    let (mut out, mut from) = (Vec::new(), 0);
    let mut ends: Vec<_> = cuts.iter().map(|cut| cut % (text.len() + 1)).collect();
    ends.sort_unstable();
    for end in ends.into_iter().chain([text.len()]) {
        out.extend(filter.push(&text.as_bytes()[from..end]));
        from = end;
    }
    out.extend(filter.finish());
    String::from_utf8(out).unwrap()
}

#[test]
fn each_key_is_replaced_by_its_kind() {
    for (row, seed) in ROWS.iter().zip(1..) {
        let Sample { before, key, after, .. } = key(row, seed);
        let text = format!("the key: {before}{key}{after} and more");
        let redacted = Redact::new().text(&text);
        assert!(is_gone(&redacted, &key), "{text}\n{redacted}");
        assert!(redacted.contains(&format!("[redacted: {}]", row.0)), "{redacted}");
        assert!(redacted.starts_with("the key: ") && redacted.ends_with(" and more"), "{redacted}");
        assert_eq!(Redact::new().text(&redacted), redacted, "a second time changes nothing");
    }
}

/// K06, and a key at the end of a text or of its beginning: no place to cut a text lets a key through.
#[test]
fn a_key_that_is_cut_at_any_byte_is_found() {
    let redact = Redact::new().value("correct horse battery");
    for (row, seed) in ROWS.iter().zip(100..) {
        let Sample { before, key, after, .. } = key(row, seed);
        for text in [format!("{before}{key}{after}"), format!("é {before}{key}{after}\ncorrect horse battery é")] {
            let whole = redact.text(&text);
            assert!(is_gone(&whole, &key));
            for cut in 0..=text.len() {
                assert_eq!(in_pieces(&redact, &text, &[cut]), whole, "{text} at {cut}");
            }
            let each: Vec<_> = (0..text.len()).collect();
            assert_eq!(in_pieces(&redact, &text, &each), whole, "byte by byte");
        }
    }
}

/// What looks like one key may swallow the beginning of another: the rest of that one goes too.
#[test]
fn a_key_right_behind_another_goes_too() {
    for (first, one) in ROWS.iter().zip(200..).filter(|(row, _)| row.5.is_empty()) {
        for (second, two) in ROWS.iter().zip(300..) {
            let (first, second) = (key(first, one), key(second, two));
            let text = format!("{}{}{}{}{}", first.before, first.key, second.before, second.key, second.after);
            let redacted = Redact::new().text(&text);
            assert!(is_gone(&redacted, &first.key) && is_gone(&redacted, &second.key), "{text}\n{redacted}");
        }
    }
}

/// The forms in which tools show keys: numbered lines, matches, JSON in JSON, colours, the environment.
#[test]
fn keys_are_found_in_the_forms_that_tools_show() {
    let github = key(&ROWS[3], 1).key;
    let google = key(&ROWS[10], 2).key;
    let body: Vec<_> = (0..6).map(|n| key(&ROWS[22], n).key).collect();
    let last = "Zm9vYmFyYmF6cXV4";
    let numbered = |line: &str, n: usize| format!("{n:>6}\t{line}\n");
    let lines = body.iter().map(String::as_str).chain([last]).enumerate();
    let pem: String = lines.clone().map(|(n, line)| numbered(line, n + 2)).collect();
    let pem = format!("     1\t-----BEGIN OPENSSH PRIVATE KEY-----\n{pem}     9\t-----END OPENSSH PRIVATE KEY-----\n");
    let in_json = json!({"key": format!("-----BEGIN PRIVATE KEY-----\n{}\n{last}\n-----END PRIVATE KEY-----\n", body.join("\n"))});
    let cases: Vec<(String, Vec<&str>)> = vec![
        (format!("     7\tGITHUB_TOKEN={github}\n"), vec![&github]),
        (format!(".env:3:export TOKEN=\"{google}\""), vec![&google]),
        (format!("\u{1b}[01;31m{google}\u{1b}[m"), vec![&google]),
        (json!({"out": json!({"k": google}).to_string()}).to_string(), vec![&google]),
        (format!("a\\n{google}\\nb \\u0022{google} ?key%3D{google}&x"), vec![&google]),
        (pem, body.iter().map(String::as_str).chain([last]).collect()),
        (in_json.to_string(), body.iter().map(String::as_str).chain([last]).collect()),
        (format!("https://x-access-token:{github}@github.com/a/b"), vec![&github]),
    ];
    for (text, keys) in cases {
        let redacted = Redact::new().text(&text);
        for key in keys {
            assert!(is_gone(&redacted, key), "{text}\n{redacted}");
        }
    }
}

/// What looks like a key and is none.
#[test]
fn hashes_ids_and_base64_stay() {
    let image: Vec<u8> = (0..60_000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let image = FilePart::inline("image/png", Some("a.png".into()), &image);
    let lock: String = include_str!("../../../Cargo.lock").into();
    let others = [
        "commit 95548dd0c3a1b2c3d4e5f60718293a4b5c6d7e8f (HEAD -> main)",
        "0193a2b4-7c1d-7e52-9f00-3b1c2d4e5f60",
        "integrity sha512-vK1Fl5WUVyVBB1gRCNvMVBHn1hPBw1nLkpNXkPpTBQHkVvKK0LWvqpbfHkWg3MnVQk3aV0q2kO7d0T9xZ1yGxA==",
        "blake3 af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262",
        "sk-it is, sk-folding-cube-container, task-ant-build-and-deploy-everything-2, risk-a1b2c3d4e5f6a7b8c9d0e1f2",
        "the bearer of bad news; Authorization: Bearer $TOKEN; authorization: required",
        "npm_config_registry=x npm_package_dependencies_something_long pypi-package-name-that-is-rather-long-and-has-no-digits",
        "https://host:8080/a@b http://user@host/ postgres://$USER:$PASSWORD@host/db {scheme}://{user}:{password}@host",
        "AKIA is a prefix, AIza too, eyJhbGciOiJIUzI1NiJ9 alone is the head of a token",
        "grep -rn 'BEGIN PRIVATE KEY' src; -----BEGIN CERTIFICATE-----\nMIIDdzCCAl+gAwIBAgIEAgAAuTANBgkqhkiG9w0BAQUFADBaMQswCQYDVQQGEwJJ\n",
        "secret_access_key = var.key; SecretAccessKey: string; session_token: str | None",
        "let x = AsIAmHere; /* ASIA and EUROPE */ hf_hub_download_with_retries_and_a_timeout",
    ];
    for text in
        others.into_iter().chain([lock.as_str(), image.url.as_str(), include_str!("../../words/secrets/table.rs")])
    {
        assert_eq!(Redact::new().text(text), text);
    }
    let result = ToolResult { attachments: vec![image], ..ToolResult::ok("ok") };
    assert_eq!(Redact::new().result(result.clone()), result);
}

#[test]
fn a_named_value_is_found_as_it_is_and_in_json() {
    let redact = Redact::new().value(" two \"words\"\n").values(["ünïcode", "short", "tiny"]);
    assert_eq!(redact.text("a two \"words\" b"), "a [redacted: secret] b");
    assert_eq!(redact.text(&json!(["two \"words\""]).to_string()), "[\"[redacted: secret]\"]");
    assert_eq!(redact.text("éünïcodeé short tiny"), "é[redacted: secret]é short tiny", "too short to be taken");
    assert_eq!(format!("{redact:?}"), "Redact { values: 3, answers: false, inputs: false }");
}

#[tokio::test]
async fn every_part_of_a_result_is_read() {
    let secret = key(&ROWS[0], 7).key;
    let text = FilePart::inline("text/plain", Some(format!("{secret}.txt")), format!("a {secret}").as_bytes());
    let by_address = FilePart { url: "https://u:hunter22@h/x.png".into(), filename: None, mime: "image/png".into() };
    let result = ToolResult { attachments: vec![text, by_address], ..ToolResult::error(format!("no: {secret}")) };
    let result =
        result.with_title(format!("cat {secret}")).with_details(json!({"o": [{"out": secret, secret.clone(): 1}]}));
    let call = HookCall {
        session: "s".parse().unwrap(),
        call: "c".into(),
        tool: "t".into(),
        arguments: Value::Null,
        effect: Default::default(),
        access: Vec::new(),
        session_ref: Default::default(),
    };
    let seen = Redact::new().on_result(&call, result).await;
    let marker = "[redacted: Anthropic key]";
    assert_eq!((seen.content, seen.title), (format!("no: {marker}"), Some(format!("cat {marker}"))));
    assert_eq!(seen.details, json!({"o": [{"out": marker, marker: 1}]}));
    assert_eq!(
        seen.attachments[0],
        FilePart::inline("text/plain", Some(format!("{marker}.txt")), format!("a {marker}").as_bytes())
    );
    assert_eq!(seen.attachments[1].url, "https://u:[redacted: password in a URL]@h/x.png");
}

/// The lines of a secret are in separate fields, as from `grep`: none is left in any of them.
#[test]
fn a_secret_that_is_spread_over_fields_goes() {
    let lines: Vec<_> = (0..4).map(|n| key(&ROWS[22], n).key).collect();
    let border = |word: &str| format!("-----{word} RSA PRIVATE KEY-----");
    let all: Vec<_> = [border("BEGIN")].into_iter().chain(lines.clone()).chain([border("END")]).collect();
    let matches = |lines: &[String]| {
        let matches =
            lines.iter().zip(1..).map(|(text, line)| json!({"path": "keys/server.pem", "line": line, "text": text}));
        json!({"matches": matches.collect::<Vec<_>>(), "total": 6})
    };
    let clean = |redacted: &Value| lines.iter().all(|line| is_gone(&redacted.to_string(), line));
    let mut details = matches(&all);
    Redact::new().json(&mut details);
    assert!(clean(&details), "{details}");
    assert_eq!(details["matches"][0]["text"], json!(all[0]), "the border stays");
    assert_eq!(details["total"], 6);
    // Only the content tells that the lines are those of a key.
    let result = ToolResult::ok(all.join("\n")).with_details(matches(&all[2..4])).with_title(lines[2].clone());
    let redacted = Redact::new().result(result);
    assert!(clean(&redacted.details) && is_gone(redacted.title.as_deref().unwrap(), &lines[2]), "{redacted:?}");
    // A named value of several lines.
    let named = ["first line of the secret", "and its second line"];
    let mut details = json!([{"text": named[0]}, {"text": format!("> {}", named[1])}]);
    Redact::new().value(named.join("\n")).json(&mut details);
    assert_eq!(details, json!([{"text": "[redacted: secret]"}, {"text": "> [redacted: secret]"}]));
    // The name of a field names its value.
    let mut details = json!({"password": "hunter2-secret", "user": "ann", "n": [1, {"api_key": "0123456789abcdef"}]});
    Redact::new().json(&mut details);
    let expected =
        json!({"password": "[redacted: password]", "user": "ann", "n": [1, {"api_key": "[redacted: API key]"}]});
    assert_eq!(details, expected);
    // A filter of progress reads fields as one text too.
    let filters = crate::hook::Hooks::new([std::sync::Arc::new(Redact::new()) as std::sync::Arc<dyn Hook>]).filters();
    let shown = filters.json(matches(&all));
    assert!(clean(&shown), "{shown}");
}

/// A value of any depth is walked without the stack of the thread.
#[test]
fn a_deep_value_is_read() {
    let mut deep = json!(key(&ROWS[0], 1).key);
    for _ in 0..20_000 {
        deep = Value::Array(vec![deep]);
    }
    Redact::new().json(&mut deep);
    let mut innermost = &deep;
    while let Value::Array(items) = innermost {
        innermost = &items[0];
    }
    assert_eq!(*innermost, json!("[redacted: Anthropic key]"));
    // Its drop is not.
    std::mem::forget(deep);
}

#[tokio::test]
async fn inputs_are_read_where_the_host_says_so() {
    let secret = key(&ROWS[0], 9).key;
    let said = Message::user(format!("use {secret}"));
    let context = HookContext::detached("s".parse().unwrap());
    let passed = async |redact: Redact| match redact.on_input(&context, said.clone()).await {
        Input::Pass(message) => message.text(),
        Input::Handled => panic!("handled"),
    };
    assert_eq!(passed(Redact::new()).await, said.text());
    assert_eq!(passed(Redact::new().inputs()).await, "use [redacted: Anthropic key]");
}

#[tokio::test]
async fn answers_are_read_where_the_host_says_so() {
    let secret = key(&ROWS[0], 8).key;
    let (plain, redact) = (Redact::new(), Redact::new().answers());
    assert_eq!((plain.sees_answers(), redact.sees_answers()), (false, true));
    let call = AnswerPart::Call {
        id: "c".into(),
        name: "bash".into(),
        input: json!({"command": format!("echo {secret}")}).to_string(),
        extra: None,
    };
    let said = AnswerPart::Text { text: format!("it is {secret}"), extra: None };
    let parts = redact.on_answer(&HookContext::detached("s".parse().unwrap()), vec![said, call]).await;
    assert!(!format!("{parts:?}").contains(&secret[20..]), "{parts:?}");
    let AnswerPart::Call { input, .. } = &parts[1] else { panic!("{parts:?}") };
    assert_eq!(serde_json::from_str::<Value>(input).unwrap(), json!({"command": "echo [redacted: Anthropic key]"}));
}

/// Text that could follow or precede a key: letters and signs of keys, beginnings of other keys, words of other languages.
fn around() -> impl Strategy<Value = String> {
    let beginnings = prop::sample::select(ROWS.iter().map(|row| format!("{}{}", row.1, row.2)).collect::<Vec<_>>());
    let junk = prop_oneof!["[ -~]{0,40}", "[a-zA-Z0-9_.+/=-]{0,60}", "\\PC{0,12}", beginnings, Just("\n".to_owned())];
    prop::collection::vec(junk, 0..4).prop_map(|parts| parts.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    /// In any surroundings, no eight bytes of a key are left, and cuts change nothing.
    #[test]
    fn no_piece_of_a_key_is_left(
        row in prop::sample::select(ROWS), seed in any::<u64>(), before in around(), after in around(),
        cuts in prop::collection::vec(any::<usize>(), 0..6),
    ) {
        let sample = key(&row, seed);
        let edge = if sample.anywhere { "" } else { " " };
        let text = format!("{before}{edge}{}{}{}{after}", sample.before, sample.key, sample.after);
        let redacted = Redact::new().text(&text);
        // A piece that is elsewhere too does not belong to the key.
        let elsewhere = format!("{before}{edge}{}\n{}{after}", sample.before, sample.after);
        for piece in sample.key.as_bytes().windows(8) {
            let piece = std::str::from_utf8(piece).unwrap();
            prop_assert!(!redacted.contains(piece) || elsewhere.contains(piece), "{} in {}", piece, redacted);
        }
        prop_assert_eq!(in_pieces(&Redact::new(), &text, &cuts), redacted);
    }

    /// Any named value goes, in any surroundings.
    #[test]
    fn no_named_value_is_left(value in "\\PC{6,40}", before in around(), after in around()) {
        let redact = Redact::new().value(&value);
        let value = value.trim();
        prop_assume!(value.len() >= 6 && !"[redacted: secret]".contains(value));
        // A short one is taken as a word.
        let gap = if value.len() < 8 { " " } else { "" };
        let redacted = redact.text(&format!("{before}{gap}{value}{gap}{after}"));
        prop_assert!(!redacted.contains(value), "{}", redacted);
    }

    /// A text without a key passes byte by byte: hex, words, numbers, prose in any script.
    #[test]
    fn a_text_without_keys_stays(
        text in "([0-9a-f]{40} |[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4} |[a-z_]{1,30} |[a-z-]{1,40}[.,] |\\PC{0,3} |[0-9]{1,30}\n){0,30}",
    ) {
        prop_assert_eq!(Redact::new().text(&text), text);
    }

    /// Bytes that are not text pass as they are, and are cut nowhere.
    #[test]
    fn bytes_that_are_no_text_stay(bytes in prop::collection::vec(128_u8.., 0..200)) {
        prop_assert_eq!(Redact::new().bytes(&bytes), bytes);
    }
}
