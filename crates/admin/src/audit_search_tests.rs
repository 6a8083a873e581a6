//! Tests of the search over several nodes: conditions, cursors, and pages that are merged.

use serde_json::json;

use super::*;

fn query(text: &str) -> Query {
    Query::parse(text).unwrap()
}

#[test]
fn conditions_of_a_query() {
    let search = Search::of(&query(
        "since=2023-11-14T22:13:20Z&until=2023-11-15&user=alice&access_key=K&bucket=b&prefix=p%2Fq&operation=GetObject\
         &api=s3&status=4xx&error=AccessDenied&source=10.0.0.0/8&request_id=ID&limit=7&cursor=1.20.300_2.0.0",
    ))
    .unwrap();
    let filter = Filter {
        since_ms: Some(1_700_000_000_000),
        until_ms: Some(1_700_006_400_000),
        user: "alice".into(),
        access_key: "K".into(),
        bucket: "b".into(),
        prefix: "p/q".into(),
        operation: "GetObject".into(),
        api: "s3".into(),
        status: Some((400, 499)),
        error: "AccessDenied".into(),
        source: parse_network("10.0.0.0/8"),
        request_id: "ID".into(),
    };
    let cursor = BTreeMap::from([(1, Position { line: 20, offset: 300 }), (2, Position::END)]);
    assert_eq!(encode(&cursor), "1.20.300_2.0.0");
    assert_eq!(search, Search { filter, limit: 7, cursor });
    let all = Search::of(&query("user=&limit=")).unwrap();
    assert_eq!(all, Search { filter: Filter::default(), limit: DEFAULT, cursor: BTreeMap::new() });
    for (text, named) in [
        ("since=yesterday", "since=yesterday"),
        ("status=4", "status=4"),
        ("source=home", "source=home"),
        ("limit=0", "limit=0"),
        ("limit=1001", "limit=1001"),
        ("cursor=1.2", "cursor"),
        ("cursor=x", "cursor"),
        ("users=alice", "users"),
    ] {
        let no = Search::of(&query(text)).unwrap_err();
        assert!(no.status == 400 && no.why.contains(named), "{text}: {}", no.why);
    }
}

/// The log of a node: the times at which its requests ended, in the order of its lines.
type Log = Vec<i64>;

/// What a node finds that reads `work` lines for a request.
fn hits(log: &Log, node: u16, from: Option<Position>, limit: usize, work: usize) -> Hits {
    let end = from.map_or(log.len(), |p| p.line.saturating_sub(1) as usize).min(log.len());
    let mut hits = Hits { found: Vec::new(), next: Position::END, reached_ms: None, refusals_only: false };
    for (read, i) in (0..end).rev().enumerate() {
        let at = Position { line: i as u64 + 1, offset: 10 * i as u64 };
        if read == work {
            hits.next = Position { line: at.line + 1, offset: 0 };
            break;
        }
        hits.reached_ms = Some(log[i]);
        // Every third line is of a request that is asked for.
        if i % 3 == 0 {
            let record = json!({ "time": "t", "request_id": format!("{node}-{i}"), "api": "s3", "operation": "o",
                "method": "GET", "status": 200, "ip": "::1", "tls": false, "bytes_in": 0, "bytes_out": 0, "micros": 0,
                "user": "alice" });
            hits.found.push(Found { at, end: at.offset + 10, ended_ms: log[i], record });
        }
        if hits.found.len() == limit {
            hits.next = at;
            break;
        }
    }
    if hits.next.line <= 1 {
        hits.next = Position::END;
    }
    hits
}

