//! The files that a policy names, read whole and within a bound.

use std::fs::File;
use std::io::{ErrorKind, Read as _};
use std::path::Path;

use super::finding::{Flaw, shown};
use super::unit::size;

/// What the file at `path` holds.
///
/// # Errors
/// It cannot be read, is no file, or has more than `bytes_max` bytes; `what` says then what it should
/// be, as in "name a file with certificates alone".
pub(super) fn read(path: &Path, bytes_max: u64, what: &str) -> Result<Vec<u8>, Flaw> {
    let name = name(path);
    let failed = |error: std::io::Error| {
        let hint = match error.kind() {
            ErrorKind::PermissionDenied => {
                "let the user that the gateway runs as read it, and search the directories above it"
            }
            _ => "the path is taken relative to the policy file",
        };
        Flaw::new(format!("the file {name} cannot be read: {error}"), hint)
    };
    // Opening a pipe would wait for a writer.
    if !std::fs::metadata(path).map_err(failed)?.is_file() {
        let hint = "the path is taken relative to the policy file";
        return Err(Flaw::new(format!("{name} is not a regular file"), hint));
    }
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(bytes_max + 1).read_to_end(&mut bytes))
        .map_err(failed)?;
    if bytes.len() as u64 > bytes_max {
        let cause = format!("the file {name} is larger than {}", size(bytes_max));
        return Err(Flaw::new(cause, what));
    }
    Ok(bytes)
}

/// A path as messages name it.
pub(super) fn name(path: &Path) -> String {
    shown(&path.to_string_lossy())
}
