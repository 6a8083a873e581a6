//! Feeds bytes to a target as the answer of its server, so that the fuzzer reaches the decoders.
//!
//! Nothing but the fuzzer calls this. It is part of every build, because a feature of Cargo for it would compile this
//! crate, and all that depend on it, once for the tests and once for the program.

use std::sync::OnceLock;

use tokio::runtime::Runtime;

use crate::played::playing;
use crate::settings::{Settings, Values};
use crate::target::Target;
use crate::{Event, Kind, Message, Name, Site};

fn runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| {
        tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime")
    })
}

/// Sends an event to a target of this kind whose server answers `bytes`, whatever it receives, and then
/// closes the connection. `values`: the settings of the target, with any address. Returns whether the target
/// acknowledged the event.
///
/// # Panics
/// The settings are invalid.
pub fn play(kind: Kind, values: &[(&str, &str)], bytes: &[u8]) -> bool {
    let values: Values = values.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect();
    let mut target = Target::open(kind, &Settings { values: &values, authorities: &[] }).expect("settings");
    let event = Event {
        position: 1,
        ballot: String::new(),
        time_ms: 5,
        name: Name::CreatedPut,
        bucket: "b".into(),
        key: "k".into(),
        version: None,
        size: 1,
        etag: None,
        meta: Vec::new(),
        who: "w".into(),
        source: "127.0.0.1".into(),
        request_id: "r".into(),
        agent: String::new(),
        endpoint: String::new(),
    };
    let site = Site::default();
    let message = Message::new(event, "rule", &site);
    let sent = playing(bytes, || runtime().block_on(target.send(&[message], &site)));
    sent.done == 1 && sent.refused.is_empty()
}
