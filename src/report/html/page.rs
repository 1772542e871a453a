//! What the page says without its script: the outcome, the verdicts, what the capture could not show, the
//! worst resumes, and what the findings mean.

use super::{
    super::{
        Style,
        table::{Findings, Table},
        terminal::{Look, Page as Sheet, Piece},
        text::{Summary, count, file, grouped, meaning},
        value::Value,
    },
    data::Data,
    quote::{html, html_to},
};
use crate::{
    finding,
    model::{
        analysis::{Analysis, Finding, Resume},
        verdict::{Severity, Verdict},
    },
};
use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
};

/// The parts of the page.
pub(super) struct Page<'a> {
    analysis: &'a Analysis,
    style: Style,
    summary: Summary<'a>,
    data: &'a Data<'a>,
}

impl<'a> Page<'a> {
    pub(super) fn new(analysis: &'a Analysis, style: Style, data: &'a Data<'a>) -> Self {
        let verbose = analysis.inputs.len() <= MANY && analysis.incidents.len() <= MANY;
        let style = Style {
            color: false,
            verbose,
            ..style
        };
        Self {
            analysis,
            style,
            summary: Summary::new(analysis, &style),
            data,
        }
    }

    /// The part of the template that is named so.
    pub(super) fn part(&self, name: &str) -> String {
        match name {
            "title" => self.title(),
            "version" => env!("CARGO_PKG_VERSION").to_owned(),
            "inputs" => self.inputs(),
            "conclusion" => self.conclusion(),
            "figures" => self.figures(),
            "verdicts" => self.verdicts(),
            "overview" => self.overview(),
            "unread" => self.unread(),
            "worst" => self.worst(),
            "findings" => self.findings(),
            "left" => self.left_out(),
            _ => String::new(),
        }
    }

    fn title(&self) -> String {
        match self.analysis.inputs.as_slice() {
            [input] => html(&file(input)),
            inputs => count(inputs.len() as u64, "input", "inputs"),
        }
    }

    fn inputs(&self) -> String {
        let mut sheet = self.sheet();
        self.summary.write_inputs(&mut sheet);
        let mut out = String::new();
        if self.analysis.inputs.len() > 1 {
            let names = self.analysis.inputs.iter().take(NAMES).map(file);
            let mut names: Vec<String> = names.collect();
            if let Some(more @ 1..) = self.analysis.inputs.len().checked_sub(NAMES) {
                names.push(format!("and {} more", grouped(more as u64)));
            }
            sheet.field("Files", &names.join(", "), 0);
        }
        pieces(&sheet.into_pieces(), &mut out);
        out
    }

    fn conclusion(&self) -> String {
        let mut sheet = self.sheet();
        self.summary.conclude(&mut sheet);
        let mut said = sheet.into_pieces();
        if self.has_unread() {
            // Nothing is green that may have been looked past.
            for piece in &mut said {
                if let Piece::Loud(_, look @ Look::Good) = piece {
                    *look = Look::Plain;
                }
            }
        }
        let mut out = String::new();
        pieces(&said, &mut out);
        out
    }

    fn has_unread(&self) -> bool {
        let mut sheet = self.sheet();
        self.summary.write_unread(&mut sheet);
        !sheet.into_pieces().is_empty()
    }

