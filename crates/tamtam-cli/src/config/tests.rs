#![allow(clippy::unwrap_used)]

use super::*;
use crate::failure::Exit;

impl Config {
    /// A configuration that was read from nowhere.
    pub(crate) fn of(layers: Vec<Said>) -> Config {
        Config { layers, ..Config::default() }
    }
}

fn said(layer: Layer, text: &str) -> Said {
    parse(layer, Path::new("/c/config.toml"), text).unwrap()
}

fn wrong(layer: Layer, text: &str) -> String {
    let failure = parse(layer, Path::new("/c/config.toml"), text).unwrap_err();
    assert_eq!(failure.exit, Exit::Usage);
    failure.message
}

fn given(model: Option<&str>) -> TurnArguments {
    let mut given = TurnArguments::default();
    given.model.model = model.map(str::to_owned);
    given
}

/// Each setting takes what its argument takes, and is read back as it was written.
#[test]
fn every_setting_is_read_and_shown() {
    let text = "model = 'anthropic/x'\nfallback = ['a/b', 'c/d on auth,network']\nbase_url = 'http://127.0.0.1:9/v1'\napi = 'responses'\nfirst_timeout = 900\n\
                images = true\nreasoning_back = 'with_calls'\nthinking = 'high'\ntemperature = 0.5\ntop_p = 1\noutput_schema = '/s.json'\nagent = 'build'\npermission = 'edits'\n\
                max_steps = 7\nbudget_usd = 0.5\nbudget_tokens = 1000\non_budget = 'stop'\nprice = '3/15'\n\
                store = 'tapes'\npostgres = 'postgresql://app:hunter2@db/app'\nredact = false\ninstructions = ['RULES.md']\nweb_fetch = true\nplanning = true\nread_loop = true\ndurability = 'power'\n\
                proxy = 'http://127.0.0.1:8/'\nca = '/ca.pem'\nask_limit = '90s'\n\
                [quirks]\nmax_tokens = 'max_completion_tokens'\nstream_options = false\nschema = 'gemini'\nthinking = 'switch'\n\
                answer = 'json'\ncache_marks = true\nwebsocket = true\nimage_bytes_max = 1000\n\
                [rate_limits]\nrequests = 4\nrequests_per_minute = 60\ntokens_per_minute = 1_000\n\
                [sandbox]\nmode = 'required'\nnetwork = 'ip'\nread = ['data', '~/x']\nwrite = ['/w']\n";
    let config = Config::of(vec![said(Layer::User, text)]);
    let (turn, from) = config.over(&given(None), None);
    let shown: Vec<_> = settings::ALL.iter().map(|setting| settings::get(setting.name, &turn).unwrap()).collect();
    let expected = [
        "anthropic/x",
        "a/b; c/d on auth,network",
        "http://127.0.0.1:9/v1",
        "responses",
        "900",
        "true",
        "with_calls",
        "high",
        "0.5",
        "1",
        "max_completion_tokens",
        "false",
        "gemini",
        "switch",
        "json",
        "true",
        "true",
        "1000",
        "4",
        "60",
        "1000",
        "/s.json",
        "build",
        "edits",
        "7",
        "$0.5000",
        "1000",
        "stop",
        "$3.0000/$15.0000",
        "/c/tapes",
        "postgresql://app@db/app",
        "false",
        "/c/RULES.md",
        "true",
        "true",
        "true",
        "power",
        "http://127.0.0.1:8/",
        "/ca.pem",
        "90s",
        "required",
        "ip",
        "/c/data\n~/x",
        "/w",
    ];
    assert_eq!(shown, expected);
    assert_eq!(from.len(), settings::ALL.len());
}

/// Arguments win over the named file, that over the project's, that over the user's.
#[test]
fn the_strongest_layer_that_says_anything_wins() {
    let config = Config::of(vec![
        said(Layer::User, "max_steps = 1\nagent = 'a'\nbudget_tokens = 1\non_budget = 'stop'"),
        said(Layer::Project, "max_steps = 2\nagent = 'b'\nbudget_tokens = 2"),
        said(Layer::Named, "max_steps = 3\nagent = 'c'"),
    ]);
    let arguments = TurnArguments { max_steps: Some(4), ..TurnArguments::default() };
    let (turn, from) = config.over(&arguments, None);
    let shown = ["max_steps", "agent", "budget_tokens", "on_budget"]
        .map(|name| (settings::get(name, &turn).unwrap(), from.get(name).map(|said| said.layer)));
    assert_eq!(
        shown,
        [
            ("4".into(), None),
            ("c".into(), Some(Layer::Named)),
            ("2".into(), Some(Layer::Project)),
            ("stop".into(), Some(Layer::User)),
        ]
    );
}

