//! Imports form a star: stages share plain data and never know each other; only the pipeline
//! knows them all. Reads the paths in src/, test code included.

use std::{
    fs,
    path::{Path, PathBuf},
};

#[test]
fn no_import_leaves_the_star() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut bad = Vec::new();
    let mut files = 0;
    for path in rust_files(&src) {
        files += 1;
        let module = module_of(path.strip_prefix(&src).unwrap());
        let text = fs::read_to_string(&path).unwrap();
        bad.extend(forbidden(&module, &text).into_iter().map(|(line, arrow)| {
            format!("{}:{line}: {} → {arrow}", path.display(), module.join("::"))
        }));
    }
    assert!(files > 10, "only {files} files found");
    assert!(bad.is_empty(), "\n{}", bad.join("\n"));
}

#[test]
fn every_folder_has_its_place_in_the_star() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    for path in rust_files(&src) {
        let module = module_of(path.strip_prefix(&src).unwrap());
        let top = module.first().map_or("lib", String::as_str);
        assert!(
            allowed(top).is_some(),
            "src/{top} is new: say in this test what it may import"
        );
    }
}

#[test]
fn arrows_are_found_however_they_are_written() {
    let tcp = ["tcp".to_owned(), "flow".to_owned()];
    let arrows = |text: &str| -> Vec<String> {
        forbidden(&tcp, text)
            .into_iter()
            .map(|(_, to)| to)
            .collect()
    };
    assert_eq!(arrows("use crate::http::Head;"), ["http"]);
    assert_eq!(
        arrows("use crate::{model::x, http::{a, b}, sse};"),
        ["http", "sse"]
    );
    assert_eq!(
        arrows("use crate::{\n  model::{a, b},\n  mcp::c,\n};"),
        ["mcp"]
    );
    assert_eq!(arrows("fn f() -> crate::audit::Verdict {}"), ["audit"]);
    assert_eq!(arrows("use super::super::http;"), ["http"]);
    assert_eq!(
        arrows("#[cfg(test)] mod tests { use super::super::super::ip::x; }"),
        ["ip"]
    );
    assert_eq!(arrows("use forkscope::http;"), ["forkscope"]);
    assert_eq!(arrows("use crate::*;"), ["*"]);
    assert!(arrows("use crate::{model::a, limits::Limits, anomaly, error::Error};").is_empty());
    assert_eq!(
        arrows("macro_rules! m { () => { super::super::http } } use super::super::http;"),
        ["http"]
    );
    assert!(arrows("use crate::tcp::x; use super::reorder; use self::y;").is_empty());
    assert!(
        arrows("#[cfg(test)] mod tests { use super::*; use super::super::reorder; }").is_empty()
    );
    assert!(arrows("/// See [`crate::http`].\n// crate::http\n/* crate::sse */").is_empty());
    assert!(
        arrows(
            "const A: &str = \"crate::http\"; let c = '\"'; let l: &'a str = r#\"crate::sse\"#;"
        )
        .is_empty()
    );
}

/// What a top-level module may import beside itself; `None` for one that has no place.
fn allowed(top: &str) -> Option<&'static [&'static str]> {
    Some(match top {
        "model" => &["anomaly"],
        "anomaly" | "limits" | "error" => &["model"],
        "input" | "link" | "ip" | "tcp" | "tls" | "http" | "sse" | "mcp" | "audit" | "finding"
        | "redact" | "facts" => &["model", "limits", "anomaly", "error"],
        // Reports print what findings mean.
        "report" => &["model", "limits", "anomaly", "error", "finding"],
        "pipeline" => &[
            "model", "limits", "anomaly", "error", "input", "link", "ip", "tcp", "tls", "http",
            "sse", "mcp", "audit", "finding", "redact", "report", "facts",
        ],
        // The root re-exports.
        "lib" => &["*"],
        // The binary sees the library as anyone does.
        "main" | "cli" => &["cli", "forkscope"],
        _ => return None,
    })
}

/// Imports of `module` that the star forbids, with their lines.
fn forbidden(module: &[String], text: &str) -> Vec<(usize, String)> {
    let top = module.first().map_or("lib", String::as_str);
    let may = allowed(top).unwrap_or(&[]);
    imports(module, text)
        .into_iter()
        .filter(|(_, to)| {
            to != top && !may.contains(&to.as_str()) && !(may == ["*"] && to != "forkscope")
        })
        .collect()
}

