//! Decoders of what other servers send: notification targets, directories, nodes of the cluster.
//!
//! Each run for a target or a directory uses the input as the answers of the server and sends one event, or binds and searches, so that
//! the input reaches all steps of the protocol. The seeds are complete successful exchanges; a check at the
//! start asserts this once.

use ashlar_events::{Kind, script};

use crate::target::Target;

type Settings = &'static [(&'static str, &'static str)];

const KAFKA: Settings = &[("brokers", "h:1"), ("topic", "t")];
const SCRAM: Settings = &[
    ("brokers", "h:1"),
    ("topic", "t"),
    ("sasl", "on"),
    ("sasl_username", "u"),
    ("sasl_password", "p"),
    ("sasl_mechanism", "sha256"),
];
const MYSQL: Settings = &[("dsn_string", "u:p@tcp(h:1)/d"), ("table", "t"), ("format", "access")];
const AMQP: Settings = &[("url", "amqp://u:p@h:1/v"), ("exchange", "e"), ("routing_key", "r")];
const NATS: Settings = &[("address", "h:1"), ("subject", "s")];
const STREAM: Settings = &[("address", "h:1"), ("subject", "s"), ("jetstream", "on")];
const MQTT: Settings = &[("broker", "tcp://h:1"), ("topic", "t"), ("qos", "2")];
const REDIS: Settings = &[("address", "h:1"), ("key", "k"), ("password", "p"), ("format", "access")];
const NSQ: Settings = &[("nsqd_address", "h:1"), ("topic", "t")];

/// Answers to a watch, as releases of etcd send them.
fn etcd() -> Target {
    let messages = [
        r#"{"result":{"header":{"cluster_id":"15","revision":"3","raft_term":"2"},"created":true}}"#,
        r#"{"result":{"header":{"revision":"3"},"fragment":true,"events":[{"type":"DELETE","kv":{"key":"YQ==","mod_revision":"3"}}]}}"#,
        r#"{"result":{"events":[{"kv":{"key":"YQ==","create_revision":"2","mod_revision":"2","value":"MQ=="}}]}}"#,
        r#"{"result":{"canceled":true,"compact_revision":"3"}}"#,
        r#"{"error":{"grpc_code":14,"http_code":503,"message":"etcdserver: no leader"}}"#,
        r#"{"error":{"code":14,"message":"etcdserver: no leader","details":[]}}"#,
    ];
    Target {
        name: "etcd-watch",
        seeds: vec![(messages.join("\n") + "\n").into_bytes(), messages[1].as_bytes().to_vec()],
        tokens: &[
            b"\n",
            b"\"mod_revision\":",
            b"\"18446744073709551616\"",
            b"\"-1\"",
            b"\"events\":[",
            b"null",
        ],
        run: ashlar_etcd::fuzzed_watch,
    }
}

