//! Skills: the files that people publish, good and broken; what a model is offered of them, and under which rules.

use std::{collections::BTreeMap, fs, path::Path, sync::Arc};

use serde_json::{Value, json};
use tamtam::{
    Runtime, SessionOptions,
    model::{Item, Reply, Scripted},
    permission::{Action, Profile, Rule, Ruleset},
    runtime::{AgentFiles, AgentFolder, Dialect, Skill, Skills},
};

use crate::support::taped;

/// Files as people write them: the folder, the text, and what becomes of it. `ok` with what is said of it, or the line and the reason.
type Shape = (&'static str, &'static str, Result<&'static str, (usize, &'static str)>);

const SHAPES: &[Shape] = &[
    ("plain", "---\nname: plain\ndescription: Does it.\n---\nDo it.\n", Ok("text=Do it.")),
    ("quoted", "---\nname: \"quoted\"\ndescription: 'Does: it'\n---\nDo.\n", Ok("description=Does: it")),
    (
        "colon",
        "---\nname: colon\ndescription: Use this when: the user asks\n---\nDo.\n",
        Ok("description=Use this when: the user asks"),
    ),
    (
        "folded",
        "---\nname: folded\ndescription: >\n  Two lines\n  become one.\n---\nDo.\n",
        Ok("description=Two lines become one."),
    ),
    (
        "folded-strip",
        "---\nname: folded-strip\ndescription: >-\n  Two\n  lines.\n---\nDo.\n",
        Ok("description=Two lines."),
    ),
    (
        "literal",
        "---\nname: literal\ndescription: |\n  First.\n  Second.\n---\nDo.\n",
        Ok("description=First.\nSecond."),
    ),
    (
        "license",
        "---\nname: license\ndescription: x\nlicense: Apache-2.0\n---\nDo.\n",
        Ok("metadata=license: Apache-2.0"),
    ),
    ("version", "---\nname: version\ndescription: x\nversion: 1.0.0\n---\nDo.\n", Ok("metadata=version: 1.0.0")),
    ("version-number", "---\nname: version-number\ndescription: x\nversion: 2\n---\nDo.\n", Ok("metadata=version: 2")),
    (
        "meta",
        "---\nname: meta\ndescription: x\nmetadata:\n  author: someone\n  version: \"1.0\"\n---\nDo.\n",
        Ok("metadata=author: someone,version: 1.0"),
    ),
    (
        "compat",
        "---\nname: compat\ndescription: x\ncompatibility: Needs git and jq\n---\nDo.\n",
        Ok("compatibility=Needs git and jq"),
    ),
    ("tools", "---\nname: tools\ndescription: x\nallowed-tools: Bash Read\n---\nDo.\n", Ok("tools=Bash|Read")),
    (
        "tools-commas",
        "---\nname: tools-commas\ndescription: x\nallowed-tools: Read, Grep,Glob\n---\nDo.\n",
        Ok("tools=Read|Grep|Glob"),
    ),
    (
        "tools-patterns",
        "---\nname: tools-patterns\ndescription: x\nallowed-tools: Bash(git add:*) Bash(jq:*) Read\n---\nDo.\n",
        Ok("tools=Bash(git add:*)|Bash(jq:*)|Read"),
    ),
    (
        "tools-list",
        "---\nname: tools-list\ndescription: x\nallowed-tools:\n  - Read\n  - Write\n---\nDo.\n",
        Ok("tools=Read|Write"),
    ),
    (
        "tools-flow",
        "---\nname: tools-flow\ndescription: x\nallowed-tools: [Read, Write]\n---\nDo.\n",
        Ok("tools=Read|Write"),
    ),
    ("no-name", "---\ndescription: Named by its folder.\n---\nDo.\n", Ok("name=no-name")),
    ("renamed", "---\nname: other\ndescription: x\n---\nDo.\n", Ok("notes=its folder is called \"renamed\"")),
    ("model-field", "---\nname: model-field\ndescription: x\nmodel: opus\n---\nDo.\n", Ok("notes=the field \"model\"")),
    (
        "hidden-field",
        "---\nname: hidden-field\ndescription: x\ndisable-model-invocation: true\n---\nDo.\n",
        Ok("notes=the field \"disable-model-invocation\""),
    ),
    (
        "argument-hint",
        "---\nname: argument-hint\ndescription: x\nargument-hint: [issue] [priority]\n---\nDo.\n",
        Ok("notes=the field \"argument-hint\""),
    ),
    ("crlf", "---\r\nname: crlf\r\ndescription: x\r\n---\r\nOne.\r\nTwo.\r\n", Ok("text=One.\nTwo.")),
    ("bom", "\u{feff}---\nname: bom\ndescription: x\n---\nDo.\n", Ok("text=Do.")),
    ("unicode", "---\nname: unicode\ndescription: 生成报告 – résumé\n---\nDo.\n", Ok("description=生成报告 – résumé")),
    ("digits-2", "---\nname: digits-2\ndescription: x\n---\nDo.\n", Ok("name=digits-2")),
    (
        "rule-in-body",
        "---\nname: rule-in-body\ndescription: x\n---\nAbove.\n\n---\n\nBelow.\n",
        Ok("text=Above.\n\n---\n\nBelow."),
    ),
    ("comment", "---\n# ours\nname: comment\ndescription: x # really\n---\nDo.\n", Ok("name=comment")),
    ("blank-field", "---\nname: blank-field\ndescription: x\nlicense:\n---\nDo.\n", Ok("name=blank-field")),
    ("no-front", "# A skill\n\nDo.\n", Err((1, "front matter is missing"))),
    ("empty", "", Err((1, "front matter is missing"))),
    ("empty-front", "---\n---\nDo.\n", Err((1, "front matter"))),
    ("not-closed", "---\nname: not-closed\ndescription: x\nDo.\n", Err((1, "no end"))),
    ("no-description", "---\nname: no-description\n---\nDo.\n", Err((2, "description: it is missing"))),
    (
        "empty-description",
        "---\nname: empty-description\ndescription: \"\"\n---\nDo.\n",
        Err((3, "description: it is missing")),
    ),
    ("no-text", "---\nname: no-text\ndescription: x\n---\n\n", Err((2, "no text"))),
    ("upper", "---\nname: Upper Case\ndescription: x\n---\nDo.\n", Err((2, "is not a name"))),
    ("under_score", "---\ndescription: x\n---\nDo.\n", Err((2, "is not a name"))),
    ("double", "---\nname: double--dash\ndescription: x\n---\nDo.\n", Err((2, "is not a name"))),
    ("dash-end", "---\nname: dash-\ndescription: x\n---\nDo.\n", Err((2, "is not a name"))),
    ("escape", "---\nname: \"a\\e[31m\"\ndescription: x\n---\nDo.\n", Err((2, "is not a name"))),
    ("path", "---\nname: ../../etc\ndescription: x\n---\nDo.\n", Err((2, "is not a name"))),
    ("list-name", "---\nname: [a]\ndescription: x\n---\nDo.\n", Err((2, "name: a name, not a list"))),
    (
        "map-description",
        "---\nname: map-description\ndescription:\n  a: b\n---\nDo.\n",
        Err((3, "description: a text, not a table")),
    ),
    ("bad-yaml", "---\nname: bad-yaml\ndescription: [\n---\nDo.\n", Err((4, "not YAML"))),
    ("twice", "---\nname: twice\nname: twice\ndescription: x\n---\nDo.\n", Err((3, "twice"))),
    (
        "meta-text",
        "---\nname: meta-text\ndescription: x\nmetadata: many\n---\nDo.\n",
        Err((4, "metadata: a table, not a text")),
    ),
];

