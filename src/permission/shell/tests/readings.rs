//! Where our reading of a command and the shell's could differ.

use super::*;

/// F1: what another shell reads otherwise than bash is not judged as bash reads it.
#[test]
fn a_text_for_another_shell_is_judged_where_all_read_it_alike() {
    let apart = [
        "echo $'\\\\'; touch M #\\''",
        "[[ a > M ]]",
        "[[ a || ./x ]]",
        "a &> M",
        "a &>> M",
        "a >& M",
        "a >&M1",
        "cat <(touch M)",
        "cat <<< a",
        "a |& b",
        "echo {a,b}",
        "echo $\"a\"",
        "((a))",
        "echo $((1+1))",
        "function f { a; }",
        "select a in b; do c; done",
        "a 10> M",
        "a+=1",
        "a=(b)",
        "echo ${a:1}",
        "a <<E\nb\nE",
        "!(a)",
        "time a",
        "source a",
        "a;& b",
    ];
    let shells = [
        "sh",
        "dash",
        "ash",
        "busybox sh",
        "/bin/sh",
        "ksh",
        "ksh93",
        "mksh",
        "pdksh",
        "zsh",
        "zsh-5.9",
        "fish",
        "yash",
        "posh",
        "csh",
        "tcsh",
    ];
    for shell in shells {
        for text in apart {
            let command = format!("{shell} -c '{}'", text.replace('\'', "'\\''"));
            assert!(is_unclear(&command), "{command}");
        }
        assert!(texts(&format!("{shell} -c 'a \"b c\"; d && e'")).contains(&"d".to_owned()), "{shell}");
    }
    for shell in ["nu", "elvish", "pwsh", "xonsh", "rc"] {
        assert!(is_unclear(&format!("{shell} -c 'a b'")), "{shell}");
    }
    for text in ["repeat 3 a", "\"repeat\" 3 a", "noglob a", "and a", "foreach x", "begin a"] {
        assert!(is_unclear(&format!("zsh -c '{text}'")), "{text}");
    }
    for text in [
        "cd a && b > c 2>&1",
        "for f in a b; do c \"$f\"; done",
        "echo $(d e)",
        "a | b > /dev/null",
        "[ -f a ] && ! b; c",
    ] {
        assert!(!is_unclear(&format!("sh -c '{text}'")), "{text}");
    }
    assert!(texts("rbash -c '[[ a == b ]] && c'").contains(&"c".to_owned()));
}

/// F17: a shell that is given no script runs what it reads from a pipe, a heredoc, a string or a terminal.
#[test]
fn a_shell_without_a_script_is_unclear() {
    for command in [
        "bash",
        "bash <<'E'\ntouch M\nE",
        "bash <<< 'touch M'",
        "echo touch M | bash",
        "echo touch M | sh -s",
        "echo touch M | sh -",
        "bash /dev/stdin",
        "bash /dev/fd/0",
        "bash /proc/self/fd/0",
        "bash <(echo touch M)",
        "source /dev/stdin",
        ". <(echo touch M)",
        "bash --rcfile M -i",
        "bash --init-file M",
        "bash --posix -c 'a'",
        "bash -o posix -c 'a'",
        "bash -O extglob -c 'a'",
        "bash \"$x\"",
        "bash -- \"$x\"",
        "zsh",
        "csh",
        "tcsh < M",
        "busybox sh",
    ] {
        assert!(is_unclear(command), "{command}");
    }
    for command in ["bash script.sh", "sh ./a b", "bash --version", "bash -e a.sh"] {
        assert!(!is_unclear(command), "{command}");
    }
}

/// F2: `[` is `test` in every spelling. And what else evaluates a name.
#[test]
fn no_spelling_hides_what_evaluates_a_name() {
    for command in [
        "test -v 'x[$(touch M)]'",
        "[ -v 'x[$(touch M)]' ]",
        "\\[ -v 'x[$(touch M)]' ]",
        "'[' -v 'x[$(touch M)]' ]",
        "command [ -v 'x[$(touch M)]' ]",
        "builtin [ -v 'x[$(touch M)]' ]",
        "command test -R x",
        "/usr/bin/[ -v a ]",
        "printf -v 'x[$(touch M)]' a",
        "printf 'abc%n' PATH",
        "printf '%% %5hhn' PATH",
        "printf \"%$x\" PATH",
        "printf \"$x\" PATH",
        "true {PATH}>/dev/null",
        "true a {PATH}>&1",
        "{PATH}</dev/null true",
        "jobs -x touch M",
        "jobs -rx touch M",
        "wait -p 'x[$(touch M)]'",
    ] {
        assert!(is_unclear(command), "{command}");
    }
    for command in ["printf '%s\\n' a", "printf '%5d%%\\n' 3", "{ a; } > b", "a ${x}>b", "jobs -l"] {
        assert!(!is_unclear(command), "{command}: {:?}", analyse(command, ""));
    }
}

