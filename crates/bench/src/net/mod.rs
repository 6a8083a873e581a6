//! Network speed between nodes: TCP streams, round trips, from here or between all pairs.
//!
//! Invariants: receivers count throughput, over one interval per node, started on all nodes within a skew
//! that is measured and reported; a failed node makes the result invalid; by default only loopback is
//! listened on, and every action needs the shared token.
//!
//! Must not depend on: the use of the network.

mod listen;
mod node;
mod wire;

use std::{
    collections::BTreeMap,
    io::BufReader,
    net::TcpStream,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use ashlar_bench_report::{
    result::{Caveat, Estimate, Histogram, Load, Operation, Phase, Point, Run, Severity, Share, Timeline},
    stat,
};
use serde_json::json;

pub use listen::listen;
pub use wire::{Shape, Token};

use crate::{
    error::{Error, Result},
    host, stall,
};
use node::Session;
use wire::{Answer, Ask, Dial, LONG_LINE, Report, Role};

/// What this machine is called when it takes part itself.
pub const HERE: &str = "here";
/// Most listeners of a test.
const MOST_NODES: usize = 64;

/// Which way data goes, seen from here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// To the listeners.
    Send,
    /// From the listeners.
    Receive,
    /// Both at once.
    Both,
}

impl Direction {
    fn name(self) -> &'static str {
        match self {
            Direction::Send => "send",
            Direction::Receive => "receive",
            Direction::Both => "both",
        }
    }
}

/// What to measure.
#[derive(Clone, Debug)]
pub struct Options {
    /// Addresses of listeners, `HOST:PORT`.
    pub nodes: Vec<String>,
    /// Phases, one direction each; not for pairs.
    pub directions: Vec<Direction>,
    /// Streams per pair and direction.
    pub streams: u32,
    /// Load and duration.
    pub shape: Shape,
    /// Between all listeners instead of from here.
    pub all_pairs: bool,
    /// Also each listener, or each ordered pair, by itself.
    pub serial: bool,
    /// How often everything is repeated.
    pub repeat: u32,
}

impl Options {
    fn check(&self) -> Result<()> {
        self.shape.check()?;
        let nodes = self.nodes.len();
        if nodes == 0 || nodes > MOST_NODES {
            return Err(Error::usage(format!("name 1 to {MOST_NODES} listeners")));
        }
        if (1..nodes).any(|i| self.nodes[..i].contains(&self.nodes[i])) {
            return Err(Error::usage("a listener is named twice"));
        }
        if self.all_pairs && nodes < 2 {
            return Err(Error::usage("--all-pairs needs at least two listeners"));
        }
        if self.streams == 0 || self.repeat == 0 || (self.directions.is_empty() && !self.all_pairs) {
            return Err(Error::usage("nothing to measure"));
        }
        if self.streams as usize * 2 * nodes > node::MOST_STREAMS / 2 {
            return Err(Error::usage("too many streams for one node"));
        }
        Ok(())
    }

    /// Phases: name, and who dials whom (dialling node or [`HERE`], target, send, receive).
    fn plan(&self) -> Vec<(String, Vec<Pair>)> {
        let mut phases = Vec::new();
        if self.all_pairs {
            let mut pairs = Vec::new();
            for from in &self.nodes {
                for to in self.nodes.iter().filter(|to| *to != from) {
                    pairs.push(Pair { from: from.clone(), to: to.clone(), send: self.streams, receive: 0 });
                }
            }
            if self.serial {
                let alone = |p: &Pair| (format!("pair {} -> {} alone", p.from, p.to), vec![p.clone()]);
                phases.extend(pairs.iter().map(alone));
            }
            phases.push(("all-pairs".to_owned(), pairs));
            return phases;
        }
        for direction in &self.directions {
            let (send, receive) = match direction {
                Direction::Send => (self.streams, 0),
                Direction::Receive => (0, self.streams),
                Direction::Both => (self.streams, self.streams),
            };
            let pair = |to: &String| Pair { from: HERE.to_owned(), to: to.clone(), send, receive };
            if self.serial && self.nodes.len() > 1 {
                let alone = |to: &String| (format!("{} alone {to}", direction.name()), vec![pair(to)]);
                phases.extend(self.nodes.iter().map(alone));
            }
            phases.push((direction.name().to_owned(), self.nodes.iter().map(pair).collect()));
        }
        phases
    }
}

