//! Archives made by hand, sound and otherwise.

use std::io::Write;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use cofferdam_images::{ImageError, Unpack, UnpackLimits, Unpacked};
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tar::{EntryType, Header};

/// A tar archive whose names are not looked at.
#[derive(Clone, Default)]
pub(crate) struct Tar(Vec<u8>);

impl Tar {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    pub(crate) fn entry(mut self, kind: EntryType, name: &str, link: &str, content: &[u8]) -> Self {
        self.add(kind, name, link, content, content.len() as u64, 0o6755);
        self
    }

    pub(crate) fn add(
        &mut self,
        kind: EntryType,
        name: &str,
        link: &str,
        content: &[u8],
        size: u64,
        mode: u32,
    ) {
        for (long, kind) in [(name, EntryType::GNULongName), (link, EntryType::GNULongLink)] {
            if long.len() > 100 {
                let mut text = long.as_bytes().to_vec();
                text.push(0);
                let size = text.len() as u64;
                self.add(kind, "././@LongLink", "", &text, size, 0);
            }
        }
        let mut header = Header::new_gnu();
        header.set_entry_type(kind);
        header.set_mode(mode);
        header.set_size(size);
        header.set_mtime(1_000_000_000);
        let fill = |field: &mut [u8], text: &str| {
            let length = text.len().min(field.len());
            field[..length].copy_from_slice(&text.as_bytes()[..length]);
        };
        let fields = header.as_old_mut();
        fill(&mut fields.name, name);
        fill(&mut fields.linkname, link);
        header.set_cksum();
        self.0.extend_from_slice(header.as_bytes());
        self.0.extend_from_slice(content);
        self.0.resize(self.0.len().next_multiple_of(512), 0);
    }

    pub(crate) fn file(self, name: &str, content: &str) -> Self {
        self.entry(EntryType::Regular, name, "", content.as_bytes())
    }

    pub(crate) fn directory(self, name: &str) -> Self {
        self.entry(EntryType::Directory, name, "", b"")
    }

    pub(crate) fn symlink(self, name: &str, to: &str) -> Self {
        self.entry(EntryType::Symlink, name, to, b"")
    }

    pub(crate) fn link(self, name: &str, to: &str) -> Self {
        self.entry(EntryType::Link, name, to, b"")
    }

    /// A name in an extended header, with other records in front.
    pub(crate) fn pax(self, records: &[(&str, &[u8])]) -> Self {
        let mut text = Vec::new();
        for (key, value) in records {
            let rest = key.len() + value.len() + 3;
            let length = (1..)
                .map(|digits| rest + digits)
                .find(|length| length.to_string().len() + rest == *length);
            text.extend_from_slice(format!("{} {key}=", length.unwrap()).as_bytes());
            text.extend_from_slice(value);
            text.push(b'\n');
        }
        self.entry(EntryType::XHeader, "pax", "", &text)
    }

    /// With what is in another one behind it.
    pub(crate) fn and(mut self, other: &Self) -> Self {
        self.0.extend_from_slice(&other.0);
        self
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut bytes = self.0.clone();
        bytes.resize(bytes.len() + 1024, 0);
        bytes
    }

    /// Without an end.
    pub(crate) fn cut(&self) -> Vec<u8> {
        self.0.clone()
    }
}

pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

pub(crate) fn zstd(bytes: &[u8]) -> Vec<u8> {
    zstd::encode_all(bytes, 1).unwrap()
}

