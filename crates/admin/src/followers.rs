//! Follows all other nodes: asks them for their lines, and hands these out as they come. `follow` answers.
//!
//! Invariants: memory is bounded: a node is asked for its next lines only when whoever follows has taken those before. A
//! node that does not answer, that answers again, or whose lines were dropped is said so in a line of the stream, once. A
//! node that starts later is followed from then on.
//!
//! Must not depend on: the format of lines.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use ashlar_environment::time;
use ashlar_node::Node;
use ashlar_node::questions::NoAnswer;
use ashlar_s3::notifications::{Elsewhere, Filter, Heard};
use bytes::Bytes;
use futures::StreamExt as _;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use serde_json::json;

use super::followed::{Followed, Turn};
use super::question::Question;

/// How long a node may take to answer.
const PATIENCE: Duration = Duration::from_secs(3);
/// Waits between two questions to a node: after one that had an answer, and at most.
const WAITS: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(1));

/// How nodes are asked.
pub trait Ask: Send + Sync + 'static {
    /// The other nodes.
    fn numbers(&self) -> Vec<u16>;
    /// The answer of one of them.
    fn ask(&self, number: u16, question: Question) -> BoxFuture<'_, Result<Turn, NoAnswer>>;
}

impl Ask for Node {
    fn numbers(&self) -> Vec<u16> {
        self.nodes().into_iter().map(|(number, _)| number).filter(|n| *n != self.number()).collect()
    }

    fn ask(&self, number: u16, question: Question) -> BoxFuture<'_, Result<Turn, NoAnswer>> {
        Box::pin(async move {
            let answer = Node::ask(self, number, question.encode(), PATIENCE).await?;
            serde_json::from_slice(&answer).map_err(|_| {
                NoAnswer::Refused(
                    "its answer is not understood; do all nodes run the same release?".to_owned(),
                )
            })
        })
    }
}

/// Says something about a node in the format of the stream.
pub type Report = Box<dyn Fn(u16, &str) -> String + Send + Sync>;

/// A node that is followed.
struct Other {
    number: u16,
    turn: u64,
    wait: Duration,
    /// Its last answer was none, and that was said.
    silent: bool,
}

type Asking = BoxFuture<'static, (Other, Result<Turn, NoAnswer>)>;

/// All other nodes.
pub struct Others {
    asked: Arc<dyn Ask>,
    id: u64,
    what: Followed,
    report: Report,
    known: BTreeSet<u16>,
    asking: FuturesUnordered<Asking>,
    ready: VecDeque<Bytes>,
}

impl Others {
    /// Begins to follow. Ready when all nodes that answer have begun; what they answered comes first.
    pub fn begin(asked: Arc<dyn Ask>, what: Followed, report: Report) -> BoxFuture<'static, Others> {
        Box::pin(async move {
            let (known, asking, ready) = Default::default();
            let id = ashlar_environment::random::u64().unwrap_or_default();
            let mut others = Others { asked, id, what, report, known, asking, ready };
            others.follow_new();
            let mut first = Vec::new();
            while let Some(answer) = others.asking.next().await {
                first.push(answer);
            }
            first.sort_by_key(|(other, _)| other.number);
            for (other, answer) in first {
                others.take(other, answer);
            }
            others
        })
    }

    /// The lines that are here already.
    pub fn ready(&mut self) -> Vec<Bytes> {
        self.ready.drain(..).collect()
    }

    /// The next lines; waits without end for them.
    pub async fn next(&mut self) -> Bytes {
        loop {
            if let Some(lines) = self.ready.pop_front() {
                return lines;
            }
            self.follow_new();
            tokio::select! {
                Some((other, answer)) = self.asking.next() => self.take(other, answer),
                () = time::sleep(WAITS.1) => {}
            }
        }
    }

    fn follow_new(&mut self) {
        for number in self.asked.numbers() {
            if self.known.insert(number) {
                let other = Other { number, turn: 0, wait: Duration::ZERO, silent: false };
                self.ask(other);
            }
        }
    }

    fn ask(&mut self, other: Other) {
        let (asked, question) = (
            self.asked.clone(),
            Question::Follow { id: self.id, turn: other.turn, what: Box::new(self.what.clone()) },
        );
        self.asking.push(Box::pin(async move {
            if !other.wait.is_zero() {
                time::sleep(other.wait).await;
            }
            let answer = asked.ask(other.number, question).await;
            (other, answer)
        }));
    }

    fn say(&mut self, number: u16, what: &str) {
        self.ready.push_back((self.report)(number, what).into());
    }

    /// Takes an answer, and asks for the next.
    fn take(&mut self, mut other: Other, answer: Result<Turn, NoAnswer>) {
        match answer {
            Ok(turn) => {
                if other.silent {
                    other.silent = false;
                    self.say(other.number, "answers again");
                } else if turn.began && other.turn > 0 {
                    self.say(other.number, "was not asked for too long: some lines are missing");
                }
                if turn.lost > 0 {
                    self.say(other.number, &format!("was too fast: {} lines are missing", turn.lost));
                }
                other.turn += 1;
                other.wait = match (turn.more, turn.lines.is_empty()) {
                    (true, _) => Duration::ZERO,
                    (false, false) => WAITS.0,
                    (false, true) => (other.wait * 2).clamp(WAITS.0, WAITS.1),
                };
                if !turn.lines.is_empty() {
                    self.ready.push_back(turn.lines.into());
                }
            }
            Err(no) => {
                if !other.silent {
                    other.silent = true;
                    self.say(other.number, &no.to_string());
                }
                other.wait = WAITS.1;
            }
        }
        self.ask(other);
    }
}

