//! What is wrong with a policy: where, why, and how to mend it.
//!
//! A finding names a place in a file, or nothing but a flag of the command line. All findings of
//! a load are collected and told at once, because a policy is mended in an editor and not in a
//! dialogue.

use std::fmt::{self, Write as _};
use std::path::PathBuf;
use std::sync::Arc;

/// Most findings that are written out; a broken generator can make thousands of the same kind.
const WRITTEN_MAX: usize = 100;
/// Most characters of a source line, or of a value found, that are written out.
const EXCERPT_CHARS_MAX: usize = 120;
/// Most characters of a value that a cause repeats.
const VALUE_CHARS_MAX: usize = 60;

/// The text of one policy file, kept so that a finding can show the line it speaks of.
#[derive(Debug)]
pub struct Source {
    /// The name as the user gave it, or as the directory listed it.
    pub name: String,
    /// The same as a path, against which `{file: …}` is resolved.
    pub path: PathBuf,
    /// Its rank among the files that were loaded; findings are sorted by it.
    pub order: usize,
    /// The whole text, without a byte order mark.
    pub text: String,
}

impl Source {
    /// The lines as YAML counts them: each of `\n`, `\r\n` and a lone `\r` ends one.
    pub(crate) fn lines(&self) -> impl Iterator<Item = &str> {
        let mut rest = Some(self.text.as_str());
        std::iter::from_fn(move || {
            let text = rest?;
            let Some(end) = text.find(['\n', '\r']) else {
                rest = None;
                return Some(text);
            };
            let after = if text[end..].starts_with("\r\n") {
                2
            } else {
                1
            };
            rest = Some(&text[end + after..]);
            Some(&text[..end])
        })
    }
}

/// A stretch of one line in a file.
#[derive(Clone, Debug)]
pub struct Place {
    /// The file.
    pub source: Arc<Source>,
    /// The line, counted from 1.
    pub line: usize,
    /// The column, counted from 1 in characters, as editors do.
    pub column: usize,
    /// How many characters the caret underlines; at least one is.
    pub width: usize,
    /// Whether what follows on the line is left out of the excerpt: the value of a key that we do
    /// not know may be a secret.
    pub ends_here: bool,
}

impl Place {
    /// The first character of a file, for what is wrong with the file as a whole.
    #[must_use]
    pub fn start_of(source: &Arc<Source>) -> Place {
        Place {
            source: Arc::clone(source),
            line: 1,
            column: 1,
            width: 1,
            ends_here: false,
        }
    }

    /// The same place, with an excerpt that ends where it ends.
    #[must_use]
    pub fn alone(&self) -> Place {
        Place {
            ends_here: true,
            ..self.clone()
        }
    }

    /// The line with a caret below the place, if the file has that line. It ends where a credential may
    /// begin.
    fn excerpt(&self) -> Option<(String, String)> {
        let line = self.source.lines().nth(self.line.checked_sub(1)?)?;
        let shown = line.get(..secret_at(line).unwrap_or(line.len()))?;
        let before: Vec<char> = shown.chars().take(self.column - 1).collect();
        let rest: Vec<char> = shown.chars().skip(self.column - 1).collect();
        if rest.is_empty() && shown.len() < line.len() {
            return Some((HIDDEN.to_owned(), String::new()));
        }
        // The parser counts the blanks behind a quoted value as part of it.
        let underlined = &rest[..self.width.min(rest.len())];
        let blanks = underlined
            .iter()
            .rev()
            .take_while(|c| c.is_whitespace())
            .count();
        let width = (underlined.len() - blanks).max(1);
        let kept = if self.ends_here { width } else { rest.len() };
        // A long line is cut on both sides, so that the caret stays in sight.
        let left = if before.len() + kept > EXCERPT_CHARS_MAX {
            before.len().saturating_sub(EXCERPT_CHARS_MAX / 2)
        } else {
            0
        };
        let room = EXCERPT_CHARS_MAX - (before.len() - left);
        let right = kept.min(room).min(rest.len());
        let mut text = String::new();
        let mut caret = String::new();
        if left > 0 {
            text.push_str("… ");
            caret.push_str("  ");
        }
        for c in &before[left..] {
            text.push(printable(*c));
            // A tab is as wide below the line as in it.
            caret.push(if *c == '\t' { '\t' } else { ' ' });
        }
        text.extend(rest[..right].iter().map(|c| printable(*c)));
        caret.extend(std::iter::repeat_n('^', width.min(right.max(1))));
        if right < rest.len() || shown.len() < line.len() {
            text.push_str(" …");
        }
        Some((text, caret))
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.source.name, self.line, self.column)
    }
}

/// What stands for a line of which nothing is shown.
const HIDDEN: &str = "(not shown, it may hold a credential)";

