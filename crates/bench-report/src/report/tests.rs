//! The report as a whole: every section, every chart with its table, nothing from the network.

//! These tests check the text of the page; tests/system/test_bench_report.py checks its rendering.

use super::*;
use crate::fixture;

fn tags_match(html: &str) {
    // A crude check that every element that must be closed is.
    let mut open: Vec<&str> = Vec::new();
    let mut rest = &html[html.find("<html").unwrap()..];
    while let Some(at) = rest.find('<') {
        rest = &rest[at + 1..];
        let end = rest.find('>').unwrap();
        let tag = &rest[..end];
        rest = &rest[end + 1..];
        if tag.starts_with('!') {
            continue;
        }
        let name = tag.trim_start_matches('/').split([' ', '/', '\n']).next().unwrap();
        if ["meta", "br"].contains(&name) || tag.ends_with('/') {
            continue;
        }
        if tag.starts_with('/') {
            assert_eq!(open.pop(), Some(name), "before {:?}", &rest[..rest.len().min(80)]);
        } else {
            open.push(name);
        }
    }
    assert!(open.is_empty(), "{open:?}");
}

#[test]
fn every_section_is_present() {
    let html = html(&[fixture::full("nightly")], None);
    for id in [
        "results",
        "caveats",
        "throughput",
        "latency",
        "load",
        "ceilings",
        "lifecycle",
        "environment",
        "settings",
        "command",
    ] {
        assert!(html.contains(&format!("<section id=\"{id}\">")), "{id}");
    }
    assert!(html.contains("of the ceiling of server network"), "efficiency");
    assert!(
        !html.contains("<script") && !html.contains("http://") && !html.contains("https://"),
        "nothing is loaded"
    );
    assert!(!html.contains("NaN") && !html.contains("inf"), "no number is missing");
    tags_match(&html);
}

#[test]
fn two_results_are_compared_in_the_report() {
    let a = fixture::noisy("before", 1000.0, 1_000_000, 5, 1);
    let b = fixture::noisy("after", 800.0, 1_000_000, 5, 2);
    let html = html(&[a, b], Some("Release <1>"));
    assert!(
        html.contains("<section id=\"change\">")
            && html.contains("worse")
            && html.contains("Release &lt;1&gt;")
    );
    assert!(
        !html.contains("id=\"ceilings\"")
            && !html.contains("id=\"load\"")
            && !html.contains("id=\"lifecycle\"")
    );
    tags_match(&html);
}

#[test]
fn missing_values_get_no_section() {
    tags_match(&html(&[], None));
    let empty = html(&[Run::default()], None);
    tags_match(&empty);
    assert!(!empty.contains("id=\"throughput\"") && !empty.contains("NaN"));
}

#[test]
fn invalid_result_is_marked_first() {
    let mut run = fixture::run("x", "2026-01-01T00:00:00Z", 10, 20);
    run.caveats.push(crate::result::Caveat {
        severity: Severity::Invalid,
        code: "errors".into(),
        text: "half of <all> requests failed".into(),
    });
    let html = html(&[run], None);
    let banner = html.find("Must not be used").unwrap();
    assert!(banner < html.find("id=\"results\"").unwrap());
    assert!(html.contains("half of &lt;all&gt; requests"));
}

#[test]
fn imported_results_can_be_reported() {
    for text in [
        include_str!("../../tests/fixtures/fio-seq.json"),
        include_str!("../../tests/fixtures/fio-randrw-plus.json"),
        include_str!("../../tests/fixtures/warp-get.json"),
        include_str!("../../tests/fixtures/warp-mixed.csv"),
    ] {
        let html = html(&[crate::import::parse(text.as_bytes(), "x").unwrap()], None);
        tags_match(&html);
        assert!(html.contains("id=\"latency\"") && !html.contains("NaN"));
    }
}

/// Writes the fixture's report to the path in `ASHLAR_REPORT_OUT`, to look at it.
#[test]
fn example_report_is_written_for_inspection() {
    let Some(out) = std::env::var_os("ASHLAR_REPORT_OUT") else { return };
    std::fs::write(&out, html(&[fixture::full("Nightly run of the reference server")], None)).unwrap();
    let json = std::path::Path::new(&out).with_extension("json");
    crate::result::file::store(&json, &fixture::full("Nightly run of the reference server")).unwrap();
}
