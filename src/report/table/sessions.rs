//! `sessions.csv`.

use super::{Column, Table, column, words};
use crate::{
    model::analysis::{Analysis, SessionRow},
    report::value::Value,
};

/// Sessions under judgement, by incarnation.
#[derive(Clone, Copy, Debug)]
pub struct Sessions;

impl Table for Sessions {
    type Row<'a> = &'a SessionRow;
    const NAME: &'static str = "sessions";
    const ABOUT: &'static str = "A row for each incarnation of each session under judgement, in \
                                 order of first time.";
    const COLUMNS: &'static [Column<Self>] = &[
        column!(
            "session_id",
            Text(Session),
            "The session id.",
            |_, r| { Value::Text(&r.session_id) },
            otel = ["mcp.session.id"],
            always = true
        ),
        column!(
            "incarnation",
            Number,
            "The life of the session id, from 1.",
            |_, r| r.incarnation.into(),
            always = true
        ),
        column!(
            "service",
            Text(Url),
            "What the client addresses: scheme, host and path.",
            |_, r| Value::Text(&r.service),
            otel = ["url.full"],
            always = true
        ),
        column!(
            "client",
            Endpoint,
            "The client.",
            |_, r| r.client.as_ref().into(),
            otel = ["client.address", "client.port"]
        ),
        column!(
            "protocol_version",
            Text(Word),
            "The revision negotiated.",
            |_, r| { r.protocol_version.as_deref().map(Value::Text).into() },
            otel = ["mcp.protocol.version"]
        ),
        column!("client_name", Text(Text), "`clientInfo.name`.", |_, r| {
            r.client_name.as_deref().map(Value::Text).into()
        }),
        column!("server_name", Text(Text), "`serverInfo.name`.", |_, r| {
            r.server_name.as_deref().map(Value::Text).into()
        }),
        column!(
            "first_time",
            Time,
            "Its first exchange.",
            |_, r| { r.first_time.into() },
            always = true
        ),
        column!(
            "last_time",
            Time,
            "The last thing seen of it.",
            |_, r| { r.last_time.into() },
            always = true
        ),
        column!(
            "streams",
            Number,
            "Its event streams.",
            |_, r| r.streams.into(),
            unit = "streams",
            always = true
        ),
        column!(
            "segments",
            Number,
            "Connections' shares of those streams.",
            |_, r| r.segments.into(),
            unit = "segments",
            always = true
        ),
        column!(
            "events",
            Number,
            "Events on them.",
            |_, r| r.events.into(),
            unit = "events",
            always = true
        ),
        column!(
            "resumes",
            Number,
            "Resumes.",
            |_, r| r.resumes.into(),
            unit = "resumes",
            always = true
        ),
        column!(
            "continued",
            Number,
            "Resumes with this verdict.",
            |_, r| { r.verdicts[0].into() },
            unit = "resumes",
            always = true
        ),
        column!(
            "empty",
            Number,
            "Resumes with this verdict.",
            |_, r| { r.verdicts[1].into() },
            unit = "resumes",
            always = true
        ),
        column!(
            "replayed",
            Number,
            "Resumes with this verdict.",
            |_, r| { r.verdicts[2].into() },
            unit = "resumes",
            always = true
        ),
        column!(
            "lossy",
            Number,
            "Resumes with this verdict.",
            |_, r| { r.verdicts[3].into() },
            unit = "resumes",
            always = true
        ),
        column!(
            "ignored",
            Number,
            "Resumes with this verdict.",
            |_, r| { r.verdicts[4].into() },
            unit = "resumes",
            always = true
        ),
        column!(
            "forked",
            Number,
            "Resumes with this verdict.",
            |_, r| { r.verdicts[5].into() },
            unit = "resumes",
            always = true
        ),
        column!(
            "rejected",
            Number,
            "Resumes with this verdict.",
            |_, r| { r.verdicts[6].into() },
            unit = "resumes",
            always = true
        ),
        column!(
            "failed",
            Number,
            "Resumes with this verdict.",
            |_, r| { r.verdicts[7].into() },
            unit = "resumes",
            always = true
        ),
        column!(
            "indeterminate",
            Number,
            "Resumes with this verdict.",
            |_, r| { r.verdicts[8].into() },
            unit = "resumes",
            always = true
        ),
        column!(
            "id_scheme",
            Word,
            "How its ids are ordered: `dense`, `sparse`, `time`, `observed` or `none`.",
            |_, r| Value::Word(r.id_scheme.name()),
            words = words::schemes,
            always = true
        ),
        column!(
            "end",
            Word,
            "How it ended: `deleted`, `lost`, `left`, `superseded` or `open`.",
            |_, r| Value::Word(r.end.name()),
            words = words::ends,
            always = true
        ),
        column!(
            "findings",
            List,
            "Codes of its findings, worst first.",
            |_, r| { Value::Words(&r.findings) },
            words = words::codes,
            always = true
        ),
    ];

    fn rows(analysis: &Analysis) -> impl Iterator<Item = Self::Row<'_>> {
        analysis.sessions.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::verdict::Verdict;

    #[test]
    fn has_a_column_a_verdict_with_its_own_count() {
        let row = SessionRow {
            verdicts: [0, 1, 2, 3, 4, 5, 6, 7, 8],
            ..SessionRow::default()
        };
        let analysis = Analysis::default();
        for (index, verdict) in Verdict::ALL.into_iter().enumerate() {
            let column = Sessions::COLUMNS
                .iter()
                .find(|column| column.name == verdict.name())
                .unwrap();
            let value = (column.value)(&analysis, &row);
            assert!(matches!(value, Value::Number(n) if n == index as u64));
        }
    }
}
