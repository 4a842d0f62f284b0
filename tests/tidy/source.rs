//! A source file with its comments and strings blanked out, so that a rule reads code alone.

use std::fs;
use std::path::Path;

/// One Rust file.
pub(crate) struct Source {
    /// The path from the repository's root.
    pub(crate) path: String,
    /// The file as it is.
    pub(crate) text: String,
    /// The file with every comment, string and character blanked out, line by line as long as
    /// before.
    pub(crate) code: String,
    /// For each line, whether it is part of a `#[cfg(test)]` item.
    test_lines: Vec<bool>,
}

impl Source {
    pub(crate) fn new(path: &str, text: &str) -> Source {
        let code = blank(text);
        let test_lines = test_lines(&code);
        Source {
            path: path.to_owned(),
            text: text.to_owned(),
            code,
            test_lines,
        }
    }

    /// Lines of code with their numbers, counted from 1.
    pub(crate) fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.code
            .lines()
            .enumerate()
            .map(|(at, line)| (at + 1, line))
    }

    /// Whether this line is only compiled for tests.
    pub(crate) fn is_test(&self, line: usize) -> bool {
        let is_test_file = self.path.starts_with("tests/")
            || self.path.ends_with("/tests.rs")
            || self.path.contains("/tests/");
        is_test_file || self.test_lines.get(line - 1).copied().unwrap_or(false)
    }

    /// The names of the module that the file is, from the crate's root: `gateway`, `place`.
    pub(crate) fn module(&self) -> Vec<&str> {
        let path = self.path.strip_prefix("src/").unwrap_or(&self.path);
        let path = path.strip_suffix(".rs").unwrap_or(path);
        match path {
            "lib" => Vec::new(),
            _ => path.split('/').collect(),
        }
    }
}

/// All Rust files below `folder` that belong to the project.
pub(crate) fn read_all(root: &Path, folder: &str) -> Vec<Source> {
    let mut sources = Vec::new();
    let mut folders = vec![root.join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("a folder of the project") {
            let path = entry.expect("an entry").path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let is_theirs = name.starts_with('.') || name == "node_modules" || name == "target";
            if path.is_dir() && !is_theirs {
                folders.push(path);
            } else if name.ends_with(".rs") {
                let text = fs::read_to_string(&path).expect("a file of text");
                let shown = path.strip_prefix(root).expect("a path below the root");
                sources.push(Source::new(&shown.to_string_lossy(), &text));
            }
        }
    }
    sources.sort_by(|a, b| a.path.cmp(&b.path));
    sources
}

/// What the reader is in the middle of.
#[derive(Clone, Copy, PartialEq)]
enum State {
    Code,
    LineComment,
    /// Nested this deep.
    BlockComment(usize),
    Text,
    /// With this many hashes.
    RawText(usize),
}

fn blank(text: &str) -> String {
    let characters: Vec<char> = text.chars().collect();
    let mut code = String::with_capacity(text.len());
    let mut state = State::Code;
    let mut at = 0;
    while at < characters.len() {
        let rest = &characters[at..];
        let (next, taken) = step(state, rest);
        for character in &rest[..taken] {
            let is_code = state == State::Code && next == State::Code && !is_character(rest, taken);
            code.push(match character {
                '\n' => '\n',
                _ if is_code => *character,
                _ => ' ',
            });
        }
        state = next;
        at += taken;
    }
    code
}

/// What comes after the next few characters, and how many they are.
fn step(state: State, rest: &[char]) -> (State, usize) {
    let starts = |text: &str| {
        let mut expected = text.chars();
        let length = text.chars().count();
        rest.len() >= length
            && rest
                .iter()
                .take(length)
                .all(|c| Some(*c) == expected.next())
    };
    match state {
        State::Code if starts("//") => (State::LineComment, 2),
        State::Code if starts("/*") => (State::BlockComment(1), 2),
        State::Code if rest[0] == '"' => (State::Text, 1),
        State::Code => match (raw_hashes(rest), character_length(rest)) {
            (Some(hashes), _) => (State::RawText(hashes), hashes + 2),
            (None, Some(length)) => (State::Code, length),
            (None, None) => (State::Code, word_length(rest)),
        },
        State::LineComment if rest[0] == '\n' => (State::Code, 1),
        State::BlockComment(1) if starts("*/") => (State::Code, 2),
        State::BlockComment(depth) if starts("*/") => (State::BlockComment(depth - 1), 2),
        State::BlockComment(depth) if starts("/*") => (State::BlockComment(depth + 1), 2),
        State::Text if rest[0] == '\\' => (State::Text, 2.min(rest.len())),
        State::Text if rest[0] == '"' => (State::Code, 1),
        State::RawText(hashes) if rest[0] == '"' => {
            let closed = rest[1..].iter().take_while(|c| **c == '#').count() >= hashes;
            match closed {
                true => (State::Code, hashes + 1),
                false => (state, 1),
            }
        }
        _ => (state, 1),
    }
}

