//! Which image an archive holds: an OCI layout, or what `docker save` wrote before there was one.
//!
//! Everything that is read by its digest has that digest; layers are checked before they are
//! unpacked.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use sha2::{Digest as _, Sha256};

use crate::archive::{Archive, INDEX, MANIFEST};
use crate::entries::{Fault, shown};
use crate::layers::Layer;

/// Lists of images in lists of images.
const DEEPEST: u32 = 4;

/// Variables of an image, and bytes of one.
const MOST_VARIABLES: usize = 500;
const LONGEST_VARIABLE: usize = 32 << 10;

/// A SHA-256.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Digest(pub(crate) [u8; 32]);

impl Digest {
    fn parse(text: &str) -> Option<Self> {
        let digits = text.strip_prefix("sha256:")?.as_bytes();
        let mut bytes = [0; 32];
        let (pairs, rest) = digits.as_chunks::<2>();
        if pairs.len() != bytes.len() || !rest.is_empty() {
            return None;
        }
        let digit = |digit: u8| match digit {
            b'0'..=b'9' => Some(digit - b'0'),
            b'a'..=b'f' => Some(digit - b'a' + 10),
            _ => None,
        };
        for (byte, [high, low]) in bytes.iter_mut().zip(pairs) {
            *byte = digit(*high)? << 4 | digit(*low)?;
        }
        Some(Self(bytes))
    }

    pub(crate) fn digits(&self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// An image in an archive.
#[derive(Debug)]
pub(crate) struct Image {
    /// The digest of its configuration, and so of everything in it.
    pub(crate) identity: Digest,
    pub(crate) variables: BTreeMap<String, String>,
    pub(crate) layers: Vec<Layer>,
}

#[derive(Deserialize)]
struct Index {
    manifests: Vec<Descriptor>,
}

#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Descriptor {
    digest: String,
    size: u64,
    #[serde(default)]
    media_type: String,
    platform: Option<Platform>,
}

#[derive(Clone, Deserialize)]
struct Platform {
    #[serde(default)]
    architecture: String,
    #[serde(default)]
    os: String,
}

#[derive(Deserialize)]
struct Manifest {
    config: Descriptor,
    layers: Vec<Descriptor>,
}

/// One image in the list of `docker save`.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Saved {
    config: String,
    layers: Vec<String>,
}

#[derive(Deserialize)]
struct Configuration {
    #[serde(default)]
    architecture: String,
    #[serde(default)]
    os: String,
    config: Option<Settings>,
    rootfs: RootFs,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Settings {
    env: Option<Vec<String>>,
}

#[derive(Deserialize)]
struct RootFs {
    diff_ids: Vec<String>,
}

/// Finds the image in an archive.
pub(crate) fn read(archive: &Archive, most_layers: usize) -> Result<Image, Fault> {
    if archive.has(INDEX) {
        let index: Index = parse(INDEX, &archive.text(INDEX)?)?;
        let descriptor = choose(index, Choice::TheOnly)?;
        return oci(archive, &descriptor, most_layers, DEEPEST);
    }
    saved(archive, most_layers)
}

fn oci(
    archive: &Archive,
    descriptor: &Descriptor,
    most_layers: usize,
    depth: u32,
) -> Result<Image, Fault> {
    let text = described(archive, descriptor)?;
    let name = descriptor.digest.as_str();
    let is_index = descriptor.media_type.contains("index")
        || descriptor.media_type.contains("manifest.list")
        || parse::<Manifest>(name, &text).is_err() && parse::<Index>(name, &text).is_ok();
    if is_index {
        let depth =
            depth.checked_sub(1).ok_or_else(|| Fault::bad("its lists have lists without end"))?;
        let descriptor = choose(parse(name, &text)?, Choice::First)?;
        return oci(archive, &descriptor, most_layers, depth);
    }
    let manifest: Manifest = parse(name, &text)?;
    let configuration = described(archive, &manifest.config)?;
    let mut found = Vec::new();
    for layer in manifest.layers.iter().take(most_layers + 1) {
        let digest = digest(&layer.digest)?;
        let (at, size) = archive.find(&blob(&digest))?;
        if size != layer.size {
            return Err(Fault::bad("a layer is shorter or longer than the image says"));
        }
        found.push((at, size, Some(digest)));
    }
    image(&configuration, digest(&manifest.config.digest)?, found, most_layers)
}

fn saved(archive: &Archive, most_layers: usize) -> Result<Image, Fault> {
    let mut list: Vec<Saved> = parse(MANIFEST, &archive.text(MANIFEST)?)?;
    let (Some(saved), true) = (list.pop(), list.is_empty()) else { return Err(ambiguous()) };
    let configuration = archive.text(&saved.config)?;
    let identity = Digest(Sha256::digest(&configuration).into());
    // Its name is its digest.
    let name = saved.config.rsplit('/').next().unwrap_or_default();
    let named = Digest::parse(&format!("sha256:{}", name.trim_end_matches(".json")));
    if named.is_some_and(|named| named != identity) {
        return Err(Fault::bad("its configuration is not what its name says"));
    }
    let mut found = Vec::new();
    for name in saved.layers.iter().take(most_layers + 1) {
        let (at, size) = archive.find(name)?;
        found.push((at, size, None));
    }
    image(&configuration, identity, found, most_layers)
}

/// Puts together what is known of an image.
fn image(
    configuration: &[u8],
    identity: Digest,
    found: Vec<(u64, u64, Option<Digest>)>,
    most_layers: usize,
) -> Result<Image, Fault> {
    let configuration: Configuration = parse("its configuration", configuration)?;
    let Configuration { architecture, os, config, rootfs } = configuration;
    if !fits(&architecture, &os) {
        return Err(foreign(&[format!("{os}/{architecture}")]));
    }
    if found.len() > most_layers {
        return Err(Fault::bad(format!("it has more than {most_layers} layers")));
    }
    if found.len() != rootfs.diff_ids.len() {
        return Err(Fault::bad("its configuration and its manifest differ in their layers"));
    }
    let layer = |((at, size, described), content): (_, &String)| {
        Ok(Layer { at, size, digest: described, content: digest(content)? })
    };
    let layers =
        found.into_iter().zip(&rootfs.diff_ids).map(layer).collect::<Result<_, Fault>>()?;
    let variables = variables(config.unwrap_or_default().env.unwrap_or_default())?;
    Ok(Image { identity, variables, layers })
}

fn variables(list: Vec<String>) -> Result<BTreeMap<String, String>, Fault> {
    if list.len() > MOST_VARIABLES || list.iter().any(|text| text.len() > LONGEST_VARIABLE) {
        return Err(Fault::bad("it has too many variables, or too long ones"));
    }
    // One without a value, or with a name that no shell would take, is of no use.
    let pair = |text: String| {
        let (name, value) = text.split_once('=')?;
        let letter = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        let sound = name.bytes().all(letter)
            && name.starts_with(|first: char| !first.is_ascii_digit())
            && !value.contains(|letter: char| letter.is_control());
        sound.then(|| (name.to_owned(), value.to_owned()))
    };
    Ok(list.into_iter().filter_map(pair).collect())
}

/// Which of several images it is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Choice {
    /// There must not be several.
    TheOnly,
    /// They are the same for different machines, and the first is the most common.
    First,
}