/// In Shift-JIS the two bytes of `\u{84}\\` are one character, and the quote behind them ends the string.
#[test]
fn a_locale_beside_characters_that_it_could_change_is_unclear() {
    for command in [
        "LC_ALL=ja_JP.SJIS\necho \"\u{c4}\\\" ; touch M #\"",
        "LC_ALL=ja_JP.SJIS bash -c 'echo \"\u{c4}\\\" ; touch M #\"'",
        "env L''ANG=ja_JP.SJIS bash -c 'echo \u{c4}\\'",
    ] {
        assert!(is_unclear(command), "{command}");
    }
    assert!(!is_unclear("LC_ALL=C grep a b") && !is_unclear("grep \u{c4} b"));
}

/// F6: bash expands the word of `>&` twice.
#[test]
fn a_word_that_bash_expands_twice_is_unclear() {
    for command in ["a >&'$(touch M)'", "a >& '`touch M`'", "a >&\\$x", "a >&\"b\"", "a <&'$(b)'", "a >&~/b"] {
        assert!(is_unclear(command), "{command}");
    }
    assert_eq!(found("a >& b").writes, ["b"]);
    assert!(!is_unclear("a 2>&1 >&2 3<&0 4>&-"));
}

/// F12: a path in a home folder is a read outside of the workspace, and a read of anything that a rule about that folder names.
#[test]
fn a_home_folder_is_outside() {
    for command in
        ["cat ~/.ssh/id_rsa", "ls ~", "ls ~root/x", "head -n 1 ~/a", "cat ~/../a", "cat a ~+/b", "cd a && cat ~/b"]
    {
        assert_eq!(judged(&Profile::Auto.ruleset(), command).action, Action::Ask, "{command}");
        assert_eq!(judged(&Profile::Edits.ruleset(), command).action, Action::Ask, "{command}");
        assert_eq!(judged(&Profile::Readonly.ruleset(), command).action, Action::Deny, "{command}");
    }
    let mut rules = Profile::Auto.ruleset();
    rules.rules.push(Rule::new("external_directory", "*", Action::Allow));
    assert_eq!(judged(&rules, "cat ~/a").action, Action::Allow);
    rules.rules.push(Rule::new("read", "/home/*/.ssh/**", Action::Deny));
    rules.rules.push(Rule::new("read", "secrets/**", Action::Deny));
    assert_eq!(judged(&rules, "cat ~/.ssh/id_rsa").action, Action::Ask);
    assert_eq!(judged(&rules, "cat ~/x/secrets/a").action, Action::Ask);
    rules.rules.truncate(rules.rules.len() - 2);
    rules.rules.push(Rule::new("read", "**/*.pem", Action::Deny));
    assert_eq!(judged(&rules, "cat ~/b.pem").action, Action::Deny);
    assert_eq!(judged(&rules, "cat ~/b/a").action, Action::Allow);
    // A rule about a command still sees that the word may be anything.
    let denied = ruleset(&[("bash", "*", Action::Allow), ("bash", "rm /home/*", Action::Deny)]);
    assert_eq!(judged(&denied, "rm ~/x").action, Action::Ask);
    assert!(is_unclear("cd ~") && is_unclear("a > ~/x"));
}