    /// The numbers that somebody on a call is asked for.
    fn figures(&self) -> String {
        let resumes = &self.analysis.resumes;
        if resumes.is_empty() {
            return String::new();
        }
        let forked = || resumes.iter().filter(|r| r.verdict == Verdict::Forked);
        let sessions: BTreeSet<_> = forked()
            .map(|resume| {
                (
                    &*resume.session_id,
                    resume.server.as_ref().map(ToString::to_string),
                )
            })
            .collect();
        let sum = |of: fn(&Resume) -> u64| resumes.iter().map(of).sum::<u64>();
        let all = resumes.len() as u64;
        let tiles = [
            (
                forked().count() as u64,
                "forked",
                format!("of {}", count(all, "resume", "resumes")),
                true,
            ),
            (
                sessions.len() as u64,
                "forked",
                format!(
                    "of {}",
                    count(self.analysis.totals.sessions, "session", "sessions")
                ),
                true,
            ),
            (
                sum(|resume| u64::from(resume.requests.lost)),
                "lost",
                "requests never answered".to_owned(),
                true,
            ),
            (
                sum(|resume| u64::from(resume.events_dropped_by_dedup)),
                "thrown away",
                "new events under old ids".to_owned(),
                true,
            ),
            (
                sum(|resume| resume.ids_skipped.unwrap_or_default()),
                "skipped",
                "ids nobody delivered".to_owned(),
                true,
            ),
            (
                self.analysis.incidents.len() as u64,
                "incidents",
                "many cuts in one moment".to_owned(),
                false,
            ),
        ];
        let mut out = String::from("<ul class=\"tiles\">");
        for (number, what, of, is_bad) in tiles {
            let class = if is_bad && number > 0 {
                " class=\"bad\""
            } else {
                ""
            };
            let _ = write!(
                out,
                "<li{class}><b>{}</b> <span>{what}</span> <small>{of}</small></li>",
                grouped(number)
            );
        }
        out.push_str("</ul>");
        out
    }

    /// The verdicts as a bar, with their numbers in words below it.
    fn verdicts(&self) -> String {
        let mut counts = [0_u64; Verdict::ALL.len()];
        for resume in &self.analysis.resumes {
            if let Some(count) = counts.get_mut(resume.verdict.index()) {
                *count += 1;
            }
        }
        let of = |verdict: Verdict| counts.get(verdict.index()).copied().unwrap_or_default();
        let there: Vec<(Verdict, u64)> = WORST_FIRST
            .into_iter()
            .map(|verdict| (verdict, of(verdict)))
            .filter(|&(_, number)| number > 0)
            .collect();
        if there.is_empty() {
            return String::new();
        }
        let total: u64 = there.iter().map(|(_, number)| number).sum();
        let said: Vec<String> = there
            .iter()
            .map(|(verdict, number)| format!("{} {verdict}", grouped(*number)))
            .collect();
        let mut out = format!(
            "<svg class=\"bar\" role=\"img\" width=\"100%\" height=\"36\" aria-label=\"Verdicts of {}: \
             {}\">{PATTERNS}",
            count(total, "resume", "resumes"),
            said.join(", ")
        );
        // In hundredths of a percent, each verdict wide enough to be seen.
        let widths: Vec<u64> = there
            .iter()
            .map(|(_, number)| (number.saturating_mul(10_000) / total.max(1)).max(70))
            .collect();
        let whole: u64 = widths.iter().sum();
        let percent = |part: u64| {
            let part = part.saturating_mul(1_000_000) / whole.max(1);
            format!("{}.{:04}%", part / 10_000, part % 10_000)
        };
        let mut at = 0;
        for (&(verdict, number), &width) in there.iter().zip(&widths) {
            let class = verdict.name();
            let (x, w) = (percent(at), percent(width));
            let _ = write!(
                out,
                "<rect class=\"v-{class}\" x=\"{x}\" width=\"{w}\" height=\"36\"/>\
                 <rect class=\"p-{class}\" x=\"{x}\" width=\"{w}\" height=\"36\"/>"
            );
            if width.saturating_mul(100) / whole.max(1) >= 9 {
                let middle = percent(at + width / 2);
                let _ = write!(
                    out,
                    "<text class=\"t-{class}\" x=\"{middle}\" y=\"18\">{}</text>",
                    grouped(number)
                );
            }
            at += width;
        }
        out.push_str("</svg><ul class=\"legend\">");
        for (verdict, number) in there {
            let share = (number.saturating_mul(1_000) + total / 2) / total.max(1);
            let _ = write!(
                out,
                "<li><svg class=\"swatch\" width=\"14\" height=\"14\" aria-hidden=\"true\"><rect \
                 class=\"v-{verdict}\" width=\"14\" height=\"14\"/><rect class=\"p-{verdict}\" \
                 width=\"14\" height=\"14\"/></svg><a href=\"#table=resumes&amp;q=verdict:{verdict}\">\
                 <b>{}</b> {verdict}</a> <small>{}.{} % – {}</small></li>",
                grouped(number),
                share / 10,
                share % 10,
                html(meaning(verdict)),
            );
        }
        out.push_str("</ul>");
        out
    }

