//! A child process of `ashlar cluster up`: its log, its end.
//!
//! Invariants: its standard input is a pipe without a writer; when the pipe closes, the child ends, also when
//! this process is killed. A child is in a process group of its own, so that Ctrl-C on a terminal reaches
//! only this process.
//!
//! Must not depend on: what the child does.

use std::fs::{File, OpenOptions};
use std::io::{Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};

use crate::failure::{Failure, Kind, Outcome, While as _};

/// Bytes at the end of a log that are looked at for its last lines.
const TAIL: u64 = 8 << 10;
/// How many of the last lines are shown.
const LINES: usize = 8;

/// A child process.
pub struct Process {
    /// Name of the program, for messages.
    pub name: String,
    /// The file that has what it writes to its standard error.
    pub log: PathBuf,
    child: Child,
    input: Option<ChildStdin>,
    /// Where its output begins in the log.
    from: u64,
    ended: Option<ExitStatus>,
}

impl Process {
    /// Starts a program; its output is appended to `log`.
    ///
    /// # Errors
    /// The log cannot be written, or the program cannot be started.
    pub fn start(name: &str, mut command: Command, log: &Path) -> Outcome<Process> {
        let file = OpenOptions::new().create(true).append(true).mode(0o600).open(log);
        let file = file.when(|| format!("cannot write {}", log.display()))?;
        let from = file.metadata().map_or(0, |m| m.len());
        // What servers print at their start is for people who start them.
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(file).process_group(0);
        let mut child = command.spawn().when(|| format!("cannot start {name}"))?;
        let input = child.stdin.take();
        Ok(Process { name: name.to_owned(), log: log.to_owned(), child, input, from, ended: None })
    }

    /// Its exit status, once it has ended.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        if self.ended.is_none() {
            self.ended = self.child.try_wait().ok().flatten();
        }
        self.ended
    }

    /// Its number.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Tells it to end.
    pub fn end(&mut self) {
        self.input = None;
    }

    /// Kills it, and what it has started.
    pub fn kill(&mut self) {
        if self.ended().is_some() {
            return;
        }
        // The group has the number of its first process, which was not waited for yet.
        let group = format!("-{}", self.child.id());
        let killed = Command::new("sh").args(["-c", "kill -KILL \"$0\"", &group]).status();
        if !killed.is_ok_and(|status| status.success()) {
            let _ = self.child.kill();
        }
        self.ended = self.child.wait().ok();
    }

    /// Whether its log has a text.
    pub fn said(&self, text: &str) -> bool {
        let mut bytes = Vec::new();
        let read = File::open(&self.log).and_then(|mut f| {
            f.seek(SeekFrom::Start(self.from))?;
            f.take(TAIL).read_to_end(&mut bytes)
        });
        read.is_ok() && String::from_utf8_lossy(&bytes).contains(text)
    }

    /// How it ended, with the last lines of its log.
    pub fn report(&mut self) -> Failure {
        let how = match self.ended() {
            None => "runs".to_owned(),
            Some(status) => match (status.code(), status.signal()) {
                (Some(code), _) => format!("ended with exit code {code}"),
                (None, Some(signal)) => format!("was ended by signal {signal}"),
                (None, None) => "ended".to_owned(),
            },
        };
        let said = last_lines(&self.log, self.from);
        let cause = match said.is_empty() {
            true => format!("{how}; it printed nothing ({})", self.log.display()),
            false => format!("{how}. The end of {}:\n{said}", self.log.display()),
        };
        Failure { what: self.name.clone(), ..Failure::new(Kind::Failed, cause) }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The last lines of a file from an offset on, each indented.
fn last_lines(file: &Path, from: u64) -> String {
    let mut bytes = Vec::new();
    let read = File::open(file).and_then(|mut f| {
        let end = f.metadata()?.len();
        f.seek(SeekFrom::Start(from.max(end.saturating_sub(TAIL))))?;
        f.take(TAIL).read_to_end(&mut bytes)
    });
    if read.is_err() {
        return String::new();
    }
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.lines().filter(|l| !l.trim().is_empty()).collect();
    let last = &lines[lines.len().saturating_sub(LINES)..];
    last.iter().map(|l| format!("  {l}")).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    fn shell(script: &str, log: &Path) -> Process {
        let mut command = Command::new("sh");
        command.args(["-c", &format!("exec >&2; {script}")]);
        Process::start("the child", command, log).unwrap()
    }

    fn wait(process: &mut Process) -> ExitStatus {
        let began = Instant::now();
        loop {
            if let Some(status) = process.ended() {
                return status;
            }
            assert!(began.elapsed() < Duration::from_secs(60), "it does not end");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    #[test]
    fn end_of_the_input_ends_a_child_and_its_log_is_reported() {
        let home = tempfile::tempdir().unwrap();
        let log = home.path().join("log");
        std::fs::write(&log, "of an earlier start\n").unwrap();
        let mut child = shell("for n in 1 2 3 4 5 6 7 8 9; do echo line $n; done; cat; exit 3", &log);
        assert!(child.ended().is_none());
        child.end();
        assert_eq!(wait(&mut child).code(), Some(3));
        let report = child.report().to_string();
        assert!(report.starts_with("the child: ended with exit code 3."), "{report}");
        assert!(report.ends_with("  line 8\n  line 9") && !report.contains("line 1"), "{report}");
        let mut silent = shell("exit 0", &log);
        wait(&mut silent);
        assert!(silent.report().to_string().contains("it printed nothing"));
    }

    #[test]
    fn killing_a_child_kills_what_it_started() {
        let home = tempfile::tempdir().unwrap();
        let log = home.path().join("log");
        let mut child = shell("sleep 1000 & echo $!; wait", &log);
        let began = Instant::now();
        let pid = loop {
            let said = std::fs::read_to_string(&log).unwrap();
            if said.ends_with('\n') {
                break said.trim().to_owned();
            }
            assert!(began.elapsed() < Duration::from_secs(60), "it says nothing");
            std::thread::sleep(Duration::from_millis(10));
        };
        child.kill();
        assert!(child.report().to_string().contains("signal 9"));
        while Path::new("/proc").join(&pid).join("exe").exists() {
            assert!(began.elapsed() < Duration::from_secs(60), "its child goes on");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}
