//! Progress bars of long work: bytes, rate and remaining time, on the standard error of a terminal.
//!
//! Invariant: a disabled bar has no cost and prints nothing.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::output::Output;

/// A bar over bytes; the total grows while work is found.
#[derive(Clone)]
pub struct Progress {
    bar: ProgressBar,
    total: Arc<AtomicU64>,
    /// Number of files found, and of files done.
    files: Arc<(AtomicU64, AtomicU64)>,
}

impl Progress {
    /// A bar over bytes; disabled if the output shows no progress.
    pub fn bytes(output: &Output) -> Progress {
        let template = "{bar:24.cyan/blue} {percent:>3} %  {bytes}/{total_bytes}  {bytes_per_sec}  ETA {eta}{prefix}  {wide_msg}";
        Progress::new(output, template)
    }

    /// A bar over items.
    pub fn items(output: &Output) -> Progress {
        Progress::new(output, "{bar:30.cyan/blue} {pos}/{len}  {per_sec}  ETA {eta}  {wide_msg}")
    }

    /// A bar whose message contains rate and remaining time, which the caller computes.
    pub fn part(output: &Output) -> Progress {
        Progress::new(output, "{bar:24.cyan/blue} {percent:>3} %  {wide_msg}")
    }

    fn new(output: &Output, template: &str) -> Progress {
        let bar = ProgressBar::no_length();
        bar.set_draw_target(if output.wants_progress() {
            ProgressDrawTarget::stderr_with_hz(8)
        } else {
            ProgressDrawTarget::hidden()
        });
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.progress_chars("=> "));
        }
        if output.wants_progress() {
            bar.enable_steady_tick(Duration::from_millis(250));
        }
        Progress { bar, total: Arc::default(), files: Arc::default() }
    }

    /// Adds work to the total.
    pub fn found(&self, amount: u64) {
        let total = self.total.fetch_add(amount, Ordering::Relaxed) + amount;
        self.bar.set_length(total);
    }

    /// Adds a file of this size to the total.
    pub fn found_file(&self, bytes: u64) {
        self.files.0.fetch_add(1, Ordering::Relaxed);
        self.found(bytes);
        self.show_files();
    }

    /// Counts a completed file.
    pub fn file_done(&self) {
        self.files.1.fetch_add(1, Ordering::Relaxed);
        self.show_files();
    }

    fn show_files(&self) {
        let found = self.files.0.load(Ordering::Relaxed);
        if !self.bar.is_hidden() && found > 1 {
            let done = self.files.1.load(Ordering::Relaxed);
            self.bar.set_prefix(format!("  {done} of {found} files"));
        }
    }

    /// Sets the completed and the total amount of work.
    pub fn set(&self, done: u64, total: u64) {
        self.bar.set_length(total);
        self.bar.set_position(done);
    }

    /// Adds completed work.
    pub fn done(&self, amount: u64) {
        self.bar.inc(amount);
    }

    /// Sets the message.
    pub fn message(&self, text: &str) {
        if !self.bar.is_hidden() {
            self.bar.set_message(text.to_owned());
        }
    }

    /// Calls `print` while the bar is hidden.
    pub fn print<T>(&self, print: impl FnOnce() -> T) -> T {
        self.bar.suspend(print)
    }

    /// A function that adds completed work, for sources that read in the background.
    pub fn reporter(&self) -> Arc<dyn Fn(u64) + Send + Sync> {
        let bar = self.bar.clone();
        Arc::new(move |n| bar.inc(n))
    }

    /// Removes the bar.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}
