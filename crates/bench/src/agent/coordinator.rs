//! The coordinator: one connection per agent, a thread that reads each, and one that merges.

use std::{
    collections::BTreeMap,
    io,
    net::{TcpStream, ToSocketAddrs},
    sync::{
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

use super::{Message, PORT, PROTOCOL, QUEUE, SILENCE, frame, proof, random_text};
use crate::{
    Error, Result,
    load::{Buckets, Console, Delta, Ended, Job, Offer, Reason, Runner, Stop},
};

struct Agent {
    name: String,
    out: TcpStream,
    facts: BTreeMap<String, String>,
    heard: Instant,
    lost: bool,
}

/// Runs a job on agents.
pub struct Coordinator {
    job: Job,
    /// Made before the agents begin and emptied after them, so that also what a lost agent wrote goes.
    buckets: Buckets,
    agents: Vec<Agent>,
    inbox: mpsc::Receiver<(usize, io::Result<Message>)>,
    /// What was lost and is not reported yet.
    losses: Vec<String>,
}

/// How often silence is looked for.
const LOOK: Duration = Duration::from_millis(250);
/// How long agents may take to remove what they wrote.
const CLEANING: Duration = Duration::from_secs(3600);

impl Coordinator {
    /// Connects to all agents (`host[:port]`) and proves the token to each.
    ///
    /// # Errors
    /// [`Error::Setup`] if one is missing: a run begins with all of them or not at all.
    pub fn connect(names: &[String], token: &str, job: Job) -> Result<Coordinator> {
        job.check()?;
        let (sender, inbox) = mpsc::sync_channel(QUEUE);
        let mut agents = Vec::new();
        for (index, name) in names.iter().enumerate() {
            let (out, facts) =
                greet(name, token).map_err(|why| Error::setup(format!("agent {name}: {why}")))?;
            let mut from = out.try_clone().map_err(Error::io(format!("agent {name}")))?;
            let sender = sender.clone();
            thread::spawn(move || {
                loop {
                    let message = frame::read(&mut from);
                    let last = message.is_err();
                    if sender.send((index, message)).is_err() || last {
                        break;
                    }
                }
            });
            agents.push(Agent { name: name.clone(), out, facts, heard: Instant::now(), lost: false });
        }
        if agents.is_empty() {
            return Err(Error::usage("no agent is named"));
        }
        Ok(Coordinator { buckets: Buckets::new(&job)?, job, agents, inbox, losses: Vec::new() })
    }

    /// Names and facts of the agents' machines.
    pub fn facts(&self) -> Vec<(String, BTreeMap<String, String>)> {
        self.agents.iter().map(|a| (a.name.clone(), a.facts.clone())).collect()
    }

    fn lose(&mut self, index: usize, why: &str) {
        let agent = &mut self.agents[index];
        if !agent.lost {
            agent.lost = true;
            let _ = agent.out.shutdown(std::net::Shutdown::Both);
            self.losses.push(format!(
                "agent {} was lost ({why}): the result contains what it measured until then, but not the load that it would have offered afterwards",
                agent.name
            ));
        }
    }

    fn send(&mut self, index: usize, message: &Message) {
        if !self.agents[index].lost
            && let Err(error) = frame::write(&mut self.agents[index].out, message)
        {
            self.lose(index, &error.to_string());
        }
    }

    fn alive(&self) -> Vec<usize> {
        (0..self.agents.len()).filter(|i| !self.agents[*i].lost).collect()
    }

    /// The next message, or `None` after [`LOOK`]; agents that went away or fell silent are lost.
    fn receive(&mut self, patience: Duration) -> Option<(usize, Message)> {
        let received = self.inbox.recv_timeout(LOOK);
        for index in self.alive() {
            if self.agents[index].heard.elapsed() > patience {
                self.lose(index, &format!("silent for {} s", patience.as_secs()));
            }
        }
        match received {
            Ok((index, Ok(message))) if !self.agents[index].lost => {
                self.agents[index].heard = Instant::now();
                Some((index, message))
            }
            Ok((index, Err(error))) => {
                let why = if error.kind() == io::ErrorKind::UnexpectedEof {
                    "the connection was closed".to_owned()
                } else {
                    error.to_string()
                };
                self.lose(index, &why);
                None
            }
            _ => None,
        }
    }

    fn heard_now(&mut self) {
        self.agents.iter_mut().for_each(|a| a.heard = Instant::now());
    }

    /// The share of agent `index` of what is counted in total.
    fn share(total: u64, index: usize, of: usize) -> u64 {
        let (of, index) = (of as u64, index as u64);
        total / of + u64::from(index < total % of)
    }
}

fn greet(name: &str, token: &str) -> Result<(TcpStream, BTreeMap<String, String>), String> {
    let text = |e: io::Error| e.to_string();
    let with_port = if name.rsplit_once(':').is_some_and(|(_, p)| p.parse::<u16>().is_ok()) {
        name.to_owned()
    } else {
        format!("{name}:{PORT}")
    };
    let mut last = "the name has no address".to_owned();
    let mut socket = None;
    for address in with_port.to_socket_addrs().map_err(text)? {
        match TcpStream::connect_timeout(&address, Duration::from_secs(10)) {
            Ok(connected) => {
                socket = Some(connected);
                break;
            }
            Err(error) => last = error.to_string(),
        }
    }
    let mut socket = socket.ok_or(last)?;
    socket.set_nodelay(true).map_err(text)?;
    socket.set_read_timeout(Some(Duration::from_secs(10))).map_err(text)?;
    socket.set_write_timeout(Some(SILENCE)).map_err(text)?;
    let ours = random_text().map_err(|e| e.to_string())?;
    let theirs = match frame::read(&mut socket).map_err(text)? {
        Message::Hello { protocol, version, .. } if protocol != PROTOCOL => {
            return Err(format!(
                "version {version} speaks protocol {protocol}, this program speaks protocol {PROTOCOL}"
            ));
        }
        Message::Hello { challenge, .. } => challenge,
        _ => return Err("it is not an `ashlar bench agent`".into()),
    };
    let prove = Message::Prove {
        protocol: PROTOCOL,
        proof: proof(token, "coordinator", &theirs),
        challenge: ours.clone(),
    };
    frame::write(&mut socket, &prove).map_err(text)?;
    let facts = match frame::read(&mut socket).map_err(text)? {
        Message::Welcome { proof: given, facts } => {
            let wanted = proof(token, "agent", &ours);
            if !ashlar_checksum::ct_eq(wanted.as_bytes(), given.as_bytes()) {
                return Err("it does not know the token".into());
            }
            facts
        }
        Message::Failed { text } => return Err(text),
        _ => return Err("an unexpected message".into()),
    };
    socket.set_read_timeout(None).map_err(text)?;
    Ok((socket, facts))
}

impl Runner for Coordinator {
    fn prepare(&mut self, console: &mut dyn Console, interrupt: &AtomicBool) -> Result<()> {
        let of = self.agents.len();
        self.buckets.ensure()?;
        for index in 0..of {
            let mut job = self.job.clone();
            // Under the run's prefix, so that no two agents write the same key.
            job.run = format!("{}/{index}", job.run);
            job.seed ^= (index as u64 + 1) << 40;
            if !job.existing {
                job.objects = Coordinator::share(job.objects, index, of).max(1);
            }
            self.send(index, &Message::Job(Box::new(job)));
        }
        self.heard_now();
        let mut waiting: Vec<bool> = vec![true; of];
        let mut done = vec![0; of];
        console.begin("Preparing on agents", 0);
        while waiting.iter().any(|w| *w) {
            if interrupt.load(Ordering::Relaxed) {
                (0..of).for_each(|i| self.send(i, &Message::Stop));
            }
            match self.receive(CLEANING) {
                Some((index, Message::Ready)) => waiting[index] = false,
                Some((index, Message::Alive { done: n })) => {
                    done[index] = n;
                    console.progress(done.iter().sum());
                }
                Some((index, Message::Failed { text })) => {
                    return Err(Error::setup(format!("agent {}: {text}", self.agents[index].name)));
                }
                _ => {}
            }
            if let Some(lost) = self.losses.first() {
                return Err(Error::setup(lost.clone()));
            }
        }
        console.end();
        Ok(())
    }

    fn run(
        &mut self,
        offer: &Offer,
        stop: &Stop,
        interrupt: &AtomicBool,
        sink: &mut dyn FnMut(Option<u32>, Delta) -> Option<Reason>,
    ) -> Result<Ended> {
        let taking_part = self.alive();
        let of = taking_part.len();
        if of == 0 {
            return Err(Error::setup("all agents were lost"));
        }
        for (i, index) in taking_part.iter().enumerate() {
            let offer = Offer {
                rate: offer.rate.map(|r| r / of as f64),
                limit: (offer.limit / of as u64).max(1),
                ..*offer
            };
            let stop = Stop {
                count: stop.count.map(|n| Coordinator::share(n, i, of)),
                bytes: stop.bytes.map(|n| Coordinator::share(n, i, of)),
                ..*stop
            };
            self.send(*index, &Message::Start { offer, stop });
        }
        self.heard_now();
        let mut running: BTreeMap<usize, ()> = taking_part.iter().map(|i| (*i, ())).collect();
        let mut ended =
            Ended { reason: Reason::Time, seconds: 0.0, unsent: 0, lost: Vec::new(), stalls: Vec::new() };
        let mut verdict = None;
        let mut stopped = false;
        while !running.is_empty() {
            if interrupt.load(Ordering::Relaxed) {
                verdict = verdict.or(Some(Reason::Interrupted));
            }
            if verdict.is_some() && !stopped {
                stopped = true;
                self.alive().into_iter().for_each(|i| self.send(i, &Message::Stop));
            }
            match self.receive(SILENCE) {
                Some((index, Message::Delta(delta))) => {
                    verdict = verdict.or(sink(Some(index as u32), *delta));
                }
                Some((index, Message::Done { reason, seconds, unsent, stalls })) => {
                    running.remove(&index);
                    if reason != Reason::Interrupted {
                        ended.reason = reason;
                    }
                    ended.seconds = ended.seconds.max(seconds);
                    ended.unsent += unsent;
                    ended.stalls.extend(stalls.map(|s| (Some(self.agents[index].name.clone()), s)));
                }
                Some((index, Message::Failed { text })) => self.lose(index, &text),
                _ => {}
            }
            running.retain(|index, ()| !self.agents[*index].lost);
        }
        if let Some(reason) = verdict {
            ended.reason = reason;
        }
        ended.lost = std::mem::take(&mut self.losses);
        if ended.seconds == 0.0 {
            return Err(Error::setup(format!("no agent finished: {}", ended.lost.join("; "))));
        }
        Ok(ended)
    }

    fn clean(&mut self, console: &mut dyn Console) -> Result<()> {
        let alive = self.alive();
        for index in &alive {
            self.send(*index, &Message::Clean);
        }
        self.heard_now();
        let mut waiting = alive;
        console.begin("Cleaning up on agents", 0);
        let mut failures = std::mem::take(&mut self.losses);
        while !waiting.is_empty() {
            match self.receive(CLEANING) {
                Some((index, Message::Cleaned)) => waiting.retain(|i| *i != index),
                Some((index, Message::Failed { text })) => {
                    failures.push(format!("agent {}: {text}", self.agents[index].name));
                    waiting.retain(|i| *i != index);
                }
                Some((_, Message::Alive { done })) => console.progress(done),
                _ => {}
            }
            waiting.retain(|i| !self.agents[*i].lost);
        }
        console.end();
        failures.append(&mut self.losses);
        self.buckets.clean(&self.job, console)?;
        if failures.is_empty() { Ok(()) } else { Err(Error::setup(failures.join("; "))) }
    }
}

impl Drop for Coordinator {
    fn drop(&mut self) {
        for agent in &self.agents {
            let _ = agent.out.shutdown(std::net::Shutdown::Both);
        }
    }
}
