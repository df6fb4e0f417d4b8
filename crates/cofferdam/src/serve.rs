//! The server as the binary wires it: stores, places for archives, back ends.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use cofferdam_backends::open_files;
use cofferdam_cli::{ModelMaker, Serve, ServeArguments, ServeFailure, ServeOrder, Unusable};
use cofferdam_fleet::{Bounds, Data, Fleet, FleetError, Setup};
use cofferdam_sandbox::Backend;
use cofferdam_server::{ServerSetup, TlsFiles, Viewer, bind, first_admin};
use cofferdam_setup::prefix_in;
use cofferdam_store::{Blobs, NodeId, QueueBounds, Store, StoreError};
use cofferdam_store_blobs::{DiskBlobs, ObjectBlobs};
use cofferdam_store_postgres::PostgresStore;
use cofferdam_store_sqlite::SqliteStore;
use cofferdam_types::error_chain;
use futures_util::future::BoxFuture;

use crate::aide::{self, Shelf};
use crate::outfit::Settled;
use crate::telemetry;

/// How long an upload is kept that no job begins with.
const UPLOADS: Duration = Duration::from_secs(24 * 3600);

/// How many containers each engine has waiting for the next job, and how many supervisors
/// there are where no engine is asked.
const WARM: usize = 1;

/// Runs servers.
pub(crate) struct Servers {
    pub(crate) models: Arc<dyn ModelMaker>,
    /// Where `cofferdam setup` installs.
    pub(crate) home: PathBuf,
}

impl Serve for Servers {
    fn serve<'a>(
        &'a self,
        order: ServeOrder,
        say: &'a (dyn Fn(&str) + Send + Sync),
    ) -> BoxFuture<'a, Result<(), ServeFailure>> {
        Box::pin(self.run(order, say))
    }

    fn backends(&self, data: &Path) -> Vec<Arc<dyn Backend>> {
        cofferdam_backends::keeping_warm(WARM, data, &self.home)
    }
}

impl Servers {
    async fn run(
        &self,
        order: ServeOrder,
        say: &(dyn Fn(&str) + Send + Sync),
    ) -> Result<(), ServeFailure> {
        let telemetry = telemetry::begin(&order.arguments)
            .map_err(|cause| failure(Unusable::Address, cause, "mend --log or --otlp"))?;
        let served = self.tell(order, say).await;
        telemetry.finish().await;
        served
    }

    async fn tell(
        &self,
        order: ServeOrder,
        say: &(dyn Fn(&str) + Send + Sync),
    ) -> Result<(), ServeFailure> {
        let ServeOrder { arguments, data, settings, models, embedder, stop } = order;
        let mut setup = server_setup(&arguments, &data);
        setup.viewer = Some(Viewer { prefix: prefix_in(&self.home), find: aide::viewer });
        if let Err(error) = open_files::raise() {
            tracing::warn!(%error, "the limit of open files is not raised");
        }
        let taken = Data::take(&data).map_err(|error| fleet_failure(&error))?;
        let store = open_store(&arguments, &data).await?;
        let blobs = open_blobs(&arguments, &data, taken.node())?;
        let backends = self.backends(&data);
        let outfit = Arc::new(Settled {
            maker: Arc::clone(&self.models),
            settings,
            defaults: models,
            embedder,
            backends,
            home: data.clone(),
            images: cofferdam_images::Store::in_home(&self.home),
            aide: Shelf::keep(&data, &self.home),
            open_network: arguments.allow_open_network,
        });
        let fleet = Fleet::start(Setup {
            data: taken,
            store: Arc::clone(&store),
            blobs,
            outfit,
            bounds: bounds(&arguments),
        });
        let fleet = fleet.await.map_err(|error| fleet_failure(&error))?;
        let server = match bind(setup, Arc::clone(&fleet)).await {
            Ok(server) => server,
            Err(error) => {
                fleet.drain(Duration::ZERO).await;
                return Err(failure(Unusable::Address, error_chain(&error), error.remedy()));
            }
        };
        if let Some(token) = first_admin(&*store).await.map_err(|error| account(&error))? {
            let token = token.reveal();
            say(&format!("the admin's token, shown this once: {token}"));
            keep_token(&data.join("token"), token);
        }
        let scheme = if arguments.tls_cert.is_some() { "https" } else { "http" };
        let address = format!("{scheme}://{}", server.local_addr());
        if let Err(error) = std::fs::write(data.join("address"), format!("{address}\n")) {
            tracing::warn!(%error, "the command line will not find this server's token");
        }
        say(&format!("listening on {address}"));
        // Whoever asks while the jobs are being left is told so, not shut out.
        let leaving = Arc::clone(&fleet);
        let grace = arguments.grace;
        server
            .serve(async move {
                stop.cancelled().await;
                leaving.drain(grace).await;
            })
            .await;
        Ok(())
    }
}

