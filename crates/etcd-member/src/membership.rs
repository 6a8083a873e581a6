//! How a member is added to a cluster that runs, and how one that lost its data is replaced.
//!
//! Raft counts on every member to keep what it has acknowledged. A member with a blank folder has not: so it must not
//! vote under the number that it had. It is removed by the others, which is itself decided by a majority without it, and
//! then added under a new number as a *learner*, which does not vote until it has everything. Only then it is promoted.
//!
//! Invariants: a member is started in a running cluster only after it was added under a number that no folder had before;
//! every change of the members is one of etcd's own, each a single step decided by a majority.
//!
//! Must not depend on: processes.

use crate::access::{Access, Listed};
use crate::{Address, Error, Result};

/// What a member needs to start in a cluster that runs.
#[derive(Debug, PartialEq, Eq)]
pub struct Added {
    /// Its number, in decimal digits.
    pub id: String,
    /// For `--initial-cluster`.
    pub initial: String,
}

/// The members of the cluster, and one that has a quorum and told them.
///
/// # Errors
/// `Unavailable`: none of `at` has a quorum; the reason of the last.
pub async fn listed<'a>(access: &Access, at: &'a [Address]) -> Result<(&'a Address, Vec<Listed>)> {
    let mut why = Error::Unavailable("there is no other member".to_owned());
    for member in at {
        match access.members(member).await {
            Ok(list) => return Ok((member, list)),
            Err(error) => why = error,
        }
    }
    Err(why)
}

/// Adds a member with a blank folder to the cluster of `others`; what was there under its address is removed.
///
/// # Errors
/// `Unavailable`, `Refused`: again later.
pub async fn add(access: &Access, own: &Address, others: &[Address]) -> Result<Added> {
    let (at, list) = listed(access, others).await?;
    let url = own.peer_url(access.scheme);
    for old in list.iter().filter(|m| m.peer_urls.contains(&url)) {
        tracing::warn!(member = %own, id = old.id, "the folder of the etcd member is blank: its old number is removed");
        access.remove(at, &old.id).await?;
    }
    let (id, list) = access.add(at, &url).await?;
    Ok(Added { initial: initial(&list, own, &url), id })
}

/// Refuses a list of members that most of those that vote are not on, unless it only leaves some out: nodes look for
/// etcd at the members on the list, so they would not find the present majority until new members have joined.
///
/// # Errors
/// `Refused`.
pub fn check_change(list: &[Listed], wanted: &[Address], scheme: &str) -> Result<()> {
    let urls: Vec<String> = wanted.iter().map(|address| address.peer_url(scheme)).collect();
    let votes = |url: &String| list.iter().any(|m| !m.is_learner && m.peer_urls.contains(url));
    let kept = urls.iter().filter(|url| votes(url)).count();
    let voters = list.iter().filter(|m| !m.is_learner).count();
    match kept == urls.len() || 2 * kept > voters {
        true => Ok(()),
        false => Err(Error::Refused(format!(
            "only {kept} of the {voters} members that vote now would stay, and the new ones join by those: keep most of them, \
             and change the others when the new ones vote"
        ))),
    }
}

/// What has to be removed next, so that the members are those that are wanted.
#[derive(Debug, PartialEq, Eq)]
pub enum Surplus {
    /// Nothing.
    None,
    /// This one can be removed: nothing waits for it.
    Remove(Listed),
    /// This one is removed if it does not answer; else not before all wanted ones vote.
    IfSilent(Listed),
}

/// Finds what has to be removed. A member that answers goes when all wanted ones vote: until then it counts for the
/// majority. One that does not answer goes first, because etcd adds no member while one is away.
#[must_use]
pub fn surplus(list: &[Listed], wanted: &[Address], scheme: &str) -> Surplus {
    let is = |member: &Listed, address: &Address| member.peer_urls.contains(&address.peer_url(scheme));
    let votes =
        |address: &Address| list.iter().any(|m| is(m, address) && !m.is_learner && !m.name.is_empty());
    let Some(extra) = list.iter().find(|m| !wanted.iter().any(|address| is(m, address))) else {
        return Surplus::None;
    };
    match wanted.iter().all(votes) {
        true => Surplus::Remove(extra.clone()),
        false => Surplus::IfSilent(extra.clone()),
    }
}

