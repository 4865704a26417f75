//! What a command costs to read: counted in bytes, nodes and steps, never in time.

use super::*;

/// Families of texts that cost a parser, a walk or an unfolding much: each repeated to a size.
const FAMILIES: &[(&str, &str)] = &[
    ("a|", ""),
    ("a;", ""),
    ("a\n", ""),
    ("a&&", "a"),
    ("(", ")"),
    ("(", ""),
    ("$(", ")"),
    ("\"$(", ")\""),
    ("$((", ""),
    ("<<E ", ""),
    ("a <<E\n", ""),
    ("{a,", ""),
    ("{a,", "}"),
    ("ssh ", ""),
    ("env ", ""),
    ("sudo ", ""),
    ("xargs ", ""),
    ("flock a ", ""),
    ("find . -exec ", ""),
    ("x=1 ", ""),
    ("&& ", ""),
    ("\"", ""),
    ("'\"' ", ""),
    ("${", ""),
    ("${a:-", "}"),
    ("[[ a && ", " ]]"),
    ("if a;then ", ";fi"),
    ("`", ""),
    ("*`>", ""),
    ("'|}[", ""),
    ("a ))[", ""),
    ("!(<<<", ""),
    ("a ~/b ", ""),
    ("cd a;cat b c d e f g h;", ""),
    ("ssh 'ssh ", ""),
    ("watch 'a b' ", ""),
    ("case a in a)", ""),
    (")", ""),
];

/// H-25, F21: one answer of a model ended the process. Counted are bytes, nodes, reports of the parser and steps of the walk, and
/// no time.
#[test]
fn no_text_costs_more_than_its_bounds() {
    for (before, behind) in FAMILIES {
        for bytes in [500, 2_000, 8_000, 16_000, 64_000, 1_000_000] {
            let many = bytes / (before.len() + behind.len());
            let text = format!("{}a{}", before.repeat(many), behind.repeat(many));
            let steps = scan::steps(&text);
            assert!(steps <= bounds::STEPS_MAX, "{before}: {steps} steps for {bytes} bytes");
            assert!(
                steps <= 20_000 + 100 * text.len().min(bounds::TEXT_BYTES_MAX),
                "{before}: {steps} steps of {bytes}"
            );
            if bytes > bounds::TEXT_BYTES_MAX {
                assert_eq!(
                    steps,
                    text.len().min(bounds::STEPS_MAX) * usize::from(text.len() <= bounds::STEPS_MAX),
                    "{before}"
                );
                assert!(is_unclear(&text), "{before} in {bytes} bytes");
            }
            if let Ok(tree) = tree::parse(&text) {
                assert!(tree.root_node().descendant_count() <= bounds::NODES_MAX, "{before}");
            }
        }
    }
}

/// F21: "ssh ssh ssh …" took a step for each pair of its words.
#[test]
fn runners_in_one_another_take_steps_in_proportion_to_their_words() {
    for words in [10, 30, 1_000, 4_000] {
        let steps = scan::steps(&format!("{}rm x", "ssh ".repeat(words)));
        assert!(steps < 400_000, "{words} words: {steps} steps");
    }
    let denied = ruleset(&[("bash", "*", Action::Allow), ("bash", "rm *", Action::Deny)]);
    for words in [1, 2, 5, 30, 39, 1_000] {
        let command = format!("{}rm x", "ssh ".repeat(words));
        assert_ne!(judged(&denied, &command).action, Action::Allow, "{words}");
    }
}

/// What a person would write stays within the bounds.
#[test]
fn a_long_ordinary_command_is_read() {
    let heredoc =
        format!("cat > a.md <<'E'\n{}E\n", "| a table | with cells | and words that make it long |\n".repeat(120));
    let script = "for f in src/*.rs; do grep -n \"fn $f\" \"$f\" | head -3 > /dev/null; done\n".repeat(60);
    let chain = (0..40).map(|n| format!("cargo test --test t{n}")).collect::<Vec<_>>().join(" && ");
    for command in [heredoc, script, chain, format!("echo '{}'", "plain text. ".repeat(1_300))] {
        assert!(!is_unclear(&command), "{command}");
    }
}

/// Prints the peak of memory of the process after each of the worst texts that are within the bounds.
/// `cargo test --lib costs::memory -- --ignored --nocapture`
#[test]
#[ignore = "it measures"]
fn memory() {
    let peak = || {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        status.lines().find(|line| line.starts_with("VmHWM")).unwrap_or_default().to_owned()
    };
    println!("before: {}", peak());
    let worst = [
        "a|".repeat(bounds::PIPES_MAX),
        "a a a a a a a a a a a a a a a |".repeat(bounds::PIPES_MAX),
        "a;".repeat(bounds::SIGNS_MAX),
        "a\n".repeat(bounds::SIGNS_MAX),
        "*`>".repeat(bounds::BACKQUOTES_MAX),
        "| 2esac'a''a''a''a''a''a''a'".repeat(500),
    ];
    for text in worst {
        drop(analyse(&text[..text.len().min(bounds::TEXT_BYTES_MAX)], ""));
        println!("{:?}…: {}", &text[..8], peak());
    }
}
