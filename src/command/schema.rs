//! `weirgate schema`: the JSON Schema of policy files, by which editors complete and check them while
//! they are written.

use std::process::ExitCode;

use serde_json::{Map, Value, json};

use super::reported;
use crate::policy::file::{self, Shape};

/// The reference of all keys, so that an editor shows the same words as the documentation.
const REFERENCE: &str = include_str!("../../policies/README.md");

/// Times as the gateway reads them.
const DURATION: &str = "^(0|[1-9][0-9]*)(ms|s|m|h)$";
/// Counts as the gateway reads them, in quotes.
const COUNT: &str = "^(0|[1-9][0-9]*)$";
/// Sizes as the gateway reads them.
const SIZE: &str = "^(0|[1-9][0-9]*)(Ki|Mi|Gi)?$";

/// Writes the schema to standard output.
#[must_use]
pub fn print() -> ExitCode {
    reported(false, |_, out, _| {
        writeln!(out, "{:#}", schema())?;
        Ok(0)
    })
}

/// The schema, by draft 7 of JSON Schema, which is what editors read best. It takes whatever the
/// gateway takes, and refuses unknown keys; what keys mean together only `weirgate check` says.
#[must_use]
pub fn schema() -> Value {
    let reference = Reference::read();
    let mut schema = reference.one(&file::shape(), "");
    let about = [
        ("$schema", "http://json-schema.org/draft-07/schema#"),
        ("title", "A policy file of weirgate"),
    ];
    if let Value::Object(schema) = &mut schema {
        for (key, text) in about {
            schema.insert(key.to_owned(), text.into());
        }
    }
    schema
}

/// The rows of the table of keys: path, default, meaning.
struct Reference(Vec<(String, &'static str, &'static str)>);

impl Reference {
    fn read() -> Reference {
        let rows = REFERENCE
            .lines()
            .filter_map(|line| line.strip_prefix("| `"))
            .filter_map(|line| {
                let mut cells = line.splitn(3, " | ");
                let path = cells.next()?.trim_end_matches('`').to_owned();
                let (default, meaning) = (cells.next()?, cells.next()?);
                Some((path, default, meaning.trim_end_matches(" |")))
            });
        Reference(rows.collect())
    }

    /// The row of the key at `path`.
    fn row(&self, path: &str) -> Option<(&'static str, &'static str)> {
        let found = self.0.iter().find(|(key, ..)| key == path);
        found.map(|(_, default, meaning)| (*default, *meaning))
    }

    /// The schema of a key at `path` that takes any of `shapes`.
    fn any(&self, shapes: &[Shape], path: &str) -> Value {
        let mut schema = match shapes {
            [shape] => self.one(shape, path),
            shapes => {
                let each: Vec<_> = shapes.iter().map(|shape| self.one(shape, path)).collect();
                json!({ "anyOf": each })
            }
        };
        if let Some((default, meaning)) = self.row(path)
            && let Value::Object(schema) = &mut schema
        {
            let text = match default {
                "required" => meaning.to_owned(),
                default => format!("{meaning} Default: {default}."),
            };
            schema.insert("description".to_owned(), text.into());
        }
        schema
    }

    fn one(&self, shape: &Shape, path: &str) -> Value {
        match shape {
            Shape::Text(wanted) => json!({ "type": "string", "title": wanted }),
            Shape::Choice(words) => choice(words),
            Shape::Size => json!({ "type": ["integer", "string"], "minimum": 0, "pattern": SIZE }),
            Shape::Count(range) => json!({
                "type": ["integer", "string"],
                "minimum": range.start(),
                "maximum": range.end(),
                "pattern": COUNT,
            }),
            Shape::Duration => json!({ "type": "string", "pattern": DURATION }),
            Shape::Elsewhere => {
                let one = |key: &str| {
                    json!({
                        "type": "object",
                        "properties": { key: { "type": "string" } },
                        "required": [key],
                        "additionalProperties": false,
                    })
                };
                json!({ "oneOf": [one("file"), one("env")] })
            }
            Shape::List(elements) => json!({
                "type": "array",
                "minItems": 1,
                "items": self.any(elements, &format!("{path}[]")),
            }),
            Shape::Named(values) => json!({
                "type": "object",
                "additionalProperties": self.any(values, &below(path, "NAME")),
            }),
            Shape::Keys(keys) => self.keys(keys, path),
        }
    }

    fn keys(&self, keys: &[(&'static str, Vec<Shape>)], path: &str) -> Value {
        let (mut properties, mut required) = (Map::new(), Vec::new());
        for (name, shapes) in keys {
            let path = below(path, name);
            properties.insert((*name).to_owned(), self.any(shapes, &path));
            if self.row(&path).is_some_and(|row| row.0 == "required") {
                required.push(*name);
            }
        }
        json!({
            "type": "object",
            "properties": properties,
            "required": required,
            "additionalProperties": false,
        })
    }
}

/// The path of the key `name` in the mapping at `path`.
fn below(path: &str, name: &str) -> String {
    match path {
        "" => name.to_owned(),
        path => format!("{path}.{name}"),
    }
}

/// One of these words; what stands for itself without quotes is no text to an editor.
fn choice(words: &[String]) -> Value {
    let mut values: Vec<Value> = Vec::new();
    for word in words {
        values.push(word.as_str().into());
        if let Ok(value @ (Value::Bool(_) | Value::Number(_))) = serde_json::from_str(word) {
            values.push(value);
        }
    }
    json!({ "enum": values })
}
