//! YAML text → a tree in which every node knows its place.
//!
//! The tree is built from the parser's events and not by its loader, because a policy must be read
//! one way only: aliases and anchors (which can also grow without bound), tags, repeated keys, keys
//! that are not text and further documents are refused, each with its place, and the rest of the
//! file is still read, so that all of them are told at once.

use std::path::PathBuf;
use std::sync::Arc;

use saphyr_parser::{Event, Parser, ScalarStyle, ScanError, Span};

use crate::policy::finding::{Finding, Flaw, Place, Source, shown};

/// Deepest nesting; no policy needs a third of it.
const DEPTH_MAX: usize = 32;
/// Most elements of one list or mapping; looking for repeated keys costs their square.
const ELEMENTS_MAX: usize = 10_000;

/// A value and where it stands.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) place: Place,
    pub(super) data: Data,
}

/// What a node is.
#[derive(Debug)]
pub(super) enum Data {
    /// Text, a number, a word: YAML's own types are not asked, the key decides what it takes.
    Scalar(Scalar),
    /// `[a, b]` or lines with dashes.
    List(Vec<Node>),
    /// Keys and their values, in the order of the file and each key once.
    Mapping(Vec<(Word, Node)>),
    /// Already reported; whoever reads it says nothing more.
    Refused,
    /// Nobody wrote it: whoever would read it tells what it takes.
    Asked,
}

/// The text of a scalar.
#[derive(Debug)]
pub(super) struct Scalar {
    pub(super) text: String,
    /// Written without quotes, so that other readers may take it for something else than text.
    pub(super) plain: bool,
}

/// A key.
#[derive(Clone, Debug)]
pub(super) struct Word {
    pub(super) text: String,
    pub(super) place: Place,
    pub(super) plain: bool,
}

impl Node {
    /// What nobody wrote.
    pub(super) fn asked() -> Node {
        let source = Source {
            name: String::new(),
            path: PathBuf::new(),
            order: 0,
            text: String::new(),
        };
        Node {
            place: Place::start_of(&Arc::new(source)),
            data: Data::Asked,
        }
    }

    /// The value of `key`, if this is a mapping that has it.
    pub(super) fn find(&self, key: &str) -> Option<&Node> {
        match &self.data {
            Data::Mapping(entries) => entries.iter().find(|(k, _)| k.text == key).map(|(_, v)| v),
            _ => None,
        }
    }

    /// The value at the end of a path of keys.
    pub(super) fn find_path(&self, keys: &[&str]) -> Option<&Node> {
        keys.iter().try_fold(self, |node, key| node.find(key))
    }

    /// What a person would call this.
    pub(super) fn describe(&self) -> String {
        match &self.data {
            Data::Scalar(scalar) if scalar.is_empty() => "nothing".to_owned(),
            // Text in an unexpected place may be anything, so it is not repeated.
            Data::Scalar(_) => "text".to_owned(),
            Data::List(_) => "a list".to_owned(),
            Data::Mapping(_) => "a mapping".to_owned(),
            Data::Refused => "what was refused".to_owned(),
            Data::Asked => "what was asked for".to_owned(),
        }
    }
}

impl Scalar {
    /// Whether the key has no value (`key:` or `key: ~`).
    pub(super) fn is_empty(&self) -> bool {
        self.plain && matches!(self.text.as_str(), "" | "~" | "null" | "Null" | "NULL")
    }

    /// What a reader of YAML 1.1 or 1.2 takes this for, if it is not text to all of them.
    pub(super) fn mistaken_for(&self) -> Option<&'static str> {
        if self.plain {
            mistaken_for(&self.text)
        } else {
            None
        }
    }
}

/// What some YAML readers take the unquoted `text` for, if not for text.
pub(super) fn mistaken_for(text: &str) -> Option<&'static str> {
    const BOOLEANS: [&str; 8] = ["y", "n", "yes", "no", "on", "off", "true", "false"];
    let lower = text.to_ascii_lowercase();
    let digits = lower.trim_start_matches(['+', '-']).replace('_', "");
    let begins_numeric = digits.starts_with(|c: char| c.is_ascii_digit() || c == '.');
    if BOOLEANS.contains(&lower.as_str()) {
        Some("a boolean")
    } else if matches!(lower.as_str(), "" | "~" | "null") {
        Some("nothing")
    } else if is_date(text) {
        Some("a date")
    } else if begins_numeric
        && (digits.parse::<f64>().is_ok()
            || matches!(digits.as_str(), ".inf" | ".nan")
            || ["0x", "0o", "0b"]
                .iter()
                .any(|prefix| is_radix(&digits, prefix))
            || is_sexagesimal(&digits))
    {
        Some("a number")
    } else {
        None
    }
}

/// `2026-07-28`, with or without a time behind it.
pub(super) fn is_date(text: &str) -> bool {
    let day = text.split(['T', 't', ' ']).next().unwrap_or(text);
    let parts: Vec<&str> = day.split('-').collect();
    parts.len() == 3
        && parts[0].len() == 4
        && parts[1..].iter().all(|part| (1..=2).contains(&part.len()))
        && parts
            .iter()
            .all(|part| part.bytes().all(|b| b.is_ascii_digit()))
}

