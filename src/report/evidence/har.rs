//! Writes a HAR with some of the entries of another, as they stand there.

use serde_json::{Map, Value, value::RawValue};
use std::io::{self, Write};

/// A HAR that is being written.
#[derive(Debug)]
pub struct Writer<W> {
    out: W,
    /// Whether `log.entries` has begun, and how many are in it.
    entries: Option<u32>,
    /// Who wrote the original.
    creators: Vec<String>,
    comment: String,
    payload: bool,
}

impl<W: Write> Writer<W> {
    /// Begins a file with a comment on the whole of it. Without `payload`, of an entry only times, method and status
    /// are written.
    #[must_use]
    pub const fn new(out: W, comment: String, payload: bool) -> Self {
        Self {
            out,
            entries: None,
            creators: Vec::new(),
            comment,
            payload,
        }
    }

    /// Who wrote the original, as it stands there. Readers make allowances for what they know of programs; what comes
    /// after the first entry comes too late for that.
    pub fn creator(&mut self, json: &[u8]) {
        let text = String::from_utf8_lossy(json);
        if self.entries.is_none()
            && self.creators.len() < CREATORS
            && serde_json::from_str::<&RawValue>(&text).is_ok()
        {
            self.creators.push(text.into_owned());
        }
    }

    /// An entry as it stands in the original, with what is said of it; gives its number.
    ///
    /// # Errors
    ///
    /// Those of the writer, and when it is no JSON object.
    pub fn entry(&mut self, json: &[u8], comment: &str) -> io::Result<u32> {
        self.begin()?;
        let text = String::from_utf8_lossy(json);
        let number = self.entries.unwrap_or_default() + 1;
        self.out
            .write_all(if number > 1 { b",\n" } else { b"\n" })?;
        if self.payload {
            let members = text.trim_start().strip_prefix('{');
            let members = members.ok_or_else(|| io::Error::other("an entry that is no object"))?;
            self.out.write_all(b"{")?;
            if !comment.is_empty() {
                write!(self.out, "\"{COMMENT}\":{},", Value::from(comment))?;
            }
            self.out.write_all(members.as_bytes())?;
        } else {
            let mut bare = without_payload(&text);
            bare.insert(COMMENT.to_owned(), Value::from(comment));
            serde_json::to_writer(&mut self.out, &bare)?;
        }
        self.entries = Some(number);
        Ok(number)
    }

    /// Ends the file.
    ///
    /// # Errors
    ///
    /// Those of the writer.
    pub fn finish(mut self) -> io::Result<W> {
        self.begin()?;
        self.out.write_all(b"\n]}}\n")?;
        self.out.flush()?;
        Ok(self.out)
    }

    fn begin(&mut self) -> io::Result<()> {
        if self.entries.is_some() {
            return Ok(());
        }
        self.entries = Some(0);
        self.out.write_all(b"{\"log\":{\"version\":\"1.2\",")?;
        match self.creators.as_slice() {
            [] => {}
            [one] => write!(self.out, "\"creator\":{one},")?,
            // As merging tools write them.
            several => write!(self.out, "\"creator\":[{}],", several.join(","))?,
        }
        write!(self.out, "\"comment\":{},", Value::from(&*self.comment))?;
        self.out.write_all(b"\"entries\":[")
    }
}

/// What is left of an entry without heads and bodies, and without URL, which may hold anything.
fn without_payload(text: &str) -> Map<String, Value> {
    let entry: Value = serde_json::from_str(text).unwrap_or_default();
    let part = |of: &Value, names: &[&str]| -> Map<String, Value> {
        let kept = names.iter().filter_map(|name| {
            let value = of.get(name)?;
            (value.is_number() || value.is_string()).then(|| ((*name).to_owned(), value.clone()))
        });
        kept.collect()
    };
    let nothing = Value::Null;
    let inner = |name| entry.get(name).unwrap_or(&nothing);
    let mut bare = part(&entry, &["startedDateTime", "time"]);
    let mut request = part(
        inner("request"),
        &["method", "httpVersion", "headersSize", "bodySize"],
    );
    request.insert("url".to_owned(), Value::from(""));
    let sizes = ["status", "httpVersion", "headersSize", "bodySize"];
    let response = part(inner("response"), &sizes);
    let timings = [
        "blocked", "dns", "connect", "ssl", "send", "wait", "receive",
    ];
    bare.insert("request".to_owned(), request.into());
    bare.insert("response".to_owned(), response.into());
    bare.insert(
        "timings".to_owned(),
        part(inner("timings"), &timings).into(),
    );
    bare
}

/// The member with what is said of an entry: names with an underscore are free (HAR 1.2), and an entry may have a
/// `comment` of its own.
const COMMENT: &str = "_forkscope";

/// As many as are read.
const CREATORS: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    const ENTRY: &str = r#" {"startedDateTime":"2026-11-29T20:50:09Z","time":12.5,
        "request":{"method":"GET","url":"http://h/?secret","headers":[{"name":"a","value":"secret"}]},
        "response":{"status":200,"statusText":"secret","content":{"text":"secret"}},
        "timings":{"wait":3,"comment":"secret"},"_eventSourceMessages":[{"data":"secret"}]}"#;

    fn written(payload: bool) -> String {
        let mut writer = Writer::new(Vec::new(), "a \"b\"\n".to_owned(), payload);
        writer.creator(br#"{"name":"WebInspector"}"#);
        writer.creator(b"{broken");
        assert_eq!(
            writer.entry(ENTRY.as_bytes(), "the \u{1}cursor").unwrap(),
            1
        );
        writer.creator(br#"{"name":"late"}"#);
        assert_eq!(writer.entry(ENTRY.as_bytes(), "").unwrap(), 2);
        String::from_utf8(writer.finish().unwrap()).unwrap()
    }

    #[test]
    fn entries_stand_as_they_were() {
        let text = written(true);
        let har: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(har["log"]["creator"]["name"], "WebInspector");
        assert_eq!(har["log"]["comment"], "a \"b\"\n");
        assert_eq!(har["log"]["entries"][0]["_forkscope"], "the \u{1}cursor");
        assert_eq!(
            har["log"]["entries"][1],
            serde_json::from_str::<Value>(ENTRY).unwrap()
        );
        assert_eq!(text.matches(&ENTRY[2..]).count(), 2);
    }

    #[test]
    fn without_payload_only_times_method_and_status_are_left() {
        let text = written(false);
        let har: Value = serde_json::from_str(&text).unwrap();
        let entry = &har["log"]["entries"][0];
        assert_eq!(entry["request"]["method"], "GET");
        assert_eq!(
            (&entry["response"]["status"], &entry["timings"]["wait"]),
            (&Value::from(200), &Value::from(3))
        );
        assert!(!text.contains("secret"), "{text}");
    }

    #[test]
    fn nothing_is_a_har_too_and_no_object_an_error() {
        let bytes = Writer::new(Vec::new(), String::new(), true)
            .finish()
            .unwrap();
        let har: Value = serde_json::from_slice(&bytes).unwrap();
        assert_eq!(har["log"]["entries"], Value::Array(Vec::new()));
        let mut writer = Writer::new(Vec::new(), String::new(), true);
        assert!(writer.entry(b"[1]", "").is_err());
    }
}
