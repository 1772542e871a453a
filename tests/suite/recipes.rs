//! The recipes of docs/recipes.md, run as they stand; what they print is what stands there. `BLESS=1`
//! rewrites it.
//!
//! They need Python 3 with duckdb and pandas, and sqlite3. Where one is not there its recipes are skipped, unless
//! `FORKSCOPE_RECIPES=required`; `FORKSCOPE_PYTHON` names another interpreter.

use forkscope::report::table::{
    Events, Exchanges, Findings, Incidents, Inputs, Resumes, Segments, Servers, Sessions, Shares,
    Table, Timers,
};
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::{self, Write},
    path::Path,
    process::{Command, Stdio},
};

/// A fenced block: its language with what else stands beside it, and its text.
struct Block<'a> {
    info: &'a str,
    text: &'a str,
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn page() -> String {
    fs::read_to_string(root().join("docs/recipes.md")).unwrap()
}

fn blocks(page: &str) -> Vec<Block<'_>> {
    let mut blocks = Vec::new();
    let mut rest = page;
    while let Some((_, behind)) = rest.split_once("\n```") {
        let (info, behind) = behind.split_once('\n').unwrap();
        let end = if behind.starts_with("```") {
            0
        } else {
            behind.find("\n```").unwrap() + 1
        };
        blocks.push(Block {
            info,
            text: &behind[..end],
        });
        rest = &behind[end + 3..];
    }
    blocks
}

/// What runs recipes of a kind; `None` where it is not installed.
fn runner(info: &str) -> Option<Command> {
    let python = std::env::var("FORKSCOPE_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let (mut command, present) = match info {
        "sql sqlite" => {
            let mut command = Command::new("sqlite3");
            command.args(["-batch", "-bail"]);
            (command, vec!["sqlite3", "--version"])
        }
        "sql duckdb" => {
            let mut command = Command::new(&python);
            command.args(["-c", DUCKDB]);
            (command, vec![python.as_str(), "-c", "import duckdb"])
        }
        "python pandas" => {
            let mut command = Command::new(&python);
            command.arg("-");
            (command, vec![python.as_str(), "-c", "import pandas"])
        }
        _ => panic!("nothing runs ```{info}"),
    };
    let probe = Command::new(present[0]).args(&present[1..]).output();
    let there = probe.is_ok_and(|output| output.status.success());
    if there {
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        return Some(command);
    }
    assert!(
        std::env::var("FORKSCOPE_RECIPES").as_deref() != Ok("required"),
        "{} fails, and FORKSCOPE_RECIPES=required",
        present.join(" ")
    );
    let _ = writeln!(
        io::stderr(),
        "skipped: recipes in ```{info} ({} fails)",
        present.join(" ")
    );
    None
}

/// Prints the last result as CSV, as `duckdb -csv` does.
const DUCKDB: &str = r#"
import csv, sys, duckdb
done = duckdb.connect().execute(sys.stdin.read())
rows = csv.writer(sys.stdout, lineterminator="\n")
rows.writerow(column[0] for column in done.description)
rows.writerows(done.fetchall())
"#;

fn run(mut command: Command, folder: &Path, text: &str) -> String {
    let mut child = command.current_dir(folder).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(text.as_bytes()).unwrap();
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}\n{said}");
    String::from_utf8(output.stdout).unwrap().replace('\r', "")
}

/// The reports that the page begins with, and the facts.
fn make(line: &str, folder: &Path) {
    let mut words = line.split_whitespace();
    assert_eq!(words.next(), Some("forkscope"));
    let arguments = words.map(|word| match word {
        "report" | "facts" => folder.join(word).into_os_string(),
        word => word.into(),
    });
    let output = Command::new(env!("CARGO_BIN_EXE_forkscope"))
        .args(arguments)
        .current_dir(root())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code().is_some_and(|code| code < 2), "{said}");
}

#[test]
fn recipes_print_what_the_page_shows() {
    let page = page();
    let blocks = blocks(&page);
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(blocks[0].info, "sh audit");
    for block in &blocks {
        if ["sh audit", "sh extract"].contains(&block.info) {
            make(block.text, folder.path());
        }
    }
    let mut bad = Vec::new();
    let mut blessed = page.clone();
    let mut recipes = 0;
    for pair in blocks[1..].windows(2) {
        let [recipe, shown] = pair else { continue };
        if shown.info != "text" {
            continue;
        }
        recipes += 1;
        let Some(command) = runner(recipe.info) else {
            continue;
        };
        let printed = run(command, folder.path(), recipe.text);
        assert!(printed.lines().count() > 1, "nothing: {}", recipe.text);
        if printed != shown.text {
            let fence = format!("{}```\n\n```text\n", recipe.text);
            let new = format!("{fence}{printed}");
            blessed = blessed.replacen(&format!("{fence}{}", shown.text), &new, 1);
            bad.push(format!("{}\nprints\n{printed}", recipe.text));
        }
    }
    assert!(recipes > 8, "only {recipes} recipes");
    if std::env::var_os("BLESS").is_some() {
        fs::write(root().join("docs/recipes.md"), blessed).unwrap();
    } else {
        assert!(
            bad.is_empty(),
            "run this test with BLESS=1 and look at the changes\n{}",
            bad.join("\n")
        );
    }
}

