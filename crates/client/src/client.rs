//! The API, call by call.

use bytes::Bytes;
use cofferdam_api::{
    CreateJob, CreateToken, CreateUser, EventPage, IDEMPOTENCY_KEY, Job, JobPage, JobStatus, Me,
    Message, NewToken, PREFIX, Resume, TokenList, Upload, User, UserList, Version,
};
use cofferdam_types::{JobId, Redacted};
use http::{HeaderName, HeaderValue, Method};
use serde::Serialize;
use serde::de::DeserializeOwned;
use uuid::Uuid;

use crate::address::Address;
use crate::download::Download;
use crate::error::ClientError;
use crate::follow::Follower;
use crate::patience::Patience;
use crate::query::{PathQuery, segment};
use crate::transport::{Ask, Content, Reply, Transport};
use crate::upload::UploadFile;

/// Speaks with one server.
#[derive(Debug)]
pub struct Client {
    transport: Transport,
}

/// When a request is sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Again {
    /// When it cannot have done anything: it was too much.
    Undone,
    /// And when that is not known: doing it twice is doing it once.
    Unsure,
    /// And when there is no server at the moment.
    Gone,
}

/// Which jobs are wanted.
#[derive(Clone, Debug, Default)]
pub struct JobQuery {
    /// Only those at one of these; all, if there are none.
    pub statuses: Vec<JobStatus>,
    /// How many at most, up to 200.
    pub limit: Option<u32>,
    /// `next` of the page before.
    pub cursor: Option<String>,
    /// Of every user; for admins only.
    pub of_everybody: bool,
}

/// In which form a project is downloaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputFormat {
    /// A ZIP.
    Zip,
    /// A tar archive, compressed with Zstandard.
    TarZst,
    /// A patch for git.
    Patch,
}

impl OutputFormat {
    /// How a file of this form ends.
    #[must_use]
    pub fn extension(self) -> &'static str {
        match self {
            Self::Zip => "zip",
            Self::TarZst => "tar.zst",
            Self::Patch => "patch",
        }
    }
}

impl Client {
    /// A client of the server at this address.
    ///
    /// # Errors
    /// When the token cannot be one, or anybody could read it on its way.
    pub fn new(address: Address, token: Option<Redacted<String>>) -> Result<Self, ClientError> {
        if token.is_some() && !address.is_private() {
            return Err(ClientError::Exposed { host: address.authority });
        }
        Self::insecure(address, token, Patience::default())
    }

    /// The same, also where anybody can read the token on its way, and with other
    /// bounds.
    ///
    /// # Errors
    /// When the token cannot be one.
    pub fn insecure(
        address: Address,
        token: Option<Redacted<String>>,
        patience: Patience,
    ) -> Result<Self, ClientError> {
        let transport = Transport::new(address, token.as_ref(), patience)?;
        Ok(Self { transport })
    }

    /// Where the server is.
    #[must_use]
    pub fn address(&self) -> &Address {
        self.transport.address()
    }

    pub(crate) fn patience(&self) -> &Patience {
        self.transport.patience()
    }

    /// Submits a job. It is submitted once, however often that is tried.
    ///
    /// # Errors
    /// When the server refuses, or cannot be reached in several tries.
    pub async fn create_job(&self, job: &CreateJob) -> Result<Job, ClientError> {
        let key = HeaderValue::from_str(&Uuid::now_v7().to_string());
        let mut ask = Ask::post(format!("{PREFIX}/jobs")).with(json(job)?);
        ask.header = key.ok().map(|key| (HeaderName::from_static(IDEMPOTENCY_KEY), key));
        self.answer(&ask, Again::Gone).await
    }

    /// Lists jobs, the newest first.
    ///
    /// # Errors
    /// When the server refuses or cannot be reached.
    pub async fn jobs(&self, query: &JobQuery) -> Result<JobPage, ClientError> {
        let names: Vec<&str> = query.statuses.iter().map(|status| status.name()).collect();
        let path = PathQuery::new(format!("{PREFIX}/jobs"))
            .with("status", (!names.is_empty()).then(|| names.join(",")))
            .with("limit", query.limit)
            .with("cursor", query.cursor.as_deref())
            .with("user", query.of_everybody.then_some("all"));
        self.answer(&Ask::get(path.done()), Again::Unsure).await
    }