    fn overview(&self) -> String {
        let mut sheet = self.sheet();
        self.summary.write_overview(&mut sheet);
        let found = sheet.into_pieces();
        if found.is_empty() {
            return "<p class=\"quiet\">No incident, no lifetime of sessions and no timer shows in these \
                    captures.</p>"
                .to_owned();
        }
        let mut out = String::new();
        pieces(&found, &mut out);
        out
    }

    fn unread(&self) -> String {
        let mut sheet = self.sheet();
        self.summary.write_unread(&mut sheet);
        let unread = sheet.into_pieces();
        if unread.is_empty() {
            return "<p class=\"quiet\">All that the inputs hold could be read: no holes, no cut packets, \
                    no encrypted connections. What was never captured, they cannot show.</p>"
                .to_owned();
        }
        let mut out = String::from("<ul class=\"unread\">");
        for piece in &unread {
            if let Piece::Field { text, .. } = piece {
                let _ = write!(out, "<li>{}</li>", html(text));
            }
        }
        out.push_str("</ul>");
        out
    }

    /// The worst resumes, whole.
    fn worst(&self) -> String {
        let bad = self.summary.bad_resumes();
        if bad.is_empty() {
            let said = if self.analysis.resumes.is_empty() {
                "No stream was resumed, so none was judged."
            } else {
                "Nothing is wrong with any resume that could be judged."
            };
            return format!("<p class=\"quiet\">{said}</p>");
        }
        let mut out = String::new();
        for (resume, number) in bad.iter().zip(1..).take(WORST) {
            let mut sheet = self.sheet();
            self.summary.write_resume(&mut sheet, number, resume);
            let row = self
                .analysis
                .resumes
                .iter()
                .position(|other| std::ptr::eq(other, *resume));
            let row = row.and_then(|row| self.data.row_of_resume(row));
            let row = row.map_or_else(String::new, |row| format!(" data-resume=\"{row}\""));
            let _ = write!(
                out,
                "<article class=\"card v-line-{}\"{row}>",
                resume.verdict.name()
            );
            pieces(&sheet.into_pieces(), &mut out);
            out.push_str("</article>");
        }
        if let Some(more @ 1..) = bad.len().checked_sub(WORST) {
            let _ = write!(
                out,
                "<p><a href=\"#table=resumes&amp;q=findings:*\">{} that something is wrong with</a>: in the \
                 table.</p>",
                count(more as u64, "more resume", "more resumes")
            );
        }
        out
    }

