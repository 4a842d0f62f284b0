//! The rules about one file at a time. Each gives its findings.

use crate::source::{Source, item_end};

const FILE_LINES_MAX: usize = 500;
const FUNCTION_LINES_MAX: usize = 70;

/// May name HTTP statuses: answers to probes and operators are no part of the protocol.
const STATUS_FILES: &str = "src/admin";
/// May name statuses and codes: they are servers of their own, behind the gateway.
const SERVER_FILES: [&str; 2] = ["src/command/demo", "src/command/trial/server.rs"];

const VAGUE: [&str; 6] = [
    "Manager",
    "Handler",
    "Helper",
    "Util",
    "Context",
    "Processor",
];

fn finding(source: &Source, line: usize, what: &str) -> String {
    format!("{}:{line}: {what}", source.path)
}

/// HTTP statuses and JSON-RPC codes outside of the protocol.
pub(crate) fn wire_literals(source: &Source) -> Vec<String> {
    let is_server = SERVER_FILES
        .iter()
        .any(|file| source.path.starts_with(file));
    if source.path.starts_with("src/protocol") || is_server {
        return Vec::new();
    }
    let mut findings = Vec::new();
    for (line, code) in source.lines().filter(|(line, _)| !source.is_test(*line)) {
        if !source.path.starts_with(STATUS_FILES) && names_status(code) {
            findings.push(finding(source, line, "an HTTP status"));
        }
        if names_code(code) {
            findings.push(finding(source, line, "a JSON-RPC code"));
        }
    }
    findings
}

/// `StatusCode::X`, or a number between 100 and 599 that is given to or compared with a status.
fn names_status(code: &str) -> bool {
    let constant = code
        .match_indices("StatusCode::")
        .any(|(at, found)| code[at + found.len()..].starts_with(|c: char| c.is_ascii_uppercase()));
    let number = code.match_indices("status").any(|(at, found)| {
        let behind =
            code[at + found.len()..].trim_start_matches(|c: char| c.is_alphanumeric() || c == '_');
        // The type that a declaration states stands between the name and the value.
        let behind = match behind.strip_prefix(':') {
            Some(typed) => typed.split_once(" =").map_or(behind, |(_, value)| value),
            None => behind,
        };
        let value = behind.trim_start_matches(['(', ')', ' ', '=', ':', '<', '>', '!', '.']);
        value.len() < behind.len() && is_status(value)
    });
    constant || number || code.contains("from_u16(") && code.contains("StatusCode")
}

fn is_status(value: &str) -> bool {
    let digits: String = value
        .chars()
        .take_while(|c| c.is_ascii_digit() || *c == '_')
        .collect();
    let next = value[digits.len()..].chars().next();
    let is_other_number = next.is_some_and(|c| c.is_alphanumeric() && c != 'u');
    !is_other_number && digits.parse::<u16>().is_ok_and(|n| (100..600).contains(&n))
}

/// −32xxx, with or without the separator.
fn names_code(code: &str) -> bool {
    code.match_indices('-').any(|(at, _)| {
        let digits: String = code[at + 1..]
            .trim_start()
            .chars()
            .take_while(|c| c.is_ascii_digit() || *c == '_')
            .filter(char::is_ascii_digit)
            .collect();
        digits.len() == 5 && digits.starts_with("32")
    })
}

/// `unwrap` and `expect` where a peer could meet them.
pub(crate) fn panics(source: &Source) -> Vec<String> {
    if source.path == "src/main.rs" {
        return Vec::new();
    }
    let words = [
        ".unwrap()",
        ".expect(",
        ".unwrap_err()",
        ".expect_err(",
        "panic!(",
        "unreachable!(",
    ];
    source
        .lines()
        .filter(|(line, _)| !source.is_test(*line))
        .filter(|(_, code)| words.iter().any(|word| code.contains(word)))
        .map(|(line, code)| finding(source, line, code.trim()))
        .collect()
}

