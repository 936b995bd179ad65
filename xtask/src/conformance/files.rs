//! The vector files that a folder holds, and what stands in it besides.

use std::path::{Path, PathBuf};

/// What was found under one name of the command line.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// Vector files, sorted.
    pub(super) files: Vec<PathBuf>,
    /// What should have been a vector file or a folder of them, and why it is not.
    pub(super) broken: Vec<(PathBuf, String)>,
    /// Files with another ending.
    others: Vec<PathBuf>,
    /// Links to folders; following them could go in circles.
    links: Vec<PathBuf>,
}

impl Found {
    /// All JSON files of a folder and of the folders in it; or the one file that this is.
    pub(super) fn under(top: &Path) -> Self {
        let mut found = Self::default();
        match std::fs::metadata(top) {
            Err(error) => found.broken(top, format!("cannot be read: {error}")),
            Ok(about) if about.is_file() => found.files.push(top.to_path_buf()),
            Ok(about) if about.is_dir() => {
                found.walk(top);
                if found.files.is_empty() && found.broken.is_empty() {
                    found.broken(top, "there is no vector file (`*.json`) in this folder");
                }
            }
            Ok(_) => found.broken(top, NEITHER),
        }
        for paths in [&mut found.files, &mut found.others, &mut found.links] {
            paths.sort();
        }
        found
    }

    fn broken(&mut self, path: &Path, why: impl Into<String>) {
        self.broken.push((path.to_path_buf(), why.into()));
    }

    fn walk(&mut self, top: &Path) {
        let mut folders = vec![top.to_path_buf()];
        while let Some(folder) = folders.pop() {
            let entries = match std::fs::read_dir(&folder) {
                Ok(entries) => entries,
                Err(error) => {
                    self.broken(&folder, format!("the folder cannot be read: {error}"));
                    continue;
                }
            };
            for entry in entries {
                let entry = entry.and_then(|entry| Ok((entry.path(), entry.file_type()?)));
                match entry {
                    Ok((path, kind)) if kind.is_dir() => folders.push(path),
                    Ok((path, _)) => self.file(path),
                    Err(error) => {
                        self.broken(&folder, format!("an entry cannot be read: {error}"));
                    }
                }
            }
        }
    }

    /// Anything that is no folder, links included.
    fn file(&mut self, path: PathBuf) {
        let named_so = path.extension().is_some_and(|end| end == "json");
        match std::fs::metadata(&path) {
            Ok(about) if about.is_dir() => self.links.push(path),
            _ if !named_so => self.others.push(path),
            Ok(about) if about.is_file() => self.files.push(path),
            Ok(_) => self.broken(&path, NEITHER),
            Err(error) => self.broken(&path, format!("cannot be read: {error}")),
        }
    }

    /// What was passed over, in sentences.
    pub(super) fn remarks(&self, top: &str) -> Vec<String> {
        let all = [
            (&self.others, "without the ending `.json`, not looked at"),
            (&self.links, "links to folders, not followed"),
        ];
        let some = all.into_iter().filter(|(paths, _)| !paths.is_empty());
        some.map(|(paths, what)| {
            let names: Vec<_> = paths.iter().take(NAMED).map(|path| name_of(path)).collect();
            let rest = if paths.len() > NAMED { ", …" } else { "" };
            let (count, names) = (paths.len(), names.join(", "));
            format!("{top}: {count} {what}: {names}{rest}")
        })
        .collect()
    }
}

const NEITHER: &str = "neither a file nor a folder";

/// How many of the entries that were passed over are named.
const NAMED: usize = 5;

fn name_of(path: &Path) -> String {
    let name = path.file_name().unwrap_or(path.as_os_str());
    name.to_string_lossy().into_owned()
}