/// Events of buckets at other nodes.
pub struct EventsElsewhere(pub Arc<Node>);

impl Elsewhere for EventsElsewhere {
    fn listen(&self, filter: &Filter) -> BoxFuture<'static, Box<dyn Heard>> {
        let (node, filter) = (self.0.clone(), filter.clone());
        Box::pin(async move {
            let Filter { bucket, prefix, suffix, events, .. } = filter;
            let what = Followed::Events { bucket, prefix, suffix, events };
            // Programs that read events skip a line without records.
            let report: Report = Box::new(|number, what| {
                format!(
                    "{}\n",
                    json!({ "Records": null, "Node": number, "Message": format!("node {number} {what}") })
                )
            });
            let heard: Box<dyn Heard> = Box::new(Others::begin(node, what, report).await);
            heard
        })
    }
}

impl Heard for Others {
    fn next(&mut self) -> BoxFuture<'_, Bytes> {
        Box::pin(Others::next(self))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parking_lot::Mutex;

    /// Answers each node's questions in their order; a question without an answer is not answered.
    #[derive(Default)]
    struct Script {
        numbers: Mutex<Vec<u16>>,
        answers: Mutex<Vec<(u16, Result<Turn, NoAnswer>)>>,
        asked: Mutex<Vec<(u16, u64)>>,
    }

    impl Ask for Script {
        fn numbers(&self) -> Vec<u16> {
            self.numbers.lock().clone()
        }

        fn ask(&self, number: u16, question: Question) -> BoxFuture<'_, Result<Turn, NoAnswer>> {
            let Question::Follow { turn, .. } = question else { panic!("{question:?}") };
            self.asked.lock().push((number, turn));
            let mut answers = self.answers.lock();
            let at = answers.iter().position(|(n, _)| *n == number);
            let answer = at.map(|at| answers.remove(at).1);
            Box::pin(async move {
                match answer {
                    Some(answer) => answer,
                    None => std::future::pending().await,
                }
            })
        }
    }

    fn turn(lines: &str) -> Turn {
        Turn { lines: lines.to_owned(), ..Turn::default() }
    }

    async fn read(others: &mut Others, count: usize) -> Vec<String> {
        let mut all = Vec::new();
        while all.len() < count {
            all.push(String::from_utf8(others.next().await.to_vec()).unwrap());
        }
        all.sort();
        all
    }

    #[tokio::test]
    async fn lines_come_from_all_nodes_and_what_is_missing_is_said_once() {
        let script = Arc::new(Script::default());
        *script.numbers.lock() = vec![2, 3];
        let began = Turn { began: true, ..Turn::default() };
        *script.answers.lock() = vec![
            (2, Ok(began.clone())),
            (3, Err(NoAnswer::NotRunning)),
            (2, Ok(turn("a\n"))),
            (3, Err(NoAnswer::NotRunning)),
            (2, Err(NoAnswer::Silent)),
            (2, Err(NoAnswer::Silent)),
            (3, Ok(Turn { lines: "b\n".to_owned(), ..began.clone() })),
            (2, Ok(Turn { lost: 4, more: true, ..turn("c\n") })),
            (2, Ok(began.clone())),
        ];
        let what = Followed::Logs { last: 0, level: 2 };
        let report: Report = Box::new(|n, what| format!("node {n} {what}\n"));
        let mut others = Others::begin(script.clone(), what, report).await;
        assert_eq!(others.ready(), ["node 3 is not running\n"]);
        let lines = read(&mut others, 8).await;
        assert_eq!(
            lines,
            [
                "a\n",
                "b\n",
                "c\n",
                "node 2 answers again\n",
                "node 2 does not answer\n",
                "node 2 was not asked for too long: some lines are missing\n",
                "node 2 was too fast: 4 lines are missing\n",
                "node 3 answers again\n",
            ]
        );
        // A turn is asked for again until it is answered.
        let of =
            |n: u16| script.asked.lock().iter().filter(|(m, _)| *m == n).map(|(_, t)| *t).collect::<Vec<_>>();
        assert_eq!((of(2)[..6].to_vec(), of(3)[..4].to_vec()), (vec![0, 1, 2, 2, 2, 3], vec![0, 0, 0, 1]));
        // One more node.
        script.answers.lock().push((9, Ok(Turn { lines: "d\n".to_owned(), ..began })));
        script.numbers.lock().push(9);
        assert_eq!(read(&mut others, 1).await, ["d\n"]);
    }
}