/// Whether a text is never repeated: a URL's user part or query may hold a credential.
fn may_hold_secret(text: &str) -> bool {
    url_secret_at(text).is_some()
}

/// The byte of a line from which on nothing of it is repeated, because a credential may begin there.
/// How far it goes is not asked: where the text is broken, there is no telling.
fn secret_at(line: &str) -> Option<usize> {
    [url_secret_at(line), keyed_secret_at(line)]
        .into_iter()
        .flatten()
        .min()
}

/// Where the user part or the query of a URL begins, in a text that may be broken.
fn url_secret_at(text: &str) -> Option<usize> {
    let authority = |text: &str| text.find("://").map(|at| at + "://".len());
    let user = text
        .find('@')
        .map(|at| authority(&text[..at]).unwrap_or_default());
    let query = authority(text).and_then(|at| text[at..].find('?').map(|query| at + query));
    [user, query].into_iter().flatten().min()
}

/// Where the value of a key begins whose name says that it is a credential. No key of a policy takes
/// one as it is, so it is a slip, and a slip must not end up in the log of a build.
fn keyed_secret_at(line: &str) -> Option<usize> {
    const WORDS: [&str; 19] = [
        "secret",
        "token",
        "passw",
        "passphrase",
        "pass-word",
        "pass_word",
        "pwd",
        "credential",
        "api_key",
        "api-key",
        "apikey",
        "access_key",
        "accesskey",
        "private_key",
        "authorization",
        "bearer",
        "basic",
        "cookie",
        "jwt",
    ];
    let lower = line.to_ascii_lowercase();
    let is_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-');
    let mut from = 0;
    while let Some(at) = WORDS
        .iter()
        .filter_map(|word| lower[from..].find(word))
        .min()
    {
        let behind = lower[from + at..].trim_start_matches(is_name);
        let value = behind.trim_start_matches(['"', '\'', ':', '=', ' ', '\t']);
        from = lower.len() - value.len();
        // Whoever leaves the colon out means a value all the same.
        let separated = behind.len() > value.len();
        if separated && !is_harmless(value) {
            return Some(from);
        }
    }
    None
}

/// Whether what follows a key, in lower case, is no value, or a switch.
fn is_harmless(value: &str) -> bool {
    let end = value.find([',', '}', ']', ' ', '\t']);
    let first = &value[..end.unwrap_or(value.len())];
    matches!(first, "" | "true" | "false") || value.starts_with('#')
}

/// The character, or a visible stand-in for one that would steer a terminal.
fn printable(c: char) -> char {
    if c.is_control() && c != '\t' {
        '\u{fffd}'
    } else {
        c
    }
}

/// A value as a cause may repeat it: between backticks, cut where it is long, harmless to a
/// terminal, and not at all where it may hold a secret.
#[must_use]
pub fn shown(text: &str) -> String {
    if may_hold_secret(text) {
        return "the value (not shown, it may hold a credential)".to_owned();
    }
    let mut out = String::from("`");
    out.extend(text.chars().take(VALUE_CHARS_MAX).map(|c| match c {
        '\t' => ' ',
        c => printable(c),
    }));
    if text.chars().nth(VALUE_CHARS_MAX).is_some() {
        out.push('…');
    }
    out.push('`');
    out
}

/// What is wrong with a value, before it is known where the value stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flaw {
    /// What is wrong.
    pub cause: String,
    /// How to mend it.
    pub hint: String,
}

impl Flaw {
    /// A flaw with its cause and a hint how to mend it.
    pub fn new(cause: impl Into<String>, hint: impl Into<String>) -> Flaw {
        Flaw {
            cause: cause.into(),
            hint: hint.into(),
        }
    }

    /// The flaw of a value: `cause` goes on behind the value, as it may be repeated.
    pub fn of(value: &str, cause: &str, hint: impl Into<String>) -> Flaw {
        Flaw::new(format!("{} {cause}", shown(value)), hint)
    }
}

impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {}", self.cause, self.hint)
    }
}

impl std::error::Error for Flaw {}

/// Where a finding belongs.
#[derive(Clone, Debug)]
pub enum Origin {
    /// A place in a policy file.
    File(Place),
    /// A path or a flag of the command line.
    Argument(String),
}

impl Origin {
    /// Arguments come before files, files in the order in which they were read.
    pub(crate) fn rank(&self) -> Option<(usize, usize, usize)> {
        match self {
            Origin::Argument(_) => None,
            Origin::File(place) => Some((place.source.order, place.line, place.column)),
        }
    }
}

impl From<&Place> for Origin {
    fn from(place: &Place) -> Origin {
        Origin::File(place.clone())
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::File(place) => place.fmt(f),
            Origin::Argument(name) => f.write_str(name),
        }
    }
}

