//! `cofferdam download --notebook`: a job's code cells, of a transcript here or of a server.

use std::path::{Path, PathBuf};

use cofferdam_notebook::{Limits, Reader};
use cofferdam_runtime::JournalPast;
use cofferdam_types::{Event, JobId};

use super::download::{DownloadArguments, check_target, deliver, deliver_text};
use super::{Failed, problem};
use crate::problem::Problem;
use crate::streams::Writer;
use crate::whose::{nowhere, transcript};
use crate::{Product, exit};

pub(super) async fn run(
    product: &Product,
    arguments: &DownloadArguments,
    out: &mut Writer,
) -> Result<u8, Failed> {
    check_kernel(arguments.kernel.as_deref())?;
    let (name, server) = (arguments.which.id.as_deref(), &arguments.server);
    if let Some(transcript) = transcript(product, name, server)? {
        return local(&transcript, arguments, out).await;
    }
    let remote = async {
        let client = server.client(product)?;
        let job = arguments.which.find(&client).await?;
        let path = target(arguments, job);
        check_target(&path)?;
        let kernel = arguments.kernel.as_deref();
        let mut download = client.notebook(job, kernel).await.map_err(problem::failed)?;
        deliver(&mut download, &path, out).await
    };
    remote.await.map_err(|failed| nowhere(failed, name, server))
}

async fn local(
    transcript: &Path,
    arguments: &DownloadArguments,
    out: &mut Writer,
) -> Result<u8, Failed> {
    let usage = |problem: Problem| (problem, exit::USAGE);
    let mut reader = Reader::new(arguments.kernel.as_deref(), &Limits::default());
    let mut job = None;
    let read = JournalPast::of(transcript).each(|record| {
        if let Event::Created { spec } = &record.event {
            job = Some(spec.job);
        }
        reader.read(&record.event);
    });
    read.map_err(|error| usage(Problem::transcript(&error)))?;
    let Some(job) = job else {
        return Err(usage(Problem::unusable(transcript, "the log is empty")));
    };
    let notebook = reader.notebook().map_err(|error| (Problem::notebook(&error), exit::FAILED))?;
    let path = target(arguments, job);
    check_target(&path)?;
    deliver_text(notebook.to_json(), &path, out).await
}

/// The name of a kernel becomes a part of a file's name.
fn check_kernel(kernel: Option<&str>) -> Result<(), Failed> {
    let harmless = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
    let is_name = |name: &str| (1..=64).contains(&name.len()) && name.chars().all(harmless);
    match kernel.filter(|kernel| !is_name(kernel)) {
        None => Ok(()),
        Some(kernel) => {
            let cause = format!("--kernel: {kernel:?} is no name of a notebook");
            Err((Problem::option(cause), exit::USAGE))
        }
    }
}

/// Where it goes.
fn target(arguments: &DownloadArguments, job: JobId) -> PathBuf {
    match (&arguments.out, &arguments.kernel) {
        (Some(path), _) => path.clone(),
        (None, Some(kernel)) => PathBuf::from(format!("{job}-{kernel}.ipynb")),
        (None, None) => PathBuf::from(format!("{job}.ipynb")),
    }
}