/// Functions of more than [`FUNCTION_LINES_MAX`] lines, their signature included.
pub(crate) fn long_functions(source: &Source) -> Vec<String> {
    let lines: Vec<&str> = source.code.lines().collect();
    let mut findings = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let Some(name) = function_name(line) else {
            continue;
        };
        let length = item_end(&lines, at) + 1 - at;
        if length > FUNCTION_LINES_MAX {
            findings.push(finding(
                source,
                at + 1,
                &format!("{name} has {length} lines"),
            ));
        }
    }
    findings
}

/// The name of a function that this line defines.
fn function_name(line: &str) -> Option<&str> {
    let mut words = line.split_whitespace();
    let named = words.any(|word| word == "fn").then(|| words.next())??;
    let end = named.find(['(', '<']).unwrap_or(named.len());
    // `fn(&T)` is a type.
    (end > 0).then_some(&named[..end])
}

/// A file of more than [`FILE_LINES_MAX`] lines.
pub(crate) fn long_file(source: &Source) -> Vec<String> {
    let length = source.text.lines().count();
    match length > FILE_LINES_MAX {
        true => vec![finding(source, length, "the file is too long")],
        false => Vec::new(),
    }
}

/// `mod.rs`.
pub(crate) fn module_file(source: &Source) -> Vec<String> {
    match source.path.ends_with("/mod.rs") {
        true => vec![finding(source, 1, "call it like its folder")],
        false => Vec::new(),
    }
}

/// What somebody meant to come back to, and tests that do not run.
pub(crate) fn left_for_later(source: &Source) -> Vec<String> {
    let words = [
        "TODO",
        "FIXME",
        "XXX",
        "todo!",
        "unimplemented!",
        "#[ignore",
    ];
    let numbered = source.text.lines().enumerate();
    numbered
        .filter_map(|(at, line)| {
            let word = words.iter().find(|word| line.contains(**word))?;
            Some(finding(source, at + 1, word))
        })
        .collect()
}

/// Types named for nothing in particular.
pub(crate) fn vague_types(source: &Source) -> Vec<String> {
    let kinds = ["struct", "enum", "trait", "type", "union"];
    let mut findings = Vec::new();
    for (line, code) in source.lines() {
        let mut words = code.split_whitespace();
        let Some(named) = words
            .any(|word| kinds.contains(&word))
            .then(|| words.next())
            .flatten()
        else {
            continue;
        };
        let name: String = named
            .chars()
            .take_while(|c| c.is_alphanumeric() || *c == '_')
            .collect();
        if VAGUE
            .iter()
            .any(|end| name.ends_with(end) || name.ends_with(&format!("{end}s")))
        {
            findings.push(finding(source, line, &name));
        }
    }
    findings
}

