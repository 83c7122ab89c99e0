//! Reading the kernel's files below a root: `/`, or a directory that stands for a machine.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// Where the machine's files lie.
pub struct Root(PathBuf);

impl Root {
    /// This machine, or the copy of one.
    pub fn new(copy: Option<&Path>) -> Self {
        Self(copy.unwrap_or(Path::new("/")).to_owned())
    }

    /// Whether this machine itself is looked at, so that it can be asked as well.
    pub fn is_live(&self) -> bool {
        self.0 == Path::new("/")
    }

    /// Where a file of the machine is.
    pub fn path(&self, path: &str) -> PathBuf {
        self.0.join(path)
    }

    /// A file's text, trimmed; `None` when it cannot be read.
    pub fn text(&self, path: &str) -> Option<String> {
        let bytes = fs::read(self.path(path)).ok()?;
        Some(String::from_utf8_lossy(&bytes).trim().to_owned())
    }

    /// A file that holds a number.
    pub fn number<N: std::str::FromStr>(&self, path: &str) -> Option<N> {
        self.text(path)?.parse().ok()
    }

    /// Whether something is there.
    pub fn exists(&self, path: &str) -> bool {
        self.path(path).exists()
    }

    /// The names in a directory, sorted as people count: `a2` before `a10`.
    pub fn names(&self, path: &str) -> Vec<String> {
        let entries = fs::read_dir(self.path(path)).into_iter().flatten().filter_map(Result::ok);
        let mut names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort_by_key(|name| {
            let digits = name.trim_start_matches(|c: char| !c.is_ascii_digit());
            (name[..name.len() - digits.len()].to_owned(), digits.parse::<u64>().unwrap_or(0), name.clone())
        });
        names
    }

    /// Whether this process may open a device file for reading and writing.
    pub fn open_device(&self, path: &str) -> io::Result<()> {
        File::options().read(true).write(true).open(self.path(path)).map(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_sorted_as_people_count() {
        let directory = tempfile::tempdir().unwrap();
        for name in ["mlx5_10", "mlx5_2", "rxe0", "2", "10", "1"] {
            fs::write(directory.path().join(name), "").unwrap();
        }
        let root = Root::new(Some(directory.path()));
        let names = root.names(".");
        assert_eq!(names.len(), 6);
        let at = |name: &str| names.iter().position(|n| n == name).unwrap();
        assert!(at("2") < at("10") && at("1") < at("2") && !root.is_live(), "{names:?}");
        assert_eq!((root.text("nothing"), root.names("nothing").len()), (None, 0));
    }
}