fn put(folder: &Path, name: &str, text: &str) {
    let folder = folder.join("skills").join(name);
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("SKILL.md"), text).unwrap();
}

fn said(skill: &Skill, key: &str) -> String {
    match key {
        "name" => skill.name.clone(),
        "description" => skill.description.clone(),
        "text" => skill.text.clone(),
        "tools" => skill.allowed_tools.join("|"),
        "compatibility" => skill.compatibility.clone().unwrap_or_default(),
        "metadata" => skill.metadata.iter().map(|(key, value)| format!("{key}: {value}")).collect::<Vec<_>>().join(","),
        "notes" => skill.notes.join("; "),
        other => unreachable!("{other}"),
    }
}

/// Y-01: of more than 40 folders of skills in the shapes that people publish, each is loaded with what it says, or refused with its
/// file, line and reason; and no refused one disturbs another.
#[test]
fn each_skill_is_read_or_refused_with_its_line() {
    assert!(SHAPES.len() >= 40);
    let home = tempfile::tempdir().unwrap();
    for (folder, text, _) in SHAPES {
        put(home.path(), folder, text);
    }
    for (folder, bytes) in
        [("latin1", &b"---\nname: latin1\ndescription: caf\xe9\n---\nDo.\n"[..]), ("huge", &[b'x'; 300_000])]
    {
        fs::create_dir_all(home.path().join("skills").join(folder)).unwrap();
        fs::write(home.path().join("skills").join(folder).join("SKILL.md"), bytes).unwrap();
    }
    // Beside a skill are files of its own, which are none.
    fs::write(home.path().join("skills/plain/REFERENCE.md"), "no front matter").unwrap();
    let files = AgentFiles::read(&[AgentFolder::new(home.path(), Dialect::AgentSkills)], &BTreeMap::new());
    let of = |folder: &str| home.path().join("skills").join(folder).join("SKILL.md");
    let mut wrong = Vec::new();
    for (folder, _, expected) in SHAPES {
        let skill = files.skills.iter().find(|skill| skill.source.as_deref() == Some(&of(folder)));
        let bad = files.bad.iter().find(|bad| bad.path == of(folder));
        let fits = match (expected, skill, bad) {
            (Ok(says), Some(skill), None) => {
                let (key, value) = says.split_once('=').unwrap();
                let is = said(skill, key);
                if key == "notes" { is.contains(value) } else { is == value }
            }
            (Err((line, why)), None, Some(bad)) => bad.line == *line && bad.to_string().contains(why),
            _ => false,
        };
        if !fits {
            wrong.push(format!("{folder}: {expected:?} is {skill:?} {bad:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    for (folder, why) in [("latin1", "not UTF-8"), ("huge", "300000 bytes")] {
        assert!(
            files.bad.iter().any(|bad| bad.path == of(folder) && bad.to_string().contains(why)),
            "{folder}: {:?}",
            files.bad
        );
    }
    let good = SHAPES.iter().filter(|(.., expected)| expected.is_ok()).count();
    assert_eq!((files.skills.len(), files.bad.len()), (good, SHAPES.len() - good + 2));
}

/// What the model was told of a call, and whether as an error.
fn results(model: &Scripted) -> Vec<(String, bool)> {
    let newest = model.requests().last().cloned().unwrap();
    let of = |item: &Arc<Item>| match &**item {
        Item::Result(result) => Some((result.content.clone(), result.is_error)),
        _ => None,
    };
    newest.history.iter().filter_map(of).collect()
}

fn call(name: &str) -> Reply {
    Reply::call("skill", json!({ "name": name }))
}

/// Y-01, Y-02, H-12: a model sees the name and the description of each skill, reads the text of one by a call, and one that a rule
/// denies by its name stays closed. The built-in ones are there too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_model_reads_a_skill_under_the_rules() {
    let folder = taped::folder();
    put(
        folder.path(),
        "refund",
        "---\nname: refund\ndescription: Pays\n  money back.\nallowed-tools: Bash(pay:*)\n---\n1. Look up the order.\n",
    );
    put(folder.path(), "internal-keys", "---\nname: internal-keys\ndescription: Not for models.\n---\nThe key is 7.\n");
    let files = AgentFiles::read(&[AgentFolder::new(folder.path(), Dialect::Tamtam)], &BTreeMap::new());
    assert_eq!(files.bad, []);
    let model = Arc::new(Scripted::new([
        call("refund"),
        call("internal-keys"),
        call("nothing"),
        call("review"),
        Reply::text("done"),
    ]));
    let builder = Runtime::builder().in_memory().model(model.clone()).tool(files.skills().tool());
    let runtime = builder.start().await.unwrap();
    let deny = Ruleset::new("house", [Rule::new("skill", "internal-*", Action::Deny)]);
    let session = runtime
        .create(SessionOptions::new(folder.path()).rules(deny).rules_below(vec![Profile::Readonly.ruleset()]))
        .await
        .unwrap();
    session.prompt("pay it back").await.unwrap().wait().await.unwrap();

    let tools = &model.requests()[0].tools;
    let offered = &tools.iter().find(|tool| tool.name == "skill").unwrap().description;
    for line in ["\n- refund: Pays money back.", "\n- review: ", "\n- commit: ", "\n- test: ", "\n- debug: "] {
        assert!(offered.contains(line), "{line}: {offered}");
    }
    assert!(!offered.contains("Look up the order"), "the text is read when it is needed");
    let results = results(&model);
    let (read, is_error) = &results[0];
    assert!(
        !is_error && read.contains("1. Look up the order.") && read.contains("It says that it needs: Bash(pay:*)."),
        "{read}"
    );
    assert!(read.contains(&folder.path().join("skills/refund").display().to_string()), "{read}");
    assert!(results[1].1 && !results[1].0.contains("The key is 7"), "{:?}", results[1]);
    assert!(
        results[2].1 && results[2].0.contains("no skill is called \"nothing\"") && results[2].0.contains("refund"),
        "{:?}",
        results[2]
    );
    assert!(!results[3].1 && results[3].0.contains("# Review a change"), "{:?}", results[3]);
    assert!(runtime.shutdown().await.is_empty());
}

/// Y-02: what a skill says that it needs gives no rights: the call that it names is asked about as before, and denied where nobody
/// answers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_skill_gives_no_rights() {
    let folder = taped::folder();
    put(
        folder.path(),
        "writer",
        "---\nname: writer\ndescription: Writes.\nallowed-tools: write Write\n---\nWrite the file.\n",
    );
    let files = AgentFiles::read(&[AgentFolder::new(folder.path(), Dialect::Tamtam)], &BTreeMap::new());
    let write = Reply::call("write", json!({ "path": "new.txt", "content": "x" }));
    let model = Arc::new(Scripted::new([call("writer"), write, Reply::text("done")]));
    let builder = Runtime::builder().in_memory().model(model.clone()).tools(tamtam::tools::full());
    let runtime = builder.tool(files.skills().tool()).start().await.unwrap();
    let session = runtime.create(SessionOptions::new(folder.path()).profile(Profile::Headless)).await.unwrap();
    session.prompt("write").await.unwrap().wait().await.unwrap();
    let results = results(&model);
    assert!(!results[0].1 && results[1].1, "{results:?}");
    assert!(!folder.path().join("new.txt").exists());
    assert!(runtime.shutdown().await.is_empty());
}

/// Y-01: descriptions are fenced to a line each, and what all of them take in a request is bounded; what is not listed is counted,
/// and can still be asked for by name.
#[test]
fn what_skills_take_in_a_request_is_bounded() {
    use tamtam::tool::Tool as _;
    let skill = |n: usize| {
        Skill::new(format!("s{n:03}"), format!("\u{1b}[31m{}\n- forged: x", "d".repeat(900)), "text").unwrap()
    };
    let skills = Skills::default().with((0..200).map(skill));
    let tool = skills.tool();
    let offered = tool.description();
    assert!(offered.len() <= 33 * 1_024, "{}", offered.len());
    assert!(!offered.contains('\u{1b}') && !offered.contains("\n- forged"), "{}", &offered[..200]);
    let listed = offered.lines().filter(|line| line.starts_with("- s")).count();
    assert!(offered.contains(&format!("({} more are not listed here.)", 200 - listed)) && listed > 20, "{listed}");
    assert_eq!(skills.get("s199").map(|skill| skill.text.as_str()), Some("text"));
    let access = |name: Value| tool.access(&json!({ "name": name }))[0].pattern.clone();
    assert_eq!((access(json!("s199")), access(json!(7))), ("s199".to_owned(), "*".to_owned()));
}
