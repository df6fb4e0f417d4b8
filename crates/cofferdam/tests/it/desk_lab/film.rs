//! What a recording shows.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// What ffprobe says of a film.
pub(crate) fn probed(film: &Path) -> Value {
    let mut probe = Command::new("ffprobe");
    probe.args(["-v", "error", "-of", "json", "-show_format", "-show_streams", "-show_chapters"]);
    let ran = probe.arg(film).output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    serde_json::from_slice(&ran.stdout).unwrap()
}

/// The colour of one place in each picture of a film.
pub(crate) fn colours(film: &Path) -> Vec<Vec<u8>> {
    let mut decode = Command::new("ffmpeg");
    decode.args(["-nostdin", "-v", "error", "-i"]).arg(film);
    decode.args(["-vf", "crop=2:2:900:600", "-pix_fmt", "rgb24", "-f", "rawvideo", "-"]);
    let ran = decode.output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    ran.stdout.chunks(12).map(|picture| picture[..3].to_vec()).collect()
}

/// Whether a colour is about the one that was filmed.
pub(crate) fn near(seen: &[u8], wanted: [u8; 3]) -> bool {
    seen.iter().zip(wanted).all(|(seen, wanted)| seen.abs_diff(wanted) < 24)
}
