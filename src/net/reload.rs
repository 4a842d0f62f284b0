//! Things that are made from files, and made anew when the files change.
//!
//! A mounted Secret or ConfigMap changes by the swap of one link, a certificate and its key in two
//! steps, and what is on its way between machines may be cut short. So nothing is concluded from how
//! files change: whenever something happens around them, and from time to time whatever happens,
//! what they hold is compared with what they held. If it differs, it is tried; what is good comes
//! into use at once, and what is not is told and changes nothing.

use std::collections::BTreeSet;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use notify::event::{AccessKind, AccessMode};
use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::Notify;
use tokio::task::spawn_blocking;
use tokio::time::{sleep, timeout};

use crate::observe::{Level, Log};
use crate::policy::finding::Flaw;
use crate::policy::tls::content;

/// How often files are looked at of which nothing is heard: not all file systems tell of changes,
/// and a link further up a path may lead elsewhere.
const LOOK_INTERVAL: Duration = Duration::from_secs(10);
/// Changes seldom come alone; this long is waited for the others.
const SETTLE: Duration = Duration::from_millis(100);

/// How one thing is made anew.
pub struct Renewal {
    files: Vec<PathBuf>,
    renew: Box<Renew>,
    /// What the files held when they were looked at last.
    seen: Option<u64>,
}

/// Makes it from the files as they are now. Gives what is to be said of it, or why it stays as it
/// was.
type Renew = dyn FnMut() -> Result<Vec<Flaw>, Vec<Flaw>> + Send;

/// What came of looking at files.
#[derive(Debug, PartialEq, Eq)]
enum Look {
    /// They hold what they held.
    Same,
    /// What they hold now is in use, with these things to be said of it.
    Renewed(Vec<Flaw>),
    /// What they hold now is not good.
    Kept(Vec<Flaw>),
}

impl Renewal {
    /// Something made from `files` by `renew`.
    pub(super) fn new(
        files: Vec<&Path>,
        renew: impl FnMut() -> Result<Vec<Flaw>, Vec<Flaw>> + Send + 'static,
    ) -> Renewal {
        Renewal {
            files: files.into_iter().map(Path::to_owned).collect(),
            renew: Box::new(renew),
            seen: None,
        }
    }

    /// Compares, and renews where something has changed. The first time counts as a change: nobody
    /// knows what the files held when the policy was read.
    fn look(&mut self) -> Look {
        let holds = fingerprint(&self.files);
        if self.seen == Some(holds) {
            return Look::Same;
        }
        self.seen = Some(holds);
        // Whatever is wrong with one thing, the others are followed, and so is this one.
        match catch_unwind(AssertUnwindSafe(&mut self.renew)) {
            Ok(Ok(warnings)) => Look::Renewed(warnings),
            Ok(Err(flaws)) => Look::Kept(flaws),
            Err(_) => Look::Kept(vec![Flaw::new(
                format!("reading {} panicked", self.names()),
                "restart the gateway to use them, and report what the log says of the panic",
            )]),
        }
    }
}

impl Renewal {
    fn names(&self) -> String {
        let names: Vec<_> = self
            .files
            .iter()
            .map(|file| file.display().to_string())
            .collect();
        names.join(", ")
    }
}

impl fmt::Debug for Renewal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Renewal")
            .field("files", &self.files)
            .finish_non_exhaustive()
    }
}

/// What files hold, in short; that one cannot be read is a content too.
fn fingerprint(files: &[PathBuf]) -> u64 {
    let mut hasher = DefaultHasher::new();
    for file in files {
        let content = content(file).map_err(|flaw| flaw.cause);
        content.hash(&mut hasher);
    }
    hasher.finish()
}

/// Follows the files of all `renewals` for as long as the runtime stands.
pub fn start(renewals: Vec<Renewal>, log: Log) {
    if !renewals.is_empty() {
        tokio::spawn(follow(renewals, log));
    }
}

async fn follow(mut renewals: Vec<Renewal>, log: Log) {
    let changed = Arc::new(Notify::new());
    let mut watcher = watcher(&changed)
        .map_err(|error| tell_of_watching(&log, &error))
        .ok();
    let directories = directories(&renewals);
    let mut first = true;
    loop {
        if let Some(watcher) = &mut watcher {
            watch(watcher, &directories, &log, first);
        }
        let telling = log.clone();
        let looking = spawn_blocking(move || {
            for renewal in &mut renewals {
                let look = renewal.look();
                tell(&telling, renewal, look, first);
            }
            renewals
        });
        // The runtime ends, and with it all that is followed: panics are caught further down.
        let Ok(looked) = looking.await else {
            return;
        };
        renewals = looked;
        first = false;
        if timeout(LOOK_INTERVAL, changed.notified()).await.is_ok() {
            sleep(SETTLE).await;
        }
    }
}

/// What wakes us when something may have changed. Files that are only read tell of it too, and we
/// read them ourselves.
fn watcher(changed: &Arc<Notify>) -> notify::Result<RecommendedWatcher> {
    let changed = changed.clone();
    notify::recommended_watcher(move |event: notify::Result<Event>| {
        let is_read = matches!(
            event,
            Ok(Event {
                kind: EventKind::Access(kind),
                ..
            }) if kind != AccessKind::Close(AccessMode::Write)
        );
        if !is_read {
            changed.notify_one();
        }
    })
}