/// Every target. The runtimes are made here, so that their allocations are not attributed to an input.
pub fn all() -> Vec<Target> {
    ashlar_outbound::allow(true, false);
    for (kind, settings) in [(Kind::Kafka, KAFKA), (Kind::Redis, REDIS)] {
        assert!(!script::play(kind, settings, b""), "an empty conversation delivers nothing");
    }
    assert_eq!(ashlar_idp::script::play(&directory()), 1, "the seed is a directory with an entry");
    assert!(script::play(Kind::Redis, REDIS, REDIS_SEED), "the seed takes an event");
    vec![
        etcd(),
        target("kafka", vec![kafka(), kafka()[..9].to_vec()], &[&[0xff; 4], &[0x7f; 4]], |b| {
            script::play(Kind::Kafka, KAFKA, b);
        }),
        target("scram", vec![scram()], &[b"r=", b",s=", b",i=", b"4096", b"4294967295", b"v="], |b| {
            script::play(Kind::Kafka, SCRAM, b);
        }),
        target(
            "mysql",
            vec![mysql()],
            &[&[0xff; 3], &[0xfe], b"caching_sha2_password", b"mysql_native_password"],
            |b| {
                script::play(Kind::Mysql, MYSQL, b);
            },
        ),
        target("amqp", vec![amqp()], &[&[0xce], &[0xff; 4], &[0, 60, 0, 80], &[0, 10, 0, 50]], |b| {
            script::play(Kind::Amqp, AMQP, b);
        }),
        target(
            "nats",
            vec![NATS_SEED.to_vec()],
            &[b"INFO ", b"MSG ", b"-ERR ", b"PING\r\n", b"\r\n", b"18446744073709551615"],
            |b| {
                script::play(Kind::Nats, NATS, b);
                script::play(Kind::Nats, STREAM, b);
            },
        ),
        target(
            "mqtt",
            vec![vec![0x20, 2, 0, 0, 0x50, 2, 0, 1, 0x70, 2, 0, 1]],
            &[&[0xff; 4], &[0x80; 4], &[0x7f]],
            |b| {
                script::play(Kind::Mqtt, MQTT, b);
            },
        ),
        target(
            "redis",
            vec![REDIS_SEED.to_vec()],
            &[b"$-1\r\n", b"*-1\r\n", b"*1\r\n", b"-ERR ", b"$999999999999\r\n"],
            |b| {
                script::play(Kind::Redis, REDIS, b);
            },
        ),
        messages(),
        drive_calls(),
        questions(),
        target("nsq", vec![NSQ_SEED.to_vec()], &[&[0xff; 4], &[0x7f; 4], b"E_INVALID"], |b| {
            script::play(Kind::Nsq, NSQ, b);
        }),
        target("ldap", vec![directory()], &[&[0x30, 0x84], &[0xff; 4], &[0x80], &[0x64], &[0x65]], |b| {
            ashlar_idp::script::play(b);
        }),
        target(
            "ldap-name",
            [r"uid=a\2c,ou=b+cn=\20x,dc=c", r"CN=#0401ff,O=\C3\A4", "(&(a=*b*)(!(c>=d))(e:1.2:=%s))"]
                .map(|t| t.as_bytes().to_vec())
                .to_vec(),
            &[b"\\", b"\\00", b"+", b"=", b",", b"(|", b"#", b"%d"],
            |b| {
                if let Ok(text) = std::str::from_utf8(b) {
                    ashlar_idp::script::name(text);
                }
            },
        ),
    ]
}

/// What other nodes ask for administration.
fn questions() -> Target {
    use ashlar_admin::question;
    Target {
        name: "node-questions",
        seeds: question::fuzzed_seeds(),
        tokens: &[
            b"{}",
            b"null",
            b"\"logs\":",
            b"\"last\":",
            b"18446744073709551616",
            b"-1",
            b"\"order\":",
            b"\\u0000",
        ],
        run: question::fuzzed,
    }
}

/// Calls of drives of other nodes, and their answers.
fn drive_calls() -> Target {
    use ashlar_remote::fuzzed;
    Target {
        name: "drive-calls",
        seeds: fuzzed::messages(),
        tokens: &[&[200, 0], &[201, 0], &[65, 0], &[4; 16], &[0xff; 4], &[1, 0x81, 0x20]],
        run: fuzzed::message,
    }
}

/// Messages between nodes, as they come and with corrected checksums.
fn messages() -> Target {
    use ashlar_rpc::frame;
    Target {
        name: "messages",
        seeds: frame::fuzz_seeds(),
        tokens: &[b"ASHM", &[1, 2], &[0, 1], &[0, 8], &[0xff; 4], &[0, 0, 4, 0], &[0, 0, 0x80, 0]],
        run: |b| {
            frame::fuzzed(b);
            frame::fuzzed(&frame::with_checksums(b));
        },
    }
}

fn target(
    name: &'static str,
    seeds: Vec<Vec<u8>>,
    tokens: &'static [&'static [u8]],
    run: fn(&[u8]),
) -> Target {
    Target { name, seeds, tokens, run }
}

const REDIS_SEED: &[u8] = b"+OK\r\n:1\r\n";
const NATS_SEED: &[u8] = b"INFO {\"server_id\":\"s\",\"headers\":true,\"max_payload\":1048576}\r\nPONG\r\nPONG\r\nMSG _INBOX.a 1 30\r\n{\"stream\":\"s\",\"seq\":1}\r\n";
const NSQ_SEED: &[u8] = b"\0\0\0\x06\0\0\0\0OK\0\0\0\x06\0\0\0\0OK";

