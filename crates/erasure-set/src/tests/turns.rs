//! Turns among nodes. Time is virtual.

use super::*;
use ashlar_environment::simulation::Simulation;
use ashlar_environment::spawn;
use ashlar_environment::time::sleep;

const HASH: u64 = 7 << 24;

fn turn(node: u16, number: u64) -> Turn {
    Turn { hash: HASH, node, number }
}

fn told<F: Future<Output = ()> + 'static>(story: impl FnOnce(Arc<TurnQueues>) -> F + 'static) {
    Simulation::new(1).run(async move { story(Arc::default()).await }).unwrap();
}

async fn millis(n: u64) {
    sleep(Duration::from_millis(n)).await;
}

#[test]
fn turns_are_given_in_order_and_once() {
    told(|queues| async move {
        let order = Arc::new(Mutex::new(Vec::new()));
        let mut asked = Vec::new();
        for node in 1..=6u16 {
            let (queues, order) = (queues.clone(), order.clone());
            asked.push(spawn("ask", async move {
                // In the order of the nodes.
                millis(u64::from(node)).await;
                assert!(queues.clone().wait(turn(node, 1), PATIENCE).await);
                order.lock().push(node);
                millis(20).await;
                assert_eq!(order.lock().last(), Some(&node), "another turn was given meanwhile");
                queues.end(turn(node, 1));
                queues.end(turn(node, 1));
            }));
        }
        millis(10).await;
        assert_eq!(queues.len(), 6);
        for task in asked {
            task.await.unwrap();
        }
        assert_eq!(*order.lock(), [1, 2, 3, 4, 5, 6]);
        assert!(queues.is_empty());
    });
}

#[test]
fn turn_whose_end_is_lost_passes_on() {
    told(|queues| async move {
        assert!(queues.clone().wait(turn(1, 1), PATIENCE).await);
        let began = Instant::now();
        assert!(queues.clone().wait(turn(2, 1), PATIENCE).await);
        assert!(began.elapsed() >= HOLD && began.elapsed() < HOLD * 2, "{:?}", began.elapsed());
        // The late end of the first takes nothing from the second.
        queues.end(turn(1, 1));
        assert_eq!(queues.len(), 1);
        // Nobody waits: the next that asks has it at once when the time is over.
        sleep(HOLD).await;
        let began = Instant::now();
        assert!(queues.clone().wait(turn(3, 1), PATIENCE).await);
        assert_eq!((began.elapsed(), queues.len()), (Duration::ZERO, 1));
        queues.end(turn(3, 1));
        assert!(queues.is_empty());
    });
}

#[test]
fn request_that_is_dropped_or_over_is_taken_back() {
    told(|queues| async move {
        assert!(queues.clone().wait(turn(1, 1), PATIENCE).await);
        let short = Duration::from_millis(100);
        assert!(!queues.clone().wait(turn(2, 1), short).await, "the first has it");
        assert_eq!(queues.len(), 1);
        let dropped = queues.clone().wait(turn(3, 1), PATIENCE);
        assert!(ashlar_environment::time::timeout(short, dropped).await.is_err());
        assert_eq!(queues.len(), 1);
        // A message takes it back too.
        let waits = spawn("ask", queues.clone().wait(turn(4, 1), PATIENCE));
        millis(10).await;
        queues.end(turn(4, 1));
        assert!(!waits.await.unwrap());
        // Whoever comes after them is next.
        let next = spawn("ask", queues.clone().wait(turn(5, 1), PATIENCE));
        millis(10).await;
        queues.end(turn(1, 1));
        assert!(next.await.unwrap());
        queues.end(turn(5, 1));
        assert!(queues.is_empty());
    });
}

#[test]
fn number_of_turns_is_bounded() {
    told(|queues| async move {
        let of = |n: usize| Turn { hash: n as u64, node: 1, number: n as u64 };
        for n in 0..MOST {
            assert!(queues.clone().wait(of(n), PATIENCE).await);
        }
        assert!(!queues.clone().wait(of(MOST), PATIENCE).await, "too many");
        assert_eq!(queues.len(), MOST);
        // Those whose end was lost are forgotten.
        sleep(HOLD).await;
        assert!(queues.clone().wait(of(MOST), PATIENCE).await);
        assert_eq!(queues.len(), 1);
    });
}

/// Asks queues of this process as if they were another node's.
struct Direct {
    giver: u16,
    queues: Arc<TurnQueues>,
    asked: Mutex<Vec<Turn>>,
}

impl TurnCalls for Direct {
    fn preferred(&self, _: u64) -> u16 {
        self.giver
    }
    fn ask(&self, node: u16, turn: Turn, patience: Duration) -> BoxFuture<'static, bool> {
        assert_eq!(node, self.giver);
        self.asked.lock().push(turn);
        self.queues.clone().wait(turn, patience)
    }
    fn end(&self, _: u16, turn: Turn) {
        self.queues.end(turn);
    }
}

#[test]
fn turn_is_asked_of_the_preferred_node_and_only_after_a_duel() {
    told(|there| async move {
        let calls = Arc::new(Direct { giver: 9, queues: there.clone(), asked: Mutex::default() });
        let here = Arc::<TurnQueues>::default();
        let others = Others { queues: here.clone(), calls: calls.clone() };
        let turns = Turns::new(Some(others.clone()), 1, 100);
        assert!(!turns.is_contended(HASH));
        turns.met(HASH);
        assert!(turns.is_contended(HASH) && !turns.is_contended(HASH + (1 << 24)));
        let held = turns.take(HASH).await.unwrap();
        assert_eq!((there.len(), here.len()), (1, 0));
        assert_eq!(*calls.asked.lock(), [turn(1, 100)]);
        drop(held);
        assert!(there.is_empty());
        // A request that nobody waits for any more is taken back.
        let first = turns.take(HASH).await.unwrap();
        let second = turns.take(HASH);
        assert!(ashlar_environment::time::timeout(Duration::from_millis(50), second).await.is_err());
        assert_eq!(there.len(), 1);
        drop(first);
        assert!(there.is_empty());
        sleep(CONTENDED).await;
        assert!(!turns.is_contended(HASH), "nobody has met there for a while");
        // The preferred node asks nobody.
        let own = Turns::new(Some(others), 9, 0);
        let held = own.take(HASH).await.unwrap();
        assert_eq!((there.len(), here.len()), (0, 1));
        drop(held);
        assert!(here.is_empty());
        // Where nobody else proposes, there are no turns.
        let alone = Turns::new(None, 1, 0);
        alone.met(HASH);
        assert!(!alone.is_contended(HASH) && alone.take(HASH).await.is_none());
    });
}