    /// The findings by code, worst first, with what each means.
    fn findings(&self) -> String {
        let mut codes: BTreeMap<&str, Vec<&Finding>> = BTreeMap::new();
        for finding in &self.analysis.findings {
            codes.entry(finding.code).or_default().push(finding);
        }
        if codes.is_empty() {
            return "<p class=\"quiet\">None, in what could be read.</p>".to_owned();
        }
        let mut codes: Vec<(&str, Vec<&Finding>)> = codes.into_iter().collect();
        for (_, findings) in &mut codes {
            findings.sort_by_key(|finding| Reverse(finding.severity));
        }
        let worst = |findings: &[&Finding]| findings.first().map(|finding| finding.severity);
        codes.sort_by_key(|(_, findings)| Reverse((worst(findings), findings.len())));
        let mut out = String::new();
        for (code, findings) in codes {
            let severity = worst(&findings).map_or("info", Severity::name);
            let sessions: BTreeSet<&str> = findings.iter().map(|f| &*f.session_id).collect();
            let times = count(findings.len() as u64, "time", "times");
            let within = match sessions.len() as u64 {
                1 => String::new(),
                number => format!(" in {}", count(number, "session", "sessions")),
            };
            let _ = write!(
                out,
                "<article class=\"card s-line-{severity}\"><h3><span class=\"tag s-{severity}\">{severity}\
                 </span> {code} <small>{times}{within}</small></h3>"
            );
            if let Some(rule) = finding::by_code(code) {
                let _ = write!(out, "<p>{}</p>", marked(&rule.summary()));
            }
            self.examples(&findings, &mut out);
            if findings.len() > EXAMPLES {
                let _ = write!(
                    out,
                    "<p><a href=\"#table=findings&amp;q=code:{code}\">All {} in the table</a></p>",
                    grouped(findings.len() as u64)
                );
            }
            if let Some(rule) = finding::by_code(code) {
                let _ = write!(
                    out,
                    "<details class=\"why\" id=\"about-{code}\"><summary>What {code} means, when it is wrong, \
                     what to do</summary><div>"
                );
                explain(rule.doc, &mut out);
                let _ = write!(
                    out,
                    "<p><small>Clause: {}. Revisions: {}.</small></p></div></details>",
                    html(rule.clause.trim_end_matches('.')),
                    html(rule.revisions.trim_end_matches('.'))
                );
            }
            out.push_str("</article>");
        }
        out
    }

    /// The first of some findings: what was seen, and where.
    fn examples(&self, findings: &[&Finding], out: &mut String) {
        let cell = |finding: &Finding, name: &str| {
            let column = Findings::COLUMNS.iter().find(|column| column.name == name);
            let (mut scratch, mut text) = (String::new(), String::new());
            if let Some(column) = column {
                let row: <Findings as Table>::Row<'_> = finding;
                let value: Value<'_> = (column.value)(self.analysis, row);
                value.write_cell(&self.style, &mut scratch, &mut text);
            }
            super::super::terminal::clip(&text, CELL)
        };
        out.push_str("<ul class=\"examples\">");
        for finding in findings.iter().take(EXAMPLES) {
            let _ = write!(out, "<li>{}", html(&cell(finding, "detail")));
            out.push_str("<br><small>");
            let mut parts = vec![cell(finding, "time")];
            if !finding.session_id.is_empty() {
                parts.push(format!("session {}", cell(finding, "session_id")));
            }
            parts.push(format!("{} confidence", finding.confidence.name()));
            let input = cell(finding, "input");
            let frame = cell(finding, "frame");
            if !frame.is_empty() {
                parts.push(format!("{input} frame {frame}"));
            }
            html_to(&parts.join(", "), out);
            let filter = cell(finding, "wireshark_filter");
            if !filter.is_empty() {
                let _ = write!(out, ", <code class=\"filter\">{}</code>", html(&filter));
            }
            out.push_str("</small></li>");
        }
        out.push_str("</ul>");
    }

    fn left_out(&self) -> String {
        let left = self.data.left_out();
        if left.is_empty() {
            return String::new();
        }
        format!(
            "<p class=\"note\">This file holds {}: the worst ones. All are in the CSV files beside it.</p>",
            left.join(", ")
        )
    }

    fn sheet(&self) -> Sheet {
        Sheet::new(self.style.width, false)
    }
}

