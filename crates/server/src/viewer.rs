//! The viewer for desktops, noVNC: modules that `cofferdam setup` has installed, given
//! to browsers as they are.

use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{RawPathParams, State};
use axum::response::Response;
use http::HeaderValue;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use rustix::fs::{Mode, OFlags, ResolveFlags};

use crate::app::App;
use crate::problem::{MISSING, Refusal};

/// Bytes of a module.
const LONGEST: u64 = 1 << 20;
/// Bytes of its path.
const LONGEST_PATH: usize = 200;

/// `GET /assets/novnc/{*path}`.
pub(crate) async fn module(
    State(app): State<Arc<App>>,
    parameters: RawPathParams,
) -> Result<Response, Refusal> {
    let path = parameters.iter().find(|(name, _)| *name == "path");
    let path = path.map(|(_, path)| path.to_owned()).filter(|path| is_module(path));
    // A disk that is slow keeps no other request waiting.
    let looked = tokio::task::spawn_blocking(move || {
        let directory = app.viewer.as_ref().and_then(|viewer| (viewer.find)(&viewer.prefix));
        let directory = directory.ok_or_else(|| {
            let remedy = "run `cofferdam setup viewer` on the server's machine";
            Refusal::new(MISSING, "the viewer for desktops, noVNC, is not installed", remedy)
        })?;
        path.and_then(|path| read(&directory, &path)).ok_or_else(|| {
            let remedy = "run `cofferdam setup viewer` again if the page asked for it";
            Refusal::new(MISSING, "the viewer has no such module", remedy)
        })
    });
    let bytes = looked.await.map_err(|error| Refusal::internal(&error))??;
    let mut response = Response::new(Body::from(bytes));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/javascript; charset=utf-8"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    Ok(response)
}

/// Whether a path is one that a module can have: plain names, one below the other.
fn is_module(path: &str) -> bool {
    let letter = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let name = |name: &str| !name.is_empty() && !name.starts_with('.') && name.bytes().all(letter);
    path.len() <= LONGEST_PATH && path.ends_with(".js") && path.split('/').all(name)
}

/// A plain file below a directory, whatever links there are.
fn read(directory: &Path, path: &str) -> Option<Vec<u8>> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let place = rustix::fs::open(directory, flags | OFlags::DIRECTORY, Mode::empty()).ok()?;
    let inside = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    // Whatever is opened is not waited for.
    let flags = flags | OFlags::NONBLOCK;
    let file = rustix::fs::openat2(&place, path, flags, Mode::empty(), inside).ok()?;
    let file = std::fs::File::from(file);
    let about = file.metadata().ok()?;
    if !about.is_file() || about.len() > LONGEST {
        return None;
    }
    let mut bytes = Vec::new();
    file.take(LONGEST).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_paths_of_modules_are_looked_at() {
        for path in ["core/rfb.js", "vendor/pako/lib/zlib/inflate.js", "a_b-c.d.js"] {
            assert!(is_module(path), "{path}");
        }
        let long = format!("{}.js", "x".repeat(200));
        for path in [
            "",
            ".js",
            "core/../core/rfb.js",
            "/etc/x.js",
            "core//rfb.js",
            "core/.hidden.js",
            "core/rfb.js/",
            "LICENSE.txt",
            "core/rfb.mjs",
            "core\\rfb.js",
            "core/%72fb.js",
            "core/\0.js",
            &long,
        ] {
            assert!(!is_module(path), "{path:?}");
        }
    }

    #[test]
    fn only_plain_files_below_the_directory_are_read() {
        let place = tempfile::tempdir().unwrap();
        let (inside, outside) = (place.path().join("in"), place.path().join("out"));
        std::fs::create_dir_all(inside.join("core")).unwrap();
        std::fs::create_dir(&outside).unwrap();
        std::fs::write(inside.join("core/a.js"), "a").unwrap();
        std::fs::write(outside.join("b.js"), "b").unwrap();
        std::fs::create_dir(inside.join("core/dir.js")).unwrap();
        std::os::unix::fs::symlink("core/a.js", inside.join("link.js")).unwrap();
        std::os::unix::fs::symlink(&outside, inside.join("away")).unwrap();
        std::os::unix::fs::symlink(outside.join("b.js"), inside.join("b.js")).unwrap();
        let long = std::fs::File::create(inside.join("long.js")).unwrap();
        long.set_len(LONGEST + 1).unwrap();
        assert_eq!(read(&inside, "core/a.js"), Some(b"a".to_vec()));
        for path in
            ["link.js", "away/b.js", "b.js", "long.js", "core/dir.js", "../out/b.js", "no.js"]
        {
            assert_eq!(read(&inside, path), None, "{path}");
        }
        assert_eq!(read(&place.path().join("none"), "core/a.js"), None);
    }
}
