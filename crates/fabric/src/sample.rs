//! Recorded samples: the fans, power supplies and sensors of an enclosure, which no model here has.
//!
//! The samples ship with the program (`crates/fabric/samples`). Whatever is shown of them is marked as recorded: it was measured on no enclosure,
//! and never changes.
//!
//! Must not depend on: the process, the form in which it is shown.

use serde::Deserialize;

use crate::error::{Error, Kind};

/// What is recorded of a design.
#[derive(Deserialize, Clone, PartialEq, Debug)]
#[serde(deny_unknown_fields)]
pub(crate) struct Sample {
    /// What a power supply is made for.
    pub(crate) supply_watts: f64,
    pub(crate) fans: Vec<Fan>,
    pub(crate) supplies: Vec<Supply>,
    pub(crate) temperatures: Vec<Temperature>,
    pub(crate) voltages: Vec<Voltage>,
}

/// A fan.
#[derive(Deserialize, Clone, PartialEq, Debug)]
#[serde(deny_unknown_fields)]
pub(crate) struct Fan {
    pub(crate) name: String,
    /// Turns per minute, and the most that it does.
    pub(crate) rpm: u32,
    pub(crate) most_rpm: u32,
}

/// A power supply.
#[derive(Deserialize, Clone, PartialEq, Debug)]
#[serde(deny_unknown_fields)]
pub(crate) struct Supply {
    pub(crate) name: String,
    pub(crate) input_volts: f64,
    pub(crate) input_watts: f64,
    pub(crate) output_watts: f64,
    pub(crate) celsius: f64,
}

/// A temperature sensor. Degrees Celsius.
#[derive(Deserialize, Clone, PartialEq, Debug)]
#[serde(deny_unknown_fields)]
pub(crate) struct Temperature {
    pub(crate) name: String,
    /// Where it is: a `PhysicalContext` of Redfish.
    pub(crate) place: String,
    pub(crate) celsius: f64,
    pub(crate) warning: f64,
    pub(crate) critical: f64,
}

/// A voltage sensor, with the limits outside of which it is critical.
#[derive(Deserialize, Clone, PartialEq, Debug)]
#[serde(deny_unknown_fields)]
pub(crate) struct Voltage {
    pub(crate) name: String,
    pub(crate) volts: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
}

/// The sample of a design.
///
/// # Errors
/// [`Kind::Failed`]: there is none, or it cannot be read, which the tests exclude for those that ship.
pub(crate) fn of(model: &str) -> Result<Sample, Error> {
    let text = match model {
        "data24" => include_str!("../samples/data24.toml"),
        "data60" => include_str!("../samples/data60.toml"),
        _ => return Err(Error::new(Kind::Failed, format!("there is no recorded sample of a {model}"))),
    };
    toml::from_str(text).map_err(|e| Error::new(Kind::Failed, format!("the sample of a {model}: {e}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::design::DESIGNS;

    #[test]
    fn every_design_has_a_sample_within_its_limits() {
        for design in DESIGNS {
            let sample = of(design.word).unwrap();
            assert!(sample.fans.len() >= 4 && sample.supplies.len() == 2 && sample.temperatures.len() >= 3);
            assert!(sample.fans.iter().all(|f| f.rpm > 0 && f.rpm < f.most_rpm));
            assert!(sample.temperatures.iter().all(|t| t.celsius < t.warning && t.warning < t.critical));
            assert!(sample.voltages.iter().all(|v| v.low < v.volts && v.volts < v.high));
            let within = |s: &Supply| s.output_watts < s.input_watts && s.input_watts < sample.supply_watts;
            assert!(sample.supplies.iter().all(within));
        }
        assert!(of("data25").is_err());
    }
}
