use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::protocol::param::Invalid;

const SECOND: Duration = Duration::from_secs(1);

fn lists(tools_max: usize, lists_max: usize) -> Lists {
    Lists::new(&Catalog {
        max_age: 10 * SECOND,
        tools_max,
        lists_max,
        ..Catalog::default()
    })
}

fn key(number: u8) -> ListKey {
    ListKey(Digest::of(&[number]))
}

/// The name and the digest of a tool whose schema asks for a header if that is 9.
fn definition(name: &str, digest: u8) -> Definition<'_> {
    let raw = match digest {
        9 => r#"{"inputSchema":{"properties":{"a":{"type":"number","x-mcp-header":"A"}}}}"#,
        _ => r#"{"inputSchema":{"type":"object"}}"#,
    };
    Definition {
        name,
        raw: raw.as_bytes(),
        digest: Digest::of(&[digest]),
    }
}

/// A page that is fresh for no time of its own.
fn page<'a>(
    cursor: Option<&'a str>,
    next: Option<&'a str>,
    tools: &'a [Definition<'a>],
) -> Page<'a> {
    Page {
        cursor,
        next,
        tools,
        ttl: Duration::ZERO,
        epoch: 0,
    }
}

/// Knowledge in a word: the digest of a known tool.
fn said(knowledge: &Knowledge) -> String {
    match knowledge {
        Knowledge::Known(tool) => match tool.annotations() {
            Ok(_) => (0..9)
                .find(|digest| *tool.digest() == Digest::of(&[*digest]))
                .map_or_else(String::new, |digest| digest.to_string()),
            Err(_) => "invalid".to_owned(),
        },
        Knowledge::Absent => "absent".to_owned(),
        Knowledge::Unknown => "unknown".to_owned(),
        Knowledge::NoList => "no list".to_owned(),
    }
}

fn ask(lists: &Lists, name: &str, epoch: u64, now: Instant) -> String {
    said(&lists.tool(key(1), name, epoch, now))
}

#[test]
fn a_list_is_believed_for_a_while() {
    let (lists, now) = (lists(10, 10), Instant::now());
    assert_eq!(ask(&lists, "a", 0, now), "unknown");
    let tools = [definition("a", 1)];
    lists.learn(key(1), &page(None, None, &tools), now);
    let last = now + 10 * SECOND - Duration::from_nanos(1);
    for now in [now, last] {
        assert_eq!(ask(&lists, "a", 0, now), "1");
        assert_eq!(ask(&lists, "b", 0, now), "absent");
    }
    let late = now + 10 * SECOND;
    assert_eq!(ask(&lists, "a", 0, late), "unknown");
    assert_eq!(ask(&lists, "b", 0, late), "unknown");
    // What is fresh for longer is believed for longer.
    let fresh = Page {
        ttl: 20 * SECOND,
        ..page(None, None, &tools)
    };
    lists.learn(key(1), &fresh, now);
    assert_eq!(ask(&lists, "a", 0, late), "1");
    // Others have lists of their own.
    let other = lists.tool(key(2), "a", 0, now);
    assert!(matches!(other, Knowledge::Unknown));
}

#[test]
fn a_change_voids_what_was_asked_for_before_it() {
    let (lists, now) = (lists(10, 10), Instant::now());
    let tools = [definition("a", 1)];
    lists.learn(key(1), &page(None, None, &tools), now);
    assert_eq!(ask(&lists, "a", 1, now), "unknown");
    assert_eq!(ask(&lists, "b", 1, now), "unknown");
    let fresh = [definition("a", 2)];
    let after = Page {
        epoch: 1,
        ..page(None, None, &fresh)
    };
    lists.learn(key(1), &after, now);
    // A slow answer from before the change does not undo it.
    lists.learn(key(1), &page(None, None, &tools), now);
    assert_eq!(ask(&lists, "a", 1, now), "2");
    assert_eq!(ask(&lists, "b", 1, now), "absent");
    lists.no_list(key(1), 1, SECOND, now);
    assert_eq!(ask(&lists, "b", 2, now), "unknown");
}