fn failure(what: Unusable, cause: impl Into<String>, remedy: &str) -> ServeFailure {
    ServeFailure { what, cause: cause.into(), remedy: remedy.to_owned() }
}

fn store_failure(error: &StoreError) -> ServeFailure {
    let remedy = match error {
        StoreError::Unusable { remedy, .. } => remedy,
        StoreError::Newer { .. } => "use the newer release, or another database",
        StoreError::Full(_) => "make room on the disk",
        _ => "start the database, or mend --database",
    };
    failure(Unusable::Store, error_chain(error), remedy)
}

fn fleet_failure(error: &FleetError) -> ServeFailure {
    match error {
        FleetError::Busy(_) => {
            let remedy = "stop the other server, or give this one another --data";
            failure(Unusable::Data, error_chain(error), remedy)
        }
        FleetError::Data { .. } => {
            let remedy = "make room, mend the permissions, or choose another --data";
            failure(Unusable::Data, error_chain(error), remedy)
        }
        FleetError::Store(error) => store_failure(error),
    }
}

fn account(error: &cofferdam_server::AccountError) -> ServeFailure {
    failure(Unusable::Store, error_chain(error), "mend the database, then start again")
}

async fn open_store(
    arguments: &ServeArguments,
    data: &Path,
) -> Result<Arc<dyn Store>, ServeFailure> {
    let opened: Result<Arc<dyn Store>, StoreError> = match &arguments.database {
        Some(url) => match PostgresStore::open(url).await {
            Ok(store) => Ok(Arc::new(store)),
            Err(error) => Err(error),
        },
        None => match SqliteStore::open(&data.join("cofferdam.db")) {
            Ok(store) => Ok(Arc::new(store)),
            Err(error) => Err(error),
        },
    };
    let store = opened.map_err(|error| store_failure(&error))?;
    match store.about().await {
        Ok(about) => {
            let settings: Vec<String> =
                about.settings.iter().map(|(name, value)| format!("{name}={value}")).collect();
            let settings = settings.join(" ");
            tracing::info!(engine = about.engine, version = about.version, settings, "the store");
        }
        Err(error) => return Err(store_failure(&error)),
    }
    Ok(store)
}

fn open_blobs(
    arguments: &ServeArguments,
    data: &Path,
    node: NodeId,
) -> Result<Arc<dyn Blobs>, ServeFailure> {
    if arguments.database.is_some() && arguments.artifacts.is_none() {
        tracing::warn!(
            "archives are kept on this machine alone: servers that share a database need --artifacts"
        );
    }
    if let Some(url) = &arguments.artifacts {
        let opened = ObjectBlobs::from_url(url, &node.to_string(), std::env::vars());
        let opened = opened.map_err(|error| {
            let remedy = "mend --artifacts and the AWS_… variables";
            failure(Unusable::Store, error_chain(&error), remedy)
        });
        return Ok(Arc::new(opened?));
    }
    let path = data.join("blobs");
    match DiskBlobs::open(&path) {
        Ok(blobs) => Ok(Arc::new(blobs)),
        Err(error) => {
            let cause = format!("{}: {error}", path.display());
            Err(failure(Unusable::Data, cause, "make room, or mend the permissions"))
        }
    }
}

fn bounds(arguments: &ServeArguments) -> Bounds {
    let running = arguments.jobs.unwrap_or_else(cofferdam_fleet::capacity);
    Bounds {
        running,
        running_per_user: arguments.jobs_per_user.unwrap_or(running),
        queue: QueueBounds { all: arguments.queue, per_user: arguments.queue_per_user },
        lease: arguments.lease,
        linger: arguments.linger,
        uploads: UPLOADS,
    }
}

fn server_setup(arguments: &ServeArguments, data: &Path) -> ServerSetup {
    let tls = arguments.tls_cert.clone().zip(arguments.tls_key.clone());
    ServerSetup {
        allowed_hosts: arguments.allow_host.clone(),
        tls: tls.map(|(certificate, key)| TlsFiles { certificate, key }),
        insecure_public: arguments.insecure_public,
        public_metrics: arguments.public_metrics,
        preview_domain: arguments.preview_domain.clone(),
        ..ServerSetup::new(arguments.listen, data.to_owned())
    }
}

/// Keeps the first token where the command line of the same user finds it. One that is
/// there, of another database perhaps, is put aside.
fn keep_token(path: &Path, token: &str) {
    std::fs::rename(path, path.with_extension("before")).ok();
    let mut options = OpenOptions::new();
    let file = options.write(true).create_new(true).mode(0o600).open(path);
    let written = file.and_then(|mut file| {
        writeln!(file, "{token}")?;
        file.sync_all()
    });
    if let Err(error) = written {
        tracing::warn!(path = %path.display(), %error, "the token was shown, and not kept");
    }
}