/// Lays out pieces of a page as HTML.
fn pieces(pieces: &[Piece], out: &mut String) {
    let mut open = "";
    let mut shut = |wanted: &'static str, out: &mut String| {
        if open != wanted {
            if !open.is_empty() {
                let _ = write!(out, "</{open}>");
            }
            if !wanted.is_empty() {
                let _ = write!(out, "<{wanted}>");
            }
            open = wanted;
        }
    };
    for piece in pieces {
        match piece {
            Piece::Gap => {}
            Piece::Line(text, look) => {
                shut("", out);
                let _ = match look {
                    Look::Severity(severity) => write!(
                        out,
                        "<h3><span class=\"tag s-{}\">{}</span></h3>",
                        severity.name(),
                        html(text)
                    ),
                    Look::Heading => write!(out, "<h4>{}</h4>", html(text)),
                    _ => write!(out, "<p>{}</p>", marked(text)),
                };
            }
            Piece::Loud(text, look) => {
                shut("", out);
                let class = match look {
                    Look::Severity(severity) => severity.name(),
                    Look::Good => "good",
                    _ => "plain",
                };
                let _ = write!(out, "<p class=\"loud l-{class}\">{}</p>", html(text));
            }
            Piece::Field { label, text, .. } => {
                shut("dl", out);
                if !label.is_empty() {
                    let _ = write!(out, "<dt>{}</dt>", html(label));
                }
                let _ = write!(out, "<dd>{}</dd>", html(text));
            }
            Piece::Hang { mark, text, .. } => {
                let list = match mark.trim() {
                    "" => "",
                    "-" => "ul",
                    _ => "ol",
                };
                shut(list, out);
                let tag = if list.is_empty() { "p" } else { "li" };
                let _ = write!(out, "<{tag}>{}</{tag}>", marked(text));
            }
            Piece::Code(line) => {
                shut("pre", out);
                html_to(line.trim_end(), out);
                out.push('\n');
            }
        }
    }
    shut("", out);
}

/// The documentation of a finding.
fn explain(doc: &str, out: &mut String) {
    let mut sheet = Sheet::new(100, false);
    // Skips are for the tests that run the examples.
    let doc: Vec<&str> = doc
        .lines()
        .filter(|line| !line.contains("har skip"))
        .collect();
    sheet.markdown(&doc.join("\n"));
    pieces(&sheet.into_pieces(), out);
}

/// Text of forkscope's own with what stands between backticks as code.
fn marked(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 16);
    let parts: Vec<&str> = text.split('`').collect();
    let paired = parts.len() % 2 == 1;
    for (index, part) in parts.into_iter().enumerate() {
        if index > 0 {
            out.push_str(match (paired, index % 2) {
                (false, _) => "`",
                (true, 1) => "<code>",
                _ => "</code>",
            });
        }
        html_to(part, &mut out);
    }
    out
}

/// Verdicts in the order of the bar.
const WORST_FIRST: [Verdict; 9] = [
    Verdict::Forked,
    Verdict::Lossy,
    Verdict::Ignored,
    Verdict::Failed,
    Verdict::Rejected,
    Verdict::Replayed,
    Verdict::Indeterminate,
    Verdict::Empty,
    Verdict::Continued,
];

/// Hatches, so that no verdict is told by its colour alone.
const PATTERNS: &str = "<defs>\
    <pattern id=\"hatch\" width=\"7\" height=\"7\" patternUnits=\"userSpaceOnUse\" \
    patternTransform=\"rotate(45)\"><rect width=\"2.5\" height=\"7\" class=\"ink\"/></pattern>\
    <pattern id=\"dots\" width=\"7\" height=\"7\" patternUnits=\"userSpaceOnUse\">\
    <circle cx=\"3.5\" cy=\"3.5\" r=\"1.3\" class=\"ink\"/></pattern>\
    <pattern id=\"lines\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\">\
    <rect width=\"6\" height=\"1.6\" class=\"ink\"/></pattern></defs>";

/// Inputs and incidents up to which all of them are listed at the top.
const MANY: usize = 12;
/// Names of inputs at the top.
const NAMES: usize = 6;
/// Resumes shown whole.
const WORST: usize = 3;
/// Examples of a finding.
const EXAMPLES: usize = 3;
/// Characters of a value among them.
const CELL: usize = 300;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lays_out_the_documentation_of_a_finding() {
        let mut out = String::new();
        explain(
            "## Why `it` is\n\nA <b> `x` in\ntwo lines.\n\n- one\n- two\n\n```talk\na > b\n```\n",
            &mut out,
        );
        assert_eq!(
            out,
            "<h4>Why `it` is</h4><p>A &lt;b&gt; <code>x</code> in two lines.</p><ul><li>one</li><li>two</li>\
             </ul><pre>a &gt; b\n</pre>"
        );
        assert_eq!(marked("a ` b"), "a ` b");
    }
}