/// CVE-2026-22708: what a builtin of bash can do to a later command. The list is that of `compgen -b` of bash 5.2, with the words of
/// the syntax that declare. Either none of its forms changes what a later program is, reads or runs, or the command is unclear.
#[test]
fn no_builtin_changes_what_a_later_command_is() {
    for (builtin, args, unclear) in [
        (".", "f", true),
        (":", "a", false),
        ("[", "a ]", false),
        ("[", "-v a ]", true),
        ("alias", "ls=./x", true),
        ("bg", "", false),
        ("bind", "-x a", true),
        ("break", "", false),
        ("builtin", "echo a", false),
        ("builtin", "export PAGER=./x", true),
        ("builtin", "eval a", true),
        ("caller", "", false),
        ("cd", "a", false),
        ("command", "ls", false),
        ("command", "export PAGER=./x", true),
        ("command", "-p export PAGER=./x", true),
        ("compgen", "-C ./x", true),
        ("complete", "-C ./x a", true),
        ("compopt", "a", true),
        ("continue", "", false),
        ("declare", "-x PAGER=./x", true),
        ("dirs", "", false),
        ("disown", "", false),
        ("echo", "a", false),
        ("enable", "-f ./x.so a", true),
        ("eval", "a", true),
        ("exec", "ls", false),
        ("exec", "-a b ls", true),
        ("exit", "1", false),
        ("export", "PAGER=./x", true),
        ("export", "BASH_ENV=./x", true),
        ("export", "GIT_EXTERNAL_DIFF=./x", true),
        ("export", "-n PATH", true),
        ("export", "-p", true),
        ("export", "NO_COLOR=1", false),
        ("false", "", false),
        ("fc", "-s", true),
        ("fg", "", false),
        ("getopts", "a PATH", true),
        ("hash", "-p ./x ls", true),
        ("help", "", false),
        ("history", "-r f", true),
        ("jobs", "", false),
        ("jobs", "-x ./x", true),
        ("kill", "1", false),
        ("let", "PATH=1", true),
        ("local", "PATH=.", true),
        ("logout", "", true),
        ("mapfile", "-C ./x", true),
        ("popd", "", true),
        ("printf", "a", false),
        ("printf", "-v PATH .", true),
        ("printf", "%n PATH", true),
        ("pushd", "a", true),
        ("pwd", "", false),
        ("read", "a", false),
        ("read", "PATH", true),
        ("read", "-a a", true),
        ("read", "'a[$(b)]'", true),
        ("readarray", "PATH", true),
        ("readonly", "PATH=.", true),
        ("return", "", false),
        ("set", "-e", false),
        ("set", "-a", true),
        ("set", "-o allexport", true),
        ("set", "-- a", true),
        ("set", "-x", true),
        ("shift", "", false),
        ("shopt", "-s expand_aliases", true),
        ("source", "f", true),
        ("suspend", "", true),
        ("test", "a", false),
        ("test", "-v a", true),
        ("times", "", false),
        ("trap", "./x EXIT", true),
        ("true", "", false),
        ("type", "a", false),
        ("typeset", "-x PATH=.", true),
        ("ulimit", "-a", false),
        ("umask", "", false),
        ("unalias", "a", true),
        ("unset", "PATH", true),
        ("wait", "", false),
        ("wait", "-p PATH", true),
    ] {
        let command = format!("{builtin} {args}; git log");
        assert_eq!(is_unclear(command.trim()), unclear, "{command}: {:?}", analyse(&command, ""));
        // However it is spelled.
        if unclear {
            for spelled in [format!("\\{command}"), format!("'{builtin}' {args}"), format!("time {command}")] {
                assert!(is_unclear(&spelled), "{spelled}");
            }
        }
    }
    for name in [
        "PATH",
        "IFS",
        "CDPATH",
        "GLOBIGNORE",
        "ENV",
        "BASH_ENV",
        "PROMPT_COMMAND",
        "PS4",
        "PAGER",
        "EDITOR",
        "VISUAL",
        "GIT_PAGER",
        "GIT_SSH_COMMAND",
        "GIT_DIR",
        "LD_PRELOAD",
        "LD_LIBRARY_PATH",
        "DYLD_INSERT_LIBRARIES",
        "SHELLOPTS",
        "BASHOPTS",
        "HOME",
        "PYTHONPATH",
        "PERL5OPT",
        "RUBYOPT",
        "NODE_OPTIONS",
        "RUSTC_WRAPPER",
        "LESSOPEN",
        "MANPAGER",
        "http_proxy",
        "npm_config_prefix",
        "XDG_CONFIG_HOME",
        "TMPDIR",
        "MAKEFLAGS",
        "SHELL",
        "OPENSSL_CONF",
        "BROWSER",
    ] {
        for command in [
            format!("{name}=./x git log"),
            format!("{name}=./x; git log"),
            format!("{name}+=./x; git log"),
            format!("export {name}=./x"),
            format!("env {name}=./x git log"),
            format!("env -S '{name}=./x git log'"),
            format!("for {name} in ./x; do git log; done"),
            format!("read {name}; git log"),
            format!("echo ${{{name}:=./x}}; git log"),
        ] {
            assert!(is_unclear(&command), "{command}");
        }
    }
    assert!(is_unclear("env --split-string='a b'") && is_unclear("env -vS 'a b'"));
}