#[derive(Clone, Debug)]
struct Pair {
    from: String,
    to: String,
    send: u32,
    receive: u32,
}

/// Measures and fills `run`. `note` is called with a description of each step. When `stop` is set, the
/// running phase is abandoned; the ones before it stay.
///
/// # Errors
/// [`Error::Usage`]; [`Error::Setup`] when a listener cannot be reached, refuses or is lost.
pub fn run(
    options: &Options,
    token: &Token,
    run: &mut Run,
    stop: &AtomicBool,
    note: &dyn Fn(&str),
) -> Result<()> {
    options.check()?;
    for (name, value) in [
        ("nodes", json!(options.nodes)),
        ("streams", json!(options.streams)),
        ("duration", json!(options.shape.duration_s)),
        ("warmup", json!(options.shape.warmup_s)),
        ("block-size", json!(options.shape.block)),
        ("all-pairs", json!(options.all_pairs)),
        ("repeat", json!(options.repeat)),
    ] {
        run.setup.insert(name.to_owned(), value);
    }
    if options.nodes.iter().any(|n| is_loopback(n)) {
        run.caveats.push(Caveat {
            severity: Severity::Warning,
            code: "loopback".to_owned(),
            text:
                "a listener is on this machine: this is the speed of its memory and kernel, not of a network"
                    .to_owned(),
        });
    }
    let started = Instant::now();
    let watch = stall::Watch::start();
    'all: for repetition in 1..=options.repeat {
        for (name, pairs) in options.plan() {
            if stop.load(Ordering::Relaxed) {
                break 'all;
            }
            note(&name);
            let at_s = started.elapsed().as_secs_f64();
            let Some((reports, skew_s)) = session(options, &pairs, token, stop)? else { break 'all };
            let mut phase = phase(options, &pairs, reports, run, &name);
            (phase.repetition, phase.at_s) = (repetition, at_s);
            phase.values.insert("start_skew_s".to_owned(), skew_s);
            run.phases.push(phase);
        }
    }
    host::ended(run, &watch.end(), stop);
    Ok(())
}

fn is_loopback(address: &str) -> bool {
    std::net::ToSocketAddrs::to_socket_addrs(address).is_ok_and(|mut all| all.any(|a| a.ip().is_loopback()))
}

/// A node that takes part: a listener, or this program.
enum Member {
    Listener { name: String, asks: TcpStream, answers: BufReader<TcpStream> },
    Here(Arc<Session>),
}

impl Member {
    fn name(&self) -> &str {
        match self {
            Member::Listener { name, .. } => name,
            Member::Here(_) => HERE,
        }
    }

    fn ask(&mut self, ask: &Ask) -> Result<()> {
        let Member::Listener { name, asks, answers } = self else { return Ok(()) };
        let failed = |e| Error::setup(format!("{name}: {e}"));
        wire::send(asks, ask).map_err(failed)?;
        match wire::receive(answers, LONG_LINE).map_err(failed)? {
            Answer::Ok => Ok(()),
            Answer::Error { text } => Err(Error::setup(format!("{name}: {text}"))),
            Answer::Report(_) => Err(Error::setup(format!("{name} answers out of order"))),
        }
    }
}