/// A word is taken whole, so that the `r` at its end begins no raw string.
fn word_length(rest: &[char]) -> usize {
    let word = rest
        .iter()
        .take_while(|c| c.is_alphanumeric() || **c == '_');
    word.count().max(1)
}

fn raw_hashes(rest: &[char]) -> Option<usize> {
    let hashes = rest.get(1..)?.iter().take_while(|c| **c == '#').count();
    (rest[0] == 'r' && rest.get(1 + hashes) == Some(&'"')).then_some(hashes)
}

/// The length of a character literal; a lifetime has none.
fn character_length(rest: &[char]) -> Option<usize> {
    if rest[0] != '\'' {
        return None;
    }
    match rest.get(1)? {
        '\\' => {
            let end = rest.iter().skip(3).position(|c| *c == '\'')?;
            Some(end + 4)
        }
        _ => (rest.get(2) == Some(&'\'')).then_some(3),
    }
}

fn is_character(rest: &[char], taken: usize) -> bool {
    character_length(rest) == Some(taken)
}

fn test_lines(code: &str) -> Vec<bool> {
    let lines: Vec<&str> = code.lines().collect();
    let mut marks = vec![false; lines.len()];
    let mut at = 0;
    while at < lines.len() {
        if lines[at].trim_start().starts_with("#[cfg(test)]") {
            let end = item_end(&lines, at + 1);
            marks[at..=end].fill(true);
            at = end;
        }
        at += 1;
    }
    marks
}

/// The last line of the item that begins at this line.
pub(crate) fn item_end(lines: &[&str], start: usize) -> usize {
    let mut depth = 0_usize;
    for (at, line) in lines.iter().enumerate().skip(start) {
        for character in line.chars() {
            match character {
                '{' => depth += 1,
                '}' => depth = depth.saturating_sub(1),
                _ => {}
            }
            if depth == 0 && matches!(character, '}' | ';') {
                return at;
            }
        }
    }
    lines.len().saturating_sub(1)
}

#[test]
fn comments_and_strings_are_blanked() {
    let text = "let a = \"x // y\"; // unwrap()\nlet b = r#\"\"{\"#; /* a /* b */ c */ d\n'{' 'a '\\'' \"\\\"}\" var\"x\"";
    let code = Source::new("src/x.rs", text).code;
    let lines: Vec<&str> = code.lines().map(str::trim_end).collect();
    assert!(
        lines[0].starts_with("let a =") && lines[0].ends_with(';'),
        "{code}"
    );
    assert!(
        !code.contains("unwrap") && !code.contains(['{', '}']),
        "{code}"
    );
    assert!(lines[1].ends_with('d') && !lines[1].contains('c'), "{code}");
    assert!(
        lines[2].contains("'a ") && lines[2].contains("var"),
        "{code}"
    );
    assert_eq!(code.lines().count(), 3);
}

#[test]
fn test_items_are_known() {
    let text = "fn a() {}\n#[cfg(test)]\nmod tests {\n    fn b() { if x { } }\n}\nfn c() {}\n#[cfg(test)]\nuse x;\nfn d() {}";
    let source = Source::new("src/x.rs", text);
    let marks: Vec<bool> = (1..=9).map(|line| source.is_test(line)).collect();
    assert_eq!(
        marks,
        [false, true, true, true, true, false, true, true, false]
    );
    assert_eq!(source.module(), ["x"]);
    assert_eq!(
        Source::new("src/gateway/place.rs", "").module(),
        ["gateway", "place"]
    );
}
