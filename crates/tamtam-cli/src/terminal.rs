//! The terminal that a person types at while a session runs: reads its keys, and gives it back as it was.
//!
//! While a [`Terminal`] is owned, the terminal neither edits nor echoes lines: `keys.rs` does, so that no line is cut, a paste is
//! one text, and a line is known to belong to the question that was on the screen while it was typed. Ctrl-C and Ctrl-Z stay
//! signals. A process in the background leaves the terminal alone, and takes it again when it is back in the foreground.
//!
//! A change must keep three things. Every end of the process that can be caught passes through [`give_back`], which the first
//! function of the program holds ([`GiveBack`]): what was typed and not used is printed there and never left to the shell. Keys are
//! read under the lock of [`Input`] only, so that [`Terminal::asked`] can say of each key whether it came before the question. And no
//! code waits for the reader of the output while it holds that lock.

use std::{
    collections::VecDeque,
    io::Write as _,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    time::Duration,
};

use rustix::{
    event::{PollFd, PollFlags, poll},
    process::{Pid, Signal, getpgrp, getpid, kill_process},
    termios::{LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcgetpgrp, tcsetattr},
};
use tamtam::Seq;
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::Notify,
};

use super::{
    escape,
    keys::Keys,
    output::Output,
    stdin::{Entered, Line},
};

/// Entered lines that may wait to be taken. Beyond, no key is read until lines are taken.
const LINES_MAX: usize = 1_024;

/// How often the thread looks again while keys wait that it may not read: the process is in the background, or lines wait.
const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// The pause after a look that found nothing to read.
const SPIN: Duration = Duration::from_millis(10);

/// Switches the marks around a paste on and off.
const MARKS_ON: &str = "\x1b[?2004h";
const MARKS_OFF: &str = "\x1b[?2004l";

/// The terminal that the process owns, if it owns one: the end of the process gives it back, wherever it comes from.
static OWNED: Mutex<Option<Arc<Terminal>>> = Mutex::new(None);

/// A terminal in the hands of this process.
pub(super) struct Terminal {
    /// How the terminal was before.
    before: Termios,
    input: Mutex<Input>,
    /// Where the line that is typed is drawn; set once keys are read.
    output: OnceLock<Output>,
    /// Notified when a line is entered, and at the end of the input.
    entered: Notify,
}

#[derive(Default)]
struct Input {
    keys: Keys,
    lines: VecDeque<Line>,
    /// Whether no key is read any more: the terminal was given back, or is gone.
    is_closed: bool,
}

impl Terminal {
    /// Takes the terminal at stdin.
    pub(super) fn own() -> std::io::Result<Arc<Terminal>> {
        let before = tcgetattr(std::io::stdin())?;
        let terminal =
            Arc::new(Terminal { before, input: Mutex::default(), output: OnceLock::new(), entered: Notify::new() });
        terminal.take()?;
        *OWNED.lock().unwrap_or_else(PoisonError::into_inner) = Some(terminal.clone());
        Ok(terminal)
    }

    /// Starts to read keys, on a thread that ends with the process, and to hear Ctrl-Z.
    pub(super) fn listen(self: &Arc<Self>, output: &Output) -> std::io::Result<()> {
        let (stop, go_on) = (
            signal(SignalKind::from_raw(Signal::TSTP.as_raw()))?,
            signal(SignalKind::from_raw(Signal::CONT.as_raw()))?,
        );
        tokio::spawn(stop_and_go(self.clone(), output.clone(), stop, go_on));
        self.output.get_or_init(|| output.clone());
        let terminal = self.clone();
        std::thread::Builder::new().name("keys".to_owned()).spawn(move || terminal.read_all())?;
        Ok(())
    }

    fn input(&self) -> MutexGuard<'_, Input> {
        self.input.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the terminal, unless the process is in the background: it would be stopped for that.
    fn take(&self) -> std::io::Result<()> {
        if !is_in_foreground() {
            return Ok(());
        }
        let mut mode = self.before.clone();
        mode.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO | LocalModes::IEXTEN);
        // A signal by a key must not throw away what was typed before it.
        mode.local_modes.insert(LocalModes::NOFLSH);
        // A read gives what there is, and does not wait.
        mode.special_codes[SpecialCodeIndex::VMIN] = 0;
        mode.special_codes[SpecialCodeIndex::VTIME] = 0;
        tcsetattr(std::io::stdin(), OptionalActions::Now, &mode)?;
        show(MARKS_ON);
        Ok(())
    }

    /// Gives the terminal back for now.
    fn release(&self) {
        if is_in_foreground() {
            show(MARKS_OFF);
            let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, &self.before);
        }
    }

    fn read_all(&self) {
        loop {
            let stdin = std::io::stdin();
            let mut stdin = [PollFd::new(&stdin, PollFlags::IN)];
            match poll(&mut stdin, None) {
                Err(rustix::io::Errno::INTR) => continue,
                Ok(_) if stdin[0].revents().contains(PollFlags::IN) => {}
                _ => break,
            }
            let has_hung_up = stdin[0].revents().contains(PollFlags::HUP);
            let mut input = self.input();
            if input.is_closed {
                return;
            }
            if !is_in_foreground() || input.lines.len() >= LINES_MAX {
                drop(input);
                std::thread::sleep(LOOK_AGAIN);
                continue;
            }
            let came = input.read();
            self.passed(input);
            if !came && has_hung_up {
                break;
            }
            if !came {
                // Others have read the keys meanwhile.
                std::thread::sleep(SPIN);
            }
        }
        self.input().is_closed = true;
        self.entered.notify_one();
    }

    /// Reads the keys that have come. From then on the question on the screen is another one, or none. Gives a line for the person
    /// where that takes a half-typed line away.
    pub(super) fn asked(&self, about: Option<Seq>) -> Option<String> {
        let mut input = self.input();
        input.read_now();
        let said = input.keys.asked(about);
        self.passed(input);
        said
    }

    /// Draws the line as it is now, and wakes who waits for a line.
    fn passed(&self, input: MutexGuard<'_, Input>) {
        if let Some(output) = self.output.get() {
            // Under the lock: a later line must not be drawn before this one.
            output.set_typed(input.keys.shown());
        }
        drop(input);
        self.entered.notify_one();
    }

    /// The next line; `None` once no line can come. Only one task may wait.
    pub(super) async fn next(&self) -> Option<Line> {
        loop {
            let entered = self.entered.notified();
            {
                let mut input = self.input();
                if let Some(line) = input.lines.pop_front() {
                    return Some(line);
                }
                if input.is_closed {
                    return None;
                }
            }
            entered.await;
        }
    }

    /// The next line that has been entered, also where its keys were not read yet.
    pub(super) fn try_next(&self) -> Option<Line> {
        let mut input = self.input();
        input.read_now();
        let line = input.lines.pop_front();
        self.passed(input);
        line
    }
}

