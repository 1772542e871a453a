//! Tables: what a row is and what its columns are, once for all formats and the documentation.

mod events;
mod evidence;
mod exchanges;
mod findings;
mod incidents;
mod inputs;
mod resumes;
mod segments;
mod servers;
mod sessions;
mod shares;
mod timers;
mod words;

pub use events::{EventRow, Events};
pub use evidence::Evidence;
pub use exchanges::{ExchangeRow, Exchanges};
pub use findings::Findings;
pub use incidents::{IncidentRow, Incidents};
pub use inputs::Inputs;
pub use resumes::Resumes;
pub use segments::{SegmentRow, Segments};
pub use servers::Servers;
pub use sessions::Sessions;
pub use shares::Shares;
pub use timers::Timers;

use super::value::{Kind, Value};
use crate::model::{analysis::Analysis, place::Place, prose::Secret};

/// A table of a report.
pub trait Table: Sized + 'static {
    /// A row: references and numbers only, so that making one costs nothing.
    type Row<'a>: Copy;
    /// A word for the table.
    const NAME: &'static str;
    /// What a row is, in a sentence or two.
    const ABOUT: &'static str;
    /// Its columns, in order.
    const COLUMNS: &'static [Column<Self>];
    /// Its rows, in order.
    fn rows(analysis: &Analysis) -> impl Iterator<Item = Self::Row<'_>>;
}

/// A column of table `T`.
pub struct Column<T: Table> {
    /// Its name in every format.
    pub name: &'static str,
    /// What kind of value it has.
    pub kind: Kind,
    /// What its values are names of, and so what is left of them in a redacted report; `None` where they
    /// are forkscope's own words and stay.
    pub hides: Option<Secret>,
    /// What it means, in a sentence.
    pub about: &'static str,
    /// What a number counts or measures; empty for a number that names something, and for text.
    pub unit: &'static str,
    /// The attributes of OpenTelemetry's semantic conventions that hold the same, if any.
    pub otel: &'static [&'static str],
    /// Whether every row has it.
    pub always: bool,
    /// The words that it may have; none where they are not from a closed list.
    pub words: fn() -> Vec<&'static str>,
    /// Its value in a row.
    pub value: for<'a> fn(&'a Analysis, T::Row<'a>) -> Value<'a>,
}

macro_rules! column {
    (
        $name:expr, $kind:ident $(($secret:ident))?, $about:expr, $value:expr
        $(, unit = $unit:literal)?
        $(, otel = [$($otel:literal),+])?
        $(, words = $words:expr)?
        $(, always = $always:literal)?
        $(,)?
    ) => {
        $crate::report::table::Column {
            name: $name,
            kind: $crate::report::value::Kind::$kind,
            hides: column!(@hides $kind $($secret)?),
            about: $about,
            unit: concat!($($unit)?),
            otel: &[$($($otel),+)?],
            words: column!(@words $($words)?),
            always: column!(@flag $($always)?),
            value: $value,
        }
    };
    (@hides Text) => {
        compile_error!("text says what is left of it when redacted: `Text(Session)`, `Text(Nothing)`")
    };
    (@hides Text Nothing) => {
        None
    };
    (@hides Text $secret:ident) => {
        Some($crate::model::prose::Secret::$secret)
    };
    (@hides File) => {
        Some($crate::model::prose::Secret::Input)
    };
    (@hides Endpoint) => {
        Some($crate::model::prose::Secret::Host)
    };
    (@hides Hash) => {
        Some($crate::model::prose::Secret::Payload)
    };
    (@hides $kind:ident) => {
        None
    };
    (@words) => {
        Vec::new
    };
    (@words $words:expr) => {
        $words
    };
    (@flag) => {
        false
    };
    (@flag $flag:literal) => {
        $flag
    };
}
use column;

impl<T: Table> Column<T> {
    /// What its values count or measure; empty where they do neither.
    #[must_use]
    pub const fn unit(&self) -> &'static str {
        match self.kind {
            Kind::Millis => "ms",
            _ => self.unit,
        }
    }
}

/// The input's name.
fn input(analysis: &Analysis, place: Place) -> Value<'_> {
    match analysis.input_name(place) {
        "" => Value::Unknown,
        name => Value::File(name),
    }
}

/// Wireshark's number of the frame, or the number of the HAR entry.
fn frame<'a>(place: Place) -> Value<'a> {
    (place.frame != 0).then_some(place.frame).into()
}

/// A Wireshark filter for `place`; nothing where Wireshark does not read the input.
fn filter(analysis: &Analysis, place: Place) -> Value<'_> {
    let har = analysis
        .inputs
        .get(place.input.0 as usize)
        .is_some_and(|input| input.format.starts_with("har"));
    if har || (place.tcp_stream.is_none() && place.frame == 0) {
        Value::Unknown
    } else {
        Value::Filter(place)
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::{Kind, sample},
        *,
    };
    use std::collections::BTreeSet;

    fn check<T: Table>() {
        let analysis = sample::rich();
        let mut names = BTreeSet::new();
        let mut rows = 0;
        for column in T::COLUMNS {
            let name = column.name;
            assert!(names.insert(name), "{name} twice in {}", T::NAME);
            assert!(column.about.ends_with('.'), "{name}: {}", column.about);
            assert_eq!(name.ends_with("_ms"), column.kind == Kind::Millis, "{name}");
            let counts = matches!(column.kind, Kind::Number | Kind::Decimal);
            assert!(counts || column.unit.is_empty(), "{name} is no number");
            assert!(
                column.kind != Kind::Decimal || !column.unit.is_empty(),
                "{name}"
            );
            assert_eq!(
                name.ends_with("bytes"),
                column.unit() == "bytes",
                "{name}: {}",
                column.unit()
            );
            for attribute in column.otel {
                let known = |c: char| c.is_ascii_lowercase() || "._-".contains(c);
                assert!(
                    attribute.contains('.') && attribute.chars().all(known),
                    "{name}: {attribute}"
                );
            }
            let words = (column.words)();
            assert!(
                words.is_empty() || matches!(column.kind, Kind::Word | Kind::List),
                "{name}"
            );
        }
        for row in T::rows(&analysis) {
            rows += 1;
            for column in T::COLUMNS {
                let kind = (column.value)(&analysis, row).kind();
                assert!(kind.is_some() || !column.always, "{}", column.name);
                assert!(
                    kind.is_none_or(|kind| kind == column.kind),
                    "{}: {kind:?} is no {:?}",
                    column.name,
                    column.kind
                );
            }
        }
        assert!(rows > 0, "no {} in the sample", T::NAME);
        for column in T::COLUMNS {
            assert!(
                T::rows(&analysis).any(|row| (column.value)(&analysis, row).kind().is_some()),
                "{} is never known in the sample",
                column.name
            );
        }
    }

    #[test]
    fn columns_are_named_once_explained_and_of_their_kind() {
        check::<Resumes>();
        check::<Findings>();
        check::<Sessions>();
        check::<Segments>();
        check::<Incidents>();
        check::<Timers>();
        check::<Shares>();
        check::<Servers>();
        check::<Inputs>();
        check::<Events>();
        check::<Exchanges>();
        check::<Evidence>();
    }

    #[test]
    fn a_har_has_no_wireshark_filter() {
        let mut analysis = sample::fork();
        let place = analysis.findings[0].place;
        assert!(matches!(filter(&analysis, place), Value::Filter(_)));
        analysis.inputs[place.input.0 as usize].format = "har+gz".to_owned();
        assert!(matches!(filter(&analysis, place), Value::Unknown));
    }
}
