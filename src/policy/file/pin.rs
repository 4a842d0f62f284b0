//! `pin` of a route: the lock file is read when the policy is, so that what is wrong with it is told
//! with everything else.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::policy::finding::Flaw;
use crate::policy::pin::{Lock, OnChange, Pin};
use crate::policy::plan::Route;

use super::Setting;
use super::key::{self, Key, Shown, word};
use super::node::Node;
use super::reader::Reader;

/// What the keys of `pin` say.
#[derive(Default)]
pub(super) struct DraftPin {
    file: Option<PathBuf>,
    on_change: OnChange,
}

/// The words for [`OnChange`].
const ON_CHANGE: [(&str, OnChange); 3] = [
    ("warn", OnChange::Warn),
    ("hide", OnChange::Hide),
    ("block", OnChange::Block),
];

const PIN: &[Key<DraftPin>] = &[
    Key {
        name: "file",
        read: |p, n, r| {
            if let Some(path) = r.text(n, "the path of a lock file") {
                let directory = n.place.source.path.parent().unwrap_or(Path::new(""));
                p.file = Some(directory.join(path));
            }
        },
        show: |p| match &p.file {
            Some(file) => Shown::value(file.display()),
            None => Shown::value("none"),
        },
    },
    Key {
        name: "on_change",
        read: |p, n, r| r.choice(n, &ON_CHANGE, &mut p.on_change),
        show: |p| Shown::value(word(&ON_CHANGE, p.on_change)),
    },
];

/// Reads `pin` of a route and the file that it names.
pub(super) fn read(node: &Node, pin: &mut Option<Pin>, reader: &mut Reader<'_>) {
    let mut draft = DraftPin::default();
    let seen = key::read(node, "`pin`", PIN, &mut draft, reader);
    if seen.lacks("file") {
        let flaw = Flaw::new(
            "`pin` names no file",
            "write `pin: { file: weather.lock.json }` with a file that `weirgate pin` wrote",
        );
        reader.refuse(&node.place, flaw);
    }
    let (Some(file), Some(written)) = (draft.file, seen.place("file")) else {
        return;
    };
    let lock = match reader.reads_locks {
        true => Lock::open(&file),
        false => Ok(Lock::new("", BTreeMap::new())),
    };
    match lock {
        Ok(lock) => {
            *pin = Some(Pin {
                lock: Arc::new(lock),
                file,
                on_change: draft.on_change,
            });
        }
        Err(flaw) => reader.refuse(written, flaw),
    }
}

/// What `pin` says.
pub(super) fn show(pin: Option<&Pin>) -> Shown {
    key::show(PIN, &draft(pin))
}

/// What of a route's pin is not at its default.
pub(super) fn settings(route: &Route) -> Vec<Setting> {
    key::differences(PIN, "pin", &draft(route.pin.as_ref()), &draft(None))
}

fn draft(pin: Option<&Pin>) -> DraftPin {
    DraftPin {
        file: pin.map(|pin| pin.file.clone()),
        on_change: pin.map(|pin| pin.on_change).unwrap_or_default(),
    }
}