impl Input {
    /// Reads the keys that have come, if the terminal is ours.
    fn read_now(&mut self) {
        if !self.is_closed && is_in_foreground() {
            self.read();
        }
    }

    /// Reads the keys that have come; whether any had.
    fn read(&mut self) -> bool {
        let (mut came, mut keys) = (false, [0; 4 << 10]);
        // The count first: a terminal that another process has put back into lines would make the read wait.
        while rustix::io::ioctl_fionread(std::io::stdin()).is_ok_and(|count| count > 0) {
            match rustix::io::read(std::io::stdin(), &mut keys) {
                Ok(count) if count > 0 => {
                    came = true;
                    self.lines.extend(self.keys.take(&keys[..count]));
                }
                _ => break,
            }
        }
        came
    }
}

/// Whether the terminal may be read and changed. One that controls no jobs always may.
fn is_in_foreground() -> bool {
    tcgetpgrp(std::io::stdin()).map_or(true, |group| group == getpgrp())
}

/// Writes to the terminal. A failed write is ignored: there is no other place to report that.
fn show(text: &str) {
    let mut stderr = std::io::stderr();
    drop(stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush()));
}

/// Gives the terminal back at Ctrl-Z and stops the process; takes the terminal again when the process goes on.
async fn stop_and_go(
    terminal: Arc<Terminal>,
    output: Output,
    mut stop: tokio::signal::unix::Signal,
    mut go_on: tokio::signal::unix::Signal,
) {
    loop {
        let stops = tokio::select! {
            stopped = stop.recv() => stopped.is_some(),
            _ = go_on.recv() => false,
        };
        let (terminal, output) = (terminal.clone(), output.clone());
        // Not on this task: a write to a terminal that is held (Ctrl-S) waits, and so does the stop.
        let passed = tokio::task::spawn_blocking(move || {
            if terminal.input().is_closed {
                return;
            }
            if stops {
                terminal.release();
                continue_children();
                // This thread may run on for a moment; the terminal is taken again at SIGCONT alone.
                let _ = kill_process(getpid(), Signal::STOP);
            } else {
                drop(terminal.take());
                output.draw_again();
            }
        });
        drop(passed.await);
    }
}

/// Continues the children that do not run their own program yet. Ctrl-Z stops the whole process group, and with it a child between
/// its start and its program. The thread that starts the child waits in the kernel for that program (`vfork`) and cannot be stopped
/// before: without this, the shell would never see the process stop.
fn continue_children() {
    let own = std::fs::read_link("/proc/self/exe").ok();
    let threads = std::fs::read_dir("/proc/self/task").into_iter().flatten().filter_map(Result::ok);
    for children in threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("children")).ok()) {
        for child in children.split_whitespace().filter_map(|id| Pid::from_raw(id.parse().ok()?)) {
            let program = std::fs::read_link(format!("/proc/{}/exe", child.as_raw_nonzero())).ok();
            if program == own {
                let _ = kill_process(child, Signal::CONT);
            }
        }
    }
}

/// Gives the terminal back at the end of the process, also where that is a panic.
pub(super) struct GiveBack;

impl Drop for GiveBack {
    fn drop(&mut self) {
        give_back();
    }
}

/// Gives the terminal back, if the process owns one, and prints what was typed and not used. Call it last: what is typed later goes
/// to the shell.
pub(super) fn give_back() {
    let Some(terminal) = OWNED.lock().unwrap_or_else(PoisonError::into_inner).take() else { return };
    let mut input = terminal.input();
    input.read_now();
    input.is_closed = true;
    let is_drawn = input.keys.shown() != ("", String::new());
    let lines = std::mem::take(&mut input.lines).into_iter().filter_map(Result::ok).map(|Entered { text, .. }| text);
    let unused: Vec<_> = lines.chain(input.keys.rest()).filter(|text| !text.trim().is_empty()).collect();
    drop(input);
    if !is_in_foreground() {
        return;
    }
    show(MARKS_OFF);
    if is_drawn {
        show("\r\x1b[K");
    }
    for text in unused {
        show(&format!("! not sent: {}\n", escape::text(text.trim_end()).replace('\n', "\n  ")));
    }
    // Flushed, so that a key of the last instant does not become a command of the shell.
    let _ = tcsetattr(std::io::stdin(), OptionalActions::Flush, &terminal.before);
}