/// One error or one warning.
#[derive(Clone, Debug)]
pub struct Finding {
    /// Where.
    pub origin: Origin,
    /// What is wrong.
    pub cause: String,
    /// How to mend it.
    pub hint: String,
}

impl Finding {
    /// A finding with its flaw.
    #[must_use]
    pub fn new(origin: impl Into<Origin>, flaw: Flaw) -> Finding {
        Finding {
            origin: origin.into(),
            cause: flaw.cause,
            hint: flaw.hint,
        }
    }

    /// A finding about a path or flag of the command line.
    #[must_use]
    pub fn argument(name: impl Into<String>, flaw: Flaw) -> Finding {
        Finding::new(Origin::Argument(name.into()), flaw)
    }

    /// Writes `place: cause`, the line with a caret, and the hint.
    fn write(&self, out: &mut String, paint: Paint, tone: &str, label: &str) -> fmt::Result {
        let Paint { bold, plain, .. } = paint;
        writeln!(
            out,
            "{bold}{}:{plain} {tone}{label}{plain}{}",
            self.origin, self.cause
        )?;
        if let Origin::File(place) = &self.origin
            && let Some((line, caret)) = place.excerpt()
        {
            let number = place.line.to_string();
            let gap = " ".repeat(number.len());
            writeln!(out, "  {number} | {line}")?;
            if !caret.is_empty() {
                writeln!(out, "  {gap} | {tone}{caret}{plain}")?;
            }
        }
        writeln!(out, "  hint: {}", self.hint)
    }
}

/// Sorts by file and position, keeping the order of findings at the same place.
pub(crate) fn sort(findings: &mut [Finding]) {
    findings.sort_by_key(|finding| finding.origin.rank());
}

/// The escape sequences of a terminal, or nothing where the output is none.
#[derive(Clone, Copy)]
pub(crate) struct Paint {
    pub(crate) bold: &'static str,
    pub(crate) red: &'static str,
    pub(crate) green: &'static str,
    pub(crate) yellow: &'static str,
    pub(crate) plain: &'static str,
}

impl Paint {
    /// Colour where `colour` says so.
    pub(crate) fn new(colour: bool) -> Paint {
        if colour {
            Paint {
                bold: "\x1b[1m",
                red: "\x1b[31m",
                green: "\x1b[32m",
                yellow: "\x1b[33m",
                plain: "\x1b[0m",
            }
        } else {
            Paint {
                bold: "",
                red: "",
                green: "",
                yellow: "",
                plain: "",
            }
        }
    }
}

/// Everything that keeps a policy from being loaded; never empty.
#[derive(Clone, Debug)]
pub struct Errors(Vec<Finding>);

impl Errors {
    /// These findings in order, or `Ok` if there are none.
    pub(crate) fn none_in(mut findings: Vec<Finding>) -> Result<(), Errors> {
        if findings.is_empty() {
            return Ok(());
        }
        sort(&mut findings);
        Err(Errors(findings))
    }

    /// The findings of all of these, in order.
    pub(crate) fn joined(mut self, others: impl IntoIterator<Item = Errors>) -> Errors {
        self.0
            .extend(others.into_iter().flat_map(|errors| errors.0));
        sort(&mut self.0);
        self
    }

    /// The findings, sorted by file and position.
    #[must_use]
    pub fn findings(&self) -> &[Finding] {
        &self.0
    }

    /// All of them as text, with colour for a terminal if wished, and their number at the end.
    #[must_use]
    pub fn render(&self, colour: bool) -> String {
        let paint = Paint::new(colour);
        let mut out = render(&self.0, paint, paint.red, "");
        let plural = if self.0.len() == 1 { "" } else { "s" };
        // Writing to a string does not fail.
        let _ = writeln!(out, "{} error{plural}: no policy was loaded", self.0.len());
        out
    }
}

impl From<Finding> for Errors {
    fn from(finding: Finding) -> Errors {
        Errors(vec![finding])
    }
}

impl fmt::Display for Errors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render(false))
    }
}

impl std::error::Error for Errors {}

/// Warnings as text, with colour for a terminal if wished.
#[must_use]
pub fn render_warnings(warnings: &[Finding], colour: bool) -> String {
    let paint = Paint::new(colour);
    render(warnings, paint, paint.yellow, "warning: ")
}

/// The first of the findings as text, and how many more there are.
fn render(findings: &[Finding], paint: Paint, tone: &str, label: &str) -> String {
    let mut out = String::new();
    for finding in findings.iter().take(WRITTEN_MAX) {
        // Writing to a string does not fail.
        let _ = finding.write(&mut out, paint, tone, label);
    }
    let more = findings.len().saturating_sub(WRITTEN_MAX);
    if more > 0 {
        let _ = writeln!(out, "and {more} more");
    }
    out
}
