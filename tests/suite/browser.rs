//! `report.html` in a real browser: Chromium, driven over WebDriver.
//!
//! Where chromedriver or Chromium is missing, a test says so and passes; with `FORKSCOPE_BROWSER=required` it
//! fails instead. Every test has a browser of its own, one at a time.

use crate::{
    talk::{parse::parse, tcp},
    talks::{audit, pcap},
};
use fantoccini::{
    Client, ClientBuilder,
    actions::{InputSource, KeyAction, KeyActions},
};
use forkscope::{
    model::{
        analysis::Analysis,
        time::{Span, Timestamp},
    },
    report::{FOLDER, Style},
};
use hyper_util::client::legacy::connect::HttpConnector;
use serde_json::{Value, json};
use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tempfile::TempDir;
use tokio::runtime::Runtime;

/// One session that forks twice and goes on once, and one that only goes on.
const TALK: &str = "\
a open A
a > GET sid A
a < 200 sse
repeat 6
a < ev $i note \"number $i\"
done
a x server-rst
.. 31s
b > GET sid A lei 6
b < 200 sse
b < ev 1 note \"of another log\"
b < ev 2 note \"and more\"
b < ev 3 note \"and more still\"
b < ev 4 note \"of that\"
b x server-fin
.. 1s
c > GET sid A lei 4
c < 200 sse
c < ev 5 note \"goes on\"
c x server-rst
.. 40s
d > GET sid A lei 5
d < 200 sse
d < ev 1 note \"a third log\"
d < ev 2 note \"of it\"
f open B
f > GET sid B
f < 200 sse
f < ev 1 note \"b one\"
f < ev 2 note \"b two\"
f x server-fin
.. 1s
g > GET sid B lei 2
g < 200 sse
g < ev 3 note \"b three\"
.. 1s
";

/// What somebody would send who wants the report to run or hide something.
const HOSTILE: &str = "</script><script>alert(1)</script>\"onload=alert(2) '><img src=x \
                       onerror=alert(3)><!--=cmd|' /C calc'!A0\u{1b}[2J\u{202e}gnp\0\u{2028}{{x}}`${y}`";

#[test]
fn opens_without_an_error_and_asks_the_network_for_nothing() {
    let Some(browser) = Browser::open(&analysis()) else {
        return;
    };
    assert!(browser.truth("document.documentElement.dataset.ready === ''"));
    assert!(browser.truth("document.querySelectorAll('.lanes .item').length > 5"));
    assert!(browser.truth("document.querySelectorAll('#plot-area svg').length >= 3"));
    // Other folds, a theme, a page of another table: nothing of it may complain.
    browser.execute("for (const b of document.querySelectorAll('#tl-tools button, #theme, #tabs button')) b.click()");
    assert!(browser.truth("performance.getEntriesByType('resource').length === 0"));
    browser.is_quiet();
}

#[test]
fn sorts_and_filters_and_remembers_it_in_the_fragment() {
    let Some(browser) = Browser::open(&analysis()) else {
        return;
    };
    let gaps = || -> Vec<f64> {
        let column = "[...document.querySelectorAll('#rows thead th')].findIndex((th) => \
                      th.textContent.startsWith('gap_ms'))";
        let cells = browser.value(&format!(
            "[...document.querySelectorAll('#rows tbody tr')].map((tr) => tr.cells[{column}].textContent)"
        ));
        let cells = cells.as_array().unwrap().iter();
        cells
            .map(|cell| cell.as_str().unwrap().parse().unwrap())
            .collect()
    };
    assert_eq!(gaps().len(), 4);
    let sort = "document.querySelector('#rows thead button[data-column=gap_ms]').click()";
    browser.execute(sort);
    let rising = gaps();
    assert!(rising.is_sorted(), "{rising:?}");
    browser.execute(sort);
    let falling = gaps();
    assert!(falling.iter().rev().is_sorted(), "{falling:?}");
    assert_eq!(
        browser
            .value("document.querySelector('#rows [aria-sort=descending] button').dataset.column"),
        "gap_ms"
    );
    assert!(
        browser.truth("document.activeElement.dataset.column === 'gap_ms'"),
        "the focus stays on the column"
    );

    browser.execute("document.getElementById('q').focus()");
    browser.keys("verdict:forked");
    browser.until("decodeURIComponent(location.hash).includes('q=verdict:forked')");
    assert!(browser.truth("document.querySelectorAll('#rows tbody tr').length === 2"));
    assert!(browser.truth("location.hash.includes('sort=-gap_ms')"));
    browser.execute("document.getElementById('all-columns').click()");
    browser.reload();
    assert_eq!(
        browser.value("document.getElementById('q').value"),
        "verdict:forked"
    );
    assert_eq!(gaps().len(), 2);
    assert!(gaps().iter().rev().is_sorted());
    assert!(browser.truth("document.querySelectorAll('#rows thead th').length > 40"));

    // Bounds, what is not empty, what is not, and a link of the legend.
    for (filter, rows) in [
        ("gap_ms:>20000", 2),
        ("findings:*", 2),
        ("-verdict:forked", 2),
        ("nothing-like-it", 0),
    ] {
        browser.execute(&format!(
            "const q = document.getElementById('q'); q.value = {filter:?}; q.dispatchEvent(new Event('input'))"
        ));
        browser.until(&format!(
            "new URLSearchParams(location.hash.slice(1)).get('q') === {filter:?}"
        ));
        assert_eq!(
            browser.value("document.querySelectorAll('#rows tbody tr').length"),
            rows,
            "{filter}"
        );
    }
    browser.execute("document.querySelector('.legend a[href*=forked]').click()");
    browser.until("document.querySelectorAll('#rows tbody tr').length === 2");
    browser.is_quiet();
}

