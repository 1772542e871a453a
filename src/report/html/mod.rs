//! `report.html`: the one file for a person who has five minutes. It needs no network and no other
//! file, says what matters without its script, and lets nothing of the wire be more than text.
//!
//! [`page`] writes what everybody sees; [`data`] the rows that the script (`report.js`) draws the timeline,
//! the plots and the tables from. The script has no other source, and the policy in the file's head lets a
//! browser run nothing but it, by its hash.

mod data;
mod page;
mod quote;

use super::Style;
use crate::model::analysis::Analysis;
use base64::{Engine, engine::general_purpose::STANDARD};
use sha2::{Digest, Sha256};
use std::io::{self, Write};

const TEMPLATE: &str = include_str!("report.html");
const STYLE: &str = include_str!("report.css");
const SCRIPT: &str = include_str!("report.js");

/// What begins and ends the name of a part in the template.
const MARK: (&str, &str) = ("<!--=", "-->");

/// Writes the page.
///
/// # Errors
///
/// Those of the writer.
pub(super) fn write(analysis: &Analysis, style: &Style, out: &mut dyn Write) -> io::Result<()> {
    let mut out = io::BufWriter::with_capacity(64 << 10, out);
    let data = data::Data::new(analysis, *style);
    let page = page::Page::new(analysis, *style, &data);
    let mut rest = TEMPLATE;
    while let Some((before, after)) = rest.split_once(MARK.0) {
        out.write_all(before.as_bytes())?;
        let (name, after) = after.split_once(MARK.1).unwrap_or((after, ""));
        match name {
            "policy" => out.write_all(policy().as_bytes())?,
            "style" => out.write_all(STYLE.as_bytes())?,
            "script" => out.write_all(SCRIPT.as_bytes())?,
            "data" => data.write(&mut out)?,
            name => out.write_all(page.part(name).as_bytes())?,
        }
        rest = after;
    }
    out.write_all(rest.as_bytes())?;
    out.flush()
}

/// What a browser may do with the page: run this script, use this style, and nothing else. Nothing is loaded
/// and nothing is sent; the script cannot make markup of text (trusted types).
fn policy() -> String {
    format!(
        "default-src 'none'; script-src '{}'; style-src '{}'; base-uri 'none'; form-action 'none'; \
         require-trusted-types-for 'script'; trusted-types 'none'",
        hash(SCRIPT),
        hash(STYLE),
    )
}

/// The hash of an inline block as a source in a policy (CSP3, "hash-source").
fn hash(block: &str) -> String {
    format!("sha256-{}", STANDARD.encode(Sha256::digest(block)))
}

#[cfg(test)]
mod tests {
    use super::{
        super::{
            sample,
            table::{Findings, Resumes, Sessions, Table},
        },
        *,
    };
    use proptest::prelude::*;

    fn html(analysis: &Analysis) -> String {
        let mut bytes = Vec::new();
        write(analysis, &Style::default(), &mut bytes).unwrap();
        String::from_utf8(bytes).unwrap()
    }

    /// The embedded rows of a page.
    fn embedded(page: &str) -> &str {
        let (_, after) = page
            .split_once("<script type=\"application/json\" id=\"data\">")
            .unwrap();
        after.split_once("</script>").unwrap().0
    }

    #[test]
    fn has_every_part_and_the_same_bytes_each_time() {
        let analysis = sample::rich();
        let page = html(&analysis);
        assert!(!page.contains(MARK.0), "a part is missing");
        assert_eq!(page, html(&analysis));
        for said in [
            "1 of 3 resumes forked",
            "sequence-regression",
            "api.example:443",
            "sessions live about",
            "fd00::9",
            "notes.txt",
        ] {
            assert!(page.contains(said), "{said}");
        }
    }

    #[test]
    fn an_empty_analysis_is_no_clean_bill() {
        let page = html(&Analysis::default());
        assert!(page.contains("nothing is known"), "{page}");
    }

    /// The script shows some columns first; a name that no table has would not be missed.
    #[test]
    fn the_script_names_columns_that_are_there() {
        fn names<T: Table>() -> Vec<&'static str> {
            T::COLUMNS.iter().map(|column| column.name).collect()
        }
        let (_, main) = SCRIPT.split_once("const MAIN = {").unwrap();
        let (main, _) = main.split_once("};").unwrap();
        let tables = [
            ("resumes:", names::<Resumes>()),
            ("findings:", names::<Findings>()),
            ("sessions:", names::<Sessions>()),
        ];
        for (line, (table, columns)) in main.trim().lines().zip(tables) {
            let (name, list) = line.trim().split_once(' ').unwrap();
            assert_eq!(name, table);
            let mut shown = list.split('"').skip(1).step_by(2);
            assert!(shown.clone().count() > 5, "{table}");
            assert!(shown.all(|name| columns.contains(&name)), "{table} {list}");
        }
    }

    #[test]
    fn blocks_end_where_they_are_meant_to() {
        for block in [SCRIPT, STYLE] {
            assert!(!block.contains("</") && !block.contains("<!--"));
        }
        assert!(!SCRIPT.contains("innerHTML"));
        for attribute in [" style=", " onclick=", " onload="] {
            assert!(!TEMPLATE.contains(attribute), "{attribute}");
        }
    }

    proptest! {
        #[test]
        fn any_id_is_text_and_hides_nothing(id in any::<String>(), tag in "[<>&\"'/!-]{0,6}script") {
            let mut analysis = sample::fork();
            let id = format!("{tag}{id}</script><!--\u{202e}\0\x1b[2J\" onload=\"x");
            analysis.resumes[0].last_event_id.clone_from(&id);
            analysis.resumes[0].story = vec![id.clone().into()];
            analysis.findings[0].detail = id.clone().into();
            for session in &mut analysis.sessions {
                session.session_id = id.as_str().into();
            }
            let page = html(&analysis);
            let plain = html(&sample::fork());
            prop_assert!(!page.contains(|c| c != '\n' && super::super::escape::is_hidden(c)));
            for mark in ["<script", "</script", "<!--", "<details", "<svg"] {
                prop_assert_eq!(page.matches(mark).count(), plain.matches(mark).count(), "{}", mark);
            }
            let data = embedded(&page);
            prop_assert!(!data.contains(['<', '>', '&']));
            prop_assert!(serde_json::from_str::<serde_json::Value>(data).is_ok());
        }
    }
}
