//! Each public shape is found in the ways in which tools show it, wherever a text is cut; what only looks like one stays.
//!
//! The keys are made up here from parts, so that a scanner of this repository finds none.

#![allow(clippy::unwrap_used)]

use super::*;

const HEX: &str = "0123456789abcdef";
const UPPER: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
const ALNUM: &str = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
const WORD: &str = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";
const BASE64: &str = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+/";

/// So many letters of an alphabet, with one of each kind in front where there is room.
fn random(letters: &str, length: usize, seed: &mut u64) -> String {
    let bytes = letters.as_bytes();
    let mut text: String = (0..length)
        .map(|_| {
            *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            char::from(bytes[usize::try_from(*seed >> 33).unwrap() % bytes.len()])
        })
        .collect();
    let first = match letters {
        HEX => "a0f",
        UPPER => "A0",
        _ => "Aa0",
    };
    if length >= 8 {
        text.replace_range(..first.len(), first);
    }
    text
}

/// A pattern: `{aN}` means N letters of an alphabet: h hex, u upper, a letters and digits, w words, b base64, d digits.
fn made(pattern: &str, seed: u64) -> String {
    let (mut out, mut rest, mut seed) = (String::new(), pattern, seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    while let Some((before, behind)) = rest.split_once('{') {
        let (hole, behind) = behind.split_once('}').unwrap();
        let letters = match hole.as_bytes()[0] {
            b'h' => HEX,
            b'u' => UPPER,
            b'a' => ALNUM,
            b'w' => WORD,
            b'b' => BASE64,
            _ => "0123456789",
        };
        out += before;
        out += &random(letters, hole[1..].parse().unwrap(), &mut seed);
        rest = behind;
    }
    out + rest
}

/// What precedes the secret, and the secret.
const KEYS: &[(&str, &str)] = &[
    // Chat.
    ("https://hooks.slack.com/services/", "T{u9}/B{u10}/{a24}"),
    ("https://hooks.slack.com/workflows/", "T{u9}/A{u10}/{d18}/{a24}"),
    ("", "xoxb-{d12}-{d13}-{a24}"),
    ("", "xoxp-{d12}-{d12}-{d12}-{h32}"),
    ("", "xapp-1-{u11}-{d13}-{h64}"),
    ("https://discord.com/api/webhooks/", "{d18}/{w68}"),
    ("https://discordapp.com/api/webhooks/", "{d18}/{w68}"),
    ("", "MTA{a21}.G{a5}.{w38}"),
    (
        "https://acme.webhook.office.com/webhookb2/",
        "{h8}-{h4}-{h4}-{h4}-{h12}@{h8}-{h4}-{h4}-{h4}-{h12}/IncomingWebhook/{h32}/{h8}",
    ),
    ("https://prod-1.westus.logic.azure.com/workflows/{h32}/triggers?sv=1.0&sig=", "{w43}"),
    ("https://api.telegram.org/bot123456789:", "AA{w33}"),
    // Mail and telephone.
    ("", "SG.{w22}.{w43}"),
    ("", "key-{h32}"),
    ("", "{h32}-{h8}-{h8}"),
    ("", "{h32}-us21"),
    ("", "SK{h32}"),
    ("TWILIO_AUTH_TOKEN=", "{h32}"),
    ("", "xkeysib-{h64}-{a16}"),
    ("", "re_{a8}_{a24}"),
    ("", "mlsn.{h64}"),
    // Clouds.
    ("", "AKIA{u16}"),
    ("", "ASIA{u16}"),
    ("aws_secret_access_key = ", "{b40}"),
    ("aws_session_token=", "{b300}"),
    ("DefaultEndpointsProtocol=https;AccountName=x;AccountKey=", "{b86}=="),
    ("https://x.blob.core.windows.net/c?sv=2024-11-04&sp=r&sig=", "{a20}%2B{a20}%3D"),
    ("Endpoint=sb://x.servicebus.windows.net/;SharedAccessKeyName=k;SharedAccessKey=", "{b43}="),
    ("abc", "8Q~{w34}"),
    ("\"private_key_id\": \"", "{h40}"),
    ("\"private_key\": \"-----BEGIN PRIVATE KEY-----\\n", "{b64}"),
    ("", "AIza{w35}"),
    ("", "ya29.{w60}"),
    ("", "GOCSPX-{w28}"),
    ("", "dop_v1_{h64}"),
    ("HEROKU_API_KEY=", "{h8}-{h4}-{h4}-{h4}-{h12}"),
    ("", "HRKU-AA{w58}"),
    ("", "hvs.{w90}"),
    ("", "dapi{h32}"),
    ("", "tskey-auth-{a12}-{a32}"),
    // Providers of models.
    ("", "sk-proj-{w120}"),
    ("", "sk-svcacct-{w60}"),
    ("", "sk-{a48}"),
    ("", "sk-ant-api03-{w93}AA"),
    ("", "gsk_{a52}"),
    ("", "xai-{a80}"),
    ("MISTRAL_API_KEY=", "{a32}"),
    ("", "hf_{a34}"),
    ("", "r8_{a37}"),
    ("", "pplx-{a48}"),
    ("", "sk-or-v1-{h64}"),
    ("", "nvapi-{w64}"),
    ("COHERE_API_KEY: ", "{a40}"),
    ("", "sk-lf-{h8}-{h4}-{h4}-{h4}-{h12}"),
    // Forges and registries.
    ("", "ghp_{a36}"),
    ("", "github_pat_{a22}_{a59}"),
    ("", "glpat-{w20}"),
    ("", "npm_{a36}"),
    ("//registry.npmjs.org/:_authToken=", "{h8}-{h4}-{h4}-{h4}-{h12}"),
    ("", "pypi-AgEIcHlwaS5vcmc{w80}"),
    ("", "dckr_pat_{w27}"),
    ("", "rubygems_{h48}"),
    ("", "ATATT3xFfGF0{w180}"),
    // Payment and shops.
    ("", "sk_live_{a24}"),
    ("", "rk_live_{a24}"),
    ("", "whsec_{b32}"),
    ("", "shpat_{h32}"),
    ("", "sq0csp-{w43}"),
    // Work.
    ("", "lin_api_{a40}"),
    ("", "ntn_{a46}"),
    ("", "PMAK-{h24}-{h34}"),
    ("", "pat{a14}.{h64}"),
    ("", "glsa_{a32}_{h8}"),
    ("", "NRAK-{u27}"),
    // By a name, and by form.
    ("machine api.example.com login ann password ", "correct-horse"),
    ("machine h\n  login ann\n  password ", "correcthorse"),
    ("     3\tpassword ", "hunter2hunter2"),
    ("SOME_API_KEY=", "{a24}"),
    ("export ACME_TOKEN=\"", "{w24}"),
    ("DB_PASSWORD=", "correcthorsebattery"),
    ("MYSQL_ROOT_PASSWORD='", "tr0ub4dor&3x"),
    ("{\"password\":\"", "hunter2-secret"),
    ("password: ", "hunter2secret!"),
    ("Server=db;User Id=sa;Password=", "Pa55w0rd!x"),
    ("client_secret=", "{w32}"),
    ("Authorization: Basic ", "{b32}"),
    ("X-Api-Key: ", "{h32}"),
    ("postgres://app:", "{a16}@db/x"),
    ("https://", "{a0}ann:{w24}@git.example.com/a.git"),
    ("", "eyJhbGciOiJIUzI1NiJ9.eyJ{w60}.{w43}"),
];

fn all(text: &str) -> String {
    String::from_utf8(redacted(&Arc::new(Wanted::new(&[])), text.as_bytes()).0).unwrap()
}

/// The part of a key that may not be left: without a host or a user that belong to no secret.
fn secret(key: &str) -> &str {
    let key = key.split('@').next().filter(|_| key.ends_with("@db/x") || key.ends_with(".git")).unwrap_or(key);
    key.rsplit_once("ann:").map_or(key, |(_, password)| password)
}

fn left_of(key: &str, text: &str) -> Option<String> {
    let least = secret(key).len().min(8);
    let pieces = secret(key).as_bytes().windows(least).map(|piece| std::str::from_utf8(piece).unwrap());
    // What begins a key is public.
    let public = ["api03-", "sk-ant", "AgEIcHlwaS5vcmc", "IncomingWebhook", "xFfGF0", "eyJhbGciOiJIUzI1NiJ9"];
    pieces
        .filter(|piece| !public.iter().any(|public| public.contains(piece)))
        .find(|piece| text.contains(piece))
        .map(str::to_owned)
}

/// Over sixty public shapes, each in the ways in which tools show it.
#[test]
fn no_public_shape_is_left() {
    assert!(KEYS.len() > 61);
    let mut left = Vec::new();
    for ((before, key), seed) in KEYS.iter().zip(1..) {
        let (before, key) = (made_before(before, seed), made(key, seed));
        let said = format!("{before}{key}");
        let forms = [
            said.clone(),
            format!("{said}\n"),
            format!("     7\t{said}\n     8\tmore\n"),
            format!(".env:3:{said}\n"),
            format!("\u{1b}[31m{said}\u{1b}[0m"),
            serde_json::json!({ "out": said }).to_string(),
            serde_json::json!({ "out": serde_json::json!([said]).to_string() }).to_string(),
            format!("first {said} and then"),
            format!("{said}\" {said}"),
        ];
        for form in forms {
            let redacted = all(&form);
            if let Some(piece) = left_of(&key, &redacted) {
                left.push(format!("{piece} of {key} in {redacted}"));
            }
        }
    }
    assert!(left.is_empty(), "{} leaks:\n{}", left.len(), left.join("\n"));
}

/// The text before a key may have holes too.
fn made_before(before: &str, seed: u64) -> String {
    if before.starts_with('{') { before.to_owned() } else { made(before, seed + 1_000) }
}

/// A text that comes in pieces is redacted as the whole is, wherever it is cut.
#[test]
fn no_cut_lets_a_shape_through() {
    for ((before, key), seed) in KEYS.iter().zip(1..) {
        let text = format!("é {}{} é\n", made_before(before, seed), made(key, seed));
        let whole = all(&text);
        let wanted = Arc::new(Wanted::new(&[]));
        for cut in 0..=text.len() {
            let (mut scanner, mut out) = (Scanner::new(wanted.clone()), Vec::new());
            scanner.push(&text.as_bytes()[..cut], &mut out);
            scanner.push(&text.as_bytes()[cut..], &mut out);
            scanner.finish(&mut out);
            assert_eq!(String::from_utf8(out).unwrap(), whole, "{text} at {cut}");
        }
    }
}

/// What looks like a key and is none: code, logs, lock files, hashes, ids, images, prose.
#[test]
fn harmless_texts_stay_as_they_are() {
    let image = random(BASE64, 40_000, &mut 7);
    let texts = [
        "commit 95548dd0c3a1b2c3d4e5f60718293a4b5c6d7e8f\nAuthor: Ann <ann@example.com>",
        "0193a2b4-7c1d-7e52-9f00-3b1c2d4e5f60 d41d8cd98f00b204e9800998ecf8427e d41d8cd98f00b204e9800998ecf8427e-12",
        "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        "\"integrity\": \"sha512-vK1Fl5WUVyVBB1gRCNvMVBHn1hPBw1nLkpNXkPpTBQHkVvKK0LWvqpbfHkWg3MnVQk3aV0q2kO7d0T9xZ1yGxA==\"",
        "let api_key = std::env::var(\"OPENAI_API_KEY\")?; api_key: Option<String>, pub api_key: &'a str",
        "apiKey: process.env.OPENAI_API_KEY, client_secret = config.get(\"secret\"), access_token: str | None = None",
        "password: String, password: Option<u32>, password = hash2(input), password=getpass.getpass(), password: [u8; 32]",
        "PASSWORD=$DB_PASSWORD PASSWORD=\"${DB_PASSWORD}\" PASSWORD=<yours> DB_PASSWORD={password} PASSWORD=$(pass show x) PASSWORD=",
        "the password is wrong; forgot your password? password: https://example.com/reset?id=12345 a password of 12 letters",
        "log in with login and password, then go on; login page password reset",
        "next_page_token: CiAKGjBpNDd2Nmp2Zml2cXRwYjBpOXA, pageToken=CiAKGjBpNDd2Nmp2Zml2cXRwYjBpOXA&nextToken=abc123def456ghi789",
        "SORT_KEY=created_at_2024 CACHE_KEY=node-modules-v1-linux-x64 PRIMARY_KEY=user_id_and_tenant_id_1",
        "SKIP SKU SKETCH ACCESS ACTUAL AC/DC sketch.SK01 EAA EAAC fc-match fc-cache re_match re_compile_pattern pa-system",
        "keyboard-shortcuts key-value-store-0123 rnd_seed fw_cfg pat-a-cake patch patterns.rs cio cioppino oy2",
        "std::sync::Arc::AA 10:AAAA::1 fe80::AAbb:1 https://example.com/a?sig=short&token=abc",
        "https://hooks.slack.com/services/ is where a webhook is; https://discord.com/api/webhooks/ too",
        "secret_manager secret_key_base secret_santa_is_a_game npm_config_registry hf_hub_download_with_retries_and_a_timeout",
        "MTU MDN NTP MTAwMA== MTIz.abc NDIS.driver.name OTLP.exporter.endpoint.of.this.service.is.not.set.here",
        "const TOKEN_LIMIT: usize = 128_000; max_tokens=4096 total_tokens: 12345678901234567890",
        "grep -n 'machine' /etc/hosts; machine learning model login flow",
        "use Q~ as a mark; a~b; ~/Q~backup",
        "-----BEGIN CERTIFICATE-----\nMIIDdzCCAl+gAwIBAgIEAgAAuTANBgkqhkiG9w0BAQUFADBaMQswCQYDVQQGEwJJ\n-----END CERTIFICATE-----",
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGx0Zm9vYmFyYmF6cXV4cXV1eGNvcmdlZ3JhdWx0 ann@host",
        "[redacted: OpenAI key] [redacted: password] DB_PASSWORD=[redacted: password] password: [redacted: password]",
        include_str!("table.rs"),
        include_str!("shapes.rs"),
        include_str!("forms.rs"),
        include_str!("../../../Cargo.lock"),
        &image,
    ];
    for text in texts {
        let redacted = all(text);
        let at = redacted.bytes().zip(text.bytes()).position(|(one, other)| one != other);
        assert_eq!(
            redacted,
            text,
            "at {at:?}: {:?}",
            at.map(|at| text[at.saturating_sub(40)..].chars().take(120).collect::<String>())
        );
    }
}

/// A short value that was named is taken as a word, and not out of the middle of one, however the text is cut.
#[test]
fn a_short_value_does_not_garble_words() {
    let wanted = Arc::new(Wanted::new(&["access".into(), "hunter22".into()]));
    for (text, expected) in [
        (
            "access accessible inaccessible 1access access1",
            "[redacted: secret] accessible inaccessible 1access access1",
        ),
        (
            "TOKEN=access; \"access\" access-log",
            "TOKEN=[redacted: secret]; \"[redacted: secret]\" [redacted: secret]-log",
        ),
        ("xhunter22x", "x[redacted: secret]x"),
    ] {
        for cut in 0..=text.len() {
            let (mut scanner, mut out) = (Scanner::new(wanted.clone()), Vec::new());
            let (head, tail) = text.as_bytes().split_at(cut);
            [head, tail].iter().for_each(|piece| scanner.push(piece, &mut out));
            scanner.finish(&mut out);
            assert_eq!(String::from_utf8(out).unwrap(), expected, "{text} at {cut}");
        }
    }
}

/// A mark is one only with a kind that there is, and counts only where it is new.
#[test]
fn a_new_mark_is_told_from_one_that_was_there() {
    let mark = "[redacted: OpenAI key]";
    assert_eq!(new_mark("", &format!("KEY={mark}")), Some(mark.to_owned()));
    assert_eq!(new_mark(&format!("{mark} {mark}"), &format!("x {mark}")), None);
    assert_eq!(new_mark(mark, &format!("{mark} {mark}")), Some(mark.to_owned()));
    assert_eq!(new_mark("", "[redacted: something] [redacted] redacted: OpenAI key"), None);
}