#[test]
fn the_keyboard_walks_the_timeline_and_opens_the_details() {
    let Some(browser) = Browser::open(&analysis()) else {
        return;
    };
    let heading = || browser.value("document.querySelector('#detail h2')?.textContent ?? ''");
    assert!(browser.truth("document.getElementById('detail').hidden"));
    // By Tab from the last button of the toolbar.
    browser
        .execute("[...document.querySelectorAll('#tl-tools button:not([hidden])')].at(-1).focus()");
    browser.keys("\u{E004}");
    assert!(browser.truth("document.activeElement.matches('.lanes .item')"));
    assert!(
        browser.truth("document.querySelectorAll('.lanes .item[tabindex=\"0\"]').length === 1")
    );
    assert!(!browser.truth("document.getElementById('detail').hidden"));
    // Home is the session, the next fork is a resume.
    browser.keys("\u{E011}");
    assert!(
        heading().as_str().unwrap().starts_with("Session "),
        "{}",
        heading()
    );
    browser.keys("f");
    assert_eq!(heading(), "Resume 1: FORKED");
    assert!(
        browser.truth(
            "document.activeElement.getAttribute('aria-label').startsWith('Resume 1: forked')"
        )
    );
    assert!(
        browser.truth("document.getElementById('live').textContent.startsWith('Resume 1: forked')")
    );
    let detail = browser.value("document.getElementById('detail').textContent");
    let detail = detail.as_str().unwrap();
    for said in [
        "Events around it",
        "before: 1, 2, 3, 4, 5, 6",
        "sequence-regression",
        "Why it matters",
        "frame.number == ",
        "gap_ms",
    ] {
        assert!(detail.contains(said), "no {said:?} in {detail}");
    }
    browser.keys("f");
    assert_eq!(heading(), "Resume 3: FORKED");
    let before = browser.value("document.activeElement.dataset.key");
    // Zoom keeps the focus, arrows move it, Enter goes into the details, Escape comes back.
    browser.keys("++-0");
    assert_eq!(browser.value("document.activeElement.dataset.key"), before);
    browser.keys("\u{E012}");
    assert_ne!(browser.value("document.activeElement.dataset.key"), before);
    browser.keys("\u{E007}");
    assert!(browser.truth("document.activeElement.matches('#detail h2')"));
    browser.keys("\u{E00C}");
    assert!(browser.truth("document.getElementById('detail').hidden"));
    assert!(browser.truth("document.activeElement.matches('.lanes .item')"));
    // What has no findings is folded, and said to be.
    assert!(browser.truth("document.getElementById('tl-note').textContent.includes('1 session without findings is folded')"));
    browser.execute("document.querySelector('#tl-tools button[aria-expanded=false]').click()");
    assert!(
        browser.truth("document.getElementById('tl-note').textContent.includes('of 2 are drawn')")
    );
    browser.is_quiet();
}