/// One session over all pairs: the reports of all nodes and the skew of their starts in seconds.
/// None when the user stopped it.
fn session(
    options: &Options,
    pairs: &[Pair],
    token: &Token,
    stop: &AtomicBool,
) -> Result<Option<(Vec<Report>, f64)>> {
    let id = wire::random_u64()?;
    let mut members = join(options, pairs, token, id)?;
    for member in &mut members {
        let of = |p: &&Pair| p.from == member.name();
        let targets: Vec<Dial> = pairs
            .iter()
            .filter(of)
            .map(|p| Dial { name: p.to.clone(), address: p.to.clone(), send: p.send, receive: p.receive })
            .collect();
        if targets.is_empty() {
            continue;
        }
        match member {
            Member::Here(session) => session.dial(&targets)?,
            Member::Listener { name, asks, .. } => {
                // Idle pings take up to a second per target, streams some round trips.
                let patience = wire::PATIENCE + Duration::from_secs(2 * targets.len() as u64);
                let set = asks.set_read_timeout(Some(patience));
                set.map_err(Error::io(name.clone()))?;
                member.ask(&Ask::Dial { targets })?;
            }
        }
    }
    let first = Instant::now();
    thread::scope(|scope| {
        let going: Vec<_> = members.iter_mut().map(|m| scope.spawn(move || go(m))).collect();
        going.into_iter().try_for_each(|g| g.join().unwrap_or_else(|_| Err(Error::setup("a thread failed"))))
    })?;
    let skew_s = first.elapsed().as_secs_f64();
    let reports = collect(options, members, stop)?;
    Ok(reports.map(|r| (r, skew_s)))
}

fn join(options: &Options, pairs: &[Pair], token: &Token, id: u64) -> Result<Vec<Member>> {
    let mut members = Vec::new();
    let mut names: Vec<&str> = Vec::new();
    for name in pairs.iter().flat_map(|p| [p.from.as_str(), p.to.as_str()]) {
        if names.contains(&name) {
            continue;
        }
        names.push(name);
        if name == HERE {
            members.push(Member::Here(Session::join(id, HERE, options.shape, token)?));
            continue;
        }
        let asks = wire::dial(name, token, Role::Control)?;
        let answers = BufReader::new(asks.try_clone().map_err(Error::io(name))?);
        let mut member = Member::Listener { name: name.to_owned(), asks, answers };
        let join = Ask::Join { session: id, name: name.to_owned(), shape: options.shape };
        // A listener may still be closing the session before this one.
        let mut tries = 0;
        while let Err(error) = member.ask(&join) {
            tries += 1;
            if tries == 20 || !error.to_string().contains("another session") {
                return Err(error);
            }
            thread::sleep(Duration::from_millis(100));
        }
        members.push(member);
    }
    Ok(members)
}

fn go(member: &mut Member) -> Result<()> {
    match member {
        Member::Here(session) => {
            session.go();
            Ok(())
        }
        Member::Listener { .. } => member.ask(&Ask::Go),
    }
}

/// Waits for all reports.
fn collect(options: &Options, members: Vec<Member>, stop: &AtomicBool) -> Result<Option<Vec<Report>>> {
    let whole = Duration::from_secs_f64(options.shape.warmup_s + options.shape.duration_s);
    let deadline = Instant::now() + whole + wire::PATIENCE;
    let results: Vec<Result<Report>> = thread::scope(|scope| {
        let waiting: Vec<_> = members
            .into_iter()
            .map(|member| {
                scope.spawn(move || match member {
                    Member::Here(session) => session.report(|| !stop.load(Ordering::Relaxed)),
                    Member::Listener { name, asks, mut answers } => {
                        await_report(&name, &asks, &mut answers, deadline, stop)
                    }
                })
            })
            .collect();
        let failed = || Err(Error::setup("a thread failed"));
        waiting.into_iter().map(|w| w.join().unwrap_or_else(|_| failed())).collect()
    });
    if stop.load(Ordering::Relaxed) {
        return Ok(None);
    }
    results.into_iter().collect::<Result<Vec<_>>>().map(Some)
}