fn is_radix(text: &str, prefix: &str) -> bool {
    text.strip_prefix(prefix)
        .is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_hexdigit()))
}

/// `1:30` is ninety to a reader of YAML 1.1.
fn is_sexagesimal(text: &str) -> bool {
    text.contains(':')
        && text
            .split(':')
            .all(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit() || b == b'.'))
}

/// Reads the one document of a file. `None` means that the tree would not be worth reading; then
/// the reason is among the findings.
pub(super) fn parse(source: &Arc<Source>, findings: &mut Vec<Finding>) -> Option<Node> {
    if let Some(directive) = directive(source) {
        findings.push(directive);
        return None;
    }
    let mut builder = Builder {
        source,
        findings,
        open: Vec::new(),
        root: None,
    };
    let mut parser = Parser::new_from_str(&source.text);
    while let Some(event) = parser.next_event() {
        let step = match event {
            Ok((event, span)) => builder.take(event, span),
            Err(error) => Err(syntax(&error, source)),
        };
        if let Err(finding) = step {
            builder.findings.push(finding);
            return None;
        }
    }
    if builder.root.is_none() {
        builder.findings.push(Finding::new(
            &Place::start_of(source),
            Flaw::new(
                "the file holds no policy",
                "write `routes` and `upstreams` into it, or remove it",
            ),
        ));
    }
    builder.root
}

/// A directive such as `%YAML 1.1`, which would have other readers read by other rules.
fn directive(source: &Arc<Source>) -> Option<Finding> {
    let (number, _) = source
        .lines()
        .enumerate()
        .find(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'))
        .filter(|(_, line)| line.starts_with('%'))?;
    let place = Place {
        line: number + 1,
        width: usize::MAX,
        ..Place::start_of(source)
    };
    let flaw = Flaw::new(
        "YAML directives (`%…`) are not read in policies",
        "remove the line; policies are read as YAML 1.2",
    );
    Some(Finding::new(&place, flaw))
}

/// A list or mapping that is not yet closed.
struct Open {
    place: Place,
    entries: Entries,
}

enum Entries {
    List(Vec<Node>),
    Mapping {
        done: Vec<(Word, Node)>,
        /// The key whose value comes next: `Some(None)` if it was refused.
        key: Option<Option<Word>>,
    },
}

impl Entries {
    fn len(&self) -> usize {
        match self {
            Entries::List(list) => list.len(),
            Entries::Mapping { done, .. } => done.len(),
        }
    }
}

struct Builder<'a> {
    source: &'a Arc<Source>,
    findings: &'a mut Vec<Finding>,
    open: Vec<Open>,
    root: Option<Node>,
}

impl Builder<'_> {
    /// Takes one event. An error ends the reading of the file.
    fn take(&mut self, event: Event<'_>, span: Span) -> Result<(), Finding> {
        let place = self.place(span);
        match event {
            Event::DocumentStart(_) if self.root.is_some() => Err(Finding::new(
                &place,
                Flaw::new(
                    "the file has a second document",
                    "remove the line `---` or `...`, or put the rest into a file of its own",
                ),
            )),
            Event::Scalar(text, style, anchor, tag) => {
                self.refuse_marks(&place, anchor, tag.is_some());
                let scalar = Scalar {
                    text: text.into_owned(),
                    plain: style == ScalarStyle::Plain,
                };
                self.attach(Node {
                    place,
                    data: Data::Scalar(scalar),
                })
            }
            Event::Alias(_) => {
                self.refuse(&place, alias());
                self.attach(Node {
                    place,
                    data: Data::Refused,
                })
            }
            Event::SequenceStart(anchor, tag) => {
                self.refuse_marks(&place, anchor, tag.is_some());
                self.descend(place, Entries::List(Vec::new()))
            }
            Event::MappingStart(anchor, tag) => {
                self.refuse_marks(&place, anchor, tag.is_some());
                self.descend(
                    place,
                    Entries::Mapping {
                        done: Vec::new(),
                        key: None,
                    },
                )
            }
            Event::SequenceEnd | Event::MappingEnd => {
                let Some(open) = self.open.pop() else {
                    return Ok(());
                };
                let data = match open.entries {
                    Entries::List(list) => Data::List(list),
                    Entries::Mapping { done, .. } => Data::Mapping(done),
                };
                let place = open.place;
                self.attach(Node { place, data })
            }
            Event::DocumentStart(_)
            | Event::DocumentEnd
            | Event::StreamStart
            | Event::StreamEnd
            | Event::Nothing => Ok(()),
        }
    }

    fn descend(&mut self, place: Place, entries: Entries) -> Result<(), Finding> {
        if self.open.len() >= DEPTH_MAX {
            return Err(Finding::new(&place, too_deep()));
        }
        self.open.push(Open { place, entries });
        Ok(())
    }

    /// Puts a finished node where it belongs.
    fn attach(&mut self, node: Node) -> Result<(), Finding> {
        let Some(top) = self.open.last_mut() else {
            self.root = Some(node);
            return Ok(());
        };
        if top.entries.len() >= ELEMENTS_MAX {
            let flaw = Flaw::new(
                format!("there are more than {ELEMENTS_MAX} elements in one list or mapping"),
                "split the policy into several files",
            );
            return Err(Finding::new(&node.place, flaw));
        }
        match &mut top.entries {
            Entries::List(list) => list.push(node),
            Entries::Mapping { done, key } => match key.take() {
                Some(Some(word)) => done.push((word, node)),
                Some(None) => {}
                None => {
                    let checked = key_of(node, done);
                    *key = Some(
                        checked
                            .map_err(|finding| self.findings.extend(finding))
                            .ok(),
                    );
                }
            },
        }
        Ok(())
    }

    fn refuse_marks(&mut self, place: &Place, anchor: usize, tagged: bool) {
        if anchor != 0 {
            self.refuse(place, alias());
        }
        if tagged {
            self.refuse(
                place,
                Flaw::new(
                    "tags (`!…`) are not read in policies",
                    "remove it; quote the value if it must be text",
                ),
            );
        }
    }

    fn refuse(&mut self, place: &Place, flaw: Flaw) {
        self.findings.push(Finding::new(place, flaw));
    }

    fn place(&self, span: Span) -> Place {
        let width = if span.end.line() == span.start.line() {
            span.end.col() - span.start.col()
        } else {
            // The excerpt shows one line, so the caret ends with it.
            usize::MAX
        };
        Place {
            source: Arc::clone(self.source),
            line: span.start.line(),
            column: span.start.col() + 1,
            width,
            ends_here: false,
        }
    }
}

