//! Replacement of the authority that signs the certificates of nodes: `POST cluster/authority` `{"replace"}`.
//!
//! Each request makes the next step, if all nodes that run are ready for it, and says what it waits for otherwise. The
//! client repeats the same request until it is done; whoever repeats it later, or at another node, goes on.
//!
//! Invariant: a request that is repeated never begins a second replacement, because it names the authority to replace.
//!
//! Must not depend on: certificates.

use std::sync::Arc;
use std::time::Duration;

use ashlar_cluster::Control;
use ashlar_iam::Iam;
use ashlar_node::Node;
use ashlar_node::authority::Phase;
use ashlar_node::rotation::{Authorities, NodeStanding};
use http::StatusCode;

use super::admin_request::{AdminRequest, AdminResult, Refusal};
use super::api::{self, cluster as shape};
use super::cluster::{conflict, failed};
use super::question::Question;

/// How long other nodes may take to answer.
const PATIENCE: Duration = Duration::from_secs(2);

fn unusable(why: String) -> Refusal {
    Refusal { status: StatusCode::SERVICE_UNAVAILABLE, code: "ServiceUnavailable", why }
}

/// The authorities in the control store.
///
/// # Errors
/// They cannot be read.
pub fn state(control: &Control) -> Result<shape::AuthorityState, Refusal> {
    Ok(described(&Authorities::read(control).map_err(unusable)?))
}

fn described(authorities: &Authorities) -> shape::AuthorityState {
    shape::AuthorityState {
        phase: authorities.phase.map(|phase| match phase {
            Phase::Introducing => "introducing",
            Phase::Renewing => "renewing",
        }),
        signer: authorities.signer().to_owned(),
        trusted: authorities.trusted.clone(),
        old: authorities.old().to_owned(),
    }
}

/// Makes the next step. The caller has checked the permission.
pub async fn rotate(node: &Node, iam: Option<&Arc<Iam>>, req: &AdminRequest) -> AdminResult {
    let order: shape::RotationOrder = req.document()?;
    let (Some(_), Some(iam)) = (&node.member, iam) else {
        return Err(conflict("this machine is alone: it has no certificates for other nodes"));
    };
    // What other nodes wrote before this request counts.
    node.control.barrier().await.map_err(failed)?;
    let before = Authorities::read(&node.control).map_err(unusable)?;
    let answer = |authorities: &Authorities, waits, away| {
        let done = !authorities.trusted.contains(&order.replace);
        let authority = described(authorities);
        Ok((StatusCode::OK, api::value(shape::Rotation { authority, done, waits, away })))
    };
    if !before.trusted.contains(&order.replace) {
        return answer(&before, Vec::new(), Vec::new());
    }
    if before.old() != order.replace {
        return Err(conflict(format!(
            "the authority {} is the new one of a replacement that is not complete: complete that first",
            order.replace
        )));
    }
    let said = node.standings(Question::Standing {}.encode(), PATIENCE).await;
    let away = said.iter().filter(|(_, said)| **said == NodeStanding::Away).map(|(number, _)| *number);
    let away: Vec<u16> = away.collect();
    // To begin, nobody has to be ready.
    let waits = if before.phase.is_some() { before.waits(&said) } else { Vec::new() };
    if waits.is_empty() && before.advance(&node.control, iam).await.map_err(unusable)? {
        let now = Authorities::read(&node.control).map_err(unusable)?;
        let state = described(&now);
        tracing::warn!(
            phase = state.phase,
            signer = state.signer,
            "the authority of the cluster is being replaced"
        );
        return answer(&now, Vec::new(), away);
    }
    answer(&before, waits, away)
}
