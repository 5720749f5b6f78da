//! The pictures of a folder.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use foveate_core::name::natural_order;

/// Endings of the names of pictures.
pub const ENDINGS: [&str; 12] =
    ["bmp", "gif", "jpeg", "jpg", "pbm", "pgm", "png", "pnm", "ppm", "tif", "tiff", "webp"];

/// Why a folder has no pictures.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ListError {
    /// The folder or list cannot be read.
    #[error("cannot read {}", path.display())]
    Unreadable {
        /// The folder.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The folder or list is empty.
    #[error(
        "no pictures in {} (expected {})",
        path.display(), ENDINGS.join(", ")
    )]
    Empty {
        /// The folder.
        path: PathBuf,
    },
}

/// The pictures in `folder`, in the natural order of their names, and with `deep` those in its folders, each after those beside
/// it. Hidden files and others are left out; a link to a folder is not followed.
///
/// # Errors
///
/// If a folder cannot be read, or there are none.
pub fn list(folder: &Path, deep: bool) -> Result<Vec<PathBuf>, ListError> {
    let mut pictures = Vec::new();
    add(folder, deep, &mut pictures)?;
    if pictures.is_empty() {
        Err(ListError::Empty { path: folder.to_owned() })
    } else {
        Ok(pictures)
    }
}

fn add(folder: &Path, deep: bool, pictures: &mut Vec<PathBuf>) -> Result<(), ListError> {
    let failed = |source| ListError::Unreadable { path: folder.to_owned(), source };
    let (mut files, mut folders) = (Vec::new(), Vec::new());
    for entry in fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let (path, kind) = (entry.path(), entry.file_type().map_err(failed)?);
        let name = entry.file_name();
        if name.as_encoded_bytes().starts_with(b".") {
            continue;
        }
        let ending = path.extension().map(|ending| ending.to_ascii_lowercase());
        if kind.is_dir() {
            folders.push(path);
        } else if ending.is_some_and(|ending| ENDINGS.iter().any(|known| ending == **known)) {
            files.push(path);
        }
    }
    let by_name = |one: &PathBuf, other: &PathBuf| {
        natural_order(&one.to_string_lossy(), &other.to_string_lossy())
    };
    files.sort_by(by_name);
    pictures.append(&mut files);
    folders.sort_by(by_name);
    if deep {
        folders.iter().try_for_each(|folder| add(folder, deep, pictures))?;
    }
    Ok(())
}