/// The key that `node` is, unless it is none or repeats one of `done`. The finding is absent where
/// the node was reported before.
fn key_of(node: Node, done: &[(Word, Node)]) -> Result<Word, Option<Finding>> {
    let Node { place, data } = node;
    let scalar = match data {
        Data::Scalar(scalar) => scalar,
        Data::Refused | Data::Asked => return Err(None),
        Data::List(_) | Data::Mapping(_) => {
            let flaw = Flaw::new("a key must be plain text", "write `key: value`");
            return Err(Some(Finding::new(&place, flaw)));
        }
    };
    if scalar.text == "<<" {
        return Err(Some(Finding::new(&place, alias())));
    }
    if scalar.is_empty() {
        let flaw = Flaw::new("there is a value without a key", "write `key: value`");
        return Err(Some(Finding::new(&place, flaw)));
    }
    if let Some((first, _)) = done.iter().find(|(key, _)| key.text == scalar.text) {
        let flaw = Flaw::new(
            format!(
                "{} is already defined at {}",
                shown(&scalar.text),
                first.place
            ),
            "remove one of the two, or rename it",
        );
        return Err(Some(Finding::new(&place.alone(), flaw)));
    }
    Ok(Word {
        text: scalar.text,
        place,
        plain: scalar.plain,
    })
}

fn too_deep() -> Flaw {
    Flaw::new(
        format!("the file nests deeper than {DEPTH_MAX} levels"),
        "check that each bracket is closed; a policy needs six levels at most",
    )
}

fn alias() -> Flaw {
    Flaw::new(
        "anchors (`&…`), aliases (`*…`) and merge keys (`<<`) are not read in policies",
        "write the value out; what many routes share belongs into `defaults`; text that begins \
         with `&` or `*` needs quotes",
    )
}

/// The parser's error, with a hint for the usual slips.
fn syntax(error: &ScanError, source: &Arc<Source>) -> Finding {
    let info = error.info();
    let place = Place {
        source: Arc::clone(source),
        line: error.marker().line(),
        column: error.marker().col() + 1,
        width: 1,
        ends_here: false,
    };
    if info.contains("anchor") {
        return Finding::new(&place, alias());
    }
    // The parser looks ahead, and may come to its own limit before we come to ours.
    if info.contains("recursion") {
        return Finding::new(&place, too_deep());
    }
    let before = source
        .lines()
        .nth(place.line.saturating_sub(1))
        .and_then(|line| {
            let before = place.column.checked_sub(2)?;
            line.chars().nth(before)
        });
    let hint = if matches!(before, Some(']' | '}')) {
        "quote a value that begins with a bracket, such as `\"[::1]:8080\"`; otherwise check commas \
         and brackets"
    } else if info.contains("tab") || info.contains("whitespace") {
        "indent with spaces, and put a space, not a tab, behind a colon"
    } else if info.contains("mapping values") {
        "quote the value if it contains `: `, or check the indentation of this line"
    } else if info.contains("flow") || info.contains(']') || info.contains('}') {
        "check that each `{` has its `}`, each `[` its `]`, and that commas stand between"
    } else if info.contains("quoted scalar") {
        "check that each quotation mark has its partner"
    } else {
        "check the indentation of this line and of the one before"
    };
    Finding::new(&place, Flaw::new(format!("this is not YAML: {info}"), hint))
}
