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
use super::{Failed, print, problem};
use crate::problem::Problem;
use crate::streams::{self, Writer};
use crate::{Product, exit};

/// The options of `download`.
#[derive(Debug, Args)]
pub(crate) struct DownloadArguments {
    #[command(flatten)]
    which: Which,
    /// The file to write; `-` writes to stdout [default: ID.zip]
    #[arg(long, short, value_name = "FILE")]
    out: Option<PathBuf>,
    /// What to download [default: as FILE ends, else zip]
    #[arg(long, value_name = "FORMAT")]
    format: Option<Form>,
    #[command(flatten)]
    server: ServerOptions,
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
    let client = arguments.server.client(product)?;
    let form = form(arguments.format, arguments.out.as_deref());
    let job = arguments.which.find(&client).await?;
    let path = match &arguments.out {
        Some(path) => path.clone(),
        None => PathBuf::from(format!("{job}.{}", form.extension())),
    };
    let to_stdout = path.as_os_str() == "-";
    if !to_stdout {
        // That it cannot be written is known before the server packs anything.
        cofferdam_bundle::check_target(&path).map_err(|error| {
            let cause = cofferdam_types::error_chain(&error);
            let remedy = "name a file that can be written with --out";
            (Problem::new("CLI-004", "cannot write a file", cause, remedy), exit::USAGE)
        })?;
    }
    let mut download = client.output(job, form).await.map_err(problem::failed)?;
    if to_stdout {
        while let Some(bytes) = download.next().await.map_err(broken)? {
            if !out.write(bytes).await {
                return Err((problem::download("nobody reads it".to_owned()), exit::FAILED));
            }
        }
        return Ok(0);
    }
    let bytes = save(&mut download, &path).await?;
    print(out, &path.display().to_string()).await;
    streams::tell(&format!(
        "{bytes} bytes in {}",
        cofferdam_view::tame_line(&path.to_string_lossy())
    ));
    Ok(0)
}

/// Writes a file beside its place, and puts it there when it is whole and on disk.
async fn save(download: &mut Download, path: &Path) -> Result<u64, Failed> {
    let unwritable = |error: io::Error| (Problem::file(path, &error), exit::FAILED);
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let directory = parent.unwrap_or(Path::new("."));
    let mut file = tempfile::Builder::new()
        .prefix(".cofferdam-")
        .suffix(".part")
        // As any file that a program of the user's makes.
        .permissions(Permissions::from_mode(0o666))
        .tempfile_in(directory)
        .map_err(unwritable)?;
    let mut length = 0;
    while let Some(bytes) = download.next().await.map_err(broken)? {
        file.write_all(&bytes).map_err(unwritable)?;
        length += bytes.len() as u64;
    }
    publish(file, path, directory).map_err(unwritable)?;
    Ok(length)
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
