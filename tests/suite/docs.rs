//! The reference pages are what the code says. `BLESS=1` rewrites them.

use crate::{
    evidence,
    talk::{parse::parse, tcp::packets},
    talks::{audit, pcap},
};
use forkscope::{
    finding,
    pipeline::Options,
    report::{
        docs::{self, Entry},
        schema::{self, Keys},
    },
};
use std::{fs, path::Path};

fn check(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("docs")
        .join(name);
    if std::env::var_os("BLESS").is_some() {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
    }
    let written = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == text,
        "docs/{name} differs from the code: run this test with BLESS=1 and look at the changes"
    );
}

#[test]
fn reports_page_is_made_from_the_tables() {
    let inputs = [
        "ts15.pcap.gz",
        "ts06_haproxy_int.pcap",
        "ts10_poll.pcap",
        "ts11.pcap",
        "pv_truncated.pcap",
    ];
    let options = Options {
        // As they are named in the examples: relative to the package, where tests run.
        inputs: inputs.map(|name| format!("fixtures/real/{name}")).to_vec(),
        ..Options::default()
    };
    let real = evidence::proven(&options);
    // No real capture is long enough to show how long sessions live.
    let text = fs::read_to_string("fixtures/talks/overall-reaper.talk").unwrap();
    let talk = parse("overall-reaper", &text).unwrap();
    let shown = [real, audit(&talk, &pcap(&talk, &packets(&talk)))];
    let page = docs::reports(&shown);
    let columns = page.lines().filter_map(|line| {
        let cells: Vec<_> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        (cells.len() == 7 && cells[0].starts_with('`')).then(|| (cells[0], cells[4]))
    });
    let mut count = 0;
    for (column, example) in columns {
        count += 1;
        assert!(!example.is_empty(), "no example of {column}");
    }
    assert!(count > 200, "only {count} columns");
    check("reports.md", &page);
}

#[test]
fn schemas_are_made_from_the_tables() {
    check("schema/report.schema.json", &schema::report(Keys::Open));
    check("schema/resumes.schema.json", &schema::resumes(Keys::Open));
    check("schema/events.schema.json", &schema::events(Keys::Open));
    check(
        "schema/exchanges.schema.json",
        &schema::exchanges(Keys::Open),
    );
}

#[test]
fn findings_page_is_made_from_the_findings() {
    let entries: Vec<_> = finding::ALL
        .iter()
        .map(|rule| Entry {
            code: rule.code,
            severity: rule.severity,
            clause: rule.clause,
            revisions: rule.revisions,
            doc: rule.doc,
        })
        .collect();
    check("findings.md", &docs::findings(&entries));
}
