//! Values that may stand elsewhere: `value`, `{file: PATH}` or `{env: NAME}`.
//!
//! Deployments keep such values in mounted secrets and variables. There is no interpolation inside
//! of text: a value is the whole of what stands there, so nothing in it has to be escaped. What was
//! read from elsewhere is never repeated in a message.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use crate::policy::finding::{Flaw, shown};

use super::node::{Data, Node};
use super::reader::Reader;
use super::shape::Shape;

/// Most bytes of a value's file.
const BYTES_MAX: u64 = 64 << 10;

/// The value of `node`, wherever it stands; `wanted` says what it stands for.
pub(super) fn read(node: &Node, wanted: &str, reader: &mut Reader<'_>) -> Option<String> {
    reader.is_asked(node, || Shape::Elsewhere);
    let Data::Mapping(entries) = &node.data else {
        return reader.text(node, wanted).map(str::to_owned);
    };
    let [(word, value)] = &entries[..] else {
        reader.refuse(&node.place, form(wanted));
        return None;
    };
    let found = match word.text.as_str() {
        "file" => {
            let path = reader.text(value, "the path of a file")?;
            let directory = node.place.source.path.parent().unwrap_or(Path::new(""));
            from_file(&directory.join(path), path)
        }
        "env" => {
            let name = reader.text(value, "the name of a variable")?;
            from_environment(name, reader)
        }
        _ => {
            reader.refuse(&word.place.alone(), form(wanted));
            return None;
        }
    };
    found.map_err(|flaw| reader.refuse(&value.place, flaw)).ok()
}

fn form(wanted: &str) -> Flaw {
    Flaw::new(
        format!("expected {wanted}, `{{file: PATH}}` or `{{env: NAME}}`"),
        "write exactly one of the three",
    )
}

/// The content of a file without the line breaks at its end.
fn from_file(path: &Path, written: &str) -> Result<String, Flaw> {
    let name = shown(written);
    let relative = "the path is taken relative to the policy file";
    let failed = |error: std::io::Error| {
        Flaw::new(format!("the file {name} cannot be read: {error}"), relative)
    };
    // Opening a pipe would wait for a writer.
    if !std::fs::metadata(path).map_err(failed)?.is_file() {
        return Err(Flaw::new(format!("{name} is not a regular file"), relative));
    }
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(BYTES_MAX + 1).read_to_end(&mut bytes))
        .map_err(failed)?;
    if bytes.len() as u64 > BYTES_MAX {
        return Err(Flaw::new(
            format!("the file {name} is larger than 64Ki"),
            "it must hold the value alone",
        ));
    }
    let text = String::from_utf8(bytes)
        .map_err(|_| Flaw::new(format!("the file {name} is not UTF-8"), "save it as UTF-8"))?;
    let value = text.trim_end_matches(['\n', '\r']);
    if value.is_empty() {
        return Err(Flaw::new(
            format!("the file {name} is empty"),
            "it must hold the value alone",
        ));
    }
    Ok(value.to_owned())
}

/// The value of a variable.
fn from_environment(name: &str, reader: &Reader<'_>) -> Result<String, Flaw> {
    let valid = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
        && !name.starts_with(|c: char| c.is_ascii_digit());
    if !valid {
        return Err(Flaw::of(
            name,
            "is not the name of a variable",
            "write the name alone, without `$` or braces",
        ));
    }
    let set = "set it before the gateway starts";
    match (reader.environment)(name).map(std::ffi::OsString::into_string) {
        None => Err(Flaw::new(format!("the variable `{name}` is not set"), set)),
        Some(Ok(value)) if value.is_empty() => {
            Err(Flaw::new(format!("the variable `{name}` is empty"), set))
        }
        Some(Ok(value)) => Ok(value),
        Some(Err(_)) => Err(Flaw::new(
            format!("the variable `{name}` is not UTF-8"),
            set,
        )),
    }
}