#[test]
fn copies_a_filter() {
    let Some(browser) = Browser::open(&analysis()) else {
        return;
    };
    browser.execute("document.querySelector('.card[data-resume] button').click()");
    browser.execute("document.querySelector('#detail .proof button.copy').focus()");
    browser.keys(" ");
    browser
        .until("document.getElementById('live').textContent.startsWith('Copied tcp.stream eq ')");
    let wanted = browser.value("document.querySelector('#detail .proof code').textContent");
    assert!(wanted.as_str().unwrap().starts_with("tcp.stream eq "));
    browser.execute("const q = document.getElementById('q'); q.value = ''; q.focus()");
    browser.paste();
    assert_eq!(browser.value("document.getElementById('q').value"), wanted);
    // Where the browser has no clipboard for a page, another way is found.
    browser.execute(
        "Object.defineProperty(navigator, 'clipboard', { value: undefined }); \
         document.querySelectorAll('#detail .proof button.copy')[1].focus()",
    );
    browser.keys(" ");
    browser
        .until("document.getElementById('live').textContent.startsWith('Copied frame.number == ')");
    browser.execute("const q = document.getElementById('q'); q.value = ''; q.focus()");
    browser.paste();
    let other = browser.value("document.querySelectorAll('#detail .proof code')[1].textContent");
    assert!(other.as_str().unwrap().starts_with("frame.number == "));
    assert_eq!(browser.value("document.getElementById('q').value"), other);
    browser.is_quiet();
}

#[test]
fn everything_has_a_role_and_a_name_and_can_be_read() {
    let Some(browser) = Browser::open(&analysis()) else {
        return;
    };
    browser.execute("document.querySelector('.card[data-resume] button').click()");
    for theme in ["light", "dark"] {
        browser.execute(&format!(
            "document.documentElement.dataset.theme = '{theme}'"
        ));
        for details in [false, true] {
            browser.execute(&format!(
                "for (const d of document.querySelectorAll('details')) d.open = {details}"
            ));
            let wrong = browser.call(include_str!("browser/access.js"));
            assert_eq!(wrong, json!([]), "{theme}: {wrong:#}");
        }
    }
    browser.is_quiet();
}

#[test]
fn is_readable_without_its_script_and_on_paper() {
    let Some(browser) = Browser::new(false, &[("report", html(&analysis()))]) else {
        return;
    };
    browser.goto("report");
    let text = browser.value("document.body.innerText");
    let text = text.as_str().unwrap();
    for said in [
        "2 of 4 resumes forked",
        "What the capture could not show",
        "need this page's own script",
        "sequence-regression",
        "Last-Event-ID 6",
        "tcp.stream eq",
    ] {
        assert!(text.contains(said), "no {said:?} in {text}");
    }
    drop(browser);
    let Some(browser) = Browser::open(&analysis()) else {
        return;
    };
    let paper = browser.print();
    assert!(paper.starts_with(b"%PDF"));
    let pages = paper
        .windows(11)
        .filter(|w| w.starts_with(b"/Type /Page") && w[10] != b's')
        .count();
    assert!((1..12).contains(&pages), "{pages} pages");
    browser.is_quiet();
}

