//! Deadlines, and what a pool keeps and for how long.

use http_body_util::Full;
use tokio::io::{AsyncReadExt, DuplexStream, duplex};
use tokio::task::yield_now;

use super::*;

const SECOND: Duration = Duration::from_secs(1);
const MILLISECOND: Duration = Duration::from_millis(1);

#[test]
fn a_deadline_is_met_or_missed_and_never_both() {
    let origin = Instant::now();
    let deadline = Deadline::starting_at(origin);
    assert!(
        !deadline.miss(origin + 3600 * SECOND),
        "nothing is waited for"
    );
    deadline.set(origin + SECOND, SECOND);
    assert!(!deadline.miss(origin));
    assert!(!deadline.miss(origin + 2 * SECOND - MILLISECOND));
    // What comes late, but before anybody looked, has come.
    assert!(deadline.meet());
    assert!(!deadline.miss(origin + 3600 * SECOND));
    deadline.set(origin + 4 * SECOND, SECOND);
    deadline.set(origin + 5 * SECOND, SECOND);
    assert!(!deadline.miss(origin + 5 * SECOND), "set anew");
    assert!(deadline.miss(origin + 6 * SECOND));
    assert!(deadline.was_missed() && deadline.miss(origin), "for good");
    assert!(!deadline.meet(), "too late");
}

#[test]
fn a_deadline_takes_any_wait() {
    let origin = Instant::now();
    for (wait, missed_at) in [
        (Duration::ZERO, Some(MILLISECOND)),
        (Duration::from_nanos(1), Some(MILLISECOND)),
        (3600 * SECOND, Some(3600 * SECOND)),
        (Duration::MAX, None),
    ] {
        let deadline = Deadline::starting_at(origin);
        deadline.set(origin, wait);
        assert!(!deadline.miss(origin), "{wait:?}");
        assert!(!deadline.was_missed(), "{wait:?}");
        let then = origin + missed_at.unwrap_or(1_000_000 * SECOND);
        assert_eq!(deadline.miss(then), missed_at.is_some(), "{wait:?}");
    }
}

#[test]
fn a_connection_looks_often_enough_and_not_too_often() {
    let ms = Duration::from_millis;
    for (header, idle, interval) in [
        (300 * SECOND, 4 * SECOND, SECOND),
        (ms(300), 4 * SECOND, ms(75)),
        (300 * SECOND, ms(200), ms(50)),
        (ms(1), ms(1), LOOK_MIN),
        (3600 * SECOND, 3600 * SECOND, LOOK_MAX),
    ] {
        let pool = pool(1, header, idle);
        assert_eq!(pool.look_interval(), interval, "{header:?}, {idle:?}");
    }
}

fn pool(idle_connections_max: usize, header: Duration, idle: Duration) -> Arc<Pool<Full<Bytes>>> {
    Pool::new(Arc::new(Upstream {
        response_header_timeout: header,
        idle_timeout: idle,
        idle_connections_max,
        ..Upstream::at("up", "up", 80, "/")
    }))
}

fn patient_pool(idle_connections_max: usize) -> Arc<Pool<Full<Bytes>>> {
    pool(idle_connections_max, 3600 * SECOND, 3600 * SECOND)
}

/// A connection in use, and the upstream's end of it.
async fn lease(pool: &Arc<Pool<Full<Bytes>>>) -> (Lease<Full<Bytes>>, DuplexStream) {
    let (ours, theirs) = duplex(1024);
    let connection = pool.connection(ours).await.expect("a connection");
    let lease = Lease {
        connection,
        pool: pool.clone(),
        reused: false,
    };
    (lease, theirs)
}

/// Reads to the end, which must come.
async fn ends(mut theirs: DuplexStream) {
    let read = theirs.read_to_end(&mut Vec::new()).await;
    assert_eq!(read.expect("an end"), 0);
}

#[tokio::test]
async fn no_more_connections_are_kept_than_allowed() {
    for (max, used, kept) in [(0, 1, 0), (1, 1, 1), (2, 5, 2), (8, 5, 5)] {
        let pool = patient_pool(max);
        let mut upstream = Vec::new();
        for _ in 0..used {
            let (lease, theirs) = lease(&pool).await;
            lease.give_back();
            upstream.push(theirs);
        }
        assert_eq!(pool.lock().len(), kept);
        for theirs in upstream.split_off(kept) {
            ends(theirs).await;
        }
        assert!(pool.lock().iter().all(|kept| !kept.sender.is_closed()));
    }
}

#[tokio::test]
async fn the_connection_that_was_used_last_is_used_first() {
    let pool = patient_pool(8);
    let (mut tasks, mut upstream) = (Vec::new(), Vec::new());
    for _ in 0..3 {
        let (lease, theirs) = lease(&pool).await;
        tasks.push(lease.connection.driver.id());
        lease.give_back();
        upstream.push(theirs);
    }
    while let Some(task) = tasks.pop() {
        let lease = pool.lease().await.expect("a kept connection");
        assert!(lease.reused());
        assert_eq!(lease.connection.driver.id(), task);
    }
    assert!(pool.take().is_none());
}

#[tokio::test]
async fn a_connection_that_is_not_fresh_is_not_used_again() {
    let pool = patient_pool(8);
    let (lease, theirs) = lease(&pool).await;
    lease.give_back();
    for kept in pool.lock().iter_mut() {
        // Its time is over, but nobody has looked yet.
        let origin = Instant::now() - 2 * SECOND;
        let deadline = Deadline::starting_at(origin);
        deadline.set(origin, SECOND);
        kept.deadline = Arc::new(deadline);
    }
    assert!(pool.take().is_none());
    ends(theirs).await;
}

#[tokio::test]
async fn a_connection_that_its_upstream_closed_makes_room() {
    let pool = patient_pool(2);
    let mut upstream = Vec::new();
    for _ in 0..2 {
        let (lease, theirs) = lease(&pool).await;
        lease.give_back();
        upstream.push(theirs);
    }
    upstream.pop();
    while !pool.lock()[1].sender.is_closed() {
        yield_now().await;
    }
    let (third, _theirs) = lease(&pool).await;
    third.give_back();
    let open = |kept: &Connection<Full<Bytes>>| !kept.sender.is_closed();
    assert_eq!(pool.lock().iter().filter(|kept| open(kept)).count(), 2);
    // Nor is one kept that was closed while it was in use.
    let (fourth, theirs) = lease(&pool).await;
    drop(theirs);
    while !fourth.connection.sender.is_closed() {
        yield_now().await;
    }
    let before = pool.lock().len();
    fourth.give_back();
    assert_eq!(pool.lock().len(), before);
}

#[tokio::test]
async fn a_lease_that_is_dropped_ends_its_connection() {
    let pool = patient_pool(8);
    let (lease, theirs) = lease(&pool).await;
    drop(lease);
    ends(theirs).await;
    assert!(pool.lock().is_empty());
}
