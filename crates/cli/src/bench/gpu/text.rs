//! The result of `ashlar bench gpu` for people: a table per test.
//!
//! Must not depend on: the measurement; everything is in the result.

use ashlar_bench_report::{
    result::{Phase, Run},
    units,
};
use comfy_table::Table;

use super::super::shared;

/// The tables of a result.
pub fn of(run: &Run) -> String {
    let tables = [
        ("copy", rates as fn(&[&Phase]) -> Table),
        ("device", device),
        ("check", check),
        ("staged", staged),
        ("batches", rates),
        ("cpu", cpu),
        ("crossover", crossover),
    ];
    let mut all = Vec::new();
    for (test, table) in tables {
        let phases: Vec<&Phase> =
            run.phases.iter().filter(|p| p.name.split(' ').next() == Some(test)).collect();
        if !phases.is_empty() {
            all.push(table(&phases).to_string());
        }
    }
    all.join("\n")
}

/// A rate with its smallest and largest.
fn rate(phase: &Phase) -> String {
    let show = |name| value(phase, name, units::bytes_per_s);
    format!("{} [{}, {}]", show("bytes_per_s"), show("bytes_per_s_min"), show("bytes_per_s_max"))
}

fn value(phase: &Phase, name: &str, show: fn(f64) -> String) -> String {
    phase.values.get(name).map_or_else(String::new, |value| show(*value))
}

fn seconds(seconds: f64) -> String {
    units::ns(seconds * 1e9)
}

fn rates(phases: &[&Phase]) -> Table {
    let mut table = shared::table(&["", "at once", "rate [smallest, largest]"], 1);
    for phase in phases {
        table.add_row([phase.name.clone(), phase.load.text(), rate(phase)]);
    }
    table
}

fn device(phases: &[&Phase]) -> Table {
    let header = ["in memory of the GPU", "rate [smallest, largest]", "read and written", "compiled in"];
    let mut table = shared::table(&header, 1);
    for phase in phases {
        table.add_row([
            phase.name.clone(),
            rate(phase),
            value(phase, "moved_bytes_per_s", units::bytes_per_s),
            value(phase, "compile_s", seconds),
        ]);
    }
    table
}

fn check(phases: &[&Phase]) -> Table {
    let mut table = shared::table(&["the GPU's bytes", "right", "of", "compared"], 1);
    for phase in phases {
        table.add_row([
            phase.name.clone(),
            value(phase, "right", units::plain),
            value(phase, "checked", units::plain),
            value(phase, "compared_bytes", units::bytes),
        ]);
    }
    table
}

fn staged(phases: &[&Phase]) -> Table {
    let header = ["over the bus", "rate [smallest, largest]", "a batch of", "takes alone", "CPU per batch"];
    let mut table = shared::table(&header, 1);
    for phase in phases {
        table.add_row([
            phase.name.clone(),
            rate(phase),
            value(phase, "batch_bytes", units::size),
            value(phase, "alone_s", seconds),
            value(phase, "cpu_s_per_batch", seconds),
        ]);
    }
    table
}

/// A row per computation, a column per number of threads.
fn cpu(phases: &[&Phase]) -> Table {
    let mut loads: Vec<String> = phases.iter().map(|p| p.load.text()).collect();
    loads.dedup();
    loads.sort_by_key(|load| (load.len(), load.clone()));
    loads.dedup();
    let mut header = vec!["threads"];
    header.extend(loads.iter().map(String::as_str));
    let mut table = shared::table(&header, 1);
    let mut names: Vec<&str> = phases.iter().map(|p| p.name.as_str()).collect();
    names.dedup();
    for name in names {
        let mut row = vec![name.to_owned()];
        for load in &loads {
            let phase = phases.iter().find(|p| p.name == name && p.load.text() == *load);
            row.push(phase.map_or_else(String::new, |p| value(p, "bytes_per_s", units::bytes_per_s)));
        }
        table.add_row(row);
    }
    table
}

/// A row per size, and one with the sizes from which on the GPU is faster.
fn crossover(phases: &[&Phase]) -> Table {
    let cores: Vec<usize> = [1, 2, 4, 8, 16]
        .into_iter()
        .filter(|c| phases.iter().any(|p| p.values.contains_key(&format!("cpu_{c}_bytes_per_s"))))
        .collect();
    let mut header = vec!["GPU or CPU".to_owned(), "GPU".to_owned(), "GPU, alone".to_owned()];
    header.extend(cores.iter().map(|c| format!("CPU x {c}")));
    let header: Vec<&str> = header.iter().map(String::as_str).collect();
    let mut table = shared::table(&header, 1);
    for phase in phases {
        let sizes = !phase.values.contains_key("bytes_per_s");
        let from = |name: &str| {
            let from = phase.values.get(name);
            from.map_or_else(|| "never".to_owned(), |bytes| format!("from {}", units::size(*bytes)))
        };
        let mut row = vec![phase.name.clone()];
        if sizes {
            row[0].push_str(": the GPU is faster");
            row.extend([String::new(), from("alone_faster_than_1_from_bytes")]);
            row.extend(cores.iter().map(|c| from(&format!("faster_than_{c}_from_bytes"))));
        } else {
            let show = |name: &str| value(phase, name, units::bytes_per_s);
            row.extend([show("bytes_per_s"), show("alone_bytes_per_s")]);
            row.extend(cores.iter().map(|c| show(&format!("cpu_{c}_bytes_per_s"))));
        }
        table.add_row(row);
    }
    table
}

#[cfg(test)]
mod tests {
    use ashlar_bench::host;
    use ashlar_bench_report::result::Load;

    use super::*;

    fn phase(name: &str, concurrency: u32, values: &[(&str, f64)]) -> Phase {
        Phase {
            name: name.to_owned(),
            state: None,
            repetition: 1,
            load: Load::Closed { concurrency },
            at_s: 0.0,
            warmup_s: 0.0,
            seconds: 0.0,
            stopped_by: "count".to_owned(),
            operations: Vec::new(),
            cost: None,
            values: values.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect(),
        }
    }

    #[test]
    fn figures_are_in_the_tables_and_what_was_not_measured_is_not() {
        let mut run = host::new_run("gpu", None, Vec::new());
        run.phases = vec![
            phase("device encode 8+4 table", 1, &[("bytes_per_s", 1.8e12), ("compile_s", 0.2)]),
            phase("cpu encode 8+4", 1, &[("bytes_per_s", 9.5e9)]),
            phase("cpu encode 8+4", 16, &[("bytes_per_s", 82e9)]),
            phase(
                "crossover encode 8+4 pinned 2048 KiB",
                4,
                &[("bytes_per_s", 48e9), ("cpu_2_bytes_per_s", 2e10)],
            ),
            phase("crossover encode 8+4 pinned", 4, &[("faster_than_2_from_bytes", 2097152.0)]),
        ];
        let text = of(&run);
        for found in ["1.80 TB/s", "200 ms", "9.50 GB/s", "82.0 GB/s", "16 in flight", "from 2 MiB", "never"]
        {
            assert!(text.contains(found), "{found} in\n{text}");
        }
        assert!(!text.contains("GPU's bytes") && !text.contains("CPU x 4"), "{text}");
    }
}