/// All pages: the records as `NODE-LINE` with the time of each, and how many pages there were.
fn pages(
    logs: &[Log],
    limit: usize,
    work: usize,
    silent: &dyn Fn(usize, u16) -> bool,
) -> (Vec<(i64, String)>, usize) {
    let (mut all, mut cursor) = (Vec::new(), BTreeMap::new());
    for page in 0.. {
        assert!(page < 10_000, "no progress");
        let answers = (1..).zip(logs).filter(|(node, _)| cursor.get(node) != Some(&Position::END));
        let answers = answers.map(|(node, log)| match silent(page, node) {
            true => (node, Err(format!("node {node} does not answer"))),
            false => (node, Ok(hits(log, node, cursor.get(&node).copied(), limit, work))),
        });
        let said = merge(true, cursor.clone(), answers.collect(), limit);
        assert!(said.records.len() <= limit);
        for record in said.records {
            let (node, line) = record.request_id.split_once('-').unwrap();
            assert_eq!(record.node.unwrap().to_string(), node);
            assert_eq!(record.more["user"], "alice");
            all.push((
                logs[node.parse::<usize>().unwrap() - 1][line.parse::<usize>().unwrap()],
                record.request_id,
            ));
        }
        let problems = said.nodes.iter().filter(|n| n.problem.is_some()).count();
        assert_eq!(problems > 0, said.nodes.iter().any(|n| silent(page, n.node)));
        match said.cursor {
            Some(text) => cursor = decode(&text).unwrap(),
            None => {
                assert!(said.complete && said.searched_to.is_none());
                return (all, page + 1);
            }
        }
    }
    unreachable!("a loop without an end")
}

fn logs(seed: u64) -> Vec<Log> {
    let mut random = seed * 0x9e37_79b9 + 1;
    let mut next = move |n: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (random >> 33) % n
    };
    let one = |_| {
        let mut time = 1_000_000 + next(500) as i64;
        (0..next(60))
            .map(|_| {
                time += next(40) as i64;
                time
            })
            .collect()
    };
    (0..4).map(one).collect()
}

fn expected(logs: &[Log]) -> Vec<String> {
    let of = |(node, log): (usize, &Log)| {
        (0..log.len()).step_by(3).map(move |i| format!("{node}-{i}")).collect::<Vec<_>>()
    };
    let mut all: Vec<String> = (1..).zip(logs).flat_map(of).collect();
    all.sort();
    all
}

#[test]
fn pages_of_all_nodes_have_each_record_once_by_time() {
    for seed in 0..100 {
        let logs = logs(seed);
        for (limit, work) in [(1000, 1000), (5, 1000), (1, 7), (3, 1), (50, 4)] {
            let (found, _) = pages(&logs, limit, work, &|_, _| false);
            assert!(found.is_sorted_by(|a, b| a.0 >= b.0), "seed {seed}, {limit}, {work}: {found:?}");
            let mut ids: Vec<_> = found.into_iter().map(|(_, id)| id).collect();
            ids.sort();
            assert_eq!(ids, expected(&logs), "seed {seed}, {limit}, {work}");
        }
    }
}

#[test]
fn a_node_that_does_not_answer_is_named_and_its_records_come_later() {
    for seed in 0..50 {
        let logs = logs(seed);
        let (found, _) = pages(&logs, 4, 5, &|page, node| node == 2 && page < 6);
        let mut ids: Vec<_> = found.into_iter().map(|(_, id)| id).collect();
        ids.sort();
        assert_eq!(ids, expected(&logs), "seed {seed}");
    }
    // One that stays silent: the search is complete, and the cursor is for that node.
    let answers =
        vec![(1, Ok(hits(&vec![5, 6], 1, None, 10, 10))), (2, Err("node 2 is not running".to_owned()))];
    let said = merge(true, BTreeMap::new(), answers, 10);
    assert_eq!((said.complete, said.cursor.as_deref(), said.records.len()), (true, Some("1.0.0"), 1));
    assert_eq!(said.nodes[1].problem.as_deref(), Some("node 2 is not running"));
    assert_eq!(said.nodes[0], SearchedNode { node: 1, refusals_only: Some(false), problem: None });
}

#[test]
fn a_page_says_how_far_the_search_is() {
    // Node 2 has looked down to the time 50 only: what node 1 has before that waits.
    let one: Log = vec![10, 0, 0, 40, 0, 0, 60];
    let two: Log = (50..90).rev().map(|t| 140 - t).collect();
    let answers = vec![(1, Ok(hits(&one, 1, None, 100, 100))), (2, Ok(hits(&two, 2, None, 100, 5)))];
    let said = merge(true, BTreeMap::new(), answers, 100);
    assert!(!said.complete && said.cursor.is_some());
    assert_eq!(said.searched_to, Some(moment_text(86)), "what node 2 looked at ended at 86 or later");
    let alone = merge(false, BTreeMap::new(), vec![(0, Ok(hits(&one, 0, None, 100, 100)))], 100);
    assert_eq!(alone.records.len(), 3);
    assert!(alone.records.iter().all(|r| r.node.is_none()) && alone.cursor.is_none());
}
