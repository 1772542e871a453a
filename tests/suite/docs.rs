//! The reference pages are what the code says. `BLESS=1` rewrites them.

use forkscope::{
    finding,
    report::docs::{self, Entry},
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
    check("reports.md", &docs::reports());
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
