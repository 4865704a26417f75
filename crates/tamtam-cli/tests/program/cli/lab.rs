//! A fresh folder, and the binary in it with an environment without anything of this machine.

use std::{
    io::{BufRead as _, BufReader, Read, Write as _},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::mpsc,
    time::Duration,
};

use serde_json::Value;

use crate::support::taped;

/// How long one process may take; only one that hangs does.
const LIMIT: Duration = Duration::from_secs(60);

/// Runs a command on a terminal, and passes on its input and output.
const PTY: &str = "import os, pty, sys; sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))";

pub(crate) struct Lab {
    folder: taped::Folder,
}

/// How a process ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ended {
    /// The lines of stdout as JSON.
    pub(crate) fn lines(&self) -> Vec<Value> {
        self.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// The one line of stderr that begins with `error: `.
    pub(crate) fn error(&self) -> &str {
        let errors: Vec<_> = self.stderr.lines().filter(|line| line.starts_with("error: ")).collect();
        assert_eq!(errors.len(), 1, "{}", self.stderr);
        errors[0]
    }
}

impl Lab {
    pub(crate) fn new() -> Lab {
        let folder = taped::folder();
        for name in ["work", "home", "tmp"] {
            std::fs::create_dir(folder.path().join(name)).unwrap();
        }
        Lab { folder }
    }

