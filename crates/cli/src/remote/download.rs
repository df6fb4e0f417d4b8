//! `cofferdam download`: what a job has made, whole or not at all.

use std::fs::{File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use cofferdam_client::{ClientError, Download, OutputFormat};
use tempfile::NamedTempFile;

use super::access::ServerOptions;
use super::which::Which;
use super::{Failed, notebook, print, problem};
use crate::problem::Problem;
use crate::streams::{self, Writer};
use crate::{Product, exit};

/// The options of `download`.
#[derive(Debug, Args)]
pub(crate) struct DownloadArguments {
    #[command(flatten)]
    pub(super) which: Which,
    /// The file to write; `-` writes to stdout [default: ID.zip, or ID.ipynb]
    #[arg(long, short, value_name = "FILE")]
    pub(super) out: Option<PathBuf>,
    /// What to download [default: as FILE ends, else zip]
    #[arg(long, value_name = "FORMAT")]
    format: Option<Form>,
    /// The code cells as a Jupyter notebook; also by a FILE that ends in .ipynb
    #[arg(long, conflicts_with = "format")]
    notebook: bool,
    /// The kernel whose notebook it is to be: python, typescript, or python-NAME
    /// [default: the only one]
    #[arg(long, value_name = "NAME", conflicts_with = "format")]
    pub(super) kernel: Option<String>,
    #[command(flatten)]
    pub(super) server: ServerOptions,
}

impl DownloadArguments {
    /// Whether it is a notebook that is wanted, be it by the file's name.
    fn wants_notebook(&self) -> bool {
        let name = self.out.as_deref().map(|path| path.to_string_lossy().to_lowercase());
        let named = name.is_some_and(|name| name.ends_with(".ipynb"));
        self.notebook || self.kernel.is_some() || (named && self.format.is_none())
    }
}

/// What can be downloaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Form {
    /// The project as a ZIP
    Zip,
    /// The project as a tar archive, compressed with Zstandard
    #[value(name = "tar.zst")]
    TarZst,
    /// What the job changed, for `git apply`
    Patch,
}

impl From<Form> for OutputFormat {
    fn from(form: Form) -> Self {
        match form {
            Form::Zip => Self::Zip,
            Form::TarZst => Self::TarZst,
            Form::Patch => Self::Patch,
        }
    }
}

/// The form that was asked for, be it by the file's name.
fn form(asked: Option<Form>, out: Option<&Path>) -> OutputFormat {
    let name = out.map(|path| path.to_string_lossy().to_lowercase()).unwrap_or_default();
    let named = [OutputFormat::TarZst, OutputFormat::Patch]
        .into_iter()
        .find(|form| name.ends_with(&format!(".{}", form.extension())));
    asked.map(OutputFormat::from).or(named).unwrap_or(OutputFormat::Zip)
}

pub(crate) async fn run(
    product: &Product,
    arguments: &DownloadArguments,
    out: &mut Writer,
) -> Result<u8, Failed> {
    if arguments.wants_notebook() {
        return notebook::run(product, arguments, out).await;
    }
    let client = arguments.server.client(product)?;
    let form = form(arguments.format, arguments.out.as_deref());
    let job = arguments.which.find(&client).await?;
    let path = match &arguments.out {
        Some(path) => path.clone(),
        None => PathBuf::from(format!("{job}.{}", form.extension())),
    };
    check_target(&path)?;
    let mut download = client.output(job, form).await.map_err(problem::failed)?;
    deliver(&mut download, &path, out).await
}

/// That a file cannot be written is known before the server packs anything.
pub(super) fn check_target(path: &Path) -> Result<(), Failed> {
    if path.as_os_str() == "-" {
        return Ok(());
    }
    cofferdam_bundle::check_target(path).map_err(|error| {
        let cause = cofferdam_types::error_chain(&error);
        let remedy = "name a file that can be written with --out";
        (Problem::new("CLI-004", "cannot write a file", cause, remedy), exit::USAGE)
    })
}

/// Puts a download where it was asked for: into a file, or to stdout.
pub(super) async fn deliver(
    download: &mut Download,
    path: &Path,
    out: &mut Writer,
) -> Result<u8, Failed> {
    if path.as_os_str() == "-" {
        while let Some(bytes) = download.next().await.map_err(broken)? {
            if !out.write(bytes).await {
                return Err((problem::download("nobody reads it".to_owned()), exit::FAILED));
            }
        }
        return Ok(0);
    }
    let (mut file, directory) = begin(path)?;
    let mut bytes = 0;
    while let Some(piece) = download.next().await.map_err(broken)? {
        file.write_all(&piece).map_err(|error| unwritable(path, &error))?;
        bytes += piece.len() as u64;
    }
    finish(file, path, &directory, bytes, out).await
}

/// The same with a text that is all here.
pub(super) async fn deliver_text(
    text: String,
    path: &Path,
    out: &mut Writer,
) -> Result<u8, Failed> {
    if path.as_os_str() == "-" {
        return match out.write(text.into()).await {
            true => Ok(0),
            false => Err((problem::download("nobody reads it".to_owned()), exit::FAILED)),
        };
    }
    let (mut file, directory) = begin(path)?;
    file.write_all(text.as_bytes()).map_err(|error| unwritable(path, &error))?;
    finish(file, path, &directory, text.len() as u64, out).await
}

fn unwritable(path: &Path, error: &io::Error) -> Failed {
    (Problem::file(path, error), exit::FAILED)
}

/// A file beside its place, and their directory.
fn begin(path: &Path) -> Result<(NamedTempFile, PathBuf), Failed> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let directory = parent.unwrap_or(Path::new("."));
    let file = tempfile::Builder::new()
        .prefix(".cofferdam-")
        .suffix(".part")
        // As any file that a program of the user's makes.
        .permissions(Permissions::from_mode(0o666))
        .tempfile_in(directory)
        .map_err(|error| unwritable(path, &error))?;
    Ok((file, directory.to_owned()))
}

/// Puts a file in its place, now that it is whole, and says so.
async fn finish(
    file: NamedTempFile,
    path: &Path,
    directory: &Path,
    bytes: u64,
    out: &mut Writer,
) -> Result<u8, Failed> {
    publish(file, path, directory).map_err(|error| unwritable(path, &error))?;
    print(out, &path.display().to_string()).await;
    streams::tell(&format!(
        "{bytes} bytes in {}",
        cofferdam_view::tame_line(&path.to_string_lossy())
    ));
    Ok(0)
}

fn publish(file: NamedTempFile, path: &Path, directory: &Path) -> io::Result<()> {
    file.as_file().sync_all()?;
    file.persist(path).map_err(|error| error.error)?;
    File::open(directory)?.sync_all()
}

/// What went wrong in the middle.
fn broken(error: ClientError) -> Failed {
    (problem::download(cofferdam_types::error_chain(&error)), exit::FAILED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_form_is_that_of_the_file_unless_it_is_said() {
        for (asked, out, expected) in [
            (None, None, OutputFormat::Zip),
            (None, Some("a.tar.zst"), OutputFormat::TarZst),
            (None, Some("a.PATCH"), OutputFormat::Patch),
            (None, Some("patch"), OutputFormat::Zip),
            (None, Some("-"), OutputFormat::Zip),
            (Some(Form::Zip), Some("a.patch"), OutputFormat::Zip),
        ] {
            assert_eq!(form(asked, out.map(Path::new)), expected, "{out:?}");
        }
    }
}
