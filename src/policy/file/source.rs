//! Paths → texts: which files belong to a policy, and whether each is safe to read.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::case::is_suite;
use crate::policy::finding::{Finding, Flaw, Place, Source};

/// Most bytes of one file.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// Most files of one policy.
const FILES_MAX: usize = 1000;

/// What was read.
#[derive(Default)]
pub(super) struct Sources {
    /// The files, in the order of the paths and within a directory by name.
    pub(super) files: Vec<Arc<Source>>,
    /// Why some could not be read.
    pub(super) findings: Vec<Finding>,
    /// What was left aside although it looks like policy.
    pub(super) warnings: Vec<Finding>,
}

/// Reads every file that `paths` name: a file by itself, a directory by its entries in `*.yaml` and
/// `*.yml`, without descending.
pub(super) fn read(paths: &[PathBuf]) -> Sources {
    let mut sources = Sources::default();
    let mut seen = Vec::new();
    for path in paths {
        let files = if path.is_dir() {
            list(path, &mut sources)
        } else {
            vec![path.clone()]
        };
        for file in files {
            // The same file by two paths is still one file.
            let identity = file.canonicalize().unwrap_or_else(|_| file.clone());
            if seen.contains(&identity) {
                continue;
            }
            seen.push(identity);
            if seen.len() > FILES_MAX {
                let flaw = Flaw::new(
                    format!("the policy has more than {FILES_MAX} files"),
                    "put several routes into one file",
                );
                sources.findings.push(Finding::argument(name(path), flaw));
                return sources;
            }
            open(&file, &mut sources);
        }
    }
    sources
}

/// A path as messages name it, without characters that would steer a terminal.
fn name(path: &Path) -> String {
    path.display()
        .to_string()
        .replace(char::is_control, "\u{fffd}")
}

/// The policy files of a directory, by name. Entries that begin with a dot are skipped: a mounted
/// ConfigMap keeps its versions in such directories and links to them.
fn list(directory: &Path, sources: &mut Sources) -> Vec<PathBuf> {
    let failed = |error: std::io::Error| {
        let cause = format!("the directory cannot be read: {error}");
        Finding::argument(
            name(directory),
            Flaw::new(cause, "check the path and its permissions"),
        )
    };
    let entries = match std::fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) => {
            sources.findings.push(failed(error));
            return Vec::new();
        }
    };
    let mut files = Vec::new();
    for entry in entries {
        let path = match entry {
            Ok(entry) => entry.path(),
            Err(error) => {
                sources.findings.push(failed(error));
                break;
            }
        };
        let hidden = path
            .file_name()
            .is_some_and(|name| name.to_string_lossy().starts_with('.'));
        let yaml = path
            .extension()
            .is_some_and(|ext| ext.eq_ignore_ascii_case("yaml") || ext.eq_ignore_ascii_case("yml"));
        if hidden || is_suite(&path) {
            continue;
        }
        if path.is_dir() {
            let flaw = Flaw::new(
                "this directory is not read, because directories are not descended into",
                "name it as a further path if it holds policy",
            );
            sources.warnings.push(Finding::argument(name(&path), flaw));
        } else if yaml {
            files.push(path);
            if files.len() > FILES_MAX {
                break;
            }
        }
    }
    if files.is_empty() && sources.findings.is_empty() {
        let flaw = Flaw::new(
            "the directory has no file that ends in `.yaml` or `.yml`",
            "check the path",
        );
        sources
            .findings
            .push(Finding::argument(name(directory), flaw));
    }
    files.sort();
    files
}

/// Reads one file.
fn open(path: &Path, sources: &mut Sources) {
    let mut bytes = Vec::new();
    // To open a pipe is to wait for whoever writes it.
    let read = match std::fs::metadata(path) {
        Ok(found) if !found.is_file() => Err(std::io::Error::other("it is not a regular file")),
        Ok(_) => {
            File::open(path).and_then(|file| file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes))
        }
        Err(error) => Err(error),
    };
    if let Err(error) = read {
        let flaw = Flaw::new(
            format!("the file cannot be read: {error}"),
            "check the path and its permissions",
        );
        sources.findings.push(Finding::argument(name(path), flaw));
        return;
    }
    if bytes.len() as u64 > FILE_BYTES_MAX {
        let flaw = Flaw::new("the file is larger than 1Mi", "split it into several files");
        sources.findings.push(Finding::argument(name(path), flaw));
        return;
    }
    let order = sources.files.len();
    match text(bytes, path, order) {
        Ok(source) => sources.files.push(source),
        Err(finding) => sources.findings.push(*finding),
    }
}

/// The text of a file, if every reader would see the same in it.
fn text(bytes: Vec<u8>, path: &Path, order: usize) -> Result<Arc<Source>, Box<Finding>> {
    let source = |text: &str| {
        Arc::new(Source {
            name: name(path),
            path: path.to_owned(),
            order,
            text: text.strip_prefix('\u{feff}').unwrap_or(text).to_owned(),
        })
    };
    let text = match String::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => {
            let valid = &error.as_bytes()[..error.utf8_error().valid_up_to()];
            let source = source(&String::from_utf8_lossy(valid));
            let place = place_of(&source, source.text.len());
            let flaw = Flaw::new("the file is not UTF-8 from here on", "save it as UTF-8");
            return Err(Box::new(Finding::new(&place, flaw)));
        }
    };
    let source = source(&text);
    if let Some((at, c)) = source.text.char_indices().find(|(_, c)| is_deceptive(*c)) {
        let flaw = Flaw::new(
            format!(
                "the file contains the invisible character U+{:04X}",
                u32::from(c)
            ),
            "remove it: readers and reviewers do not agree on what it does",
        );
        return Err(Box::new(Finding::new(&place_of(&source, at), flaw)));
    }
    Ok(source)
}

/// Control characters, line breaks of some YAML versions only, and characters that change the order
/// in which text is displayed.
fn is_deceptive(c: char) -> bool {
    let control = c.is_control() && !matches!(c, '\t' | '\n' | '\r');
    control
        || matches!(
            c,
            '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}'
        )
}

/// The place of the byte `at`.
fn place_of(source: &Arc<Source>, at: usize) -> Place {
    let before = &source.text[..at];
    let breaks = before.replace("\r\n", "\n").replace('\r', "\n");
    let line = breaks.rsplit('\n').next().unwrap_or("");
    Place {
        source: Arc::clone(source),
        line: breaks.matches('\n').count() + 1,
        column: line.chars().count() + 1,
        width: 1,
        ends_here: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deceptive_character_is_found_where_it_stands() {
        let bytes = "a: b\r\nü: \u{202e}x\n".as_bytes().to_vec();
        let finding = text(bytes, Path::new("p.yaml"), 0).unwrap_err();
        assert_eq!(finding.origin.to_string(), "p.yaml:2:4");
        assert!(finding.cause.contains("U+202E"));
        for bytes in [&b"a: \0"[..], b"a: \x1b[31m", b"a: \xc2\x85", b"a: b\xff"] {
            assert!(text(bytes.to_vec(), Path::new("p.yaml"), 0).is_err());
        }
        assert!(text(b"\xef\xbb\xbfa: b".to_vec(), Path::new("p.yaml"), 0).is_ok());
    }
}
