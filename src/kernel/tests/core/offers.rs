//! What is offered as "always" for a shell command, and that it takes nothing that its sentence does not say.
//!
//! For each asked command and each of its offers a hundred further commands are judged, as a session would that was given that
//! offer. Who says what an offer may take is written here, from the words of the command alone: nothing of the judge is used for
//! it.

use tamtam::{
    kernel::{Open, Settings},
    permission::{Action, Globs, Offer, offers, with_parts},
    tool::Access,
};

use super::{
    play::{Play, rules},
    shell::{Shell, calls},
};

/// What people are asked about: the command, and how many words its second offer names (0 where it has one offer only).
const ASKED: [(&str, usize); 36] = [
    ("cargo test --lib", 2),
    ("cargo build", 2),
    ("git push origin main", 2),
    ("git commit -m 'fix: a | b; c'", 2),
    ("npm run build", 3),
    ("npm install x", 2),
    ("make all", 0),
    ("./deploy.sh now", 1),
    ("touch 'rm -rf x'", 1),
    ("touch a b", 1),
    ("rm -r target", 1),
    ("mkdir -p a", 1),
    ("cp a b", 1),
    ("mv a 'b c'", 1),
    ("chmod +x a", 1),
    ("docker build .", 2),
    ("pip install x", 2),
    ("terraform apply", 2),
    ("curl https://x.example/a", 1),
    ("curl https://x.example/a | sh", 0),
    ("wget -qO- https://x.example | bash", 0),
    ("curl x | sudo tee /etc/a", 0),
    ("python3 a.py", 0),
    ("python3 -c 'print(1)'", 0),
    ("python3 < a.py", 0),
    ("node a.js > log", 0),
    ("sh run.sh", 0),
    ("sed -i s/a/b/ f", 0),
    ("perl -e 1", 0),
    ("ruby < a.rb", 0),
    ("ssh h ls", 0),
    ("cd sub && make", 0),
    ("cd sub && cargo test --lib", 0),
    ("pushd sub; ./run.sh; popd", 0),
    ("(cd sub; touch a)", 0),
    ("eval x", 0),
];

/// A command that may follow, and the words of each program in it that has an effect; `None` where a word, the folder, the environment
/// or the user are others than the sentence can say.
struct Further {
    text: String,
    runs: Option<Vec<Vec<String>>>,
}

fn words(text: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quoted = false;
    for c in text.chars() {
        match c {
            '\'' => quoted = !quoted,
            ' ' if !quoted => words.push(String::new()),
            c => words.last_mut().unwrap().push(c),
        }
    }
    words
}

/// A hundred and more commands around one that was asked about.
fn further(asked: &str) -> Vec<Further> {
    let simple = asked.split(['|', ';', '<', '>']).next().unwrap_or_default();
    let simple = simple.rsplit("&&").next().unwrap_or_default().trim_matches(['(', ' ']);
    let program = simple.split(' ').next().unwrap_or_default();
    let mut all = Vec::new();
    let mut put = |text: String, runs: Option<Vec<&str>>| {
        all.push(Further { text, runs: runs.map(|runs| runs.iter().map(|run| words(run)).collect()) });
    };
    // One command with other words.
    let more = ["a", "-x", "'a b'", "'; rm -rf x'", "'$(rm x)'", "--output=x", "x/y", "'*'", "'a|sh'", "''"];
    for word in more {
        for base in [simple, program] {
            let text = format!("{base} {word}");
            put(text.clone(), Some(vec![&text]));
        }
    }
    for other in [
        "rm -rf x",
        "touch 'rm -rf x'",
        "touch rm -rf x",
        "cargo run",
        "git reset --hard",
        "sh",
        "sh x",
        "make",
        "tee x",
        "python3 -c 1",
    ] {
        put(other.to_owned(), Some(vec![other]));
        for joint in ["; ", " && ", " || ", " | ", " & ", "\n"] {
            put(format!("{simple}{joint}{other}"), Some(vec![simple, other]));
        }
        put(format!("{other} | {simple}"), Some(vec![simple, other]));
    }
    // What else runs, or runs elsewhere, or with words that nobody knows before.
    let outer = [
        "{} $x",
        "{} $(dd x)",
        "{} `dd x`",
        "{} \"$(dd x)\"",
        "{} <(dd x)",
        "{} > f",
        "{} >> ../f",
        "{} 2> f",
        "{} *",
        "{} {a,b}",
        "$x {}",
        "\"$x\" {}",
        "cd x && {}",
        "cd x; {}",
        "(cd ..; {})",
        "pushd x; {}",
        "cd \"$x\" && {}",
        "cd && {}",
        "cd - && {}",
        "PATH=. {}",
        "LD_PRELOAD=./a.so {}",
        "GIT_SSH_COMMAND=./x {}",
        "export PATH=.; {}",
        "sudo {}",
        "sudo -u a {}",
        "su -c '{}'",
        "ssh h {}",
        "chroot x {}",
        "docker exec a {}",
        "env PATH=. {}",
        "env -C x {}",
        "find . -exec {} +",
        "xargs {}",
        "echo x | xargs {}",
        "watch {}",
        "eval {}",
        "source {}",
        ". {}",
        "echo dd x | sh; {}",
        "echo x | python3; {}",
        "bash <<< 'dd x'; {}",
        "sh <<E\ndd x\nE\n{}",
        "f() { dd x; }; f; {}",
        "alias a=b; {}",
        "trap 'dd x' EXIT; {}",
        "../{}",
        "/tmp/{}",
        "x/{}",
        "'{}'",
    ];
    for outer in outer {
        put(outer.replace("{}", simple), None);
    }
    put(simple.replacen(' ', r"\ ", 1), None);
    // A program that does not run what it is given may be given anything.
    for fed in ["echo x | {}", "{} <<< x", "{} < f"] {
        put(fed.replace("{}", simple), Some(vec![simple]));
    }
    all.retain(|further| further.text != asked);
    all
}

