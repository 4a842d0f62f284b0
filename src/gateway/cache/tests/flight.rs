//! Many that ask the same at once.

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};

use tokio::task::JoinSet;
use tokio::time::timeout;

use super::*;

/// Only waited for where somebody is never told.
const PATIENCE: Duration = Duration::from_secs(60);

/// What the waiting has come to by now.
fn told(waiting: &mut Waiting) -> Option<Outcome> {
    match pin!(waiting.outcome()).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(outcome) => Some(outcome),
        Poll::Pending => None,
    }
}

fn leads(waiting: &mut Waiting) -> Fill {
    match told(waiting) {
        Some(Outcome::Lead(fill)) => fill,
        other => panic!("it does not lead: {other:?}"),
    }
}

/// Lets 1,000 tasks ask at once; `upstream` makes of the number of a fetch what becomes of it, and
/// says whether the task has an answer then. Gives how many fetches there were.
async fn crowd(upstream: fn(Fill, usize) -> bool) -> usize {
    let (store, fetches) = (store(), Arc::new(AtomicUsize::new(0)));
    let changes: Arc<Changes> = Arc::default();
    let now = Instant::now();
    let mut tasks = JoinSet::new();
    for _ in 0..1000 {
        let (store, fetches, changes) = (store.clone(), fetches.clone(), changes.clone());
        tasks.spawn(async move {
            let sent = Sent::new("tools/list", "{}", plan::Cache::default(), &changes);
            let mut look = sent.look(&store, now);
            loop {
                let fill = match look {
                    Look::Hit(_) => return,
                    Look::Lead(fill) => fill,
                    Look::Wait(mut waiting) => match waiting.outcome().await {
                        Outcome::Lead(fill) => fill,
                        Outcome::Answer(_) | Outcome::Stale(_) => return,
                    },
                };
                let number = fetches.fetch_add(1, Ordering::SeqCst);
                // The others come meanwhile.
                for _ in 0..3 {
                    tokio::task::yield_now().await;
                }
                if upstream(fill, number) {
                    return;
                }
                look = sent.look(&store, now);
            }
        });
    }
    let all = timeout(PATIENCE, tasks.join_all()).await;
    assert!(all.is_ok(), "somebody was never told");
    assert_eq!(store.flights(), (0, 0));
    fetches.load(Ordering::SeqCst)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_thousand_that_ask_at_once_ask_once() {
    for _ in 0..5 {
        let fetches = crowd(|fill, _| {
            fill.keep(Instant::now(), &public("a"), Selection::default())
                .is_ok()
        })
        .await;
        assert_eq!(fetches, 1);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn where_some_are_given_up_one_after_the_other_takes_over() {
    let upstream = |fill: Fill, number| {
        if number < 20 {
            drop(fill);
            return number % 2 == 0;
        }
        fill.keep(Instant::now(), &public("a"), Selection::default())
            .is_ok()
    };
    assert_eq!(crowd(upstream).await, 21);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_is_private_everybody_asks_for_once() {
    let private = |fill: Fill, _| {
        let hints = r#","ttlMs":60000,"cacheScope":"private""#;
        let kept = fill.keep(Instant::now(), &answer("a", hints), Selection::default());
        assert_eq!(kept.unwrap_err(), Why::Private);
        true
    };
    assert_eq!(crowd(private).await, 1000);
}

#[test]
fn the_one_that_waited_longest_takes_over_and_the_others_go_on() {
    let (store, now) = (store(), Instant::now());
    let (sent, _) = tools();
    let first = sent.lead(&store, now);
    let mut waiting: Vec<_> = (0..3).map(|_| sent.wait(&store, now)).collect();
    drop(first);
    let second = leads(&mut waiting[0]);
    assert_eq!(second.is_alone(), None);
    assert!(told(&mut waiting[1]).is_none() && told(&mut waiting[2]).is_none());
    second
        .keep(now, &public("a"), Selection::default())
        .unwrap();
    for waiting in &mut waiting[1..] {
        let Some(Outcome::Answer(entry)) = told(waiting) else {
            panic!("no answer");
        };
        assert_eq!(text(&entry), "a");
    }
    assert_eq!(store.flights(), (0, 0));
}

#[test]
fn one_that_goes_leaves_nothing_behind() {
    let (store, now) = (store(), Instant::now());
    let (sent, _) = tools();
    let fill = sent.lead(&store, now);
    let (gone, mut stays) = (sent.wait(&store, now), sent.wait(&store, now));
    assert_eq!(store.flights(), (1, 2));
    drop(gone);
    assert_eq!(store.flights(), (1, 1));
    drop(fill);
    // Told to lead, it goes without having looked: the next one is told.
    let mut next = sent.wait(&store, now);
    drop(stays);
    let fill = leads(&mut next);
    stays = sent.wait(&store, now);
    drop((next, stays));
    assert_eq!(store.flights(), (1, 0));
    drop(fill);
    assert_eq!(store.flights(), (0, 0));
}

#[test]
fn one_that_waits_no_longer_asks_for_itself() {
    let (store, now) = (store(), Instant::now());
    let (sent, _) = tools();
    let first = sent.lead(&store, now);
    let (late, other) = (sent.wait(&store, now), sent.wait(&store, now));
    let Outcome::Lead(alone) = late.give_up() else {
        panic!("it has nothing to wait for");
    };
    assert_eq!(alone.is_alone(), Some(Why::Late));
    assert_eq!(store.flights(), (1, 1), "the others wait for the first");
    // What it brings is kept all the same, and given to those that wait.
    alone.keep(now, &public("b"), Selection::default()).unwrap();
    assert_eq!(text(&sent.hit(&store, now).entry), "b");
    let Outcome::Answer(entry) = other.give_up() else {
        panic!("there is an answer");
    };
    assert_eq!(text(&entry), "b");
    drop(first);
    assert_eq!(store.flights(), (0, 0));
}

#[test]
fn what_one_was_told_in_the_last_moment_is_not_lost() {
    let (store, now) = (store(), Instant::now());
    let (sent, _) = tools();
    let first = sent.lead(&store, now);
    let lucky = sent.wait(&store, now);
    drop(first);
    let Outcome::Lead(fill) = lucky.give_up() else {
        panic!("it was to take over");
    };
    assert_eq!(fill.is_alone(), None);
    drop(fill);
    assert_eq!(store.flights(), (0, 0));
}

#[test]
fn no_more_wait_than_may() {
    let (store, now) = (store(), Instant::now());
    let (mut sent, _) = tools();
    sent.policy.waiters_max = 2;
    let first = sent.lead(&store, now);
    let waiting = (sent.wait(&store, now), sent.wait(&store, now));
    let crowded = sent.lead(&store, now);
    assert_eq!(crowded.is_alone(), Some(Why::Crowded));
    drop(crowded);
    assert_eq!(store.flights(), (1, 2));
    drop(waiting.0);
    drop(sent.wait(&store, now));
    drop((first, waiting.1));
    assert_eq!(store.flights(), (0, 0));
}

#[test]
fn nobody_queues_behind_what_is_not_shared() {
    let (store, now) = (store(), Instant::now());
    let (sent, _) = tools();
    sent.lead(&store, now).unshareable(now, Why::Private);
    let marked = |seconds| sent.lead(&store, now + seconds * SECOND);
    let (one, other) = (marked(1), marked(2));
    assert_eq!(one.is_alone(), Some(Why::Private));
    assert_eq!(other.is_alone(), Some(Why::Private));
    // One caller's error is forgotten soon.
    other.unshareable(now, Why::Error);
    assert_eq!(marked(0).is_alone(), Some(Why::Error));
    assert_eq!(marked(1).is_alone(), None);
    // And it keeps nobody from sharing: the first answer that may be kept is.
    one.keep(now, &public("a"), Selection::default()).unwrap();
    sent.hit(&store, now);
}

#[test]
fn what_changes_while_it_is_fetched_is_fetched_again() {
    let (store, now) = (store(), Instant::now());
    let (sent, changes) = tools();
    let first = sent.lead(&store, now);
    let mut before = sent.wait(&store, now);
    changes.changed(Change::Tools);
    let mut after = sent.wait(&store, now);
    assert_eq!(
        first
            .keep(now, &public("old"), Selection::default())
            .unwrap_err(),
        Why::Voided
    );
    assert!(told(&mut after).is_none());
    let second = leads(&mut before);
    second
        .keep(now, &public("new"), Selection::default())
        .unwrap();
    assert!(matches!(told(&mut after), Some(Outcome::Answer(entry)) if text(&entry) == "new"));
    assert_eq!(text(&sent.hit(&store, now).entry), "new");
}

#[test]
fn who_asks_beside_others_answers_all_that_wait() {
    let (store, now) = (store(), Instant::now());
    let (sent, _) = tools();
    let first = sent.lead(&store, now);
    let (late, mut waiting) = (sent.wait(&store, now), sent.wait(&store, now));
    let Outcome::Lead(late) = late.give_up() else {
        panic!("it asks for itself");
    };
    late.keep(now, &public("late"), Selection::default())
        .unwrap();
    let Some(Outcome::Answer(entry)) = told(&mut waiting) else {
        panic!("it is given the answer");
    };
    assert_eq!(text(&entry), "late");
    // The first one has nobody to see to any more, and its flight ends with it.
    assert_eq!(store.flights(), (1, 0));
    drop(first);
    assert_eq!(store.flights(), (0, 0));
}

#[test]
fn what_began_earlier_takes_nothing_away_that_came_later() {
    let (store, now) = (store(), Instant::now());
    let (sent, _) = tools();
    let first = sent.lead(&store, now);
    let Outcome::Lead(late) = sent.wait(&store, now).give_up() else {
        panic!("it asks for itself");
    };
    late.keep(now + SECOND, &public("late"), Selection::default())
        .unwrap();
    assert_eq!(
        first
            .keep(now, &public("first"), Selection::default())
            .unwrap_err(),
        Why::Voided
    );
    assert_eq!(text(&sent.hit(&store, now + SECOND).entry), "late");
    assert_eq!(store.flights(), (0, 0));
}