/// Functions called `get` something.
pub(crate) fn getters(source: &Source) -> Vec<String> {
    source
        .lines()
        .filter(|(_, code)| function_name(code).is_some_and(|name| name.starts_with("get_")))
        .map(|(line, code)| finding(source, line, code.trim()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How much a rule finds in this code.
    fn count(rule: fn(&Source) -> Vec<String>, path: &str, text: &str) -> usize {
        rule(&Source::new(path, text)).len()
    }

    #[test]
    fn wire_literals_are_found() {
        let gateway = "src/gateway/relay.rs";
        for text in [
            "let a = StatusCode::BAD_REQUEST;",
            "if response.status() == 404 {",
            "builder.status(502)",
            "StatusCode::from_u16(x)",
            "let status: u16 = 200;",
            "code(-32600)",
            "const C: i64 = -32_020;",
            "- 32700",
        ] {
            assert_eq!(count(wire_literals, gateway, text), 1, "{text}");
            assert_eq!(
                count(wire_literals, "src/protocol/refusal.rs", text),
                0,
                "{text}"
            );
            let test = format!("#[cfg(test)]\nmod tests {{\n{text}\n}}");
            assert_eq!(count(wire_literals, gateway, &test), 0, "{text}");
        }
        for text in [
            "// StatusCode::OK",
            "let code = \"-32600\";",
            "fn f(status: StatusCode) {}",
            "x - 32",
            "status.is_success()",
            "Duration::from_millis(500)",
            "status_max_bytes(1024)",
        ] {
            assert_eq!(count(wire_literals, gateway, text), 0, "{text}");
        }
        assert_eq!(
            count(wire_literals, "src/admin/status.rs", "StatusCode::OK"),
            0
        );
        assert_eq!(count(wire_literals, "src/admin.rs", "-32600"), 1);
        let server = "src/command/demo/server.rs";
        assert_eq!(count(wire_literals, server, "StatusCode::OK; -32600"), 0);
    }

    #[test]
    fn panics_are_found() {
        for text in [
            "a.unwrap()",
            "a\n    .expect(\"b\")",
            "panic!(\"x\")",
            "a.unwrap_err()",
        ] {
            assert_eq!(count(panics, "src/net/tls.rs", text), 1, "{text}");
            assert_eq!(count(panics, "src/main.rs", text), 0, "{text}");
            let test = format!("#[cfg(test)]\nmod tests {{\n{text}\n}}");
            assert_eq!(count(panics, "src/net/tls.rs", &test), 0, "{text}");
        }
        for text in ["// .unwrap()", "a.unwrap_or(b)", "let a = \".unwrap()\";"] {
            assert_eq!(count(panics, "src/net/tls.rs", text), 0, "{text}");
        }
    }

    #[test]
    fn long_functions_and_files_are_found() {
        let body = "    a();\n".repeat(69);
        let long = format!("impl A {{\npub(crate) async fn long<T>(a: T) {{\n{body}}}\n}}\n");
        assert_eq!(count(long_functions, "src/x.rs", &long), 1);
        let short = long.replacen("    a();\n", "", 1);
        assert_eq!(count(long_functions, "src/x.rs", &short), 0);
        let wide = format!(
            "fn wide(\n{})\nwhere\n    A: B,\n{{\n}}\n",
            "    a: u8,\n".repeat(68)
        );
        assert_eq!(count(long_functions, "src/x.rs", &wide), 1);
        let declared = format!(
            "trait A {{\n    fn f(&self);\n{}}}\n",
            "    // x\n".repeat(90)
        );
        assert_eq!(count(long_functions, "src/x.rs", &declared), 0);
        assert_eq!(count(long_file, "src/x.rs", &"\n".repeat(501)), 1);
        assert_eq!(count(long_file, "src/x.rs", &"\n".repeat(500)), 0);
        assert_eq!(count(module_file, "src/net/mod.rs", ""), 1);
        assert_eq!(count(module_file, "src/net.rs", ""), 0);
    }

    #[test]
    fn what_is_left_for_later_is_found() {
        for text in [
            "// TODO: more",
            "// FIXME",
            "todo!()",
            "unimplemented!()",
            "#[ignore = \"x\"]",
        ] {
            assert_eq!(count(left_for_later, "src/x.rs", text), 1, "{text}");
        }
        assert_eq!(count(left_for_later, "src/x.rs", "// done"), 0);
    }

    #[test]
    fn vague_names_are_found() {
        for text in [
            "pub struct SessionManager;",
            "enum Helper {",
            "pub(crate) trait RequestHandler: Send {",
            "type StringUtils = u8;",
            "struct RequestContext<'a> {",
            "struct Processor(u8);",
        ] {
            assert_eq!(count(vague_types, "src/x.rs", text), 1, "{text}");
        }
        for text in ["struct Exchange;", "let handler = 1;", "// struct Helper;"] {
            assert_eq!(count(vague_types, "src/x.rs", text), 0, "{text}");
        }
        assert_eq!(
            count(getters, "src/x.rs", "    pub fn get_name(&self) {}"),
            1
        );
        assert_eq!(
            count(getters, "src/x.rs", "fn get(&self) {}\nfn target_name() {}"),
            0
        );
    }
}
