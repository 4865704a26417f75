//! Programs that run other ones: by an option, by a word that is not known, by their whole purpose.

use super::*;

/// A session that works in `/work` with this one rule about commands, beside which nothing is said.
fn allowing(pattern: &str) -> Ruleset {
    ruleset(&[("bash", pattern, Action::Allow)])
}

/// F10: an unknown word, in the place of an option by which a program runs another one.
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
        assert_eq!(is_unclear(command), is_cargo, "{command}: {:?}", analyse(command, ""));
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
        assert!(!is_unclear(command), "{command}: {:?}", analyse(command, ""));
    }
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
