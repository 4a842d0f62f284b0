//! Faults beside each other: whatever else is wrong in a policy, each is told, because a policy is
//! mended in an editor and not in a dialogue.

use std::collections::BTreeSet;

use weirgate::policy::finding::Origin;

use crate::Files;
use crate::certificates::Authority;

/// What is good in every document: two upstreams, two routes for MCP and one that passes requests.
const BASE: &str = "
    upstreams.u.url = http://127.0.0.1:3000/mcp
    upstreams.s.url = https://127.0.0.1:3001/mcp
    routes.r.name = r
    routes.r.path = /r
    routes.r.upstream = u
    routes.q.name = q
    routes.q.path = /q
    routes.q.upstream = s
    routes.p.name = p
    routes.p.pass = true
    routes.p.path = /p
    routes.p.upstream = u
";

/// Single faults: what is written, and words of the cause.
const FAULTS: &str = include_str!("together/faults.txt");

/// What is not told beside some fault, by words of its cause, and why it cannot be.
const EXCEPTIONS: [(&str, &str, &str); 14] = [
    (
        "`connections_per_source_max` is",
        "listen.connections_max = none",
        "the greater is not known",
    ),
    (
        "`entry_bytes_max` is",
        "cache.bytes_max = 1x",
        "the greater is not known",
    ),
    (
        "`listen` (127.0.0.1:8080) and",
        "listen.adress = 127.0.0.1:8080",
        "the other address is not known",
    ),
    (
        "`status` (127.0.0.1:9902) and",
        "status.address = 9902",
        "the other address is not known",
    ),
    (
        "`status` (127.0.0.1:9902) and",
        "status.address = 127.0.0.1:8080",
        "the other address is another one",
    ),
    (
        "is the gateway itself",
        "listen.adress = 127.0.0.1:8080",
        "our address is not known",
    ),
    (
        "`buffer_bytes` is",
        "routes.r.bounds.body_bytes_max = 4MB",
        "the greater is not known",
    ),
    (
        "`buffer_bytes` is",
        "defaults.bounds.body_byte_max = 1Ki",
        "it may hold the greater",
    ),
    (
        "`name_bytes_max` is",
        "listen.header_bytes_max = 1Ki",
        "the greater is not known",
    ),
    (
        "the larger of the two counts",
        "defaults.bounds.stream_bytes_max = 1x",
        "it may hold the larger",
    ),
    (
        "fetched again with each use",
        "routes.r.cache.max_ttl = 60",
        "the greater is not known",
    ),
    (
        "fetched again with each use",
        "defaults.cache.max_ttl = off",
        "the greater is not known",
    ),
    (
        "both answer to the path",
        "routes.r.hosts = a.example",
        "the hosts of one are not known",
    ),
    (
        "both answer to the path",
        "defaults.hosts = a.example",
        "the hosts of one are not known",
    ),
];

/// One fault, with what it writes.
struct Fault {
    entries: Vec<(String, String)>,
    words: String,
}

impl Fault {
    fn read(line: &str) -> Fault {
        let (entries, words) = line.split_once(" | ").unwrap_or_else(|| panic!("{line}"));
        Fault {
            entries: entries.split(" ; ").map(entry).collect(),
            words: words.trim().to_owned(),
        }
    }

    /// Whether two faults can be written into one document.
    fn goes_with(&self, other: &Fault) -> bool {
        let below = |a: &str, b: &str| a.strip_prefix(b).is_some_and(|rest| rest.starts_with('.'));
        self.entries.iter().all(|(path, value)| {
            other.entries.iter().all(|(other_path, other_value)| {
                let same = path == other_path && value != other_value;
                !same && !below(path, other_path) && !below(other_path, path)
            })
        })
    }

    /// The part of the policy that it is in: one route, one upstream, or what stands once.
    fn part(&self) -> Vec<&str> {
        let path = self.entries[0].0.split('.');
        let named = matches!(path.clone().next(), Some("routes" | "upstreams"));
        path.take(if named { 2 } else { 1 }).collect()
    }

    fn title(&self) -> String {
        format!("{} = {}", self.entries[0].0, self.entries[0].1)
    }
}

