//! How namespaces are accessed through ports: the states of asymmetric namespace access (ANA) that were set.
//!
//! Each namespace is an ANA group of its own, with its number. What nobody has set is optimized, as both modules of a Data24
//! reach all drives equally well. A state stays while its port is down and while its drive is pulled.
//!
//! Invariants: every port, bay and namespace has exactly one state; a call that fails changes none.
//!
//! Must not depend on: hosts, time, faults.

use std::collections::BTreeMap;

use ashlar_arguments::expand;
use ashlar_nvme_tcp::AnaState;
use parking_lot::RwLock;

use crate::api::{AnaEntry, AnaSpec};
use crate::error::Error;
use crate::setup::{Setup, module_name};

/// Texts of namespaces of one call, at most.
const MOST: usize = 4096;

/// The states at all ports.
pub(crate) struct States(RwLock<Vec<AnaState>>);

/// What a call means: indexes of ports, and bay and number of namespaces.
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct Chosen {
    ports: Vec<usize>,
    namespaces: Vec<(usize, u32)>,
}

/// Which ports and namespaces a call concerns.
///
/// # Errors
/// [`Kind::NotFound`](crate::Kind::NotFound): there is no such port, module, bay or namespace;
/// [`Kind::Invalid`](crate::Kind::Invalid): a text cannot be read.
pub(crate) fn choose(setup: &Setup, spec: &AnaSpec) -> Result<Chosen, Error> {
    let all = 0..setup.ports.len();
    let ports = match &spec.at {
        None => all.collect(),
        Some(name) => match (setup.port_named(name), setup.module_named(name)) {
            (Some(port), _) => vec![port],
            (None, Some(module)) => all.filter(|p| p / setup.ports_per_module == module).collect(),
            (None, None) => {
                return Err(Error::not_found(format!("there is no port and no module {name:?}")));
            }
        },
    };
    if ports.is_empty() {
        let name = spec.at.as_deref().unwrap_or_default();
        return Err(Error::not_found(format!("module {name:?} has no port in this set-up")));
    }
    if spec.namespaces.len() > MOST {
        return Err(Error::invalid(format!("at most {MOST} texts of namespaces")));
    }
    let mut namespaces = Vec::new();
    for text in expand::expand(&spec.namespaces).map_err(Error::invalid)? {
        namespaces.extend(setup.namespaces_named(&text).map_err(Error::not_found)?);
    }
    if spec.namespaces.is_empty() {
        namespaces = (1..=setup.bays).flat_map(|b| (1..=setup.namespaces).map(move |n| (b, n))).collect();
    }
    Ok(Chosen { ports, namespaces })
}

impl States {
    /// Everything is optimized, except for what the set-up says.
    ///
    /// # Errors
    /// As [`choose`].
    pub(crate) fn new(setup: &Setup) -> Result<States, Error> {
        let count = setup.ports.len() * setup.bays * setup.namespaces as usize;
        let states = States(RwLock::new(vec![AnaState::Optimized; count]));
        for spec in &setup.ana {
            states.set(setup, spec)?;
        }
        Ok(states)
    }

    /// Sets states. Commands that arrive are judged by them at once; those in progress are executed.
    ///
    /// # Errors
    /// As [`choose`].
    pub(crate) fn set(&self, setup: &Setup, spec: &AnaSpec) -> Result<(), Error> {
        let chosen = choose(setup, spec)?;
        let mut states = self.0.write();
        for port in chosen.ports {
            for (bay, nsid) in &chosen.namespaces {
                states[index(setup, port, *bay, *nsid)] = spec.state;
            }
        }
        Ok(())
    }

    /// The state of a namespace at a port. One that is not there is optimized.
    pub(crate) fn get(&self, setup: &Setup, port: usize, bay: usize, nsid: u32) -> AnaState {
        if !(1..=setup.namespaces).contains(&nsid) {
            return AnaState::Optimized;
        }
        self.0.read().get(index(setup, port, bay, nsid)).copied().unwrap_or_default()
    }