#[test]
fn what_the_wire_says_stays_text() {
    // What HTTP lets through comes by the wire, the rest as if it had.
    let talk = TALK
        .replace(
            "sid A",
            "sid \"<script>alert(1)</script>\\\"onload=alert(2)//\\x1b[2J\"",
        )
        .replace("lei 6", "lei \"</script><svg/onload=alert(3)>\"")
        .replace(
            "ev 1 note \"of another log\"",
            "ev \"=cmd|<!--\\x1b]0;x\" note \"<img src=x onerror=alert(4)>\"",
        );
    let wire = of_talk(&talk);
    assert!(
        wire.resumes
            .iter()
            .any(|r| r.session_id.contains("<script>"))
    );
    // The same shape twice, with the text of every field replaced.
    let (mut hostile, mut plain) = (analysis(), analysis());
    for (analysis, text) in [(&mut hostile, HOSTILE), (&mut plain, "plain")] {
        analysis.inputs[0].name = text.to_owned();
        analysis.inputs[0].damaged = text.into();
        for resume in &mut analysis.resumes {
            resume.session_id = text.into();
            resume.first_event_id = Some(text.to_owned());
            resume.last_event_id = text.to_owned();
            resume.reason = text.into();
            resume.backend_before = Some(text.into());
            resume.story = vec![text.into()];
        }
        for finding in &mut analysis.findings {
            finding.session_id = text.into();
            finding.detail = text.into();
            finding.evidence = text;
        }
        for session in &mut analysis.sessions {
            session.session_id = text.into();
            session.service = text.to_owned();
            session.client_name = Some(text.into());
        }
        for segment in &mut analysis.segments {
            segment.session_id = text.into();
            segment.last_event_id = Some(text.to_owned());
        }
    }
    let pages = [
        ("hostile", html(&hostile)),
        ("wire", html(&wire)),
        ("plain", html(&plain)),
    ];
    for (name, page) in &pages {
        let controls = page
            .chars()
            .any(|c| c != '\n' && forkscope::report::escape::is_hidden(c));
        assert!(!controls, "{name}");
    }
    let Some(browser) = Browser::new(true, &pages) else {
        return;
    };
    let mut foreign = Vec::new();
    for (name, _) in &pages {
        browser.goto(name);
        browser.until("document.documentElement.dataset.ready === ''");
        // Look at everything that can be looked at.
        browser.execute(
            "for (const tab of document.querySelectorAll('[role=tab]')) { tab.click(); \
             document.querySelector('#rows tbody button')?.click(); } \
             document.querySelector('[role=tab]').click(); \
             for (const item of [...document.querySelectorAll('.lanes .item')]) \
               item.dispatchEvent(new MouseEvent('click', { bubbles: true })); \
             const first = document.querySelector('#rows tbody button'); first.click();",
        );
        assert!(browser.truth(
            "document.querySelectorAll('img, iframe, object, embed, link, base').length === 0"
        ));
        assert!(browser.truth("document.querySelectorAll('script').length === 2"));
        assert!(browser.truth(
            "[...document.querySelectorAll('*')].every((e) => [...e.attributes].every((a) => !a.name.startsWith('on')))"
        ));
        foreign.push(browser.value(
            "[...new Set([...document.querySelectorAll('*')].map((e) => e.localName))].sort()",
        ));
        if *name == "hostile" {
            let shown = browser.value("document.querySelector('#detail').textContent");
            let shown = shown.as_str().unwrap();
            assert!(
                shown.contains("</script><script>alert(1)</script>\"onload=alert(2)"),
                "{shown}"
            );
            assert!(shown.contains(r"\x1b[2J\u{202e}gnp\x00"), "{shown}");
        }
        assert!(browser.no_alert(), "{name}");
    }
    // No kind of element comes from the wire.
    assert_eq!(foreign[0], foreign[2]);
    browser.is_quiet();
}

#[test]
fn two_thousand_sessions_are_drawn_in_parts() {
    let big = multiplied(&of_talk(&many_resumes()), 2_000);
    assert_eq!(big.resumes.len(), 20_000);
    let page = html(&big);
    assert!(page.len() < 15_000_000, "{} bytes", page.len());
    let Some(browser) = Browser::new(true, &[("report", page)]) else {
        return;
    };
    browser.goto("report");
    browser.until("document.documentElement.dataset.ready === ''");
    let nodes = || {
        browser
            .value("document.getElementsByTagName('*').length")
            .as_u64()
            .unwrap()
    };
    assert!(nodes() < 6_000, "{}", nodes());
    let note = browser.value("document.getElementById('tl-note').textContent");
    let note = note.as_str().unwrap();
    assert!(
        note.contains(" of 1,000 are drawn; scroll for the others"),
        "{note}"
    );
    assert!(
        note.contains("1,000 sessions without findings are folded"),
        "{note}"
    );
    assert!(browser.truth(
        "document.getElementById('rows-said').textContent.includes('Rows 1 to 50 of 20,000')"
    ));
    assert!(
        browser
            .truth("document.getElementById('plot-area').textContent.includes('Each bar counts')")
    );
    browser.execute("document.querySelector('#tl-tools button[aria-expanded=false]').click()");
    browser
        .execute("const box = document.querySelector('.lanes'); box.scrollTop = box.scrollHeight");
    browser.until(
        "document.getElementById('tl-note').textContent.includes('to 2,000 of 2,000 are drawn')",
    );
    browser.execute("document.querySelector('#rows thead button[data-column=gap_ms]').click()");
    browser.execute("const q = document.getElementById('q'); q.value = 'session-1999'; q.dispatchEvent(new Event('input'))");
    browser.until("document.getElementById('rows-said').textContent.includes('of 10 (20,000)')");
    assert!(nodes() < 6_000, "{}", nodes());
    browser.is_quiet();
}