#[test]
fn only_a_list_that_was_read_from_its_first_to_its_last_page_lacks_a_tool() {
    let (lists, now) = (lists(10, 10), Instant::now());
    let (first, second) = ([definition("a", 1)], [definition("b", 1)]);
    lists.learn(key(1), &page(None, Some("2"), &first), now);
    assert_eq!(ask(&lists, "a", 0, now), "1");
    assert_eq!(ask(&lists, "b", 0, now), "unknown");
    lists.learn(key(1), &page(Some("3"), None, &[definition("c", 1)]), now);
    assert_eq!(ask(&lists, "c", 0, now), "1");
    assert_eq!(ask(&lists, "x", 0, now), "unknown");
    lists.learn(key(1), &page(Some("2"), None, &second), now);
    assert_eq!(ask(&lists, "b", 0, now), "1");
    assert_eq!(ask(&lists, "x", 0, now), "absent");
    // It stood in none of the pages.
    assert_eq!(ask(&lists, "c", 0, now), "absent");
    // While the list is read anew, what is known of it stays.
    lists.learn(key(1), &page(None, Some("4"), &[definition("d", 1)]), now);
    assert_eq!(ask(&lists, "b", 0, now), "1");
    lists.learn(key(1), &page(Some("4"), None, &[]), now);
    assert_eq!(ask(&lists, "b", 0, now), "absent");
    assert_eq!(ask(&lists, "d", 0, now), "1");
}

#[test]
fn the_oldest_page_says_how_long_a_list_is_believed() {
    let (lists, now) = (lists(10, 10), Instant::now());
    lists.learn(key(1), &page(None, Some("2"), &[definition("a", 1)]), now);
    let later = now + 9 * SECOND;
    lists.learn(key(1), &page(Some("2"), None, &[definition("b", 1)]), later);
    assert_eq!(ask(&lists, "x", 0, later), "absent");
    let late = now + 10 * SECOND;
    assert_eq!(ask(&lists, "x", 0, late), "unknown");
    assert_eq!(ask(&lists, "a", 0, late), "unknown");
    assert_eq!(ask(&lists, "b", 0, late), "1");
}

#[test]
fn an_invalid_tool_is_told_of_once() {
    let (lists, now) = (lists(10, 10), Instant::now());
    let tools = [definition("a", 1), definition("b", 9)];
    for untold in [vec![1], vec![]] {
        let learned = lists.learn(key(1), &page(None, None, &tools), now);
        assert_eq!(learned.tools.len(), 2);
        assert_eq!(learned.untold, untold);
        let invalid = learned.tools[1].annotations().unwrap_err();
        assert!(matches!(invalid, Invalid::Type { .. }));
    }
    assert_eq!(ask(&lists, "b", 0, now), "invalid");
    let other = lists.learn(key(2), &page(None, None, &tools), now);
    assert!(other.untold.is_empty());
}

#[test]
fn of_two_tools_with_one_name_none_is_valid() {
    let (lists, now) = (lists(10, 10), Instant::now());
    let twice = [definition("a", 1), definition("b", 1), definition("a", 2)];
    let learned = lists.learn(key(1), &page(None, None, &twice), now);
    assert_eq!(learned.untold, [0, 2]);
    assert_eq!(ask(&lists, "a", 0, now), "invalid");
    assert_eq!(ask(&lists, "b", 0, now), "1");
    // Once it is alone again, it is valid again.
    lists.learn(key(1), &page(None, None, &twice[2..]), now);
    assert_eq!(ask(&lists, "a", 0, now), "2");
    let equal = [definition("a", 2), definition("a", 2)];
    lists.learn(key(1), &page(None, None, &equal), now);
    assert_eq!(ask(&lists, "a", 0, now), "2");
    // Across pages alike, and whatever follows.
    lists.learn(key(1), &page(None, Some("2"), &[definition("a", 1)]), now);
    for (cursor, next) in [("2", Some("3")), ("3", None)] {
        let learned = lists.learn(
            key(1),
            &page(Some(cursor), next, &[definition("a", 2)]),
            now,
        );
        assert!(learned.tools[0].annotations().is_err());
        assert_eq!(ask(&lists, "a", 0, now), "invalid");
    }
}