    /// Gets a job.
    ///
    /// # Errors
    /// When there is none, or the server cannot be reached.
    pub async fn job(&self, job: JobId) -> Result<Job, ClientError> {
        self.answer(&Ask::get(format!("{PREFIX}/jobs/{job}")), Again::Unsure).await
    }

    /// Some of a job's events: those after this one, and at most so many, up to
    /// 1000.
    ///
    /// # Errors
    /// When there is no such job, or the server cannot be reached.
    pub async fn events(
        &self,
        job: JobId,
        after: u64,
        limit: u32,
    ) -> Result<EventPage, ClientError> {
        let path = PathQuery::new(format!("{PREFIX}/jobs/{job}/events"))
            .with("after", Some(after))
            .with("limit", Some(limit));
        self.answer(&Ask::get(path.done()), Again::Unsure).await
    }

    /// A job's events after this one, as they come, until the job is over.
    #[must_use]
    pub fn follow(&self, job: JobId, after: u64) -> Follower<'_> {
        Follower::new(self, job, after)
    }

    /// Says something to a job.
    ///
    /// # Errors
    /// When it makes no sense for the job as it is, or the server cannot be reached.
    pub async fn say(&self, job: JobId, message: &Message) -> Result<Job, ClientError> {
        self.order(job, "messages", json(message)?, Again::Undone).await
    }

    /// Stops a job.
    ///
    /// # Errors
    /// When it makes no sense for the job as it is, or the server cannot be reached.
    pub async fn cancel(&self, job: JobId) -> Result<Job, ClientError> {
        self.order(job, "cancel", Content::Nothing, Again::Unsure).await
    }

    /// Lets a job rest as soon as nothing is under way.
    ///
    /// # Errors
    /// When it makes no sense for the job as it is, or the server cannot be reached.
    pub async fn pause(&self, job: JobId) -> Result<Job, ClientError> {
        self.order(job, "pause", Content::Nothing, Again::Unsure).await
    }

    /// Lets a job go on, after a pause or although it had ended.
    ///
    /// # Errors
    /// When it makes no sense for the job as it is, or the server cannot be reached.
    pub async fn resume(&self, job: JobId, how: &Resume) -> Result<Job, ClientError> {
        self.order(job, "resume", json(how)?, Again::Undone).await
    }

    async fn order(
        &self,
        job: JobId,
        name: &str,
        content: Content,
        again: Again,
    ) -> Result<Job, ClientError> {
        let ask = Ask::post(format!("{PREFIX}/jobs/{job}/{name}")).with(content);
        self.answer(&ask, again).await
    }

    /// Downloads a job's project, as it is now.
    ///
    /// # Errors
    /// When there is nothing to download, or the server cannot be reached.
    pub async fn output(&self, job: JobId, form: OutputFormat) -> Result<Download, ClientError> {
        let mut ask = Ask::get(format!("{PREFIX}/jobs/{job}/output.{}", form.extension()));
        ask.accept = "*/*";
        self.reply(&ask, Again::Unsure).await.map(Download::new)
    }

    /// Downloads a job's code cells as a notebook: those of this kernel, or of the only one.
    ///
    /// # Errors
    /// When there is no such notebook, or the server cannot be reached.
    pub async fn notebook(
        &self,
        job: JobId,
        kernel: Option<&str>,
    ) -> Result<Download, ClientError> {
        let path = PathQuery::new(format!("{PREFIX}/jobs/{job}/notebook.ipynb"));
        let mut ask = Ask::get(path.with("kernel", kernel).done());
        ask.accept = "*/*";
        self.reply(&ask, Again::Unsure).await.map(Download::new)
    }

    /// Sends an archive for a job to begin with.
    ///
    /// # Errors
    /// When the server does not take it or cannot be reached, or it cannot be read.
    pub async fn upload(&self, file: UploadFile) -> Result<Upload, ClientError> {
        let ask = Ask::post(format!("{PREFIX}/uploads")).with(Content::File(file));
        // One that arrives twice is forgotten once.
        self.answer(&ask, Again::Unsure).await
    }

    /// Who this client is to the server.
    ///
    /// # Errors
    /// When the server refuses or cannot be reached.
    pub async fn me(&self) -> Result<Me, ClientError> {
        self.answer(&Ask::get(format!("{PREFIX}/me")), Again::Unsure).await
    }

    /// What the server is.
    ///
    /// # Errors
    /// When the server refuses or cannot be reached.
    pub async fn version(&self) -> Result<Version, ClientError> {
        self.answer(&Ask::get(format!("{PREFIX}/version")), Again::Unsure).await
    }

    /// All users.
    ///
    /// # Errors
    /// When the server refuses or cannot be reached.
    pub async fn users(&self) -> Result<UserList, ClientError> {
        self.answer(&Ask::get(format!("{PREFIX}/users")), Again::Unsure).await
    }

    /// Makes a user.
    ///
    /// # Errors
    /// When there is one of this name, or the server refuses or cannot be reached.
    pub async fn create_user(&self, user: &CreateUser) -> Result<User, ClientError> {
        let ask = Ask::post(format!("{PREFIX}/users")).with(json(user)?);
        self.answer(&ask, Again::Undone).await
    }

    /// Removes a user, with its tokens.
    ///
    /// # Errors
    /// When there is no such user, or the server refuses or cannot be reached.
    pub async fn remove_user(&self, id: &str) -> Result<(), ClientError> {
        let path = format!("{PREFIX}/users/{}", segment(id));
        self.reply(&Ask::new(Method::DELETE, path), Again::Undone).await.map(drop)
    }

    /// A user's tokens.
    ///
    /// # Errors
    /// When there is no such user, or the server refuses or cannot be reached.
    pub async fn tokens(&self, user: &str) -> Result<TokenList, ClientError> {
        let path = format!("{PREFIX}/users/{}/tokens", segment(user));
        self.answer(&Ask::get(path), Again::Unsure).await
    }

    /// Makes a token for a user.
    ///
    /// # Errors
    /// When there is no such user, or the server refuses or cannot be reached.
    pub async fn create_token(
        &self,
        user: &str,
        token: &CreateToken,
    ) -> Result<NewToken, ClientError> {
        let path = format!("{PREFIX}/users/{}/tokens", segment(user));
        self.answer(&Ask::post(path).with(json(token)?), Again::Undone).await
    }

    /// Removes a token.
    ///
    /// # Errors
    /// When there is no such token, or the server refuses or cannot be reached.
    pub async fn remove_token(&self, id: &str) -> Result<(), ClientError> {
        let path = format!("{PREFIX}/tokens/{}", segment(id));
        self.reply(&Ask::new(Method::DELETE, path), Again::Undone).await.map(drop)
    }

    /// Opens a stream, in one try.
    pub(crate) async fn stream(&self, ask: &Ask) -> Result<Reply, ClientError> {
        self.transport.send(ask).await
    }

    async fn answer<T: DeserializeOwned>(&self, ask: &Ask, again: Again) -> Result<T, ClientError> {
        let mut failures = 0;
        loop {
            let answer = match self.transport.send(ask).await {
                Ok(reply) => reply.json().await,
                Err(error) => Err(error),
            };
            match answer {
                Ok(answer) => return Ok(answer),
                Err(error) => self.rest(error, again, &mut failures).await?,
            }
        }
    }

    async fn reply(&self, ask: &Ask, again: Again) -> Result<Reply, ClientError> {
        let mut failures = 0;
        loop {
            match self.transport.send(ask).await {
                Ok(reply) => return Ok(reply),
                Err(error) => self.rest(error, again, &mut failures).await?,
            }
        }
    }

    /// Waits before another try; or gives the failure back, if there is to be none.
    async fn rest(
        &self,
        error: ClientError,
        again: Again,
        failures: &mut u32,
    ) -> Result<(), ClientError> {
        *failures += 1;
        let useful = match again {
            // What came too early was not done.
            _ if error.status() == Some(429) => true,
            Again::Undone => false,
            Again::Unsure => error.passes() && !error.is_unsent(),
            Again::Gone => error.passes(),
        };
        if !useful || *failures >= self.patience().tries {
            return Err(error);
        }
        tokio::time::sleep(self.patience().wait(*failures, error.retry_after())).await;
        Ok(())
    }
}

fn json(value: &impl Serialize) -> Result<Content, ClientError> {
    let bytes = serde_json::to_vec(value);
    bytes
        .map(|bytes| Content::Json(Bytes::from(bytes)))
        .map_err(|error| ClientError::Content(std::io::Error::other(error)))
}