fn entry(text: &str) -> (String, String) {
    let (path, value) = text.split_once(" = ").unwrap_or_else(|| panic!("{text}"));
    (path.trim().to_owned(), value.trim().to_owned())
}

/// For each finding the key that it stands at and its cause, without places.
type Findings = BTreeSet<(String, String)>;

/// A document as it is written: each key on a line of its own, in the order of their first mention.
#[derive(Default)]
struct Document {
    text: String,
    /// For each line the path of its key, and the column of its value.
    lines: Vec<(String, usize)>,
}

/// A key with its value, or with the keys below it.
struct Branch {
    key: String,
    value: Option<String>,
    below: Vec<Branch>,
}

impl Document {
    fn of<'f>(faults: impl IntoIterator<Item = &'f Fault>) -> Document {
        let mut root = Vec::new();
        let base = BASE
            .lines()
            .filter(|line| !line.trim().is_empty())
            .map(entry);
        let faults = faults.into_iter().flat_map(|fault| fault.entries.clone());
        for (path, value) in base.chain(faults) {
            put(&mut root, &path, value);
        }
        let mut document = Document::default();
        document.write(&root, "", 0);
        document
    }

    fn write(&mut self, branches: &[Branch], above: &str, depth: usize) {
        for branch in branches {
            let path = if above.is_empty() {
                branch.key.clone()
            } else {
                format!("{above}.{}", branch.key)
            };
            if above == "routes" {
                // An element has no key: its first line begins with a dash.
                let first = self.lines.len();
                let start = self.text.len();
                self.write(&branch.below, &path, depth + 1);
                let dash = start + 2 * depth;
                self.text.replace_range(dash..dash + 2, "- ");
                assert!(self.lines.len() > first);
                continue;
            }
            let indent = 2 * depth;
            let value = branch
                .value
                .as_deref()
                .map(|value| format!(" {value}"))
                .unwrap_or_default();
            let column = indent + branch.key.chars().count() + ": ".len() + 1;
            self.text += &format!("{:indent$}{}:{value}\n", "", branch.key);
            self.lines.push((path.clone(), column));
            self.write(&branch.below, &path, depth + 1);
        }
    }

    /// The key whose value begins at a place, or that stands there itself.
    fn key_at(&self, line: usize, column: usize, cause: &str) -> String {
        let (path, value) = &self.lines[line - 1];
        if column >= *value {
            return path.clone();
        }
        // A mapping begins where its first key does, so only the cause says which of them is meant.
        let (above, key) = path.rsplit_once('.').unwrap_or(("", path));
        let before = line
            .checked_sub(2)
            .map_or("", |before| &self.lines[before].0);
        let is_first = !before.starts_with(&format!("{above}."));
        if is_first && !cause.starts_with(&format!("`{key}`")) {
            return above.to_owned();
        }
        format!("{path} itself")
    }

    /// What is told of it.
    fn findings(&self, files: &Files) -> Findings {
        files.write("p.yaml", self.text.as_bytes());
        let errors = files.load_paths(&[files.path("p.yaml")]).err();
        let findings = errors.iter().flat_map(|errors| errors.findings());
        findings
            .map(|finding| {
                let Origin::File(place) = &finding.origin else {
                    panic!("{finding:?}");
                };
                let at = self.key_at(place.line, place.column, &finding.cause);
                let cause = &finding.cause;
                let cause: String = match cause.find("p.yaml:") {
                    Some(at) => {
                        let behind = &cause[at + "p.yaml:".len()..];
                        let rest =
                            behind.trim_start_matches(|c: char| c.is_ascii_digit() || c == ':');
                        format!("{}{rest}", &cause[..at])
                    }
                    None => cause.clone(),
                };
                (at, cause)
            })
            .collect()
    }
}

fn put(branches: &mut Vec<Branch>, path: &str, value: String) {
    let (key, rest) = match path.split_once('.') {
        Some((key, rest)) => (key, Some(rest)),
        None => (path, None),
    };
    let at = branches
        .iter()
        .position(|branch| branch.key == key)
        .unwrap_or_else(|| {
            branches.push(Branch {
                key: key.to_owned(),
                value: None,
                below: Vec::new(),
            });
            branches.len() - 1
        });
    match rest {
        Some(rest) => put(&mut branches[at].below, rest, value),
        None => branches[at].value = Some(value),
    }
}