/// The page about an analysis.
fn html(analysis: &Analysis) -> String {
    let report = FOLDER.iter().find(|report| report.file == "report.html");
    let mut bytes = Vec::new();
    (report.unwrap().write)(analysis, &Style::default(), &mut bytes).unwrap();
    String::from_utf8(bytes).unwrap()
}

fn of_talk(text: &str) -> Analysis {
    // A talk has to expect something; here the browser is asked.
    let text = format!("{text}\nexpect resume 1 continued\n");
    let talk = parse("browser", &text).unwrap_or_else(|error| panic!("{error}"));
    audit(&talk, &pcap(&talk, &tcp::packets(&talk)))
}

fn analysis() -> Analysis {
    let analysis = of_talk(TALK);
    let verdicts: Vec<&str> = analysis.resumes.iter().map(|r| r.verdict.name()).collect();
    assert_eq!(verdicts, ["forked", "continued", "forked", "continued"]);
    analysis
}

/// A session of ten resumes, the last of which forks.
fn many_resumes() -> String {
    let mut talk = String::from(
        "a open A\na > GET sid A\na < 200 sse\nrepeat 6\na < ev $i note \"number $i\"\ndone\na x server-fin\n",
    );
    for resume in 1..=10 {
        let (cursor, id) = (5 + resume, if resume == 10 { 1 } else { 6 + resume });
        talk.push_str(&format!(
            ".. {resume}s\nr{resume} > GET sid A lei {cursor}\nr{resume} < 200 sse\nr{resume} < ev {id} note \"again {resume}\"\nr{resume} x server-fin\n"
        ));
    }
    talk
}

/// So many sessions like that of `one`, every second without its findings.
fn multiplied(one: &Analysis, times: u32) -> Analysis {
    let mut many = Analysis {
        inputs: one.inputs.clone(),
        totals: one.totals,
        ..Analysis::default()
    };
    let exchanges = u32::try_from(one.exchanges.len()).unwrap();
    let sessions = u32::try_from(one.sessions.len()).unwrap();
    let segments = u32::try_from(one.segments.len()).unwrap();
    many.totals.sessions = u64::from(times);
    for number in 0..times {
        let id: forkscope::model::id::SessionId = format!("session-{number}").into();
        let later = |time: Timestamp| time.plus(Span::from_millis(i64::from(number) * 37));
        let bad = number % 2 == 0;
        for (exchange, place) in one.exchanges.iter().zip(&one.session_of) {
            let mut exchange = exchange.clone();
            if let Some(request) = &mut exchange.request {
                request.time = later(request.time);
            }
            exchange.events.edit(|event| event.time = later(event.time));
            many.exchanges.push(exchange);
            let mut place = *place;
            if let Some(place) = &mut place {
                place.session = place.session.map(|session| session + number * sessions);
                place.segment = place.segment.map(|segment| segment + number * segments);
            }
            many.session_of.push(place);
        }
        for row in &one.sessions {
            let mut row = row.clone();
            row.session_id = id.clone();
            row.first_time = later(row.first_time);
            row.last_time = later(row.last_time);
            many.sessions.push(row);
        }
        for row in &one.segments {
            let mut row = row.clone();
            row.session_id = id.clone();
            row.exchange += number * exchanges;
            row.end_time = row.end_time.map(later);
            many.segments.push(row);
        }
        for row in &one.resumes {
            let mut row = row.clone();
            row.session_id = id.clone();
            row.exchange += number * exchanges;
            row.resume_time = later(row.resume_time);
            row.disconnect_time = row.disconnect_time.map(later);
            if !bad {
                row.verdict = forkscope::model::verdict::Verdict::Continued;
                row.findings.clear();
            }
            many.resumes.push(row);
        }
        for row in one.findings.iter().filter(|_| bad) {
            let mut row = row.clone();
            row.session_id = id.clone();
            row.time = later(row.time);
            many.findings.push(row);
        }
    }
    many
}

