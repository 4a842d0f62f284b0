//! Reading a message: from bytes to the places of what matters in them.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::value::RawValue;

use super::{
    Array, Capabilities, ErrorObject, Found, HintFault, Hints, ItemAt, List, Message, Outcome,
    Response, Scope, Span, Unreadable, text,
};
use crate::protocol::members::{Members, place};

pub(super) fn message(bytes: Bytes) -> Result<Message, Unreadable> {
    let envelope = object(&bytes)?;
    exact(&envelope, &["id", "method", "result", "error"])?;
    let at = |raw: &str| place(&bytes, raw);
    let id = envelope.of("id").map(at);
    let members = ["method", "result", "error"].map(|key| envelope.of(key));
    let outcome = match members {
        [Some(method), None, None] => {
            let method = text(method.as_bytes()).ok_or(Unreadable::Method)?;
            let method = method.into_owned();
            return Ok(Message::Other { method });
        }
        [None, Some(_), None] if id.is_none() => return Err(Unreadable::Id),
        [None, Some(raw), None] => Outcome::Result(Arc::new(result(&bytes, raw)?)),
        [None, None, Some(raw)] => Outcome::Error(error(raw)?),
        _ => return Err(Unreadable::Kind),
    };
    Ok(Message::Response(Response { bytes, id, outcome }))
}

/// The capabilities that are `true`, of the objects in which they stand.
pub(super) fn capabilities(raw: &[u8]) -> Option<Capabilities> {
    let members = Members::read(raw).ok()?;
    let of = |key: &str| match members.of(key) {
        None => Ok(None),
        Some(raw) => Members::read(raw.as_bytes()).map(Some),
    };
    let (tools, prompts) = (of("tools").ok()?, of("prompts").ok()?);
    let resources = of("resources").ok()?;
    let offers = |of: &Option<Members<'_>>, key| {
        let raw = of.as_ref().and_then(|members| members.of(key));
        raw == Some("true")
    };
    Some(Capabilities {
        tools: tools.is_some(),
        tools_list_changed: offers(&tools, "listChanged"),
        prompts_list_changed: offers(&prompts, "listChanged"),
        resources_list_changed: offers(&resources, "listChanged"),
        resources_subscribe: offers(&resources, "subscribe"),
    })
}

/// The keys of a result that something is decided by.
const DECISIVE: [&str; 9] = [
    "resultType",
    "ttlMs",
    "cacheScope",
    "nextCursor",
    "supportedVersions",
    "tools",
    "prompts",
    "resources",
    "resourceTemplates",
];

/// Refuses what readers that ignore case would take for one of these keys.
fn exact(members: &Members<'_>, keys: &[&str]) -> Result<(), Unreadable> {
    match keys.iter().any(|key| members.has_variant_of(key)) {
        true => Err(Unreadable::CaseVariant),
        false => Ok(()),
    }
}

/// An object with each of its keys once.
fn object(json: &[u8]) -> Result<Members<'_>, Unreadable> {
    let blank = |byte: &&u8| matches!(byte, b' ' | b'\t' | b'\n' | b'\r');
    if json.iter().find(|byte| !blank(byte)) == Some(&b'{') {
        Members::read(json).map_err(|error| match error.is_data() {
            true => Unreadable::RepeatedKey,
            false => Unreadable::Json,
        })
    } else if serde_json::from_slice::<&RawValue>(json).is_ok() {
        Err(Unreadable::NotAnObject)
    } else {
        Err(Unreadable::Json)
    }
}

fn error(raw: &str) -> Result<ErrorObject, Unreadable> {
    let code = match object(raw.as_bytes()) {
        Ok(members) => members.of("code").and_then(|raw| raw.parse().ok()),
        // Errors pass as they are, even those that only some clients can show.
        Err(Unreadable::NotAnObject) => None,
        Err(unreadable) => return Err(unreadable),
    };
    Ok(ErrorObject { code })
}

fn result(bytes: &[u8], raw: &str) -> Result<Found, Unreadable> {
    let members = object(raw.as_bytes()).map_err(|unreadable| match unreadable {
        Unreadable::NotAnObject => Unreadable::Result,
        other => other,
    })?;
    exact(&members, &DECISIVE)?;
    let at = |key: &str| members.of(key).map(|raw| place(bytes, raw));
    let is_complete = members
        .of("resultType")
        .is_none_or(|raw| is(raw, "complete"));
    let mut arrays = [const { None }; 4];
    for list in List::ALL {
        if let Some(raw) = members.of(list.key()).filter(|raw| raw.starts_with('[')) {
            arrays[list as usize] = Some(array(bytes, raw, list)?);
        }
    }
    Ok(Found {
        whole: place(bytes, raw),
        is_complete,
        ttl_ms: at("ttlMs"),
        cache_scope: at("cacheScope"),
        hints: hints(members.of("ttlMs"), members.of("cacheScope")),
        next_cursor: at("nextCursor"),
        supported_versions: at("supportedVersions"),
        capabilities: at("capabilities"),
        arrays,
    })
}

fn hints(ttl_ms: Option<&str>, scope: Option<&str>) -> Result<Hints, HintFault> {
    let ttl_ms = ttl_ms.ok_or(HintFault::TtlAbsent)?;
    let ttl_ms = digits(ttl_ms).ok_or(HintFault::TtlInvalid)?;
    let scope = match scope.ok_or(HintFault::ScopeAbsent)? {
        raw if is(raw, "public") => Scope::Public,
        raw if is(raw, "private") => Scope::Private,
        _ => return Err(HintFault::ScopeInvalid),
    };
    Ok(Hints { ttl_ms, scope })
}

/// A number that is written with digits alone; the largest, where it exceeds 64 bits.
fn digits(raw: &str) -> Option<u64> {
    let is_plain = raw.bytes().all(|byte| byte.is_ascii_digit());
    // Digits are refused for nothing else than being too many.
    is_plain.then(|| raw.parse().unwrap_or(u64::MAX))
}

fn array(bytes: &[u8], raw: &str, list: List) -> Result<Array, Unreadable> {
    let raws: Vec<&RawValue> = serde_json::from_str(raw).map_err(|_| Unreadable::Json)?;
    let items = raws.iter().map(|raw| item(bytes, raw.get(), list));
    Ok(Array {
        whole: place(bytes, raw),
        items: items.collect::<Result<_, _>>()?,
    })
}

fn item(bytes: &[u8], raw: &str, list: List) -> Result<ItemAt, Unreadable> {
    let name: Option<Span> = match object(raw.as_bytes()) {
        Ok(members) => {
            exact(&members, &[list.name_key()])?;
            let name = members.of(list.name_key());
            let name = name.filter(|raw| raw.starts_with('"'));
            name.map(|raw| place(bytes, raw))
        }
        Err(Unreadable::NotAnObject) => None,
        Err(unreadable) => return Err(unreadable),
    };
    Ok(ItemAt {
        whole: place(bytes, raw),
        name,
    })
}

fn is(raw: &str, word: &str) -> bool {
    text(raw.as_bytes()).is_some_and(|text| text == word)
}