    /// What is at each port, by state: the ports in order.
    pub(crate) fn list(&self, setup: &Setup) -> Vec<AnaEntry> {
        let states = self.0.read();
        let of_port = |port: usize| {
            let mut by_state: BTreeMap<AnaState, Vec<String>> = BTreeMap::new();
            for bay in 1..=setup.bays {
                for nsid in 1..=setup.namespaces {
                    let state = states[index(setup, port, bay, nsid)];
                    by_state.entry(state).or_default().push(format!("{bay}/{nsid}"));
                }
            }
            by_state.into_iter().map(move |(state, namespaces)| AnaEntry {
                port: setup.port_name(port),
                module: module_name(port / setup.ports_per_module),
                state,
                namespaces,
            })
        };
        (0..setup.ports.len()).flat_map(of_port).collect()
    }
}

fn index(setup: &Setup, port: usize, bay: usize, nsid: u32) -> usize {
    let namespaces = setup.namespaces as usize;
    (port * setup.bays + bay - 1) * namespaces + nsid as usize - 1
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::Kind;

    fn spec(at: Option<&str>, namespaces: &[&str], state: AnaState) -> AnaSpec {
        AnaSpec {
            at: at.map(str::to_owned),
            namespaces: namespaces.iter().map(|n| (*n).to_owned()).collect(),
            state,
        }
    }

    #[test]
    fn states_are_those_of_ports_modules_and_namespaces() {
        let rest = "bays = 3\n[[ana]]\nat = \"A3\"\nstate = \"non-optimized\"";
        let setup = crate::tests::setup(Path::new("/x"), "data24", rest);
        let states = States::new(&setup).unwrap();
        let at = |port: &str, bay, nsid| {
            states.get(&setup, setup.port_named(port).unwrap(), bay, nsid).to_string()
        };
        assert_eq!(
            [at("A2", 3, 2), at("A3", 1, 1), at("A3", 3, 2)],
            ["optimized", "non-optimized", "non-optimized"]
        );
        states.set(&setup, &spec(Some("b"), &["{2...3}/1"], AnaState::Inaccessible)).unwrap();
        assert_eq!(
            [at("B1", 1, 1), at("B1", 2, 1), at("B3", 3, 1), at("B3", 3, 2)],
            ["optimized", "inaccessible", "inaccessible", "optimized"]
        );
        states.set(&setup, &spec(None, &["2"], AnaState::Change)).unwrap();
        assert_eq!([at("A1", 2, 2), at("B2", 2, 1), at("B2", 3, 1)], ["change", "change", "inaccessible"]);
        // A number that no namespace has is not that of another one.
        assert_eq!(states.get(&setup, 0, 2, 3), AnaState::Optimized);
        let a1: Vec<AnaEntry> = states.list(&setup).into_iter().filter(|a| a.port == "A1").collect();
        assert_eq!(a1.len(), 2);
        assert_eq!((a1[0].namespaces.len(), a1[1].namespaces.join(" ")), (4, "2/1 2/2".to_owned()));
        states.set(&setup, &spec(None, &[], AnaState::Optimized)).unwrap();
        assert_eq!(states.list(&setup).len(), 6);
    }

    #[test]
    fn what_is_not_there_is_refused_and_changes_nothing() {
        let setup = crate::tests::setup(Path::new("/x"), "data24", "bays = 3");
        let states = States::new(&setup).unwrap();
        for (at, namespaces) in
            [(Some("A4"), &[][..]), (Some("C"), &[]), (None, &["4"]), (None, &["1", "1/3"]), (None, &["0"])]
        {
            let error = states.set(&setup, &spec(at, namespaces, AnaState::Inaccessible)).unwrap_err();
            assert_eq!(error.kind, Kind::NotFound, "{error}");
        }
        assert!(states.list(&setup).iter().all(|a| a.state == AnaState::Optimized));
        let text = "name = \"x\"\nmodel = \"data24\"\nports = [\"127.0.0.1:1\"]\n";
        let one = crate::parse(text, Path::new("/x")).unwrap();
        let error = choose(&one, &spec(Some("B"), &[], AnaState::Change)).unwrap_err();
        assert!(error.message.contains("no port in this set-up"), "{error}");
    }
}