/// A browser with pages on the disk. Whatever happens, it ends with the test.
struct Browser {
    runtime: Runtime,
    client: Client,
    driver: Driver,
    session: String,
    folder: TempDir,
    _alone: MutexGuard<'static, ()>,
}

/// chromedriver on a port of its own.
struct Driver {
    child: Child,
    port: u16,
}

static ALONE: Mutex<()> = Mutex::new(());

impl Browser {
    /// A browser that has opened the page about `analysis`; `None` where there is no browser.
    fn open(analysis: &Analysis) -> Option<Self> {
        let browser = Self::new(true, &[("report", html(analysis))])?;
        browser.goto("report");
        browser.until("document.documentElement.dataset.ready === ''");
        Some(browser)
    }

    fn new<S: AsRef<str>>(script: bool, pages: &[(S, String)]) -> Option<Self> {
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((driver, chromium)) = programs() else {
            let missing = "chromedriver and chromium are not both on the path";
            assert!(
                std::env::var_os("FORKSCOPE_BROWSER").is_none_or(|value| value != "required"),
                "{missing}"
            );
            skipped(missing);
            return None;
        };
        let folder = tempfile::tempdir().unwrap();
        for (name, page) in pages {
            fs::write(folder.path().join(format!("{}.html", name.as_ref())), page).unwrap();
        }
        let driver = Driver::start(&driver);
        let profile = format!(
            "--user-data-dir={}",
            folder.path().join("profile").display()
        );
        let flags = [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--disable-dev-shm-usage",
            "--window-size=1400,1000",
            &profile,
        ];
        let Value::Object(mut wanted) = json!({
            "browserName": "chrome",
            "goog:chromeOptions": { "args": flags, "binary": chromium },
            "goog:loggingPrefs": { "browser": "ALL", "performance": "ALL" },
            "timeouts": { "script": 60_000, "pageLoad": 120_000 },
        }) else {
            unreachable!("an object is one");
        };
        if !script {
            wanted["goog:chromeOptions"]["prefs"] =
                json!({ "profile.managed_default_content_settings.javascript": 2 });
        }
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let (client, session) = runtime.block_on(async {
            let client = ClientBuilder::new(HttpConnector::new())
                .capabilities(wanted)
                .connect(&format!("http://127.0.0.1:{}", driver.port))
                .await
                .unwrap();
            let session = client.session_id().await.unwrap().unwrap();
            (client, session)
        });
        Some(Self {
            runtime,
            client,
            driver,
            session,
            folder,
            _alone: alone,
        })
    }

    fn goto(&self, name: &str) {
        let path = self.folder.path().join(format!("{name}.html"));
        let url = format!("file://{}", path.display());
        self.runtime.block_on(self.client.goto(&url)).unwrap();
    }

    fn reload(&self) {
        self.runtime.block_on(self.client.refresh()).unwrap();
        self.until("document.documentElement.dataset.ready === ''");
    }

    fn execute(&self, script: &str) {
        self.call(script);
    }

    /// What the body of a function returns.
    fn call(&self, script: &str) -> Value {
        let result = self
            .runtime
            .block_on(self.client.execute(script, Vec::new()));
        result.unwrap_or_else(|error| panic!("{script}: {error}"))
    }

    fn value(&self, expression: &str) -> Value {
        self.call(&format!("return {expression}"))
    }

    fn truth(&self, expression: &str) -> bool {
        self.value(expression) == true
    }

