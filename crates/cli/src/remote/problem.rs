//! Failures between this machine and a server, as people see them.

use std::path::Path;

use cofferdam_client::ClientError;
use cofferdam_types::{JobId, error_chain};

use super::Failed;
use crate::exit;
use crate::problem::Problem;

const NO_TOKEN: &str = "the token cannot be used";
const NO_JOB: &str = "no such job";

/// The code of a server that is not there.
pub(crate) const NO_SERVER: &str = "REM-001";

/// The code of a notebook that a job does not have.
const NO_NOTEBOOK: &str = "API-020";

/// What a client tells, with its exit code.
pub(crate) fn failed(error: ClientError) -> Failed {
    (client(&error), exit::FAILED)
}

/// What a client tells.
pub(crate) fn client(error: &ClientError) -> Problem {
    let cause = error_chain(error);
    match error {
        ClientError::NoServer { url, .. } => Problem::new(
            NO_SERVER,
            &format!("no server at {url}"),
            cause,
            "start one with `cofferdam serve`, or name another with --server or COFFERDAM_SERVER",
        ),
        ClientError::Unreachable { .. } => Problem::new(
            "REM-002",
            "the server cannot be reached",
            cause,
            "check the server's name, the network, and the certificates that this machine trusts",
        ),
        ClientError::Lost { .. } | ClientError::Stalled { .. } => Problem::new(
            "REM-003",
            "the connection to the server broke",
            cause,
            "try again; what the server has acknowledged is not lost: `cofferdam list`",
        ),
        ClientError::Nonsense { .. } => Problem::new(
            "REM-004",
            "this is no server of cofferdam",
            cause,
            "check the URL of --server or COFFERDAM_SERVER, and what stands before the server",
        ),
        ClientError::Refused { problem, .. } => {
            // The server's own words are for those who send requests by hand.
            let remedy = match problem.status {
                401 => "give a token of this server with --token-file or COFFERDAM_TOKEN",
                404 if problem.code == NO_NOTEBOOK => &problem.remedy,
                409 if problem.remedy.contains("kernel=NAME") => "name one with --kernel",
                404 => "see what there is: `cofferdam list`, `user list` or `token list`",
                _ => &problem.remedy,
            };
            Problem::new(problem.code.clone(), &problem.title, problem.detail.clone(), remedy)
        }
        ClientError::Token => Problem::new(
            "REM-005",
            NO_TOKEN,
            cause,
            "give the token as `cofferdam token add` printed it, alone",
        ),
        ClientError::Exposed { .. } => Problem::new(
            "REM-006",
            "anybody on the way could read the token",
            cause,
            "name the server with https://, or say --insecure if the network is yours alone",
        ),
        ClientError::Content(_) => unpackable(cause),
        ClientError::Spoilt { .. } => download(cause),
    }
}

/// There is no token for a server.
pub(crate) fn no_token(url: &str) -> Problem {
    let cause = format!("there is none for {url}; the one kept here is for this machine's server");
    let remedy = "give one with --token-file or COFFERDAM_TOKEN";
    Problem::new("REM-005", NO_TOKEN, cause, remedy)
}

/// A token that cannot be read.
pub(crate) fn token_file(path: &Path, why: &str) -> Problem {
    let cause = format!("{}: {why}", path.display());
    Problem::new("REM-005", NO_TOKEN, cause, "name a file that holds a token with --token-file")
}

/// No job is called so.
pub(crate) fn no_job(name: &str) -> Problem {
    let cause = format!("no job of yours is called {name:?}");
    Problem::new("REM-007", NO_JOB, cause, "see `cofferdam list`, or give the whole id")
}

/// There is no job at all.
pub(crate) fn no_jobs() -> Problem {
    let cause = "you have submitted none to this server";
    Problem::new("REM-007", NO_JOB, cause, "begin with `cofferdam submit`")
}

/// Several jobs are called so.
pub(crate) fn several_jobs(name: &str, jobs: &[JobId]) -> Problem {
    let jobs: Vec<String> = jobs.iter().map(ToString::to_string).collect();
    let cause = format!("several jobs are called {name:?}");
    Problem::new("REM-007", NO_JOB, cause, &format!("one of: {}", jobs.join(", ")))
}

/// No user is called so.
pub(crate) fn no_user(name: &str) -> Problem {
    let cause = format!("no user is called {name:?}");
    Problem::new("REM-011", "no such user", cause, "see `cofferdam user list`")
}

/// Files that cannot be sent.
pub(crate) fn unpackable(cause: String) -> Problem {
    let remedy = "name a directory or archive that you may read with --files, and let .gitignore \
        name what is not needed";
    Problem::new("REM-008", "the files cannot be sent", cause, remedy)
}

/// A download that did not end well.
pub(crate) fn download(cause: String) -> Problem {
    let remedy = "try again; nothing was put in the file's place";
    Problem::new("REM-009", "the download is not whole", cause, remedy)
}

/// Somebody has left before a job was over.
pub(crate) fn left(job: JobId) -> Problem {
    let cause = format!("you left; job {job} goes on at the server");
    let remedy =
        format!("see it with `cofferdam logs -f {job}`, stop it with `cofferdam cancel {job}`");
    Problem::new("REM-010", "the job is not over", cause, &remedy)
}

/// Somebody has left before it was known whether there is a job.
pub(crate) fn left_early() -> Problem {
    let cause = "you left before the server had answered";
    let remedy = "whether the job was taken is told by `cofferdam list`";
    Problem::new("REM-010", "the job may not have been submitted", cause, remedy)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_told_with_the_servers_own_code() {
        let refused = |status| ClientError::Refused {
            problem: Box::new(cofferdam_api::Problem {
                kind: "urn:x".to_owned(),
                title: "not as things are".to_owned(),
                status,
                code: "API-007".to_owned(),
                detail: "the job is over".to_owned(),
                remedy: "resume it".to_owned(),
            }),
            retry_after: None,
        };
        insta::assert_snapshot!(client(&refused(409)), @r"
        error[API-007]: not as things are
          cause: the job is over
          help:  resume it
        ");
        assert!(client(&refused(401)).remedy.contains("COFFERDAM_TOKEN"));
    }

    #[test]
    fn a_server_that_is_not_there_is_told_with_how_to_start_one() {
        let source = std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
        let url = "http://127.0.0.1:8000".to_owned();
        insta::assert_snapshot!(client(&ClientError::NoServer { url, source }), @r"
        error[REM-001]: no server at http://127.0.0.1:8000
          cause: no server answers at http://127.0.0.1:8000: connection refused
          help:  start one with `cofferdam serve`, or name another with --server or COFFERDAM_SERVER
        ");
    }
}
