//! The history of metrics: `GET history`.
//!
//! | request | answer |
//! |---|---|
//! | `GET history?last_s=N&until_ms=T&steps=M` | rates, latencies and capacity of all nodes in the last `N` seconds (3,600 by default) before `T` (now by default) in at most `M` steps (400 by default), and when the capacity is used up |
//!
//! Each node measures itself every ten seconds and keeps what it measured (`ashlar_time_series`), in memory and on its
//! first drive. The node that is asked asks the others and adds up.
//!
//! | file | contents |
//! |---|---|
//! | `series` | which values a point has |
//! | `recorder` | measures; has the files written |
//! | `writer` | the files, on a thread of their own |
//! | `answer` | the request, the sum over all nodes, the forecast |
//!
//! Invariants: nothing here waits for a drive; a node that does not answer is named.
//!
//! Must not depend on: who may ask.

mod answer;
mod recorder;
mod series;
mod writer;

pub(crate) use answer::{answer, own_steps};
pub use recorder::Recorder;