#[test]
fn an_equal_definition_is_not_read_again() {
    let (lists, now) = (lists(10, 10), Instant::now());
    let tools = [definition("a", 1)];
    let first = lists.learn(key(1), &page(None, None, &tools), now);
    let again = lists.learn(key(1), &page(None, None, &tools), now);
    assert!(Arc::ptr_eq(&first.tools[0], &again.tools[0]));
}

#[test]
fn a_list_that_cannot_be_had_is_not_asked_for_each_time() {
    let (lists, now) = (lists(10, 10), Instant::now());
    lists.no_list(key(1), 0, 3 * SECOND, now);
    assert_eq!(ask(&lists, "a", 0, now), "no list");
    assert_eq!(ask(&lists, "a", 0, now + 3 * SECOND), "unknown");
    lists.learn(key(1), &page(None, Some("2"), &[definition("a", 1)]), now);
    assert_eq!(ask(&lists, "b", 0, now), "unknown");
    // The second page could not be had: the first is known all the same.
    lists.no_list(key(1), 0, 3 * SECOND, now);
    assert_eq!(ask(&lists, "a", 0, now), "1");
    assert_eq!(ask(&lists, "b", 0, now), "no list");
}

#[test]
fn a_list_that_is_too_long_lacks_nothing_for_certain() {
    let (lists, now) = (lists(2, 10), Instant::now());
    let all = ["a", "b", "c"].map(|name| definition(name, 1));
    let learned = lists.learn(key(1), &page(None, None, &all), now);
    assert_eq!(learned.tools.len(), 3);
    assert_eq!(ask(&lists, "b", 0, now), "1");
    for name in ["c", "x"] {
        assert_eq!(ask(&lists, name, 0, now), "no list");
    }
    // Tools of before make room for those of now.
    let others = ["d", "e"].map(|name| definition(name, 1));
    lists.learn(key(1), &page(None, None, &others), now);
    assert_eq!(ask(&lists, "d", 0, now), "1");
    assert_eq!(ask(&lists, "a", 0, now), "absent");
}

#[test]
fn a_mismatch_has_the_list_asked_for_once() {
    let (lists, now) = (lists(10, 10), Instant::now());
    let tools = [definition("a", 1), definition("b", 1)];
    lists.learn(key(1), &page(None, None, &tools), now);
    assert!(lists.mismatch(key(1), "a", now));
    lists.learn(key(1), &page(None, None, &tools), now);
    assert!(
        !lists.mismatch(key(1), "b", now),
        "the list has just been asked for"
    );
    let later = now + 6 * SECOND;
    assert!(!lists.mismatch(key(1), "a", later), "it is still the same");
    assert!(lists.mismatch(key(1), "b", later));
    assert!(!lists.mismatch(key(1), "x", later + SECOND));
    assert!(
        lists.mismatch(key(1), "x", later + 6 * SECOND),
        "it may have come"
    );
    // Another definition may be doubted, and so may an old one that is learned anew.
    let later = later + 12 * SECOND;
    lists.learn(
        key(1),
        &page(None, None, &[definition("a", 2), definition("b", 1)]),
        later,
    );
    assert!(lists.mismatch(key(1), "a", later));
    assert!(lists.mismatch(key(1), "b", later + 6 * SECOND));
}

