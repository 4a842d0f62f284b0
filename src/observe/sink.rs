//! The targets of the log.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

/// Where batches of lines go.
pub(super) trait Sink: Send + 'static {
    /// Writes some bytes of whole lines; gives how many. May block.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize>;

    /// Called before every write: turns to a new target if the old one is no longer where it
    /// should be, and tells whether it did.
    fn renew(&mut self) -> io::Result<bool> {
        Ok(false)
    }
}

/// Standard error, by a descriptor of our own: the standard library's holds a lock for as long as
/// a write takes, and whoever wanted to write a word of its own would wait for our reader.
pub(super) struct StandardError(File);

impl StandardError {
    /// Duplicates the descriptor.
    pub(super) fn open() -> io::Result<StandardError> {
        let descriptor = io::stderr().as_fd().try_clone_to_owned()?;
        Ok(StandardError(File::from(descriptor)))
    }
}

impl Sink for StandardError {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }
}

/// Memory, from which the lines are taken by whoever asked for them.
#[derive(Clone, Debug, Default)]
pub struct Kept(Arc<Mutex<Vec<u8>>>);

impl Kept {
    /// The lines since they were taken last.
    #[must_use]
    pub fn take(&self) -> Vec<String> {
        let mut bytes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes = std::mem::take(&mut *bytes);
        let text = String::from_utf8_lossy(&bytes);
        text.lines().map(str::to_owned).collect()
    }
}

impl Sink for Kept {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend_from_slice(bytes);
        Ok(bytes.len())
    }
}

/// A file that is appended to, and opened anew when its name leads to another file or to none:
/// whoever rotates logs needs to tell nobody.
pub(super) struct LogFile {
    path: PathBuf,
    file: File,
}

impl LogFile {
    /// Opens or creates the file.
    pub(super) fn open(path: PathBuf) -> io::Result<LogFile> {
        let file = OpenOptions::new().create(true).append(true).open(&path)?;
        Ok(LogFile { path, file })
    }

    fn is_in_place(&self) -> io::Result<bool> {
        let held = self.file.metadata()?;
        match fs::metadata(&self.path) {
            Ok(named) => Ok((named.dev(), named.ino()) == (held.dev(), held.ino())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }
}

impl Sink for LogFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn renew(&mut self) -> io::Result<bool> {
        if self.is_in_place()? {
            return Ok(false);
        }
        *self = LogFile::open(self.path.clone())?;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_follows_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("access.log");
        fs::write(&path, "before\n").unwrap();
        let mut sink = LogFile::open(path.clone()).unwrap();
        assert!(!sink.renew().unwrap());
        sink.write(b"appended\n").unwrap();

        let rotated = folder.path().join("access.log.1");
        fs::rename(&path, &rotated).unwrap();
        assert!(sink.renew().unwrap(), "the name leads nowhere");
        assert!(!sink.renew().unwrap());
        sink.write(b"anew\n").unwrap();
        assert_eq!(fs::read_to_string(&rotated).unwrap(), "before\nappended\n");
        assert_eq!(fs::read_to_string(&path).unwrap(), "anew\n");

        let other = folder.path().join("other.log");
        fs::write(&other, "other\n").unwrap();
        fs::rename(&other, &path).unwrap();
        assert!(sink.renew().unwrap(), "the name leads elsewhere");
        sink.write(b"there\n").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "other\nthere\n");
    }

    #[test]
    fn a_truncated_file_is_appended_to() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("access.log");
        let mut sink = LogFile::open(path.clone()).unwrap();
        sink.write(b"copied away\n").unwrap();
        File::create(&path).unwrap();
        assert!(!sink.renew().unwrap());
        sink.write(b"new\n").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "new\n");
    }

    #[test]
    fn a_file_that_cannot_be_had_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let logs = folder.path().join("logs");
        assert!(LogFile::open(logs.join("access.log")).is_err());
        fs::create_dir(&logs).unwrap();
        let mut sink = LogFile::open(logs.join("access.log")).unwrap();
        fs::remove_dir_all(&logs).unwrap();
        assert!(sink.renew().is_err());
        fs::create_dir(&logs).unwrap();
        assert!(sink.renew().unwrap());
    }
}
