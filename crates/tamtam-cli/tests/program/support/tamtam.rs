//! The `tamtam` binary as a child process: its arguments, its stdin, the lines it writes.
//!
//! It gets a separate environment, and every process below it carries a mark, so that leftovers can be found. Dropping
//! it leaves nothing running.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    path::Path,
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc,
    thread::JoinHandle,
    time::{Duration, Instant},
};

use serde_json::Value;

use super::marked::Mark;

/// The longest that anything here waits before it calls the test failed.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// How a process ended, and what it said.
#[derive(Debug)]
pub(crate) struct Ended {
    /// Its exit code; `None` where a signal ended it.
    pub(crate) code: Option<i32>,
    /// Each line of stdout, as JSON.
    pub(crate) lines: Vec<Value>,
    pub(crate) stderr: String,
}

/// A running `tamtam`.
pub(crate) struct Tamtam {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: mpsc::Receiver<Value>,
    stderr: Option<JoinHandle<String>>,
    seen: Vec<Value>,
    mark: Mark,
}

impl Tamtam {
    /// Starts it, with keys for the two wires and these variables beside them.
    pub(crate) fn start(arguments: &[&str], home: &Path, mark: &Mark, variables: &[(&str, &str)]) -> Tamtam {
        let mut child = command(arguments, home, mark, variables).spawn().unwrap();
        let (send, lines) = mpsc::channel();
        let stdout = child.stdout.take().unwrap();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).split(b'\n').map_while(Result::ok) {
                // A line that the process was killed in is cut off, and says nothing.
                let Ok(value) = serde_json::from_slice(&line) else { continue };
                if send.send(value).is_err() {
                    return;
                }
            }
        });
        let mut stderr = child.stderr.take().unwrap();
        let stderr = std::thread::spawn(move || {
            let mut text = Vec::new();
            let _ = stderr.read_to_end(&mut text);
            String::from_utf8_lossy(&text).into_owned()
        });
        let stdin = child.stdin.take();
        Tamtam { child, stdin, lines, stderr: Some(stderr), seen: Vec::new(), mark: mark.clone() }
    }

    /// Its process id.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Writes a command on its stdin. A process that is gone takes none.
    pub(crate) fn say(&mut self, command: &Value) {
        let stdin = self.stdin.as_mut().unwrap();
        let _ = writeln!(stdin, "{command}").and_then(|()| stdin.flush());
    }

    /// The next line; `None` where it has ended.
    pub(crate) fn next(&mut self) -> Option<Value> {
        match self.lines.recv_timeout(LIMIT) {
            Ok(line) => {
                self.seen.push(line.clone());
                Some(line)
            }
            Err(mpsc::RecvTimeoutError::Disconnected) => None,
            Err(mpsc::RecvTimeoutError::Timeout) => {
                let tail = &self.seen[self.seen.len().saturating_sub(12)..];
                panic!("tamtam said nothing for {LIMIT:?}; the last lines: {tail:#?}")
            }
        }
    }

    /// Reads lines up to the first one that is meant.
    pub(crate) fn until(&mut self, what: &str, meant: impl Fn(&Value) -> bool) -> Value {
        while let Some(line) = self.next() {
            if meant(&line) {
                return line;
            }
        }
        panic!("tamtam ended before {what}; it said {:#?}", self.seen)
    }

    /// Waits until it ends by itself. Its stdin stays open till then.
    pub(crate) fn end(mut self) -> Ended {
        while self.next().is_some() {}
        let code = self.wait();
        let stderr = self.stderr.take().map_or_else(String::new, |thread| thread.join().unwrap());
        Ended { code, lines: std::mem::take(&mut self.seen), stderr }
    }

    /// Ends it with SIGKILL, and gives all that it had said by then.
    pub(crate) fn kill(mut self) -> Vec<Value> {
        let _ = self.child.kill();
        let _ = self.child.wait();
        while self.next().is_some() {}
        std::mem::take(&mut self.seen)
    }

    /// Whether it still runs.
    pub(crate) fn runs(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    fn wait(&mut self) -> Option<i32> {
        let started = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code();
            }
            assert!(started.elapsed() < LIMIT, "tamtam closed its stdout and did not end");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Tamtam {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        self.mark.end_all();
    }
}

/// Runs it to its end, with an empty stdin, and gives its exit code and all it wrote.
pub(crate) fn once(arguments: &[&str], home: &Path, mark: &Mark) -> (Option<i32>, String) {
    let output = command(arguments, home, mark, &[]).stdin(Stdio::null()).output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8_lossy(&text).into_owned())
}

fn command(arguments: &[&str], home: &Path, mark: &Mark, variables: &[(&str, &str)]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tamtam"));
    command.args(arguments).current_dir(home).env_clear();
    command.env("PATH", std::env::var_os("PATH").unwrap()).env("HOME", home);
    command.env("OPENAI_API_KEY", "sk-test").env("ANTHROPIC_API_KEY", "sk-test").env(mark.variable(), mark.value());
    command.envs(variables.iter().copied());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// The name of the event that a line shows; nothing for a line that shows none.
pub(crate) fn event(line: &Value) -> &str {
    line["event"].as_str().unwrap_or_default()
}

/// Whether a line shows that event.
pub(crate) fn is_event(name: &'static str) -> impl Fn(&Value) -> bool {
    move |line| event(line) == name
}
