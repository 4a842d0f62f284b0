//! What is kept, for how long, and what is taken away.

use super::*;

#[test]
fn only_what_says_so_is_kept() {
    let (sent, _) = tools();
    let now = Instant::now();
    let error = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":""}}"#;
    let asks = r#","resultType":"input_required","ttlMs":60000,"cacheScope":"public""#;
    for (answer, kept) in [
        (public("a"), Ok(60_000)),
        (
            answer(
                "a",
                r#","ttlMs":18446744073709551616,"cacheScope":"public""#,
            ),
            Ok(3_600_000),
        ),
        (
            answer("a", r#","ttlMs":0,"cacheScope":"public""#),
            Err(Why::TtlZero),
        ),
        (
            answer("a", r#","ttlMs":60000,"cacheScope":"private""#),
            Err(Why::Private),
        ),
        (answer("a", r#","ttlMs":60000"#), Err(Why::Hints)),
        (
            answer("a", r#","ttlMs":"60000","cacheScope":"public""#),
            Err(Why::Hints),
        ),
        (answer("a", asks), Err(Why::InputRequired)),
        (message(error), Err(Why::Error)),
        (public(&"a".repeat(1 << 20)), Err(Why::TooLarge)),
    ] {
        let store = store();
        let entry = sent
            .lead(&store, now)
            .keep(now, &answer, Selection::default());
        let ttl = entry.map(|entry| entry.ttl_ms(now));
        assert_eq!(ttl, kept);
        assert_eq!(matches!(sent.look(&store, now), Look::Hit(_)), kept.is_ok());
        assert_eq!(
            store.entries(Filter::default()).count(),
            usize::from(kept.is_ok())
        );
    }
}

#[test]
fn it_is_served_until_it_is_not_fresh() {
    let (store, now) = (store(), Instant::now());
    let (sent, _) = tools();
    sent.lead(&store, now)
        .keep(now, &public("a"), Selection::default())
        .unwrap();
    let hit = sent.hit(&store, now + 59 * SECOND);
    assert_eq!(hit.entry.ttl_seconds(now + 59 * SECOND), 1);
    assert!(hit.refresh.is_none());
    let fill = sent.lead(&store, now + 60 * SECOND);
    assert!(fill.had_stale() && fill.is_alone().is_none());
    assert!(
        fill.failed(now + 60 * SECOND).is_none(),
        "nobody allowed it"
    );
    assert_eq!(hit.entry.hits(), 1);
}

#[test]
fn what_is_stale_is_served_only_while_its_server_fails() {
    let (mut sent, changes) = tools();
    sent.policy.stale_if_error = 30 * SECOND;
    let now = Instant::now();
    let late = now + 70 * SECOND;
    let stored = || {
        let store = store();
        sent.lead(&store, now)
            .keep(now, &public("a"), Selection::default())
            .unwrap();
        store
    };

    let store = stored();
    let fill = sent.lead(&store, late);
    let mut waiting = sent.wait(&store, late);
    assert_eq!(text(&fill.failed(late).unwrap()), "a");
    let told = waiting.outcome();
    assert!(matches!(
        futures_now(told),
        Some(Outcome::Stale(entry)) if text(&entry) == "a"
    ));
    let fill = sent.lead(&store, late);
    assert!(fill.failed(now + 90 * SECOND).is_none(), "its time is over");

    for why in [Why::Error, Why::Private] {
        let store = stored();
        sent.lead(&store, late).unshareable(late, why);
        let again = sent.lead(&store, late + 10 * SECOND);
        assert!(again.failed(late + 10 * SECOND).is_none(), "{why:?}");
        // Nor does one that began before know better.
        let store = stored();
        let before = sent.lead(&store, late);
        let Outcome::Lead(other) = sent.wait(&store, late).give_up() else {
            panic!("it asks for itself");
        };
        other.unshareable(late, why);
        assert!(before.failed(late).is_none(), "{why:?}");
    }

    let store = stored();
    let fill = sent.lead(&store, late);
    changes.changed(Change::Tools);
    assert!(fill.failed(late).is_none());
    let store = stored();
    let fill = sent.lead(&store, late);
    store.purge(&Filter::default());
    assert!(fill.failed(late).is_none());
}

/// What a future has by now.
fn futures_now<T>(future: impl Future<Output = T>) -> Option<T> {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match std::pin::pin!(future).poll(&mut context) {
        std::task::Poll::Ready(value) => Some(value),
        std::task::Poll::Pending => None,
    }
}

#[test]
fn one_hit_shortly_before_the_end_fetches_it_again() {
    let (store, now) = (store(), Instant::now());
    let (mut sent, _) = tools();
    sent.policy.refresh_before = 10 * SECOND;
    sent.lead(&store, now)
        .keep(now, &public("a"), Selection::default())
        .unwrap();
    let due = now + 50 * SECOND;
    assert!(sent.hit(&store, due - SECOND).refresh.is_none());
    let fill = sent.hit(&store, due).refresh.unwrap();
    assert!(sent.hit(&store, due).refresh.is_none(), "one is enough");
    // Once the old one is not fresh any more, others wait for the new one.
    let late = now + 60 * SECOND;
    let waiting = sent.wait(&store, late);
    fill.keep(late, &public("b"), Selection::default()).unwrap();
    assert!(matches!(waiting.give_up(), Outcome::Answer(entry) if text(&entry) == "b"));
    // One that is given up is not tried again.
    drop(sent.hit(&store, late + 50 * SECOND).refresh.unwrap());
    assert!(sent.hit(&store, late + 50 * SECOND).refresh.is_none());
    assert_eq!(store.flights(), (0, 0));
}

#[test]
fn a_credential_does_not_fetch_again_what_anybody_is_given() {
    let (store, now) = (store(), Instant::now());
    let (mut bare, _) = tools();
    bare.policy.refresh_before = 10 * SECOND;
    let with = tools().0.with("authorization", "Bearer a");
    let with = Sent {
        policy: bare.policy,
        ..with
    };
    bare.lead(&store, now)
        .keep(now, &public("a"), Selection::default())
        .unwrap();
    let due = now + 55 * SECOND;
    assert!(with.hit(&store, due).refresh.is_none());
    assert!(bare.hit(&store, due).refresh.is_some());
}

#[test]
fn an_invalid_cursor_drops_the_pages_of_its_list_alone() {
    let (store, now) = (store(), Instant::now());
    let changes = Arc::default();
    let list = |method, cursor: &str| {
        let params = match cursor {
            "" => "{}".into(),
            cursor => format!(r#"{{"cursor":"{cursor}"}}"#),
        };
        Sent::new(method, &params, plan::Cache::default(), &changes)
    };
    let pages = [list("tools/list", ""), list("tools/list", "a")];
    let other = list("prompts/list", "");
    for sent in pages.iter().chain([&other]) {
        sent.lead(&store, now)
            .keep(now, &public("a"), Selection::default())
            .unwrap();
    }
    list("tools/list", "b")
        .lead(&store, now)
        .cursor_invalid(now);
    for page in &pages {
        drop(page.lead(&store, now));
    }
    other.hit(&store, now);
    // A request without a cursor says nothing about those of others.
    pages[0]
        .lead(&store, now)
        .keep(now, &public("a"), Selection::default())
        .unwrap();
    other.lead_again(&store, now).cursor_invalid(now);
    pages[0].hit(&store, now);
}

impl Sent {
    /// Fetches what is in memory already.
    fn lead_again(&self, store: &Store, now: Instant) -> Fill {
        store.purge(&Filter {
            method: self.frame.method().as_deref(),
            ..Filter::default()
        });
        self.lead(store, now)
    }
}

#[test]
fn what_is_meant_is_purged() {
    let now = Instant::now();
    let changes = Arc::default();
    let read = |uri: &str| {
        let params = format!(r#"{{"uri":"{uri}"}}"#);
        Sent::new("resources/read", &params, plan::Cache::default(), &changes)
    };
    let all = [read("a:/b"), read("a:/b/c"), tools().0];
    for (filter, purged) in [
        (Filter::default(), &[0, 1, 2][..]),
        (
            Filter {
                route: Some("weather"),
                ..Filter::default()
            },
            &[0, 1, 2],
        ),
        (
            Filter {
                route: Some("other"),
                ..Filter::default()
            },
            &[],
        ),
        (
            Filter {
                method: Some("tools/list"),
                ..Filter::default()
            },
            &[2],
        ),
        (
            Filter {
                uri: Some("a:/b/"),
                ..Filter::default()
            },
            &[0],
        ),
        (
            Filter {
                method: Some("tools/list"),
                uri: Some("a:/b"),
                ..Filter::default()
            },
            &[],
        ),
    ] {
        let store = store();
        for sent in &all {
            sent.lead(&store, now)
                .keep(now, &public("a"), Selection::default())
                .unwrap();
        }
        let begun = read("a:/z").lead(&store, now);
        assert_eq!(store.purge(&filter), purged.len(), "{filter:?}");
        for (index, sent) in all.iter().enumerate() {
            let is_kept = matches!(sent.look(&store, now), Look::Hit(_));
            assert_eq!(is_kept, !purged.contains(&index), "{filter:?} {index}");
        }
        assert_eq!(
            begun
                .keep(now, &public("a"), Selection::default())
                .unwrap_err(),
            Why::Voided
        );
    }
}

#[test]
fn what_was_asked_for_before_a_purge_takes_nothing_away_that_came_after_it() {
    let (store, now) = (store(), Instant::now());
    let (sent, _) = tools();
    let first = sent.lead(&store, now);
    let Outcome::Lead(late) = sent.wait(&store, now).give_up() else {
        panic!("it asks for itself");
    };
    store.purge(&Filter::default());
    let waiting = sent.wait(&store, now);
    drop(first);
    let Outcome::Lead(second) = waiting.give_up() else {
        panic!("it takes over");
    };
    second
        .keep(now, &public("new"), Selection::default())
        .unwrap();
    assert_eq!(
        late.keep(now, &public("old"), Selection::default())
            .unwrap_err(),
        Why::Voided
    );
    assert_eq!(text(&sent.hit(&store, now).entry), "new");
}

#[test]
fn an_entry_describes_itself() {
    let (store, now) = (store(), Instant::now());
    let changes = Arc::default();
    let params = r#"{"uri":"a:/b"}"#;
    let sent = Sent::new("resources/read", params, plan::Cache::default(), &changes)
        .with("authorization", "Bearer a");
    sent.lead(&store, now)
        .keep(now, &public("a"), Selection::default())
        .unwrap();
    let entry = store.entries(Filter::default()).next().unwrap();
    let about = entry.about();
    assert_eq!((&*about.route, &*about.upstream), ("weather", "upstream"));
    assert_eq!((about.kind, about.version), (Kind::Contents, "2026-07-28"));
    assert_eq!(about.target.as_deref(), Some("a:/b"));
    assert_eq!(about.audience(), Audience::Credentialed);
    changes.resource_updated("a:/b/c");
    assert_eq!(
        store.entries(Filter::default()).count(),
        0,
        "it does not hold any more"
    );
}

#[test]
fn a_memory_of_nothing_is_none() {
    let (sent, _) = tools();
    for memory in [
        Memory {
            bytes_max: 0,
            ..Memory::default()
        },
        Memory {
            entries_max: 0,
            ..Memory::default()
        },
    ] {
        let store = Store::new(&memory).unwrap();
        let usual = sent.question(&self::store()).asking;
        assert_eq!(store.question(usual).unwrap_err(), Why::Off);
    }
}

#[test]
fn both_bounds_hold_whatever_the_sizes() {
    let now = Instant::now();
    let changes = Arc::default();
    for (bytes_max, entries_max, size) in [
        (1 << 20, 10_000, 100),
        (64 << 20, 100, 100),
        (1 << 20, 10_000, 100_000),
        (10_000, 3, 10),
    ] {
        let store = Store::new(&Memory {
            bytes_max,
            entries_max,
            ..Memory::default()
        })
        .unwrap();
        for index in 0..2_000 {
            let params = format!(r#"{{"cursor":"{index}"}}"#);
            let sent = Sent::new("tools/list", &params, plan::Cache::default(), &changes);
            let size = size + index % 7 * size;
            let _ =
                sent.lead(&store, now)
                    .keep(now, &public(&"a".repeat(size)), Selection::default());
            let (bytes, entries) = store.held();
            assert!(bytes <= bytes_max && entries <= entries_max as u64);
        }
        assert!(store.held().1 > 0);
    }
}
