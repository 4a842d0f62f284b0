//! YAML documents as JSON values, as far as Kubernetes needs them: no anchors, no tags.

use saphyr_parser::{Event, Parser, ScalarStyle};
use serde_json::{Map, Value};

/// The documents of a file.
pub(crate) fn documents(text: &str) -> Vec<Value> {
    let mut documents = Vec::new();
    let mut events = Parser::new_from_str(text).map(|event| event.unwrap().0);
    while let Some(event) = events.next() {
        if matches!(event, Event::DocumentStart(_)) {
            documents.push(value(&mut events).unwrap());
        }
    }
    documents
}

/// The next value; none where a list or mapping ends.
fn value<'a>(events: &mut impl Iterator<Item = Event<'a>>) -> Option<Value> {
    Some(match events.next().unwrap() {
        Event::Scalar(text, ScalarStyle::Plain, 0, None) => plain(&text),
        Event::Scalar(text, _, 0, None) => Value::String(text.into_owned()),
        Event::SequenceStart(0, None) => {
            Value::Array(std::iter::from_fn(|| value(events)).collect())
        }
        Event::MappingStart(0, None) => {
            let mut map = Map::new();
            while let Some(Value::String(key)) = value(events) {
                let before = map.insert(key.clone(), value(events).unwrap());
                assert!(before.is_none(), "{key} stands twice");
            }
            Value::Object(map)
        }
        Event::SequenceEnd | Event::MappingEnd => return None,
        event => panic!("{event:?}"),
    })
}

fn plain(text: &str) -> Value {
    match text {
        "true" => Value::Bool(true),
        "false" => Value::Bool(false),
        _ => text
            .parse::<i64>()
            .map_or_else(|_| text.into(), Value::from),
    }
}