/// Every block of the page is run, printed by one, or looked at here.
#[test]
fn no_block_of_the_page_is_left_out() {
    let page = page();
    let gauges = fixture_gauges();
    let mut before = "";
    for Block { info, text } in blocks(&page) {
        match info {
            "sh audit" => assert_eq!(before, ""),
            "sh extract" => assert!(text.contains(" -o facts ")),
            "sql duckdb" | "sql sqlite" | "python pandas" => {}
            "text" => assert!(
                ["sql duckdb", "sql sqlite", "python pandas"].contains(&before),
                "{text}"
            ),
            // Rules name gauges that there are.
            "yaml prometheus" => {
                let mut named = 0;
                for line in text.lines().filter(|line| line.contains("expr:")) {
                    for word in line.split(|c: char| !c.is_ascii_alphanumeric() && c != '_') {
                        if word.starts_with("forkscope_") {
                            assert!(gauges.contains(word), "{word}");
                            named += 1;
                        }
                    }
                }
                assert!(named > 5);
            }
            _ => panic!("what to do with ```{info}?"),
        }
        before = info;
    }
}

/// The names of the gauges of a run.
fn fixture_gauges() -> BTreeSet<String> {
    let output = Command::new(env!("CARGO_BIN_EXE_forkscope"))
        .args(["audit", "-q", "--format", "prometheus"])
        .arg("fixtures/real/ts06_haproxy_int.pcap")
        .current_dir(root())
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let heads = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    heads
        .map(|head| head.split_once(' ').unwrap().0.to_owned())
        .collect()
}

fn columns() -> BTreeMap<String, BTreeSet<&'static str>> {
    fn of<T: Table>() -> (String, BTreeSet<&'static str>) {
        let names = T::COLUMNS.iter().map(|column| column.name);
        (format!("{}.csv", T::NAME), names.collect())
    }
    [
        of::<Resumes>(),
        of::<Findings>(),
        of::<Sessions>(),
        of::<Segments>(),
        of::<Incidents>(),
        of::<Timers>(),
        of::<Shares>(),
        of::<Servers>(),
        of::<Inputs>(),
        of::<Events>(),
        of::<Exchanges>(),
    ]
    .into()
}

#[test]
fn the_dashboard_names_files_and_columns_that_there_are() {
    let text = fs::read_to_string(root().join("docs/grafana/forkscope.json")).unwrap();
    let dashboard: Value = serde_json::from_str(&text).unwrap();
    let variables: BTreeSet<&str> = dashboard["templating"]["list"]
        .as_array()
        .unwrap()
        .iter()
        .map(|variable| variable["name"].as_str().unwrap())
        .collect();
    assert_eq!(variables, BTreeSet::from(["datasource", "reports"]));
    let columns = columns();
    let mut ids = BTreeSet::new();
    let mut cells = BTreeSet::new();
    let mut titles = BTreeSet::new();
    for panel in dashboard["panels"].as_array().unwrap() {
        let title = panel["title"].as_str().unwrap();
        assert!(titles.insert(title), "{title} twice");
        assert!(
            ids.insert(panel["id"].as_u64().unwrap()),
            "{title}: id twice"
        );
        assert!(
            !panel["description"].as_str().unwrap().is_empty(),
            "{title}"
        );
        let grid = |key: &str| panel["gridPos"][key].as_u64().unwrap();
        assert!(grid("x") + grid("w") <= 24, "{title} is too wide");
        for x in grid("x")..grid("x") + grid("w") {
            for y in grid("y")..grid("y") + grid("h") {
                assert!(cells.insert((x, y)), "{title} lies on another panel");
            }
        }
        let mut known = BTreeSet::new();
        let targets = panel["targets"].as_array().unwrap();
        assert!(!targets.is_empty(), "{title}");
        for target in targets {
            for (key, value) in [("type", "csv"), ("source", "url"), ("parser", "backend")] {
                assert_eq!(target[key], value, "{title}");
            }
            let uid = target["datasource"]["uid"].as_str().unwrap();
            assert_eq!(uid, "${datasource}", "{title}");
            let url = target["url"].as_str().unwrap();
            let file = url.strip_prefix("${reports}/").unwrap();
            let of_file = columns
                .get(file)
                .unwrap_or_else(|| panic!("{title}: {file}"));
            for column in target["columns"].as_array().unwrap() {
                let name = column["selector"].as_str().unwrap();
                assert!(of_file.contains(name), "{title}: no {name} in {file}");
                assert_eq!(column["text"], name, "{title}");
                let time = name == "time" || name.ends_with("_time");
                assert_eq!(column["type"] == "timestamp", time, "{title}: {name}");
                known.insert(name.to_owned());
            }
        }
        for field in fields(&panel["transformations"]) {
            let column = field.split(" (").next().unwrap();
            assert!(known.contains(column), "{title}: {field} is not queried");
        }
        for key in ["xField", "fields"] {
            let field = panel["options"]
                .get(key)
                .or_else(|| panel["options"]["reduceOptions"].get(key));
            if let Some(field) = field {
                assert!(known.contains(field.as_str().unwrap()), "{title}: {field}");
            }
        }
    }
    for title in [
        "Resumes by verdict",
        "Gap against verdict",
        "Incidents",
        "Findings",
    ] {
        assert!(titles.contains(title), "{title}");
    }
}

/// The fields that transformations name.
fn fields(transformations: &Value) -> Vec<String> {
    let mut named = Vec::new();
    for transformation in transformations.as_array().unwrap() {
        let options = &transformation["options"];
        match transformation["id"].as_str().unwrap() {
            "groupBy" => named.extend(options["fields"].as_object().unwrap().keys().cloned()),
            "partitionByValues" => {
                let fields = options["fields"].as_array().unwrap().iter();
                named.extend(fields.map(|field| field.as_str().unwrap().to_owned()));
            }
            "sortBy" => named.push(options["sort"][0]["field"].as_str().unwrap().to_owned()),
            "formatTime" => named.push(options["timeField"].as_str().unwrap().to_owned()),
            "groupingToMatrix" => {
                for key in ["rowField", "columnField", "valueField"] {
                    named.push(options[key].as_str().unwrap().to_owned());
                }
            }
            other => panic!("{other}: what does it name?"),
        }
    }
    named
}