#[test]
fn the_list_that_was_not_used_for_the_longest_time_is_forgotten() {
    let (lists, now) = (lists(10, 2), Instant::now());
    let tools = [definition("a", 1)];
    let learn = |number| lists.learn(key(number), &page(None, None, &tools), now);
    let known = |number| {
        let knowledge = lists
            .lists()
            .get(&key(number))
            .map(|list| list.tool("a", 0, now));
        matches!(knowledge, Some(Knowledge::Known(_)))
    };
    learn(1);
    learn(2);
    assert!(matches!(
        lists.tool(key(1), "a", 0, now),
        Knowledge::Known(_)
    ));
    learn(3);
    assert_eq!([1, 2, 3].map(known), [true, false, true]);
}

/// A page as a server gave it, on its way.
#[derive(Clone, Debug)]
struct Sent {
    cursor: Option<String>,
    next: Option<String>,
    tools: Vec<(String, u8)>,
    epoch: u64,
}

#[derive(Clone, Debug)]
enum Step {
    /// The server changes a tool (none removes it), and says so.
    Change(u8, Option<u8>),
    /// The page from this tool on is asked for.
    Ask(usize),
    /// An answer arrives, of those that are on their way.
    Arrive(usize),
    Wait(u8),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        1 => (0_u8..5, proptest::option::of(1_u8..4)).prop_map(|(name, digest)| Step::Change(name, digest)),
        3 => (0_usize..3).prop_map(|page| Step::Ask(page * 2)),
        3 => any::<usize>().prop_map(Step::Arrive),
        1 => (0_u8..6).prop_map(Step::Wait),
    ];
    proptest::collection::vec(step, 1..60)
}

/// The page of two that begins at `at`.
fn sent(server: &BTreeMap<String, u8>, at: usize, epoch: u64) -> Sent {
    let tools = server.iter().skip(at).take(2);
    Sent {
        cursor: (at > 0).then(|| at.to_string()),
        next: (at + 2 < server.len()).then(|| (at + 2).to_string()),
        tools: tools
            .map(|(name, digest)| (name.clone(), *digest))
            .collect(),
        epoch,
    }
}

proptest! {
    /// Where a server tells of every change, nothing is said of a tool that is not so, in whatever
    /// order pages are asked for and arrive.
    #[test]
    fn what_is_said_is_so(steps in steps(), tools_max in 1_usize..6) {
        let (lists, mut now, mut epoch) = (lists(tools_max, 1), Instant::now(), 0);
        let mut server: BTreeMap<String, u8> = BTreeMap::from([("t0".into(), 1), ("t3".into(), 1)]);
        let mut on_their_way: Vec<Sent> = Vec::new();
        for step in steps {
            match step {
                Step::Change(name, digest) => {
                    let name = format!("t{name}");
                    match digest {
                        Some(digest) => server.insert(name, digest),
                        None => server.remove(&name),
                    };
                    epoch += 1;
                }
                Step::Ask(at) => on_their_way.push(sent(&server, at, epoch)),
                Step::Arrive(_) if on_their_way.is_empty() => {}
                Step::Arrive(which) => {
                    let sent = on_their_way.swap_remove(which % on_their_way.len());
                    let tools: Vec<Definition<'_>> =
                        sent.tools.iter().map(|(name, digest)| definition(name, *digest)).collect();
                    let page = Page {
                        epoch: sent.epoch,
                        ..page(sent.cursor.as_deref(), sent.next.as_deref(), &tools)
                    };
                    lists.learn(key(1), &page, now);
                }
                Step::Wait(seconds) => now += u32::from(seconds) * SECOND,
            }
            for name in 0..5 {
                let name = format!("t{name}");
                match lists.tool(key(1), &name, epoch, now) {
                    Knowledge::Known(tool) => {
                        let digest = server.get(&name).map(|digest| Digest::of(&[*digest]));
                        prop_assert_eq!(digest, Some(*tool.digest()));
                        prop_assert!(tool.annotations().is_ok());
                    }
                    Knowledge::Absent => prop_assert_eq!(server.get(&name), None),
                    Knowledge::NoList => prop_assert!(server.len() > tools_max),
                    Knowledge::Unknown => {}
                }
            }
            prop_assert!(lists.lists().values().all(|list| list.len() <= tools_max));
        }
    }
}