    /// Waits until it is so; the page draws when its browser gives it a frame.
    fn until(&self, expression: &str) {
        for _ in 0..600 {
            if self.truth(expression) {
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        panic!("never: {expression}");
    }

    fn press(&self, actions: impl IntoIterator<Item = KeyAction>) {
        let actions = actions
            .into_iter()
            .fold(KeyActions::new("keys".to_owned()), |keys, key| {
                keys.then(key)
            });
        self.runtime
            .block_on(self.client.perform_actions(actions))
            .unwrap();
    }

    fn keys(&self, keys: &str) {
        self.press(
            keys.chars()
                .flat_map(|value| [KeyAction::Down { value }, KeyAction::Up { value }]),
        );
    }

    fn paste(&self) {
        const CONTROL: char = '\u{E009}';
        self.press([
            KeyAction::Down { value: CONTROL },
            KeyAction::Down { value: 'v' },
            KeyAction::Up { value: 'v' },
            KeyAction::Up { value: CONTROL },
        ]);
    }

    fn no_alert(&self) -> bool {
        self.runtime.block_on(self.client.get_alert_text()).is_err()
    }

    /// The page on paper.
    fn print(&self) -> Vec<u8> {
        let print = fantoccini::wd::PrintConfiguration::default();
        self.runtime.block_on(self.client.print(print)).unwrap()
    }

    /// Nothing was complained about on the console, and nothing was asked for but pages on the disk.
    fn is_quiet(&self) {
        let log = self.log("browser");
        assert_eq!(log, json!([]), "{log:#}");
        for entry in self.log("performance").as_array().unwrap() {
            let message: Value = serde_json::from_str(entry["message"].as_str().unwrap()).unwrap();
            let message = &message["message"];
            let of = |name: &str| message["params"][name].as_str().unwrap_or_default();
            // The browser's own new tab asks for parts of its own.
            if message["method"] == "Network.requestWillBeSent"
                && of("documentURL").starts_with("file://")
            {
                let url = message["params"]["request"]["url"].as_str().unwrap();
                assert!(url.starts_with("file://"), "{url}");
            }
        }
    }

    /// Entries of one of chromedriver's logs, which WebDriver has no command for.
    fn log(&self, kind: &str) -> Value {
        let path = format!("/session/{}/se/log", self.session);
        let body = json!({ "type": kind }).to_string();
        let answer = self.driver.request("POST", &path, &body);
        let answer: Value = serde_json::from_str(&answer).unwrap();
        answer["value"].clone()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // The driver ends its browser with the session; without that, one would stay behind.
        self.driver
            .request("DELETE", &format!("/session/{}", self.session), "");
    }
}

impl Driver {
    fn start(program: &str) -> Self {
        let child = Command::new(program)
            .arg("--port=0")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut driver = Self { port: 0, child };
        let said = BufReader::new(driver.child.stdout.take().unwrap());
        let mut lines = said.lines().map_while(Result::ok);
        let port = lines.find_map(|line| {
            let (_, port) = line.split_once("started successfully on port ")?;
            port.trim_end_matches('.').parse().ok()
        });
        driver.port = port.expect("chromedriver says its port");
        driver
    }

    /// Sends a request and gives the body of the answer, or nothing.
    fn request(&self, method: &str, path: &str, body: &str) -> String {
        self.try_request(method, path, body).unwrap_or_default()
    }

    fn try_request(&self, method: &str, path: &str, body: &str) -> std::io::Result<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port))?;
        stream.set_read_timeout(Some(Duration::from_secs(60)))?;
        let length = body.len();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nContent-Type: application/json\r\n\
             Content-Length: {length}\r\n\r\n{body}",
            self.port,
        );
        stream.write_all(head.as_bytes())?;
        // The driver leaves the connection open.
        let mut answer = BufReader::new(stream);
        let mut length = 0;
        loop {
            let mut line = String::new();
            answer.read_line(&mut line)?;
            let line = line.trim_end().to_ascii_lowercase();
            if line.is_empty() {
                break;
            }
            if let Some(number) = line.strip_prefix("content-length:") {
                length = number.trim().parse().unwrap_or(0);
            }
        }
        let mut body = vec![0; length];
        answer.read_exact(&mut body)?;
        Ok(String::from_utf8_lossy(&body).into_owned())
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Says so, once, past the harness: it keeps what passing tests print.
fn skipped(missing: &str) {
    static SAID: std::sync::Once = std::sync::Once::new();
    SAID.call_once(|| {
        let advice = "Debian: apt-get install chromium chromium-driver";
        let said = format!("\nskipped: report.html in a browser: {missing} ({advice})\n");
        // Where nobody listens, nobody is told.
        let _ = std::io::stderr().write_all(said.as_bytes());
    });
}

/// chromedriver and Chromium by their paths.
fn programs() -> Option<(String, PathBuf)> {
    let path = std::env::var_os("PATH")?;
    let find = |name: &str| {
        let mut folders = std::env::split_paths(&path).map(|folder| folder.join(name));
        folders.find(|file| file.is_file())
    };
    let driver = find("chromedriver")?;
    let browser = ["chromium", "chromium-browser", "google-chrome"]
        .into_iter()
        .find_map(find)?;
    Some((driver.to_str()?.to_owned(), browser))
}