/// The directories in which the files stand: a file that is replaced is another one, and who looks
/// at the first sees nothing.
fn directories(renewals: &[Renewal]) -> BTreeSet<PathBuf> {
    let files = renewals.iter().flat_map(|renewal| &renewal.files);
    files
        .filter_map(|file| file.parent())
        .map(|parent| match parent.as_os_str().is_empty() {
            true => PathBuf::from("."),
            false => parent.to_owned(),
        })
        .collect()
}

/// Watches the directories that these paths lead to now; each time anew, because they may lead
/// elsewhere than before.
fn watch(
    watcher: &mut RecommendedWatcher,
    directories: &BTreeSet<PathBuf>,
    log: &Log,
    tells: bool,
) {
    for directory in directories {
        // Again is not more: who watches already goes on.
        if let Err(error) = watcher.watch(directory, RecursiveMode::NonRecursive)
            && tells
        {
            tell_of_watching(log, &error);
        }
    }
}

fn tell_of_watching(log: &Log, error: &notify::Error) {
    let seconds = LOOK_INTERVAL.as_secs();
    log.event(
        Level::Warn,
        "certificate files cannot be watched; they are looked at from time to time instead",
        &[("every_seconds", &seconds), ("error", error)],
    );
}

fn tell(log: &Log, renewal: &Renewal, look: Look, first: bool) {
    let warn = |message, flaws: &[Flaw]| {
        for flaw in flaws {
            let fields: &[(_, &dyn fmt::Display)] = &[("cause", &flaw.cause), ("hint", &flaw.hint)];
            log.event(Level::Warn, message, fields);
        }
    };
    match look {
        Look::Same => {}
        // When the policy was read all was said.
        Look::Renewed(_) if first => {}
        Look::Renewed(warnings) => {
            let fields: &[(_, &dyn fmt::Display)] = &[("files", &renewal.names())];
            log.event(Level::Info, "changed certificates are in use", fields);
            warn("the certificates in use", &warnings);
        }
        Look::Kept(flaws) => {
            warn(
                "changed certificates are not used; the last good ones stay",
                &flaws,
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    fn counting(files: Vec<&Path>, answer: Result<(), ()>) -> (Renewal, Arc<AtomicUsize>) {
        let count = Arc::new(AtomicUsize::new(0));
        let counted = count.clone();
        let renewal = Renewal::new(files, move || {
            counted.fetch_add(1, Ordering::Relaxed);
            answer
                .map(|()| Vec::new())
                .map_err(|()| vec![Flaw::new("bad", "mend it")])
        });
        (renewal, count)
    }

    #[test]
    fn files_are_tried_when_what_they_hold_has_changed() {
        let directory = tempfile::tempdir().unwrap();
        let (cert, key) = (directory.path().join("c"), directory.path().join("k"));
        for (answer, told) in [
            (Ok(()), Look::Renewed(Vec::new())),
            (Err(()), Look::Kept(vec![Flaw::new("bad", "mend it")])),
        ] {
            std::fs::write(&cert, "1").unwrap();
            std::fs::write(&key, "1").unwrap();
            let (mut renewal, count) = counting(vec![&cert, &key], answer);
            assert_eq!(renewal.look(), told);
            assert_eq!(renewal.look(), Look::Same);
            // Written again, and the same.
            std::fs::write(&cert, "1").unwrap();
            assert_eq!(renewal.look(), Look::Same);
            std::fs::write(&key, "2").unwrap();
            assert_eq!(renewal.look(), told);
            std::fs::remove_file(&key).unwrap();
            assert_eq!(renewal.look(), told);
            assert_eq!(renewal.look(), Look::Same);
            assert_eq!(count.load(Ordering::Relaxed), 3);
        }
    }

    #[test]
    fn a_panic_is_told_and_files_are_followed_after_it() {
        let directory = tempfile::tempdir().unwrap();
        let cert = directory.path().join("c");
        std::fs::write(&cert, "1").unwrap();
        let mut tries = 0;
        let mut renewal = Renewal::new(vec![&cert], move || {
            tries += 1;
            assert!(tries > 1, "the first is bad");
            Ok(Vec::new())
        });
        let Look::Kept(flaws) = renewal.look() else {
            panic!("it is not in use");
        };
        let cause = format!("reading {} panicked", cert.display());
        assert_eq!(flaws[0].cause, cause);
        assert_eq!(renewal.look(), Look::Same);
        std::fs::write(&cert, "2").unwrap();
        assert_eq!(renewal.look(), Look::Renewed(Vec::new()));
    }

    #[test]
    fn what_moves_from_one_file_to_the_next_is_a_change() {
        let directory = tempfile::tempdir().unwrap();
        let (cert, key) = (directory.path().join("c"), directory.path().join("k"));
        std::fs::write(&cert, "ab").unwrap();
        std::fs::write(&key, "c").unwrap();
        let before = fingerprint(&[cert.clone(), key.clone()]);
        std::fs::write(&cert, "a").unwrap();
        std::fs::write(&key, "bc").unwrap();
        assert_ne!(fingerprint(&[cert, key]), before);
    }

    #[test]
    fn directories_are_watched_and_each_once() {
        let (renewal, _) = counting(
            vec![Path::new("/a/c"), Path::new("/a/k"), Path::new("ca")],
            Ok(()),
        );
        let expected: BTreeSet<_> = ["/a", "."].map(PathBuf::from).into();
        assert_eq!(directories(&[renewal]), expected);
    }
}
