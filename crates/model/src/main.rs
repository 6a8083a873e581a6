//! Prints the table of the README: `cargo run --release -p ashlar-model -- [small|large|mutants]
//! [transitions] [part of a name]`. At an unexpected violation it prints the steps and exits with status 1.
#![forbid(unsafe_code)]
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "it never runs in a simulation")]

use ashlar_model::{Limits, Report, scopes};

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let what = args.first().map_or("small", String::as_str);
    let transitions = args.get(1).and_then(|n| n.parse().ok()).unwrap_or(30_000_000);
    let only = args.get(2).map_or("", String::as_str);
    let limits = Limits { threads: 2, transitions };
    println!("| Setting | States | Transitions | Seconds | Verdict |\n|---|---|---|---|---|");
    let bad: Vec<Report> = match what {
        "mutants" => {
            let all = scopes::mutants().into_iter().map(|(_, s)| s).filter(|s| s.name.contains(only));
            let all = all.map(|s| s.run(limits));
            all.inspect(|r| println!("{r}")).filter(|r| r.violation.is_none()).collect()
        }
        "small" | "large" => {
            let settings = if what == "small" { scopes::small() } else { scopes::large() };
            let all = settings.into_iter().filter(|s| s.name.contains(only)).map(|s| s.run(limits));
            all.inspect(|r| println!("{r}"))
                .filter(|r| r.violation.is_some() || r.complete && !r.unreached.is_empty())
                .collect()
        }
        _ => {
            eprintln!("small, large or mutants");
            std::process::exit(2)
        }
    };
    for r in &bad {
        eprintln!("{}: {}", r.name, r.verdict());
        for step in r.violation.iter().flat_map(|(_, steps)| steps) {
            eprintln!("    {step}");
        }
    }
    std::process::exit(i32::from(!bad.is_empty()));
}
