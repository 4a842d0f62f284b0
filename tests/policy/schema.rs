//! The schema for editors against the examples and the parser.

use std::path::PathBuf;

use boon::{Compiler, Schemas};
use saphyr_parser::{Event, Parser, ScalarStyle};
use serde_json::{Map, Value};
use weirgate::command::schema::schema;
use weirgate::policy::file::{self, keys};

/// A document as an editor reads it: by the core schema of YAML 1.2.
fn read(text: &str) -> Value {
    let mut parser = Parser::new_from_str(text);
    let mut open: Vec<(Value, Option<String>)> = Vec::new();
    let mut root = Value::Null;
    while let Some(event) = parser.next_event() {
        let done = match event.unwrap().0 {
            Event::MappingStart(..) => {
                open.push((Value::Object(Map::new()), None));
                continue;
            }
            Event::SequenceStart(..) => {
                open.push((Value::Array(Vec::new()), None));
                continue;
            }
            Event::MappingEnd | Event::SequenceEnd => open.pop().unwrap().0,
            Event::Scalar(text, style, ..) => match style {
                ScalarStyle::Plain => plain(&text),
                _ => Value::String(text.into_owned()),
            },
            _ => continue,
        };
        match open.last_mut() {
            None => root = done,
            Some((Value::Array(list), _)) => list.push(done),
            Some((Value::Object(map), key)) => match key.take() {
                Some(key) => drop(map.insert(key, done)),
                None => {
                    *key = Some(match done {
                        Value::String(text) => text,
                        other => other.to_string(),
                    });
                }
            },
            Some(_) => unreachable!("nothing else is opened"),
        }
    }
    root
}

fn plain(text: &str) -> Value {
    match serde_json::from_str(text) {
        Ok(value @ (Value::Bool(_) | Value::Number(_))) => value,
        _ if matches!(text, "" | "~" | "null") => Value::Null,
        _ => Value::String(text.to_owned()),
    }
}

/// What an editor says of a document.
fn judged(text: &str) -> Result<(), String> {
    let mut compiler = Compiler::new();
    compiler.add_resource("policy.json", schema()).unwrap();
    let mut schemas = Schemas::new();
    let index = compiler.compile("policy.json", &mut schemas).unwrap();
    let document = read(text);
    let judged = schemas.validate(&document, index);
    judged.map_err(|error| error.to_string())
}

fn examples() -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![PathBuf::from(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/policies"
    ))];
    while let Some(directory) = open.pop() {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|end| end == "yaml")
                && !path.to_string_lossy().ends_with(".test.yaml")
            {
                found.push(path);
            }
        }
    }
    found
}

#[test]
fn editors_take_every_example() {
    let examples = examples();
    assert!(examples.len() >= 7, "{examples:?}");
    for path in examples {
        let text = std::fs::read_to_string(&path).unwrap();
        if let Err(error) = judged(&text) {
            panic!("{}: {error}", path.display());
        }
    }
}

#[test]
fn editors_take_what_the_parser_takes_and_refuse_what_it_refuses() {
    let whole = "upstreams: { w: { url: http://h/mcp } }\nroutes:\n- name: w\n  upstream: w\n";
    for line in [
        "  bounds: { body_bytes_max: 1Mi }",
        "  bounds: { body_bytes_max: 1048576 }",
        "  bounds: { depth_max: 10 }",
        "  bounds: { depth_max: \"10\" }",
        "  streams: { keep_alive: off }",
        "  streams: { keep_alive: 10s }",
        "  deadline: { tools: { report: 10m, other: off } }",
        "  cache: off",
        "  cache: { max_ttl: 1h, legacy: { ttl: 5s, scope: public } }",
        "  hosts: any",
        "  hosts: [ a.example ]",
        "  pass: false",
        "upstreams: { w: { url: { file: f } } }\nroutes: [ { name: w, upstream: w } ]\n# ",
        "listen: { tls: { cert: a, key: b } }",
    ] {
        let text = match line.starts_with("upstreams") {
            true => line.to_owned(),
            false => format!("{whole}{line}"),
        };
        assert_eq!(judged(&text), Ok(()), "{line}");
    }
    for line in [
        "  bound: { depth_max: 10 }",
        "  bounds: { depth_max: 0 }",
        "  bounds: { body_bytes_max: 1M }",
        "  streams: { keep_alive: 10 }",
        "  streams: { keep_alive: never }",
        "  hosts: all",
        "  hosts: []",
        "  pass: maybe",
        "  protocol: { versions: 2026-07-28 }",
        "- upstream: w",
        "listen: { adress: 127.0.0.1:1 }",
    ] {
        assert!(judged(&format!("{whole}{line}")).is_err(), "{line}");
    }
}

/// Each key is in the schema with what it takes and with the words of the reference: a reader that
/// told nothing would leave it open.
#[test]
fn every_key_is_in_the_schema() {
    fn walk(schema: &Value, path: &str, found: &mut Vec<String>) {
        for each in schema["anyOf"].as_array().into_iter().flatten() {
            walk(each, path, found);
        }
        if schema["items"].is_object() {
            walk(&schema["items"], &format!("{path}[]"), found);
        }
        let below = |name: &str| match path {
            "" => name.to_owned(),
            path => format!("{path}.{name}"),
        };
        if schema["additionalProperties"].is_object() {
            walk(&schema["additionalProperties"], &below("NAME"), found);
        }
        for (name, schema) in schema["properties"].as_object().into_iter().flatten() {
            let path = below(name);
            let tells = ["type", "enum", "anyOf", "oneOf"];
            assert!(tells.iter().any(|key| !schema[*key].is_null()), "{path}");
            if !schema["anyOf"].is_null() {
                assert_ne!(schema["anyOf"], Value::Array(Vec::new()), "{path}");
            }
            walk(schema, &path, found);
            if !schema["description"].is_null() {
                found.push(path);
            }
        }
    }
    let mut found = Vec::new();
    walk(&schema(), "", &mut found);
    for (key, _) in keys() {
        // What stands once for many is described where it is read.
        let described = key.starts_with("defaults.") || found.contains(&key);
        assert!(described, "{key} is not described in the schema");
    }
    assert!(matches!(file::shape(), file::Shape::Keys(_)));
}