/// `NAME=URL` of all members. Those that were not started yet have no name: their URL will do.
fn initial(list: &[Listed], own: &Address, own_url: &str) -> String {
    let of = |member: &Listed| {
        let is_own = member.peer_urls.iter().any(|url| url == own_url);
        let name = match member.name.as_str() {
            _ if is_own => own.name(),
            "" => member.peer_urls.first()?.split_once("://")?.1.to_owned(),
            name => name.to_owned(),
        };
        Some(member.peer_urls.iter().map(move |url| format!("{name}={url}")).collect::<Vec<_>>())
    };
    list.iter().filter_map(of).flatten().collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn list_for_a_start_names_all_members() {
        let own = Address::parse("10.0.0.6").unwrap();
        let listed = |name: &str, url: &str| Listed {
            id: "1".to_owned(),
            name: name.to_owned(),
            peer_urls: vec![url.to_owned()],
            client_urls: Vec::new(),
            is_learner: false,
        };
        let list = [
            listed("a", "https://10.0.0.4:2380"),
            listed("", "https://10.0.0.5:9"),
            listed("", "https://10.0.0.6:2380"),
        ];
        assert_eq!(
            initial(&list, &own, &own.peer_url("https")),
            "a=https://10.0.0.4:2380,10.0.0.5:9=https://10.0.0.5:9,10.0.0.6:2380=https://10.0.0.6:2380"
        );
    }

    #[test]
    fn most_voters_stay() {
        let member = |host: &str, is_learner: bool| Listed {
            id: host.to_owned(),
            name: String::new(),
            peer_urls: vec![format!("https://{host}:2380")],
            client_urls: Vec::new(),
            is_learner,
        };
        let list = ["a", "b", "c"].map(|host| member(host, false));
        let of = |list: &[Listed], wanted: &str| {
            let wanted = crate::Members::parse(wanted).unwrap();
            check_change(list, wanted.all(), "https").map_err(|e| e.to_string())
        };
        for good in ["a,b,c", "a,b,d", "a", "a,b,c,d,e", "a,c,d"] {
            assert_eq!(of(&list, good), Ok(()), "{good}");
        }
        for (bad, why) in
            [("d,e,f", "only 0 of the 3"), ("a,d,e", "only 1 of the 3"), ("d", "only 0 of the 3")]
        {
            assert!(of(&list, bad).unwrap_err().contains(why), "{bad}");
        }
        assert_eq!(of(&list[..1], "a,b,c"), Ok(()));
        // One that has not everything yet does not count.
        let growing = [list[0].clone(), list[1].clone(), member("d", true)];
        assert!(of(&growing, "a,d,e").is_err());
        assert_eq!(of(&growing, "a,b,c"), Ok(()));
    }

    #[test]
    fn members_that_are_not_wanted_go_last_unless_they_are_dead() {
        let wanted: Vec<Address> = ["a", "b", "d"].iter().map(|host| Address::parse(host).unwrap()).collect();
        let member = |host: &str, name: &str, is_learner: bool| Listed {
            id: host.to_owned(),
            name: name.to_owned(),
            peer_urls: vec![format!("https://{host}:2380")],
            client_urls: vec![format!("https://{host}:2379")],
            is_learner,
        };
        let mut list = vec![member("a", "a", false), member("b", "b", false), member("c", "c", false)];
        assert_eq!(surplus(&list, &wanted, "https"), Surplus::IfSilent(list[2].clone()));
        list.push(member("d", "", true));
        assert_eq!(surplus(&list, &wanted, "https"), Surplus::IfSilent(list[2].clone()));
        list[3] = member("d", "d", true);
        assert_eq!(surplus(&list, &wanted, "https"), Surplus::IfSilent(list[2].clone()));
        list[3] = member("d", "d", false);
        assert_eq!(surplus(&list, &wanted, "https"), Surplus::Remove(list[2].clone()));
        list.remove(2);
        assert_eq!(surplus(&list, &wanted, "https"), Surplus::None);
        assert_eq!(list[2].address(), Some(Address::parse("d").unwrap()));
    }
}