/// A message with its length before it.
fn sized(body: &[u8]) -> Vec<u8> {
    [&(body.len() as u32).to_be_bytes()[..], body].concat()
}

fn text(text: &str) -> Vec<u8> {
    [&(text.len() as u16).to_be_bytes()[..], text.as_bytes()].concat()
}

/// Metadata with one broker and one partition, and the acknowledgement of one record.
fn kafka() -> Vec<u8> {
    let number = |n: i32| n.to_be_bytes().to_vec();
    let metadata = [
        number(1),
        number(1),
        number(7),
        text("h"),
        number(9),
        text(""),
        text(""),
        number(7),
        number(1),
        vec![0, 0],
        text("t"),
        vec![0],
        number(1),
        vec![0, 0],
        number(0),
        number(7),
        number(1),
        number(7),
        number(1),
        number(7),
    ];
    let produced = [
        number(1),
        number(1),
        text("t"),
        number(1),
        number(0),
        vec![0, 0],
        vec![0; 8],
        vec![0; 8],
        number(0),
    ];
    [sized(&metadata.concat()), sized(&produced.concat())].concat()
}

/// A handshake, and the first message of a server; the nonce cannot be predicted.
fn scram() -> Vec<u8> {
    let shaken = [&1i32.to_be_bytes()[..], &[0, 0], &0i32.to_be_bytes()].concat();
    let first = b"r=rOprNGfwEbeRWgbNEkqO,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";
    let said = [&1i32.to_be_bytes()[..], &[0, 0, 0, 0], &sized(first)].concat();
    [sized(&shaken), sized(&said)].concat()
}

/// A greeting, a successful authentication, and the result of a statement.
fn mysql() -> Vec<u8> {
    let packet =
        |number: u8, body: &[u8]| [&(body.len() as u32).to_le_bytes()[..3], &[number], body].concat();
    let mut hello = b"\x0a8.0.1\0".to_vec();
    hello.extend([1, 0, 0, 0]);
    hello.extend(b"12345678\0");
    hello.extend([0xff, 0xf7, 33, 2, 0, 0xff, 0x81, 21]);
    hello.extend([0; 10]);
    hello.extend(b"123456789012\0mysql_native_password\0");
    let fine = [0, 0, 0, 2, 0, 0, 0];
    [packet(0, &hello), packet(2, &fine), packet(1, &fine), packet(1, &fine), packet(1, &fine)].concat()
}

/// Everything up to the confirmation of one message.
fn amqp() -> Vec<u8> {
    let method = |channel: u8, class: u8, id: u8, rest: &[u8]| {
        let body = [&[0, class, 0, id], rest].concat();
        [&[1, 0, channel][..], &sized(&body), &[0xce]].concat()
    };
    let start = [&[0, 9][..], &sized(b""), &sized(b"PLAIN"), &sized(b"en_US")].concat();
    [
        method(0, 10, 10, &start),
        method(0, 10, 30, &[0, 8, 0, 2, 0, 0, 0, 60]),
        method(0, 10, 41, &[0]),
        method(1, 20, 11, &[0; 4]),
        method(1, 85, 11, &[]),
        method(1, 40, 11, &[]),
        method(1, 60, 80, &[0, 0, 0, 0, 0, 0, 0, 1, 0]),
    ]
    .concat()
}

/// A successful bind, one entry, and the end of the search.
fn directory() -> Vec<u8> {
    let framed = |content: &[u8]| [&[0x30, content.len() as u8], content].concat();
    [
        framed(b"\x02\x01\x01\x61\x07\x0a\x01\x00\x04\x00\x04\x00"),
        framed(b"\x02\x01\x02\x64\x08\x04\x04cn=a\x30\x00"),
        framed(b"\x02\x01\x02\x65\x07\x0a\x01\x00\x04\x00\x04\x00"),
    ]
    .concat()
}