/// The top-level modules that a file names, by `crate::`, by `super::` or by the crate's name.
fn imports(module: &[String], text: &str) -> Vec<(usize, String)> {
    let tokens = tokens(text);
    let word = |i: usize| tokens.get(i).map_or("", |(_, t)| t.as_str());
    let mut found = Vec::new();
    // For each open brace, whether it is an inline module's.
    let mut braces: Vec<bool> = Vec::new();
    // Depth of braces at which a macro's rules began: `super` in them means another place.
    let mut rules: Option<usize> = None;
    let mut i = 0;
    while i < tokens.len() {
        let (line, token) = &tokens[i];
        match token.as_str() {
            "macro_rules" => rules = rules.or(Some(braces.len())),
            "{" => braces.push(i >= 2 && word(i - 2) == "mod"),
            "}" => {
                braces.pop();
                if rules == Some(braces.len()) {
                    rules = None;
                }
            }
            "crate" if word(i + 1) == "::" => {
                tops(&tokens, i + 2, &mut found);
            }
            "forkscope" if word(i + 1) == "::" => found.push((*line, "forkscope".to_owned())),
            "super" if rules.is_none() && (i == 0 || word(i - 1) != "::") => {
                let mut ups = 1;
                let mut next = i + 1;
                while word(next) == "::" && word(next + 1) == "super" {
                    ups += 1;
                    next += 2;
                }
                let depth = module.len() + braces.iter().filter(|inline| **inline).count();
                if ups >= depth && word(next) == "::" {
                    tops(&tokens, next + 1, &mut found);
                }
                i = next - 1;
            }
            _ => {}
        }
        i += 1;
    }
    found
}

/// The first names of a use tree that starts at `at`.
fn tops(tokens: &[(usize, String)], at: usize, found: &mut Vec<(usize, String)>) {
    let Some((line, first)) = tokens.get(at) else {
        return;
    };
    if first != "{" {
        found.push((*line, first.clone()));
        return;
    }
    let mut depth = 0;
    let mut fresh = true;
    for (line, token) in &tokens[at..] {
        match token.as_str() {
            "{" => depth += 1,
            "}" => {
                depth -= 1;
                if depth == 0 {
                    return;
                }
            }
            "," if depth == 1 => fresh = true,
            name if depth == 1 && fresh => {
                fresh = false;
                found.push((*line, name.to_owned()));
            }
            _ => {}
        }
    }
}

/// Names and punctuation with their lines; comments, strings and characters left out.
fn tokens(text: &str) -> Vec<(usize, String)> {
    let chars: Vec<char> = text.chars().collect();
    let at = |i: usize| chars.get(i).copied().unwrap_or('\0');
    let name = |c: char| c.is_alphanumeric() || c == '_';
    let mut out = Vec::new();
    let (mut i, mut line) = (0, 1);
    while i < chars.len() {
        let start = i;
        let c = at(i);
        if c == '/' && at(i + 1) == '/' {
            while i < chars.len() && at(i) != '\n' {
                i += 1;
            }
        } else if c == '/' && at(i + 1) == '*' {
            let mut depth = 0;
            while i < chars.len() {
                match (at(i), at(i + 1)) {
                    ('/', '*') => (depth, i) = (depth + 1, i + 2),
                    ('*', '/') => (depth, i) = (depth - 1, i + 2),
                    _ => i += 1,
                }
                if depth == 0 {
                    break;
                }
            }
        } else if c == 'r'
            && (at(i + 1) == '"' || (at(i + 1) == '#' && matches!(at(i + 2), '"' | '#')))
        {
            let hashes = chars[i + 1..].iter().take_while(|c| **c == '#').count();
            i += hashes + 2;
            while i < chars.len() {
                let closes = at(i) == '"'
                    && chars[i + 1..].iter().take_while(|c| **c == '#').count() >= hashes;
                i += 1;
                if closes {
                    i += hashes;
                    break;
                }
            }
        } else if c == '"' {
            i += 1;
            while i < chars.len() && at(i) != '"' {
                i += if at(i) == '\\' { 2 } else { 1 };
            }
            i += 1;
        } else if c == '\'' {
            // A character literal, or the quote of a lifetime.
            if at(i + 1) == '\\' {
                i += 3;
                while i < chars.len() && at(i) != '\'' {
                    i += 1;
                }
                i += 1;
            } else if at(i + 2) == '\'' {
                i += 3;
            } else {
                i += 1;
            }
        } else if name(c) {
            while name(at(i)) {
                i += 1;
            }
            out.push((line, chars[start..i].iter().collect()));
        } else if c == ':' && at(i + 1) == ':' {
            out.push((line, "::".to_owned()));
            i += 2;
        } else {
            if !c.is_whitespace() {
                out.push((line, c.to_string()));
            }
            i += 1;
        }
        line += chars[start..i.min(chars.len())]
            .iter()
            .filter(|c| **c == '\n')
            .count();
    }
    out
}

/// `tcp/flow.rs` → `tcp::flow`, `tcp/mod.rs` → `tcp`.
fn module_of(path: &Path) -> Vec<String> {
    let mut module: Vec<String> = path
        .with_extension("")
        .components()
        .map(|c| c.as_os_str().to_string_lossy().into_owned())
        .collect();
    if module.last().is_some_and(|last| last == "mod") {
        module.pop();
    }
    module
}

fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let mut out = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            out.extend(rust_files(&path));
        } else if path.extension().is_some_and(|e| e == "rs") {
            out.push(path);
        }
    }
    out.sort();
    out
}
