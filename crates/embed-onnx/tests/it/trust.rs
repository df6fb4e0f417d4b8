//! Files that somebody else could have put there: none becomes part of this process.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use cofferdam_embed_onnx::{OnnxEmbedder, OpenError};
use tempfile::TempDir;

use crate::onnx_file::{beside_the_real, model};

/// A small model that can be used, beside links to the other two files.
fn usable() -> TempDir {
    beside_the_real(&model(&["input_ids"], &["sentence_embedding"]))
}

/// A directory that jobs work in.
fn workspace() -> (TempDir, [PathBuf; 1]) {
    let place = tempfile::tempdir().unwrap();
    let theirs = [place.path().to_owned()];
    (place, theirs)
}

fn mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

#[track_caller]
fn is_theirs(path: &Path, theirs: &[PathBuf]) {
    let error = OnnxEmbedder::open(path, theirs).unwrap_err();
    assert!(matches!(&error, OpenError::Theirs { place } if *place == theirs[0]), "{error}");
    assert!(error.remedy().contains("out of the workspace"), "{}", error.remedy());
}

#[track_caller]
fn is_exposed(open: &Path, which: &Path, why: &str) {
    let error = OnnxEmbedder::open(open, &[]).unwrap_err();
    assert!(
        matches!(&error, OpenError::Exposed { path, cause } if path == which && cause.contains(why)),
        "{error}"
    );
    assert!(error.remedy().contains("chmod go-w"), "{}", error.remedy());
}

#[test]
fn nothing_is_taken_from_where_jobs_write() {
    let place = usable();
    let theirs = [place.path().to_owned()];
    is_theirs(place.path(), &theirs);
    is_theirs(&place.path().join("model.onnx"), &theirs);
    is_theirs(&place.path().join("no/../model.onnx"), &theirs);
    // By another name of the same directory, and the other way round.
    let elsewhere = tempfile::tempdir().unwrap();
    let link = elsewhere.path().join("link");
    symlink(place.path(), &link).unwrap();
    is_theirs(&link, &theirs);
    is_theirs(&link.join("model.onnx"), &theirs);
    is_theirs(place.path(), &[link]);
    // Somewhere else it is fine, and so is a directory that is not there.
    let (_other, others) = workspace();
    drop(OnnxEmbedder::open(place.path(), &others).unwrap());
    drop(OnnxEmbedder::open(place.path(), &[elsewhere.path().join("none")]).unwrap());
}

#[test]
fn each_file_is_followed_to_where_it_is() {
    for name in ["model.onnx", "tokenizer.json", "libonnxruntime.so"] {
        let (work, theirs) = workspace();
        let place = usable();
        let (here, there) = (place.path().join(name), work.path().join(name));
        fs::copy(&here, &there).unwrap();
        fs::remove_file(&here).unwrap();
        symlink(&there, &here).unwrap();
        is_theirs(place.path(), &theirs);
    }
}

/// It ends outside now. Whoever works in the workspace decides where it ends next.
#[test]
fn a_way_through_the_workspace_is_refused_wherever_it_ends() {
    let (work, theirs) = workspace();
    let place = usable();
    symlink(place.path(), work.path().join("model")).unwrap();
    is_theirs(&work.path().join("model"), &theirs);
    is_theirs(&work.path().join("model/model.onnx"), &theirs);
    let elsewhere = tempfile::tempdir().unwrap();
    let link = elsewhere.path().join("link");
    symlink(work.path().join("model"), &link).unwrap();
    is_theirs(&link, &theirs);
}

#[test]
fn what_others_may_write_is_refused() {
    for name in ["model.onnx", "tokenizer.json", "libonnxruntime.so"] {
        let place = usable();
        let file = place.path().join(name);
        let content = fs::read(&file).unwrap();
        fs::remove_file(&file).unwrap();
        fs::write(&file, content).unwrap();
        for bits in [0o664, 0o646] {
            mode(&file, bits);
            is_exposed(place.path(), &file, "others may write to it");
        }
    }
}

#[test]
fn a_directory_that_others_may_write_to_is_refused() {
    let above = tempfile::tempdir().unwrap();
    let place = above.path().join("place");
    fs::rename(usable().keep(), &place).unwrap();
    for bits in [0o775, 0o757, 0o1777] {
        mode(&place, bits);
        is_exposed(&place, &place, "others may write to it");
        is_exposed(&place.join("model.onnx"), &place, "others may write to it");
    }
    mode(&place, 0o755);
    // Whoever may write above it can put another one in its place.
    mode(above.path(), 0o777);
    is_exposed(&place, above.path(), "others may write to it");
    // But not as in /tmp.
    mode(above.path(), 0o1777);
    drop(OnnxEmbedder::open(&place, &[]).unwrap());
}

#[test]
fn links_in_a_circle_come_to_an_end() {
    let place = usable();
    let file = place.path().join("tokenizer.json");
    fs::remove_file(&file).unwrap();
    symlink("tokenizer.json", &file).unwrap();
    let told = OnnxEmbedder::open(place.path(), &[]).unwrap_err().to_string();
    assert!(told.contains("tokenizer.json\" cannot be read: too many links"), "{told}");
}
