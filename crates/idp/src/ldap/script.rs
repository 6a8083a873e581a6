//! Entry points for the fuzzer: answers of a directory, and distinguished names.
//!
//! Nothing but the fuzzer calls this; it is part of every build, as `ashlar_events::script` explains.

use std::sync::OnceLock;

use tokio::runtime::Runtime;

use super::connection::Connection;
use super::dn::Dn;
use super::filter::Filter;
use super::message::Scope;

fn runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| {
        tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime")
    })
}

/// Binds and searches at a directory that answers `bytes`. Returns the number of entries found.
pub fn play(bytes: &[u8]) -> usize {
    runtime().block_on(async {
        let mut c = Connection::scripted(bytes);
        let _ = c.bind("cn=a,dc=x", "secret").await;
        let found = c.search(("dc=x", Scope::Tree), (&Filter::any(), "", ""), &["cn"], 100).await;
        found.map_or(0, |entries| entries.len())
    })
}

/// Parses a distinguished name and its normal form.
///
/// # Panics
/// The normal form is not its own normal form.
pub fn name(text: &str) {
    if let Ok(dn) = Dn::parse(text) {
        let spelled = dn.spelled();
        let again = Dn::parse(&spelled).expect("its own spelling");
        assert_eq!(again.spelled(), spelled);
    }
    let _ = super::normal(text);
    let _ = Filter::parse(text);
}
