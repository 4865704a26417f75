//! What a command costs to read, and where our reading of it and the shell's could differ.

use super::*;

/// A session that works in `/work` with this one rule about commands, beside which nothing is said.
fn allowing(pattern: &str) -> Ruleset {
    ruleset(&[("bash", pattern, Action::Allow)])
}

fn is_unclear(command: &str) -> bool {
    matches!(analyse(command), Analysis::Unclear { .. })
}

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

/// F21: one answer of a model ended the process. Counted are bytes, nodes, reports of the parser and steps of the walk, and no time.
#[test]
fn no_text_costs_more_than_its_bounds() {
    for (before, behind) in FAMILIES {
        for bytes in [500, 2_000, 8_000, 16_000, 64_000, 1_000_000] {
            let many = bytes / (before.len() + behind.len());
            let text = format!("{}a{}", before.repeat(many), behind.repeat(many));
            let steps = statements::steps(&text);
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
        let steps = statements::steps(&format!("{}rm x", "ssh ".repeat(words)));
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
    for text in ["repeat 3 a", "noglob a", "and a", "foreach x", "begin a"] {
        assert!(is_unclear(&format!("zsh -c '{text}'")), "{text}");
    }
    for text in ["cd a && b > c 2>&1", "for f in a b; do c \"$f\"; done", "echo $(d e)", "a | b > /dev/null"] {
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
        assert!(!is_unclear(command), "{command}: {:?}", analyse(command));
    }
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

/// F12: a path in a home folder is a read outside of the workspace, and one of whatever a rule about that folder names.
#[test]
fn a_home_folder_is_outside() {
    for command in
        ["cat ~/.ssh/id_rsa", "ls ~", "ls ~root/x", "head -n 1 ~/a", "cat ~/../a", "cat a ~+/b", "cd a && cat ~/b"]
    {
        assert_eq!(judged(&Profile::Auto.ruleset(), command).action, Action::Ask, "{command}");
        assert_eq!(judged(&Profile::Edits.ruleset(), command).action, Action::Ask, "{command}");
        assert_eq!(judged(&Profile::Readonly.ruleset(), command).action, Action::Deny, "{command}");
    }
    let mut rules = Profile::Readonly.ruleset();
    rules.rules.push(Rule::new("external_directory", "*", Action::Allow));
    assert_eq!(judged(&rules, "cat ~/a").action, Action::Allow);
    rules.rules.push(Rule::new("read", "/home/*/.ssh/**", Action::Deny));
    rules.rules.push(Rule::new("read", "secrets/**", Action::Deny));
    assert_eq!(judged(&rules, "cat ~/.ssh/id_rsa").action, Action::Deny);
    assert_eq!(judged(&rules, "cat ~/work/secrets/a").action, Action::Deny);
    rules.rules.truncate(rules.rules.len() - 2);
    rules.rules.push(Rule::new("read", "**/*.pem", Action::Deny));
    assert_eq!(judged(&rules, "cat ~/b.pem").action, Action::Deny);
    assert_eq!(judged(&rules, "cat ~/b/a").action, Action::Allow);
    // A rule about a command still sees that the word may be anything.
    let denied = ruleset(&[("bash", "*", Action::Allow), ("bash", "rm /home/*", Action::Deny)]);
    assert_eq!(judged(&denied, "rm ~/x").action, Action::Ask);
    assert!(is_unclear("cd ~") && is_unclear("a > ~/x"));
}

/// F10: a word that is not known, where an option could stand by which a program runs another one.
#[test]
fn an_unknown_word_where_an_option_could_stand_is_unclear() {
    for command in [
        "x=-c; git \"$x\" 'alias.y=!touch M' y",
        "git log \"$x\"",
        "git grep a $x",
        "git commit -m $x",
        "git log -m \"$x\"",
        "git commit \"-$x\"",
        "git commit \"--$x\"",
        "git commit -Sm \"$x\"",
        "x='-exec touch M ;'; find . $x",
        "find \"$x\"",
        "find . -name a$x",
        "find . {-exec,touch,M,\\;}",
        "find . -maxdepth 1 \"$(a)\"",
        "x='--to-command=touch M'; tar xf a.tar \"$x\"",
        "tar \"$x\"",
        "tar xf a.tar *",
        "tar -$x a",
        "x='-oProxyCommand=touch M'; ssh \"$x\" h",
        "ssh h \"$x\"",
        "rsync \"$x\" a b",
        "scp $x a",
        "split $x",
        "sort $x",
        "sort \"$x\" a",
        "sort {--compress-program=./a,b}",
        "make \"$x\"",
        "docker \"$x\" ps",
        "go test \"$x\"",
        "env sort $x",
        "a | xargs sort",
    ] {
        assert!(is_unclear(command), "{command}");
        let name = command.rsplit("; ").next().and_then(|part| part.split(' ').next()).unwrap_or_default();
        assert_eq!(judged(&allowing(&format!("{name} *")), command).action, Action::Ask, "{command}");
    }
    for command in [
        "git commit -m \"$x\"",
        "git commit -am \"$(cat <<'E'\na b <c@d.e>\nE\n)\"",
        "git add -- \"$x\" *.rs",
        "git log a*",
        "find . -name \"$x\" -type f",
        "find . -name '*.rs'",
        "sort -- \"$x\"",
        "sort -k \"$x\" a",
        "tar xzf \"$x\"",
        "tar -C \"$x\" -xf a",
        "make -C \"$x\"",
        "ssh -i ~/.ssh/k h",
        "git add ~/a",
        "docker run -v \"$x\":/a b",
        "cargo test \"$x\"",
        "rg -e \"$x\" src",
    ] {
        let is_cargo = command.starts_with("cargo");
        assert_eq!(is_unclear(command), is_cargo, "{command}: {:?}", analyse(command));
    }
}

/// Options of other programs by which they run one.
#[test]
fn an_option_that_runs_a_program_is_no_part_of_what_a_rule_allows() {
    for command in [
        "tar xf a --to-command=./x",
        "tar xf a --to-com ./x",
        "tar cIf ./x a b",
        "tar -cf a b -I ./x",
        "tar -cf a --checkpoint=1 --checkpoint-action=exec=./x b",
        "ssh -oProxyCommand=./x h",
        "ssh -4oProxyCommand=./x h",
        "ssh -F x h",
        "ssh -I ./x.so h",
        "scp -S ./x a b:c",
        "rsync -ae ./x a b",
        "rsync --rs ./x a b",
        "rsync --daemon --config=x",
        "sort --compress-p=./x a",
        "split --filt=./x a",
        "make --eval=x",
        "go test -exec ./x",
        "go build --toolexec=./x",
        "gcc -wrapper ./x a.c",
        "gcc -fplugin=./x.so a.c",
        "gcc @x",
        "java -XX:OnError=./x A",
        "man -P ./x ls",
        "man -C x ls",
        "npm run x --script-shell=./x",
        "wget -e use_askpass=./x a",
        "zip -TT ./x a b",
        "svn diff --diff-cmd ./x",
        "hg --config a.b=c st",
        "apt-get -o a=b update",
        "rpm --eval x",
        "rg --pre=./x a",
        "fd -x ./x",
        "cargo test --config x",
    ] {
        let name = command.split(' ').next().unwrap_or_default();
        assert_eq!(judged(&allowing(&format!("{name} *")), command).action, Action::Ask, "{command}");
    }
    for command in
        ["tar czf a b", "ssh -p 22 h ls", "rsync -av a b", "make -j4 test", "go test ./...", "gcc -O2 -c a.c -o a"]
    {
        let name = command.split(' ').next().unwrap_or_default();
        assert_eq!(judged(&allowing(&format!("{name} *")), command).action, Action::Allow, "{command}");
    }
}

/// F11: the options and commands by which git runs another program.
#[test]
fn git_that_runs_another_program_is_unclear() {
    for command in [
        "git grep -O a",
        "git grep -iO'touch M' a",
        "git grep -hO./x a",
        "git grep --open-files-in-pager=./x a",
        "git grep --open a",
        "git difftool -x ./x",
        "git difftool -yx ./x",
        "git difftool --extcmd=./x",
        "git difftool -t ../../../tmp/x",
        "git mergetool --tool=../../../tmp/x",
        "git merge-index ./x -a",
        "git submodule--helper foreach ./x",
        "git clone -u ./x a b",
        "git clone -c core.fsmonitor=./x a",
        "git clone --upload-pack=./x a",
        "git clone --template=t a",
        "git clone --temp t a",
        "git clone --config core.fsmonitor=./x a",
        "git clone ext::sh a",
        "git clone foo::a",
        "git remote add o ext::sh",
        "git fetch --upload-pack ./x",
        "git pull --upload-pack ./x",
        "git push --receive-pack=./x",
        "git push --exec=./x",
        "git ls-remote --upload-pack=./x",
        "git ls-remote --exec ./x",
        "git archive --exec=./x --remote=a HEAD",
        "git archive --remote a HEAD",
        "git credential-store --file=f get",
        "git credential fill",
        "git send-email --smtp-server=./x a",
        "git bisect run ./x",
        "git rebase -x ./x a",
        "git rebase -ix ./x a",
        "git rebase --exec ./x a",
        "git rebase -i a",
        "git submodule foreach ./x",
        "git submodule --quiet foreach ./x",
        "git submodule update",
        "git config core.fsmonitor ./x",
        "git config set core.fsmonitor ./x",
        "git config --global alias.a '!./x'",
        "git config --global --add alias.a '!./x'",
        "git config -e",
        "git config --unset a.b",
        "git config --edit",
        "git -c core.fsmonitor=./x status",
        "git --config-env=a.b=C status",
        "git --exec-path=. status",
        "git --git-dir=. status",
        "git init --template=t",
        "git hook run pre-commit",
        "git help -w a",
        "git help --man a",
        "git instaweb",
        "git daemon",
        "git p4 sync",
        "git svn fetch",
        "git web--browse a",
        "git filter-branch --tree-filter ./x",
        "git for-each-repo --config=a b",
        "git log --ext-diff",
        "git maintenance start",
        "git \"$x\" status",
    ] {
        assert!(is_unclear(command), "{command}");
    }
    for command in [
        "git config user.name",
        "git config --get user.name",
        "git config --global --list",
        "git config --global user.name",
        "git config -l",
        "git grep -n TODO",
        "git grep -e TODO",
        "git grep -eO",
        "git commit -m 'std::io: a'",
        "git clone https://example.com/a.git b",
        "git push origin main",
        "git submodule status",
        "git bisect start",
        "git rebase main",
        "git remote add o git@example.com:a/b.git",
    ] {
        assert!(!is_unclear(command), "{command}: {:?}", analyse(command));
    }
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
        assert_eq!(is_unclear(command.trim()), unclear, "{command}: {:?}", analyse(&command));
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

/// F17: programs that run the command behind their own options, and texts of languages that can run any.
#[test]
fn a_wrapper_hides_no_name_that_a_rule_denies() {
    let denied = ruleset(&[("bash", "*", Action::Allow), ("bash", "touch *", Action::Deny)]);
    let wrappers = "setarch x86_64,linux64,linux32,i386,x86_64,choom -n 1,sg root,newgrp root,start-stop-daemon -S --exec,ssh-agent,\
        dbus-run-session --,logsave f,chpst -u a,nsenter -t 1,unshare -r,cgexec -g a,taskset 1,daemonize,setpriv --reset-env,\
        fakeroot,eatmydata,torsocks,proxychains,catchsegv,systemd-inhibit,caffeinate -i,watch,entr,parallel,nohup,nice,timeout 1,\
        stdbuf -oL,setsid,env,xargs,sudo,doas,flock f,strace -f,busybox,numactl --,runcon t,capsh --,script -c,su -c,chroot /,\
        gosu a,tini --,dumb-init,gdb -ex,ssh h,docker run a,find . -exec";
    for wrapper in wrappers.split(',') {
        for command in
            [format!("{wrapper} touch M"), format!("{wrapper} /bin/touch M"), format!("{wrapper} sh -c 'touch M'")]
        {
            assert_ne!(judged(&denied, command.trim()).action, Action::Allow, "{command}");
        }
    }
    for command in [
        "bash <<'E'\ntouch M\nE",
        "bash <<< 'touch M'",
        "echo touch M | bash",
        "gdb -ex 'shell touch M'",
        "ssh h eval touch M",
        "ssh h bash",
        "setarch linux32 bash",
        "python3 -c 'import os; os.system(\"touch M\")'",
        "python3.11 - <<'E'\nE",
        "perl -e 'system(\"touch M\")'",
        "node -e 'a'",
        "awk 'BEGIN{system(\"touch M\")}'",
        "vim -c '!touch M'",
    ] {
        assert_ne!(judged(&denied, command).action, Action::Allow, "{command}");
    }
    for command in
        ["python3 script.py", "python3 --version", "awk '{print $1}' f", "node a.js", "ssh h ls", "ls; cargo test"]
    {
        assert_eq!(judged(&denied, command).action, Action::Allow, "{command}");
    }
    // Where no rule names a command, none of it asks.
    let all = allowing("*");
    for command in ["python3 -c 'a'", "ssh h bash a", "setarch linux32 ls"] {
        assert_eq!(judged(&all, command).action, Action::Allow, "{command}");
    }
}

/// Prints the peak of memory of the process after each of the worst texts that are within the bounds.
/// `cargo test --lib readings::memory -- --ignored --nocapture`
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
        drop(analyse(&text[..text.len().min(bounds::TEXT_BYTES_MAX)]));
        println!("{:?}…: {}", &text[..8], peak());
    }
}