    /// What the test does to a tape is the reason that it is not replayed.
    pub(crate) fn may_leave_out(&self, why: taped::LeftOut) {
        self.folder.may_leave_out(why);
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn work(&self, name: &str) -> PathBuf {
        self.path("work").join(name)
    }

    /// Writes a script and gives what `--model` takes.
    pub(crate) fn script(&self, replies: Value) -> String {
        self.script_with(serde_json::json!({"replies": replies}))
    }

    /// The same with all that a script may say.
    pub(crate) fn script_with(&self, script: Value) -> String {
        let file = self.path("script.json");
        std::fs::write(&file, script.to_string()).unwrap();
        format!("scripted:{}", file.display())
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tamtam"));
        command.args(arguments).current_dir(self.path("work")).env_clear();
        command.env("PATH", std::env::var_os("PATH").unwrap()).env("HOME", self.path("home"));
        // No model server that may run on this machine is found.
        command.env("TMPDIR", self.path("tmp")).env("LOCAL_BASE_URL", "http://127.0.0.1:9/v1");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// How many processes of this lab run this command line: those of others on the machine, and of another run of the same test,
    /// have another home.
    pub(crate) fn processes(&self, command: &str) -> usize {
        self.processes_that(|line| line.trim() == command)
    }

    /// How many processes of this lab have a command line with this property.
    pub(crate) fn processes_that(&self, is_so: impl Fn(&str) -> bool) -> usize {
        let home = self.path("home").display().to_string();
        let all = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok).map(|entry| entry.path());
        let read = |path: PathBuf| String::from_utf8_lossy(&std::fs::read(path).unwrap_or_default()).replace('\0', " ");
        let runs = |process: &PathBuf| is_so(&read(process.join("cmdline")));
        all.filter(runs).filter(|process| read(process.join("environ")).contains(&home)).count()
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Ended {
        Live::start(self.command(arguments)).end()
    }

    pub(crate) fn start(&self, arguments: &[&str]) -> Live {
        let mut command = self.command(arguments);
        command.stdin(Stdio::piped());
        Live::start(command)
    }

    /// Starts it on a terminal of its own: what is shown, on stdout and on stderr, is read from there, and keys are typed.
    pub(crate) fn on_terminal(&self, arguments: &[&str]) -> Live {
        let mut command = self.by_python(PTY, arguments);
        command.stdin(Stdio::piped());
        Live::start(command)
    }

    /// A program of Python that gets the command line of the binary as its own.
    pub(crate) fn by_python(&self, program: &str, arguments: &[&str]) -> Command {
        let tamtam = self.command(arguments);
        let mut command = Command::new("python3");
        command.args(["-c", program]).arg(tamtam.get_program()).args(tamtam.get_args());
        command.current_dir(self.path("work")).env_clear();
        command.envs(tamtam.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Starts a command of bash on a terminal of its own, in which `tamtam` is this binary.
    pub(crate) fn shell_on_terminal(&self, script: &str) -> Live {
        let tamtam = self.command(&[]);
        let mut command = Command::new("python3");
        command.args(["-c", PTY, "bash", "--norc", "-c", script]).current_dir(self.path("work")).env_clear();
        command.envs(tamtam.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let folder = Path::new(tamtam.get_program()).parent().unwrap();
        command.env("PATH", format!("{}:{}", folder.display(), std::env::var("PATH").unwrap()));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Live::start(command)
    }

    /// The entries of a session's tape, by kind.
    pub(crate) fn tape(&self, session: &str) -> Vec<Value> {
        let shown = self.run(&["tape", "show", session, "--json"]);
        assert_eq!(shown.code, 0, "{}", shown.stderr);
        shown.lines()
    }
}

/// A running process. Killed when it is dropped, or hangs.
pub(crate) struct Live {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: Option<BufReader<ChildStdout>>,
    seen: String,
    /// Up to here a test has looked for texts.
    read_up_to: usize,
    alive: Option<mpsc::Sender<()>>,
}

/// What becomes of an output of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Output {
    /// Somebody reads it.
    Read,
    /// Nobody reads it, and it fills up.
    Full,
    /// Its reader goes.
    Closed,
}

impl Live {
    pub(crate) fn start(mut command: Command) -> Live {
        let mut child = command.spawn().unwrap();
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take().map(BufReader::new));
        let (alive, ended) = mpsc::channel();
        let pid = child.id().to_string();
        std::thread::spawn(move || {
            if ended.recv_timeout(LIMIT) == Err(mpsc::RecvTimeoutError::Timeout) {
                let _ = Command::new("kill").args(["-9", &pid]).status();
            }
        });
        Live { child, stdin, stdout, seen: String::new(), read_up_to: 0, alive: Some(alive) }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn say(&mut self, line: &str) {
        let stdin = self.stdin.as_mut().unwrap();
        writeln!(stdin, "{line}").unwrap();
        stdin.flush().unwrap();
    }

    /// Says a line; whether it went out.
    pub(crate) fn try_say(&mut self, line: &str) -> bool {
        let stdin = self.stdin.as_mut().unwrap();
        writeln!(stdin, "{line}").and_then(|()| stdin.flush()).is_ok()
    }

    pub(crate) fn is_running(&self) -> bool {
        Path::new(&format!("/proc/{}", self.child.id())).join("exe").read_link().is_ok()
    }

    /// Waits for the end, and reads nothing of the output. `None` where it hung and was killed.
    pub(crate) fn end_unread(mut self) -> Option<i32> {
        let status = self.child.wait().unwrap();
        self.alive = None;
        status.code()
    }

    pub(crate) fn close_stdin(&mut self) {
        self.stdin = None;
    }

    pub(crate) fn close_stdout(&mut self) {
        self.stdout = None;
    }

    /// Lets the outputs be read by somebody, or closes them; the others stay unread.
    pub(crate) fn settle_outputs(&mut self, stdout: Output, stderr: Output) {
        fn settle(pipe: &mut Option<impl Read + Send + 'static>, output: Output) {
            match output {
                Output::Full => {}
                Output::Closed => *pipe = None,
                Output::Read => {
                    let pipe = pipe.take();
                    std::thread::spawn(move || pipe.map(|mut pipe| std::io::copy(&mut pipe, &mut std::io::sink())));
                }
            }
        }
        settle(&mut self.stdout, stdout);
        settle(&mut self.child.stderr, stderr);
    }

    /// Reads on until a line of JSON is what is waited for.
    pub(crate) fn until(&mut self, is_it: impl Fn(&Value) -> bool) -> Value {
        loop {
            let mut line = String::new();
            let read = self.stdout.as_mut().unwrap().read_line(&mut line).unwrap();
            assert!(read > 0, "it never came: {}", self.seen);
            self.seen.push_str(&line);
            let value: Value = serde_json::from_str(&line).unwrap();
            if is_it(&value) {
                return value;
            }
        }
    }

    /// The next line of the output.
    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        let read = self.stdout.as_mut().unwrap().read_line(&mut line).unwrap();
        assert!(read > 0, "it never came: {}", self.seen);
        self.seen.push_str(&line);
        line.trim_end().to_owned()
    }

    /// Reads on until a text is shown behind the one that was waited for before. Of ASCII, for characters may come in halves.
    pub(crate) fn until_text(&mut self, text: &str) {
        loop {
            if let Some(at) = self.seen[self.read_up_to..].find(text) {
                self.read_up_to += at + text.len();
                return;
            }
            let stdout = self.stdout.as_mut().unwrap();
            let bytes = stdout.fill_buf().unwrap();
            assert!(!bytes.is_empty(), "{text:?} never came: {}", self.seen);
            let read = bytes.len();
            self.seen.push_str(&String::from_utf8_lossy(bytes));
            stdout.consume(read);
        }
    }

    /// Types, as on a terminal.
    pub(crate) fn type_keys(&mut self, keys: &str) {
        let stdin = self.stdin.as_mut().unwrap();
        stdin.write_all(keys.as_bytes()).and_then(|()| stdin.flush()).unwrap();
    }

    pub(crate) fn until_event(&mut self, name: &str) -> Value {
        self.until(|line| line["event"] == name)
    }

    pub(crate) fn signal(&self, signal: &str) {
        let sent = Command::new("kill").args([signal, &self.child.id().to_string()]).status().unwrap();
        assert!(sent.success());
    }

    /// Waits for the end; `stdout` is all of it.
    pub(crate) fn end(mut self) -> Ended {
        let mut stdout = std::mem::take(&mut self.seen);
        let mut errors = self.child.stderr.take().unwrap();
        let stderr = std::thread::spawn(move || {
            let mut text = String::new();
            errors.read_to_string(&mut text).unwrap();
            text
        });
        if let Some(pipe) = &mut self.stdout {
            let mut rest = Vec::new();
            pipe.read_to_end(&mut rest).unwrap();
            stdout.push_str(&String::from_utf8_lossy(&rest));
        }
        let status = self.child.wait().unwrap();
        self.alive = None;
        Ended { code: status.code().unwrap_or(-1), stdout, stderr: stderr.join().unwrap() }
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Whether a text is in a file.
pub(crate) fn has(path: &Path, text: &str) -> bool {
    std::fs::read_to_string(path).is_ok_and(|content| content.contains(text))
}
