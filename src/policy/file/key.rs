//! The keys of a mapping as a table: what each is called, how it is read and how it is shown.
//!
//! One table per mapping is the only place that knows its keys. From it come the reading, the
//! refusal of unknown keys with a suggestion, the defaults (what an unread draft shows), and the
//! test that the documentation lists the same keys and defaults.

use crate::policy::finding::{Flaw, shown};

use super::Setting;
use super::node::{Data, Node, Word};
use super::reader::Reader;

/// One key of a mapping that is read into a `T`.
pub(super) struct Key<T: 'static> {
    pub(super) name: &'static str,
    /// Reads the value over what the draft has; on a flaw the draft is left as it was.
    pub(super) read: fn(&mut T, &Node, &mut Reader<'_>),
    /// The value that the draft has, as it would be written in a file.
    pub(super) show: fn(&T) -> Shown,
}

/// A value as it would be written in a file.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Shown {
    /// A plain value.
    Value(String),
    /// A mapping.
    Keys(Vec<(&'static str, Shown)>),
    /// A list, by one element.
    List(Box<Shown>),
}

impl Shown {
    /// A plain value.
    pub(super) fn value(text: impl ToString) -> Shown {
        Shown::Value(text.to_string())
    }

    /// A list of plain values.
    pub(super) fn list<T: ToString>(values: &[T]) -> Shown {
        if values.is_empty() {
            return Shown::value("none");
        }
        let values: Vec<_> = values.iter().map(T::to_string).collect();
        Shown::Value(values.join(", "))
    }

    /// Adds each plain value below this one, with its path, to `rows`.
    pub(super) fn flatten(self, path: &str, rows: &mut Vec<(String, String)>) {
        match self {
            Shown::Value(value) => rows.push((path.to_owned(), value)),
            Shown::List(element) => element.flatten(&format!("{path}[]"), rows),
            Shown::Keys(keys) => {
                for (key, value) in keys {
                    let dot = if path.is_empty() { "" } else { "." };
                    value.flatten(&format!("{path}{dot}{key}"), rows);
                }
            }
        }
    }
}

/// What `draft` has for each key of the table.
pub(super) fn show<T>(keys: &[Key<T>], draft: &T) -> Shown {
    Shown::Keys(
        keys.iter()
            .map(|key| (key.name, (key.show)(draft)))
            .collect(),
    )
}

/// Where `draft` differs from `default`, with `path` before each key.
pub(super) fn differences<T>(keys: &[Key<T>], path: &str, draft: &T, default: &T) -> Vec<Setting> {
    let (mut values, mut defaults) = (Vec::new(), Vec::new());
    show(keys, draft).flatten(path, &mut values);
    show(keys, default).flatten(path, &mut defaults);
    values
        .into_iter()
        .zip(defaults)
        .filter(|(value, default)| value.1 != default.1)
        .map(|((key, value), (_, default))| Setting {
            key,
            value,
            default,
        })
        .collect()
}

/// Keys that later versions will know. Whoever writes one today believes that it is enforced, so
/// the refusal says that it is not.
const FUTURE: [&str; 4] = ["authenticate", "authorize", "limits", "mandatory"];

/// Reads the mapping `node` (called `what` in messages) over `draft`, in the order of the table, so
/// that a key may build on those before it. Gives whether everything in it was well.
pub(super) fn read<T>(
    node: &Node,
    what: &str,
    keys: &[Key<T>],
    draft: &mut T,
    reader: &mut Reader<'_>,
) -> bool {
    let before = reader.findings.len();
    let entries = match &node.data {
        Data::Mapping(entries) => entries,
        Data::Refused => return false,
        Data::Scalar(_) | Data::List(_) => {
            let names: Vec<_> = keys.iter().map(|key| format!("`{}`", key.name)).collect();
            reader.refuse(
                &node.place,
                Flaw::new(
                    format!("{what} must be a mapping, found {}", node.describe()),
                    format!("write keys below it, of {}", names.join(", ")),
                ),
            );
            return false;
        }
    };
    for (word, _) in entries {
        if !keys.iter().any(|key| key.name == word.text) {
            let names: Vec<_> = keys.iter().map(|key| key.name).collect();
            reader.refuse(&word.place.alone(), unknown(word, what, &names));
        }
    }
    for key in keys {
        if let Some((word, value)) = entries.iter().find(|(word, _)| word.text == key.name) {
            read_one(key, word, value, draft, reader);
        }
    }
    reader.findings.len() == before
}

fn read_one<T>(key: &Key<T>, word: &Word, value: &Node, draft: &mut T, reader: &mut Reader<'_>) {
    if matches!(&value.data, Data::Scalar(scalar) if scalar.is_empty()) {
        reader.refuse(
            &word.place,
            Flaw::new(
                format!("`{}` has no value", key.name),
                "write one behind the colon, or remove the key",
            ),
        );
        return;
    }
    (key.read)(draft, value, reader);
}

/// The flaw of a key that no table has.
fn unknown(word: &Word, what: &str, names: &[&str]) -> Flaw {
    let key = &word.text;
    let listed: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
    let listed = listed.join(", ");
    let cause = format!("{} is not a key of {what}", shown(key));
    if let Some(future) = suggest(key, FUTURE.iter().copied()) {
        let meant = if future == key {
            String::new()
        } else {
            format!("`{future}` is meant, it seems; ")
        };
        return Flaw::new(
            cause,
            format!(
                "{meant}this version has no `{future}` yet, and nothing would be enforced by it; \
                 remove it, and see to it elsewhere"
            ),
        );
    }
    // `key:value` without a blank is one word to YAML.
    if let Some((name, _)) = key.split_once(':')
        && names.contains(&name)
    {
        return Flaw::new(cause, format!("put a space behind the colon of `{name}:`"));
    }
    let hint = match (suggest(key, names.iter().copied()), home_of(key)) {
        (Some(near), _) => format!("did you mean `{near}`? Known here: {listed}"),
        (None, Some(home)) => format!("it is a key of `{home}`. Known here: {listed}"),
        (None, None) => format!("known here: {listed}"),
    };
    Flaw::new(cause, hint)
}

/// Where a key belongs that stands in the wrong mapping.
fn home_of(key: &str) -> Option<String> {
    super::keys().into_iter().find_map(|(path, _)| {
        let parts: Vec<&str> = path.split('.').collect();
        let at = parts.iter().position(|part| *part == key)?;
        (at > 0).then(|| parts[..at].join("."))
    })
}

/// The name that `word` was probably meant to be.
pub(super) fn suggest<'n>(word: &str, names: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    // `bodyBytesMax` and `body-bytes-max` are spelled right, but for the separators.
    let bare = |text: &str| -> String {
        text.chars()
            .filter(|c| c.is_alphanumeric())
            .flat_map(char::to_lowercase)
            .collect()
    };
    // The distance costs the product of the lengths.
    if word.len() > 100 {
        return None;
    }
    let word = bare(word);
    names
        .map(|name| {
            let name_bare = bare(name);
            let near = strsim::normalized_damerau_levenshtein(&word, &name_bare);
            let alike = strsim::jaro_winkler(&word, &name_bare);
            (name, near, alike)
        })
        .filter(|(_, near, alike)| *near >= 0.65 || *alike >= 0.9)
        .max_by(|a, b| (a.1 + a.2).total_cmp(&(b.1 + b.2)))
        .map(|(name, ..)| name)
}