fn choose(index: Index, choice: Choice) -> Result<Descriptor, Fault> {
    let here = |descriptor: &&Descriptor| {
        let platform = descriptor.platform.as_ref();
        platform.is_none_or(|platform| fits(&platform.architecture, &platform.os))
    };
    let fitting: Vec<&Descriptor> = index.manifests.iter().filter(here).collect();
    match fitting.as_slice() {
        [one] => Ok((*one).clone()),
        [first, ..] if choice == Choice::First => Ok((*first).clone()),
        [first, rest @ ..] if rest.iter().all(|other| other.digest == first.digest) => {
            Ok((*first).clone())
        }
        [] if index.manifests.is_empty() => Err(Fault::bad("it holds no image")),
        [] => {
            let platform = |descriptor: &Descriptor| {
                let platform = descriptor.platform.as_ref()?;
                Some(format!("{}/{}", platform.os, platform.architecture))
            };
            Err(foreign(&index.manifests.iter().filter_map(platform).collect::<Vec<_>>()))
        }
        _ => Err(ambiguous()),
    }
}

/// Whether an image for these can run here. Old ones do not say.
fn fits(architecture: &str, os: &str) -> bool {
    matches!(os, "" | "linux") && (architecture.is_empty() || architecture == processor())
}

/// This machine's processor, as images call it.
pub(crate) fn processor() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        "x86" => "386",
        other => other,
    }
}

fn foreign(platforms: &[String]) -> Fault {
    let platforms: Vec<String> =
        platforms.iter().take(8).map(|platform| shown(platform.as_bytes())).collect();
    Fault::bad(format!(
        "it is an image for {}; this machine is linux/{}",
        platforms.join(", "),
        processor()
    ))
}

fn ambiguous() -> Fault {
    Fault::bad("it holds no image or several; save the one that you want by itself")
}

fn digest(text: &str) -> Result<Digest, Fault> {
    Digest::parse(text)
        .ok_or_else(|| Fault::bad(format!("{} is no SHA-256", shown(text.as_bytes()))))
}

fn blob(digest: &Digest) -> String {
    format!("blobs/sha256/{}", digest.digits())
}

/// What a descriptor describes, and nothing else.
fn described(archive: &Archive, descriptor: &Descriptor) -> Result<Vec<u8>, Fault> {
    let wanted = digest(&descriptor.digest)?;
    let text = archive.text(&blob(&wanted))?;
    if text.len() as u64 != descriptor.size || Digest(Sha256::digest(&text).into()) != wanted {
        return Err(Fault::bad(format!("sha256:{} is not what it says", wanted.digits())));
    }
    Ok(text)
}

fn parse<T: DeserializeOwned>(name: &str, text: &[u8]) -> Result<T, Fault> {
    serde_json::from_slice(text)
        .map_err(|error| Fault::bad(format!("{} cannot be read: {error}", shown(name.as_bytes()))))
}