fn await_report(
    name: &str,
    asks: &TcpStream,
    answers: &mut BufReader<TcpStream>,
    deadline: Instant,
    stop: &AtomicBool,
) -> Result<Report> {
    // Wait for the first byte in short looks, so that Ctrl-C is seen.
    let failed = |e: std::io::Error| Error::setup(format!("{name} was lost: {e}"));
    asks.set_read_timeout(Some(Duration::from_millis(200))).map_err(failed)?;
    let mut byte = [0];
    while let Err(e) = asks.peek(&mut byte) {
        if !matches!(e.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut) {
            return Err(failed(e));
        }
        if stop.load(Ordering::Relaxed) || Instant::now() > deadline {
            return Err(Error::setup(format!("{name} was lost: no report")));
        }
    }
    asks.set_read_timeout(Some(wire::PATIENCE)).map_err(failed)?;
    match wire::receive(answers, LONG_LINE).map_err(failed)? {
        Answer::Report(report) => Ok(report),
        Answer::Error { text } => Err(Error::setup(format!("{name}: {text}"))),
        Answer::Ok => Err(Error::setup(format!("{name} answers out of order"))),
    }
}

/// The document's phase of all reports.
fn phase(options: &Options, pairs: &[Pair], reports: Vec<Report>, run: &mut Run, name: &str) -> Phase {
    let shape = &options.shape;
    let block = shape.block;
    let step_s = node::step_s(shape);
    let mut stream = Operation { name: "stream".to_owned(), ..Operation::default() };
    let mut idle = Operation { name: "ping-idle".to_owned(), ..Operation::default() };
    let mut loaded = Operation { name: "ping".to_owned(), ..Operation::default() };
    let mut points: Vec<Point> = Vec::new();
    for report in reports {
        for text in report.errors {
            *stream.errors.entry("connection".to_owned()).or_default() += 1;
            run.caveats.push(Caveat {
                severity: Severity::Invalid,
                code: "errors".to_owned(),
                text: format!("{name}: {text}"),
            });
        }
        for received in report.received {
            let share = stream.by.entry(format!("pair {} -> {}", received.from, received.to)).or_default();
            share.bytes += received.bytes;
            share.count = share.bytes / block;
            stream.bytes += received.bytes;
            points.resize(points.len().max(received.points.len()), Point::default());
            for (sum, point) in points.iter_mut().zip(&received.points) {
                sum.bytes += point.bytes;
                sum.count = sum.bytes / block;
            }
        }
        for pings in report.pings {
            let pair = format!("pair {} -> {}", pings.from, pings.to);
            for (operation, times) in [(&mut idle, pings.idle), (&mut loaded, pings.loaded)] {
                operation.count += times.count;
                operation.service.merge(&times);
                let share = Share { count: times.count, service: times, ..Share::default() };
                operation.by.insert(pair.clone(), share);
            }
        }
    }
    stream.count = stream.bytes / block;
    let skip = (shape.warmup_s / step_s).ceil() as usize;
    let whole = ((shape.warmup_s + shape.duration_s) / step_s + 1e-9) as usize;
    let rates: Vec<f64> = points.iter().take(whole).skip(skip).map(|p| p.bytes as f64 / step_s).collect();
    let series = stat::batched(&rates, 20);
    let mean = stream.bytes as f64 / shape.duration_s;
    let shift = mean - series.mean;
    stream.bytes_per_s =
        Estimate { mean, ci95: series.ci95.map(|(l, h)| (l + shift, h + shift)), cov: series.cov };
    stream.rate_per_s = Estimate { mean: stream.count as f64 / shape.duration_s, ..Estimate::default() };
    loaded.rate_per_s = Estimate { mean: loaded.count as f64 / shape.duration_s, ..Estimate::default() };
    stream.timeline = Timeline { step_s, points };
    let streams: u32 = pairs.iter().map(|p| p.send + p.receive).sum();
    Phase {
        name: name.to_owned(),
        state: None,
        repetition: 1,
        load: Load::Closed { concurrency: streams },
        at_s: 0.0,
        warmup_s: shape.warmup_s,
        seconds: shape.duration_s,
        stopped_by: "time".to_owned(),
        operations: vec![stream, loaded, idle],
        cost: None,
        values: BTreeMap::from([("streams".to_owned(), f64::from(streams))]),
    }
}

/// The times of a phase's operation, for printing.
pub fn times<'a>(phase: &'a Phase, name: &str) -> Option<&'a Histogram> {
    phase.operations.iter().find(|o| o.name == name).map(|o| &o.service)
}

#[cfg(test)]
mod tests;
