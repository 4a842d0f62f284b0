//! The keys of a mapping as a table: what each is called, how it is read and how it is shown.
//!
//! One table per mapping is the only place that knows its keys. From it come the reading, the
//! refusal of unknown keys with a suggestion, the defaults (what an unread draft shows), and the
//! test that the documentation lists the same keys and defaults.

use crate::policy::finding::{Flaw, Place, shown};

use super::Setting;
use super::node::{Data, Node, Word};
use super::reader::Reader;
use super::shape::{Shape, gathered};

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

/// The words for what is on or off.
pub(super) const SWITCH: [(&str, bool); 2] = [("true", true), ("false", false)];

/// The word of `choices` that stands for `value`.
pub(super) fn word<T: PartialEq>(choices: &[(&'static str, T)], value: T) -> &'static str {
    choices
        .iter()
        .find(|(_, choice)| *choice == value)
        .map_or("", |(word, _)| word)
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

/// What became of the keys of a mapping.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    written: Vec<(&'static str, Place)>,
    doubtful: Vec<&'static str>,
}

impl Seen {
    /// Where the value of `key` was written, here and not in what the mapping builds on. It may be a
    /// value that was refused.
    pub(super) fn place(&self, key: &str) -> Option<&Place> {
        let found = self.written.iter().find(|(written, _)| *written == key);
        found.map(|(_, place)| place)
    }

    /// Whether the draft has for `key` what the files mean. It has not where the value was refused,
    /// and nothing that follows from the value can be said then.
    pub(super) fn knows(&self, key: &str) -> bool {
        !self.doubtful.contains(&key)
    }

    /// Whether `key` is missing, and not merely misspelt or refused.
    pub(super) fn lacks(&self, key: &str) -> bool {
        self.place(key).is_none() && self.knows(key)
    }

    /// Says that the draft has not what the files mean for `key`.
    pub(super) fn doubt(&mut self, key: &'static str) {
        self.doubtful.push(key);
    }

    /// Says that the draft has for `key` what is meant, whatever the files say.
    pub(super) fn settle(&mut self, key: &str) {
        self.doubtful.retain(|doubtful| *doubtful != key);
    }

    /// Adds what became of a mapping that was read over this one.
    pub(super) fn add(&mut self, over: Seen) {
        for (key, _) in &over.written {
            self.settle(key);
        }
        self.written.extend(over.written);
        self.doubtful.extend(over.doubtful);
    }
}

/// What a mapping says, on top of what it builds on, with what became of its keys: for mappings whose
/// values are held against each other or against others.
#[derive(Clone, Debug, Default)]
pub(super) struct Section<T> {
    pub(super) value: T,
    pub(super) seen: Seen,
}

impl<T> Section<T> {
    /// Reads the mapping `node` over what is here, as [`read`] does.
    pub(super) fn read(
        &mut self,
        node: &Node,
        what: &str,
        keys: &[Key<T>],
        reader: &mut Reader<'_>,
    ) {
        let seen = read(node, what, keys, &mut self.value, reader);
        self.seen.add(seen);
    }

    /// The same for a mapping that builds on this one: nothing is written there yet.
    pub(super) fn inherited(&self) -> Section<T>
    where
        T: Clone,
    {
        Section {
            value: self.value.clone(),
            seen: Seen {
                written: Vec::new(),
                doubtful: self.seen.doubtful.clone(),
            },
        }
    }
}

impl<T> From<T> for Section<T> {
    /// A section of which nothing was written.
    fn from(value: T) -> Section<T> {
        Section {
            value,
            seen: Seen::default(),
        }
    }
}

/// A table of keys with the draft that they are read into.
pub(super) trait Table {
    /// The names of the keys, in the order in which they are read.
    fn names(&self) -> Vec<&'static str>;
    /// Reads the value of the key at this index of the table.
    fn read(&mut self, index: usize, value: &Node, reader: &mut Reader<'_>);
}

impl<T> Table for (&[Key<T>], &mut T) {
    fn names(&self) -> Vec<&'static str> {
        self.0.iter().map(|key| key.name).collect()
    }

    fn read(&mut self, index: usize, value: &Node, reader: &mut Reader<'_>) {
        (self.0[index].read)(self.1, value, reader);
    }
}

/// Reads the mapping `node` (called `what` in messages) over `draft`, in the order of the table, so
/// that a key may build on those before it.
pub(super) fn read<T>(
    node: &Node,
    what: &str,
    keys: &[Key<T>],
    draft: &mut T,
    reader: &mut Reader<'_>,
) -> Seen {
    read_tables(node, what, &mut [&mut (keys, draft)], reader)
}

/// [`read`] for a mapping that has the keys of several tables.
///
/// A key whose value is not there to be read is read from [`Data::Refused`]: nothing is said of it
/// again, and all that is below it becomes doubtful as well.
pub(super) fn read_tables(
    node: &Node,
    what: &str,
    tables: &mut [&mut dyn Table],
    reader: &mut Reader<'_>,
) -> Seen {
    let names: Vec<_> = tables.iter().flat_map(|table| table.names()).collect();
    if let Data::Asked = node.data {
        return tell(node, tables, names, reader);
    }
    let mut misspelt = Vec::new();
    let mut entries: &[(Word, Node)] = &[];
    match &node.data {
        Data::Mapping(found) => {
            entries = found;
            for (word, _) in entries
                .iter()
                .filter(|(word, _)| !names.contains(&&*word.text))
            {
                let (flaw, meant) = unknown(word, what, &names);
                reader.refuse(&word.place.alone(), flaw);
                misspelt.extend(meant);
            }
        }
        Data::Refused | Data::Asked => misspelt.clone_from(&names),
        Data::Scalar(_) | Data::List(_) => {
            reader.refuse(&node.place, no_mapping(node, what, &names));
            misspelt.clone_from(&names);
        }
    }
    let mut seen = Seen::default();
    let refused = Node {
        place: node.place.clone(),
        data: Data::Refused,
    };
    for table in tables {
        for (index, name) in table.names().into_iter().enumerate() {
            let before = reader.findings.len();
            let value = match entries.iter().find(|(word, _)| word.text == name) {
                Some((word, value)) => {
                    seen.written.push((name, value.place.clone()));
                    present(word, value, reader).unwrap_or(&refused)
                }
                None if misspelt.contains(&name) => &refused,
                None => continue,
            };
            table.read(index, value, reader);
            if reader.findings.len() > before || matches!(value.data, Data::Refused) {
                seen.doubt(name);
            }
        }
    }
    seen
}

/// Has each key tell what it takes. None of them is known then, so that nothing is said of them.
fn tell(
    asked: &Node,
    tables: &mut [&mut dyn Table],
    names: Vec<&'static str>,
    reader: &mut Reader<'_>,
) -> Seen {
    let mut keys = Vec::with_capacity(names.len());
    let before = std::mem::take(&mut reader.told);
    for table in tables {
        for (index, name) in table.names().into_iter().enumerate() {
            table.read(index, asked, reader);
            keys.push((name, gathered(std::mem::take(&mut reader.told))));
        }
    }
    reader.told = before;
    reader.told.push(Shape::Keys(keys));
    Seen {
        written: Vec::new(),
        doubtful: names,
    }
}

/// The value of a key, unless there is none, which is refused.
fn present<'n>(word: &Word, value: &'n Node, reader: &mut Reader<'_>) -> Option<&'n Node> {
    if matches!(&value.data, Data::Scalar(scalar) if scalar.is_empty()) {
        let flaw = Flaw::new(
            format!("`{}` has no value", word.text),
            "write one behind the colon, or remove the key",
        );
        reader.refuse(&word.place, flaw);
        return None;
    }
    Some(value)
}

/// The flaw of something else where a mapping must be.
fn no_mapping(node: &Node, what: &str, names: &[&str]) -> Flaw {
    let names: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
    Flaw::new(
        format!("{what} must be a mapping, found {}", node.describe()),
        format!("write keys below it, of {}", names.join(", ")),
    )
}

/// The flaw of a key that no table has, and the key of the table that it was meant to be.
fn unknown(word: &Word, what: &str, names: &[&'static str]) -> (Flaw, Option<&'static str>) {
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
        let hint = format!(
            "{meant}this version has no `{future}` yet, and nothing would be enforced by it; \
             remove it, and see to it elsewhere"
        );
        return (Flaw::new(cause, hint), None);
    }
    // `key:value` without a blank is one word to YAML.
    if let Some((glued, _)) = key.split_once(':')
        && let Some(name) = names.iter().find(|name| **name == glued)
    {
        let hint = format!("put a space behind the colon of `{name}:`");
        return (Flaw::new(cause, hint), Some(name));
    }
    let meant = suggest(key, names.iter().copied());
    let hint = match (meant, home_of(key)) {
        (Some(near), _) => format!("did you mean `{near}`? Known here: {listed}"),
        (None, Some(home)) => format!("it is a key of `{home}`. Known here: {listed}"),
        (None, None) => format!("known here: {listed}"),
    };
    (Flaw::new(cause, hint), meant)
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