pub(crate) fn sum(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A layer as it is in an archive, and out of its compression.
pub(crate) struct Layer {
    pub(crate) packed: Vec<u8>,
    pub(crate) content: Vec<u8>,
}

impl From<Tar> for Layer {
    fn from(tar: Tar) -> Self {
        Self { packed: tar.bytes(), content: tar.bytes() }
    }
}

pub(crate) fn configuration(layers: &[Layer]) -> Value {
    let sums: Vec<String> =
        layers.iter().map(|layer| format!("sha256:{}", sum(&layer.content))).collect();
    let processor = if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" };
    json!({
        "architecture": processor,
        "os": "linux",
        "config": { "Env": ["PATH=/usr/bin:/bin", "A=b=c", "1X=y", "NOTHING"] },
        "rootfs": { "type": "layers", "diff_ids": sums },
    })
}

/// The files of an OCI archive.
pub(crate) fn oci_files(layers: &[Layer]) -> Vec<(String, Vec<u8>)> {
    let mut files: Vec<(String, Vec<u8>)> = Vec::new();
    let mut blob = |bytes: Vec<u8>| {
        let described = json!({ "digest": format!("sha256:{}", sum(&bytes)), "size": bytes.len() });
        let name = format!("blobs/sha256/{}", sum(&bytes));
        // Layers may be the same.
        if files.iter().all(|(other, _)| *other != name) {
            files.push((name, bytes));
        }
        described
    };
    let config = blob(configuration(layers).to_string().into_bytes());
    let layers: Vec<Value> = layers.iter().map(|layer| blob(layer.packed.clone())).collect();
    let manifest = blob(json!({ "config": config, "layers": layers }).to_string().into_bytes());
    let index = json!({ "schemaVersion": 2, "manifests": [manifest] }).to_string();
    files.push(("index.json".to_owned(), index.into_bytes()));
    files.push(("oci-layout".to_owned(), b"{\"imageLayoutVersion\":\"1.0.0\"}".to_vec()));
    files
}

/// The files that `docker save` wrote in former times.
pub(crate) fn docker_files(layers: &[Layer]) -> Vec<(String, Vec<u8>)> {
    let config = configuration(layers).to_string().into_bytes();
    let mut names = Vec::new();
    let mut files = vec![(format!("{}.json", sum(&config)), config.clone())];
    for (number, layer) in layers.iter().enumerate() {
        names.push(format!("{number}/layer.tar"));
        files.push((format!("{number}/layer.tar"), layer.packed.clone()));
    }
    let manifest = json!([{
        "Config": format!("{}.json", sum(&config)), "RepoTags": ["x:1"], "Layers": names,
    }]);
    files.push(("manifest.json".to_owned(), manifest.to_string().into_bytes()));
    files
}

pub(crate) fn tar_of(files: &[(String, Vec<u8>)]) -> Vec<u8> {
    let mut tar = Tar::new();
    for (name, bytes) in files {
        tar.add(EntryType::Regular, name, "", bytes, bytes.len() as u64, 0o644);
    }
    tar.bytes()
}

pub(crate) fn oci(layers: Vec<Layer>) -> Vec<u8> {
    tar_of(&oci_files(&layers))
}

/// Limits that tests stay within.
pub(crate) const LIMITS: UnpackLimits = UnpackLimits { bytes: 8 << 20, entries: 1_000, layers: 8 };

/// Unpacks an archive into `root` in a directory, in which nothing else may change.
pub(crate) fn unpack(place: &Path, bytes: &[u8]) -> Result<Unpacked, ImageError> {
    let archive = place.join("archive");
    std::fs::write(&archive, bytes).unwrap();
    let stop = AtomicBool::new(false);
    let unpacking = Unpack { archive: &archive, limits: LIMITS, stop: &stop };
    let unpacked = unpacking.into_directory(&place.join("root"), &mut |_| {});
    std::fs::remove_file(&archive).unwrap();
    let mut left: Vec<String> = std::fs::read_dir(place)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name != "outside")
        .collect();
    left.retain(|name| unpacked.is_err() || name != "root");
    assert_eq!(left, [""; 0], "what is left");
    unpacked
}

/// What is wrong with an archive.
pub(crate) fn refusal(bytes: &[u8]) -> String {
    let place = tempfile::tempdir().unwrap();
    match unpack(place.path(), bytes) {
        Err(ImageError::Archive { reason, .. }) => reason,
        other => panic!("it is not refused: {other:?}"),
    }
}