/// Reliability S13: a key goes to the address of its own provider, and not to one that was written for another model.
#[test]
fn an_address_is_only_for_the_model_beside_it() {
    let config = Config::of(vec![said(Layer::User, "model = 'mine/x'\nbase_url = 'http://mine/v1'\nprice = '1/1'")]);
    let address = |model: Option<&str>| config.over(&given(model), None).0.model.base_url;
    assert_eq!(address(None).as_deref(), Some("http://mine/v1"));
    assert_eq!(address(Some("mine/y")).as_deref(), Some("http://mine/v1"));
    assert_eq!(address(Some("openai/gpt-4.1")), None);
    let session: ModelRef = "openai/gpt-4.1".parse().unwrap();
    assert_eq!(config.over(&given(None), Some(&session)).0.model.base_url, None);
    let bare = Config::of(vec![said(Layer::User, "base_url = 'http://mine/v1'")]);
    assert_eq!(bare.over(&given(Some("openai/gpt-4.1")), None).0.model.base_url, None);
    // The address of a stronger file went with the model, and so the key, of a weaker one.
    let [user, strange] = ["model = 'openai/gpt-4.1'", "base_url = 'http://strange/v1'"];
    for layer in [Layer::Project, Layer::Named] {
        let config = Config::of(vec![said(Layer::User, user), said(layer, strange)]);
        assert_eq!(config.over(&given(None), None).0.model.base_url, None);
    }
}

/// A session that is there keeps its settings; what is the process's own holds for it too.
#[test]
fn files_change_no_setting_of_a_session_that_is_there() {
    let text = "model = 'a/b'\nmax_steps = 3\npermission = 'auto'\nredact = false\ndurability = 'power'";
    let config = Config::of(vec![said(Layer::User, text)]);
    let (turn, from) = config.over(&given(None), Some(&"a/b".parse().unwrap()));
    assert_eq!((turn.model.model, turn.max_steps, turn.setup.permission.permission), (None, None, None));
    assert!(turn.no_redact && turn.durability.is_some());
    assert_eq!(from.keys().copied().collect::<Vec<_>>(), ["durability", "redact"]);
}

/// CONFIG-ERR: what is wrong is named by file, line and field, with what is allowed there.
#[test]
fn what_is_wrong_is_named_by_file_line_and_field() {
    for (text, expected) in [
        (
            "\nmodle = 'a/b'",
            "line 2: modle: unknown setting `modle`; did you mean `model`? (known: model, fallback, base_url, api, first_timeout, images, reasoning_back, thinking, temperature, top_p, quirks.max_tokens, quirks.stream_options, quirks.schema, quirks.thinking, quirks.answer, quirks.cache_marks, quirks.websocket, quirks.image_bytes_max, rate_limits.requests, rate_limits.requests_per_minute, rate_limits.tokens_per_minute, output_schema, agent, permission, max_steps, budget_usd, budget_tokens, on_budget, price, store, postgres, redact, instructions, web_fetch, planning, read_loop, durability, proxy, ca, ask_limit, sandbox.mode, sandbox.network, sandbox.read, sandbox.write, rules)",
        ),
        ("max-steps = 3", "did you mean `max_steps`?"),
        ("max_steps = 0", "line 1: max_steps: 0 must be 1 or more: write a number of model requests, 1 or more"),
        ("max_steps = []", "line 1: max_steps: write a number of model requests, 1 or more"),
        (
            "permission = 'lax'",
            "line 1: permission: unknown profile \"lax\": write strict, ask, edits, auto, readonly, headless or opencode",
        ),
        (
            "budget_usd = 'much'",
            "line 1: budget_usd: \"much\" is not an amount of money: write US dollars, such as 0.50",
        ),
        ("model = 'gpt-4'", "line 1: model: "),
        ("base_url = 'example.org'", "line 1: base_url: it must begin with https:// or http://"),
        ("redact = 'perhaps'", "line 1: redact: \"perhaps\" is neither: write true or false"),
        ("durability = 'for ever'", "write process or power"),
        ("agent = ''", "line 1: agent: it is empty: write the name of an agent"),
        (
            "[rules]\nbash = 'alow'",
            "line 2: bash: unknown action \"alow\": write allow, ask or deny; did you mean \"allow\"?",
        ),
        ("model = ", "line 1: not TOML: "),
    ] {
        let message = wrong(Layer::User, text);
        let place = "bad configuration /c/config.toml: ";
        assert!(message.starts_with(place) && message.contains(expected), "{text}: {message}");
    }
}

/// Where tapes go and whether keys are taken out is the user's, also in a project that is trusted.
#[test]
fn a_project_cannot_move_the_tapes_or_show_keys() {
    for text in ["store = '/tmp/x'", "redact = false", "postgres = 'host=db user=x'"] {
        assert!(wrong(Layer::Project, text).contains("a project cannot set this"), "{text}");
        assert!(parse(Layer::Named, Path::new("x"), text).is_ok(), "{text}");
    }
}

/// The page has an example file; it says what it seems to say.
#[test]
fn the_documented_example_is_read() {
    let page = include_str!("../../../../docs/CONFIG.md");
    let examples: Vec<_> = page.split("```toml\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
    let config = said(Layer::User, examples[0]);
    let commented = examples[0].lines().filter_map(|line| line.strip_prefix("# ")).filter(|line| line.contains(" = "));
    let all = commented.map(|line| line.split(" = ").next().unwrap().to_owned());
    let mut names: Vec<_> = all.chain(config.values.keys().map(|name| (*name).to_owned())).collect();
    names.sort();
    let mut known: Vec<_> = settings::ALL.iter().map(|setting| setting.name.to_owned()).collect();
    known.sort();
    assert_eq!(names, known, "each setting is in the example");
    assert!(config.rules.rules.len() >= 4);
    assert!(Ruleset::from_toml("rules", examples[1]).unwrap().rules.len() >= 4);
}