fn files() -> Files {
    let authority = Authority::new("together");
    let own = authority.issue(&["mcp.example.com"]);
    let other = authority.issue(&["mcp.example.com"]);
    Files::new(&[
        ("tls.crt", &own.cert),
        ("tls.key", &own.key),
        ("other.key", &other.key),
        ("text", "hello\n"),
    ])
}

fn faults() -> Vec<Fault> {
    let lines = FAULTS
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(Fault::read).collect()
}

/// What each fault is told as by itself.
fn alone(faults: &[Fault], files: &Files) -> Vec<Findings> {
    let told = |fault: &Fault| {
        let document = Document::of([fault]);
        let found = document.findings(files);
        let named = found.iter().any(|(_, cause)| cause.contains(&fault.words));
        assert!(named, "{}\n{found:#?}", document.text);
        found
    };
    faults.iter().map(told).collect()
}

/// Holds what is told of all of these together against what is told of each.
fn assert_union(chosen: &[usize], faults: &[Fault], alone: &[Findings], files: &Files) {
    let document = Document::of(chosen.iter().map(|at| &faults[*at]));
    let found = document.findings(files);
    let mut expected = BTreeSet::new();
    for at in chosen {
        expected.extend(alone[*at].iter().cloned());
    }
    for (words, beside, _) in EXCEPTIONS {
        if chosen.iter().any(|at| faults[*at].title() == beside) {
            expected.retain(|(_, cause)| !cause.contains(words));
        }
    }
    let missing: Vec<_> = expected.difference(&found).collect();
    let added: Vec<_> = found.difference(&expected).collect();
    assert!(
        missing.is_empty() && added.is_empty(),
        "{}\nnot told: {missing:#?}\ntold beside: {added:#?}",
        document.text
    );
}

#[test]
fn two_faults_are_told_as_each_is_alone() {
    let (files, faults) = (files(), faults());
    assert!(faults.len() > 100);
    let alone = alone(&faults, &files);
    for one in 0..faults.len() {
        for other in one + 1..faults.len() {
            // Those of one part of a policy are all tried, of the others enough to see that parts are
            // told apart: the documents below have them all.
            let tried = faults[one].part() == faults[other].part() || (one + other) % 8 == 0;
            if tried && faults[one].goes_with(&faults[other]) {
                assert_union(&[one, other], &faults, &alone, &files);
            }
        }
    }
}

#[test]
fn as_many_faults_as_one_document_can_have_are_told_at_once() {
    let (files, faults) = (files(), faults());
    let alone = alone(&faults, &files);
    let mut left: Vec<usize> = (0..faults.len()).collect();
    let mut documents = 0;
    while !left.is_empty() {
        // Those that have not been in one yet come first, then whatever still fits.
        let mut chosen: Vec<usize> = Vec::new();
        for at in left.clone().into_iter().chain(0..faults.len()) {
            let fits = |other: &usize| *other != at && faults[at].goes_with(&faults[*other]);
            if chosen.iter().all(fits) {
                chosen.push(at);
            }
        }
        chosen.sort_unstable();
        assert_union(&chosen, &faults, &alone, &files);
        left.retain(|at| !chosen.contains(at));
        documents += 1;
    }
    assert!((1..10).contains(&documents), "{documents}");
}

#[test]
fn every_exception_is_one() {
    let (files, faults) = (files(), faults());
    let alone = alone(&faults, &files);
    for (words, beside, why) in EXCEPTIONS {
        let says = |found: &Findings| found.iter().any(|(_, cause)| cause.contains(words));
        let beside = faults.iter().find(|fault| fault.title() == beside).unwrap();
        let hidden = faults
            .iter()
            .zip(&alone)
            .filter(|(fault, alone)| says(alone) && fault.goes_with(beside));
        let mut tried = 0;
        for (hidden, _) in hidden {
            assert!(
                !says(&Document::of([hidden, beside]).findings(&files)),
                "{words}: {why}"
            );
            tried += 1;
        }
        assert!(tried > 0, "{words}");
    }
}