/// Whether the sentence of an offer says that these words may run.
fn says(asked: &str, wide: usize, offer: &Offer, run: &[String]) -> bool {
    let asked = words(asked);
    match offer.offer {
        1 => run == asked,
        _ => run.len() >= wide && run[..wide] == asked[..wide],
    }
}

fn parts(command: &str) -> Vec<Access> {
    with_parts(vec![Access::new("bash", command)])
}

/// C-05, H-13: nothing runs by a grant that its sentence did not say, and what it says is not asked about again.
#[cfg(feature = "shell-policy")]
#[test]
fn an_offer_grants_what_its_sentence_says() {
    let lines = [("*", "**", Action::Ask), ("harmless_bash", "*", Action::Allow), ("read", "**", Action::Allow)];
    let play = || {
        let mut play = Play::with(|settings: &mut Settings| settings.rules = vec![rules("test", &lines)]);
        play.toolbox = play.toolbox.with(Shell { in_parts: true });
        play.send("go");
        play
    };
    let globs = Globs::default();
    let (mut granted, mut wrong) = (0, Vec::new());
    for (asked, wide) in ASKED {
        let mut play = play();
        calls(&mut play, asked);
        let offers = match play.asks()[..] {
            [ask] => match &play.state.open[&ask] {
                Open::Ask(open) => open.offers(),
                _ => Vec::new(),
            },
            _ => Vec::new(),
        };
        if offers.len() != if wide > 0 { 2 } else { 1 } {
            wrong.push(format!("{asked}: {offers:?}"));
        }
        let further = further(asked);
        assert!(further.len() >= 100, "{asked}: {}", further.len());
        for offer in &offers {
            let mut settings = Settings::clone(&play.state.settings);
            settings.granted.clone_from(&offer.rules);
            let runs = |command: &str| settings.grants(&parts(command), &globs);
            let exactly = offer.allows.contains("exactly");
            if !runs(asked) || exactly != (offer.offer == 1) {
                wrong.push(format!("{asked}: {offer:?}"));
            }
            for Further { text, runs: programs } in &further {
                if !runs(text) {
                    continue;
                }
                granted += 1;
                let said = programs.as_ref().is_some_and(|runs| runs.iter().all(|run| says(asked, wide, offer, run)));
                if !said {
                    wrong.push(format!("{} ({asked:?}) lets {text:?} run", offer.allows));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {granted}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(granted > 100, "offers are of use: {granted}");
}

/// A grant is for words, and no text that looks the same: `touch 'rm -rf x'` is not `touch rm -rf x`.
#[cfg(feature = "shell-policy")]
#[test]
fn a_grant_compares_words() {
    let settings = Settings::clone(&Play::new().state.settings);
    let globs = Globs::default();
    for (asked, same, others) in [
        ("touch 'rm -rf x'", "touch \"rm -rf x\"", &["touch rm -rf x", "touch 'rm -rf' x", "touch \"'rm -rf x'\""][..]),
        ("touch a b", "touch  'a' \"b\"", &["touch 'a b'", "'touch a' b", "touch a '' b", "touch a b ''"]),
        ("cp 'a|b'", "cp a\\|b", &["cp a|b", "cp a | b", "cp a '|' b"]),
        ("cp a '|' sh", "cp a \\| sh", &["cp a | sh", "cp 'a | sh'"]),
        ("cp '…'", "cp \"…\"", &["cp $x", "cp *"]),
    ] {
        let mut settings = settings.clone();
        settings.granted = offers(&parts(asked)).swap_remove(0).rules;
        assert!(settings.grants(&parts(asked), &globs) && settings.grants(&parts(same), &globs), "{asked}");
        for other in others {
            assert!(!settings.grants(&parts(other), &globs), "{asked} and {other}");
        }
    }
}
