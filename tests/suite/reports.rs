//! The page of what went wrong in the field, held against its talks.

use crate::talk::{expect::Expectation, parse::parse};
use forkscope::{finding, model::verdict::Verdict};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
    fs,
    path::Path,
};

/// The reports of the page and the talks that show them name each other, and the page says what the
/// talks expect.
#[test]
fn reports_and_talks_say_the_same() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = fs::read_to_string(root.join("docs/field-reports.md")).unwrap();
    let talks = fs::read_dir(root.join("fixtures/talks"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "talk"))
        .map(|path| {
            let name = path.file_stem().unwrap().to_string_lossy().into_owned();
            (name, fs::read_to_string(path).unwrap())
        })
        .collect();
    let bad = problems(&page, &talks);
    assert!(bad.is_empty(), "\n{bad}");
}

/// What a page and talks, by name, say that does not agree.
fn problems(page: &str, talks: &BTreeMap<String, String>) -> String {
    let mut bad = String::new();
    let mut cited_by_rows: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for line in page.lines().filter(|line| line.starts_with('|')) {
        if line.starts_with("|---") {
            continue;
        }
        let cells: Vec<&str> = line.trim_matches('|').split(" | ").collect();
        let &[report, traffic, shown, answer] = cells.as_slice() else {
            let _ = writeln!(bad, "not four cells: {line}");
            continue;
        };
        if report.trim() == "Report" {
            continue;
        }
        let urls: BTreeSet<&str> = between(report, "](", ")").collect();
        let shown: Vec<&str> = between(shown, "`", "`").collect();
        if report.trim().is_empty() || traffic.trim().is_empty() || shown.is_empty() {
            let _ = writeln!(bad, "names no report, no traffic or no talk: {line}");
        }
        let mut expected = BTreeSet::new();
        for name in shown {
            cited_by_rows.entry(name).or_default().extend(&urls);
            match talks.get(name).map(|text| parse(name, text)) {
                Some(Ok(talk)) => expected.extend(positive(&talk.expectations)),
                Some(Err(error)) => _ = writeln!(bad, "{error}"),
                None => _ = writeln!(bad, "there is no talk {name}"),
            }
        }
        for said in between(answer, "`", "`") {
            let known = finding::by_code(said).is_some()
                || Verdict::ALL.iter().any(|verdict| verdict.name() == said);
            if !known || !expected.contains(said) {
                let _ = writeln!(bad, "no talk of the row expects {said}: {line}");
            }
        }
    }
    for (name, text) in talks {
        let cites: BTreeSet<&str> = text
            .lines()
            .map_while(|line| line.strip_prefix('#'))
            .flat_map(str::split_whitespace)
            .filter(|word| word.starts_with("https://"))
            .collect();
        let rows = cited_by_rows.remove(name.as_str()).unwrap_or_default();
        for url in cites.symmetric_difference(&rows) {
            let by = if rows.contains(url) { "row" } else { "talk" };
            let _ = writeln!(bad, "{name}: {url} is in its {by} alone");
        }
    }
    bad
}

/// What stands between each `open` and the `close` after it.
fn between<'a>(text: &'a str, open: &'a str, close: &'a str) -> impl Iterator<Item = &'a str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let (inside, behind) = rest.split_once(open)?.1.split_once(close)?;
        rest = behind;
        Some(inside)
    })
}

/// The verdicts and codes that there must be.
fn positive(expectations: &[Expectation]) -> Vec<String> {
    let mut all = Vec::new();
    for expectation in expectations {
        match expectation {
            Expectation::Resume {
                verdicts, codes, ..
            } => all.extend(verdicts.iter().chain(codes).cloned()),
            Expectation::Finding { code, .. } => all.push(code.clone()),
            _ => {}
        }
    }
    all
}

/// Whatever does not agree is told.
#[test]
fn what_does_not_agree_is_told() {
    let told = |row: &str, talk: &str| {
        let page = format!("| Report | What | Talk | Answer |\n|---|---|---|---|\n{row}\n");
        problems(&page, &BTreeMap::from([("a".into(), talk.into())]))
    };
    let row = "| [p#1](https://x.example/1) | It breaks. | `a` | `misrouted`, `forked` |";
    let talk = "# It.\n# https://x.example/1\nc open A\n\nexpect finding misrouted\nexpect resume 1 forked\n";
    assert_eq!(told(row, talk), "");
    let wrong = [
        (row.replace("`a`", "`b`"), talk.to_owned(), "no talk b"),
        (row.replace("`a`", ""), talk.to_owned(), "or no talk"),
        (row.replace("](", "("), talk.to_owned(), "/1 is in its talk"),
        (
            row.replace("/1)", "/2)"),
            talk.to_owned(),
            "/2 is in its row",
        ),
        (
            row.replace("/1)", "/2)"),
            talk.to_owned(),
            "/1 is in its talk",
        ),
        (
            row.replace(" | It breaks.", ""),
            talk.to_owned(),
            "four cells",
        ),
        (
            row.replace("misrouted", "mishandled"),
            talk.to_owned(),
            "expects mishandled",
        ),
        (
            row.to_owned(),
            talk.replace("finding misrouted", "no finding misrouted"),
            "expects misrouted",
        ),
        (
            row.to_owned(),
            talk.replace("1 forked", "1 replayed"),
            "expects forked",
        ),
        (String::new(), talk.to_owned(), "/1 is in its talk"),
    ];
    for (row, talk, what) in wrong {
        let told = told(&row, &talk);
        assert!(told.contains(what), "{what}: {told:?}");
    }
}
