//! The scripted server: listens on loopback, records what it is asked, and
//! answers by its script.

use std::fmt;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::http::{
    Afterwards, RawRequest, header, read_request, wait_until_left, write_stream, write_whole,
};
use crate::performance::{Performance, perform};
use crate::script::{Dialect, Turn};

/// How long a test waits for a request before it has failed.
const PATIENCE: Duration = Duration::from_secs(60);

/// A request to the scripted model.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// In which wire format.
    pub dialect: Dialect,
    /// Its path.
    pub path: String,
    /// Its headers, their names in small letters.
    pub headers: Vec<(String, String)>,
    /// What is asked.
    pub body: Value,
    /// The same, byte for byte.
    pub bytes: Vec<u8>,
    /// When it was read to its end.
    pub at: Instant,
    /// Which connection it came by, counted from 0.
    pub connection: usize,
}

impl Recorded {
    /// The value of a header.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        header(&self.headers, name)
    }
}

type Script = Box<dyn FnMut(&Recorded, usize) -> Turn + Send>;

struct State {
    script: Script,
    requests: Vec<Recorded>,
}

struct Shared {
    state: Mutex<State>,
    /// How many requests there were.
    count: watch::Sender<usize>,
    /// How many connections are open.
    open: watch::Sender<usize>,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records a request and looks up its answer.
    fn answer(&self, request: Recorded) -> Performance {
        let mut state = self.state();
        let number = state.requests.len();
        let turn = (state.script)(&request, number);
        let model = request.body.get("model").and_then(Value::as_str).unwrap_or("scripted");
        let performance = perform(request.dialect, &turn, number, model);
        state.requests.push(request);
        self.count.send_replace(number + 1);
        performance
    }
}

/// A model server on loopback that follows a script. It is gone, with all its
/// connections, when it is dropped.
pub struct ScriptedServer {
    address: SocketAddr,
    shared: Arc<Shared>,
    /// Owns the listener; dropping it ends everything.
    _tasks: JoinSet<()>,
}

impl fmt::Debug for ScriptedServer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("ScriptedServer").field("address", &self.address).finish()
    }
}

impl ScriptedServer {
    /// Starts a server that answers the n-th request with the n-th turn, and
    /// those after the last with the text "done".
    ///
    /// # Errors
    /// When there is no port to listen on.
    pub async fn start(turns: impl IntoIterator<Item = Turn>) -> io::Result<Self> {
        Self::start_then(turns, Turn::text("done")).await
    }

    /// The same with another answer after the last turn.
    ///
    /// # Errors
    /// When there is no port to listen on.
    pub async fn start_then(
        turns: impl IntoIterator<Item = Turn>,
        afterwards: Turn,
    ) -> io::Result<Self> {
        let turns: Vec<Turn> = turns.into_iter().collect();
        Self::with(move |_, number| turns.get(number).unwrap_or(&afterwards).clone()).await
    }

    /// Starts a server that looks at each request, and its number from 0, to
    /// find the answer.
    ///
    /// # Errors
    /// When there is no port to listen on.
    pub async fn with(
        script: impl FnMut(&Recorded, usize) -> Turn + Send + 'static,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let state = Mutex::new(State { script: Box::new(script), requests: Vec::new() });
        let (count, open) = (watch::Sender::new(0), watch::Sender::new(0));
        let shared = Arc::new(Shared { state, count, open });
        let mut tasks = JoinSet::new();
        tasks.spawn(listen(listener, Arc::clone(&shared)));
        Ok(Self { address, shared, _tasks: tasks })
    }

    /// `http://127.0.0.1:PORT`.
    #[must_use]
    pub fn base_url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The requests so far. Questions for the list of models are not among them.
    #[must_use]
    pub fn requests(&self) -> Vec<Recorded> {
        self.shared.state().requests.clone()
    }

    /// Waits until there have been so many requests, and gives all there are.
    ///
    /// # Errors
    /// When they have not come within a minute.
    pub async fn wait_for_requests(&self, wanted: usize) -> io::Result<Vec<Recorded>> {
        wait(&self.shared.count, |count| count >= wanted).await?;
        Ok(self.requests())
    }

    /// Waits until no client has a connection open.
    ///
    /// # Errors
    /// When one has not closed its connection within a minute.
    pub async fn wait_until_idle(&self) -> io::Result<()> {
        wait(&self.shared.open, |open| open == 0).await
    }
}

async fn wait(number: &watch::Sender<usize>, good: impl Fn(usize) -> bool) -> io::Result<()> {
    let mut number = number.subscribe();
    match tokio::time::timeout(PATIENCE, number.wait_for(|number| good(*number))).await {
        Ok(_) => Ok(()),
        Err(_) => Err(io::ErrorKind::TimedOut.into()),
    }
}

async fn listen(listener: TcpListener, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    let mut number = 0;
    while let Ok((stream, _)) = listener.accept().await {
        shared.open.send_modify(|open| *open += 1);
        connections.spawn(attend(stream, number, Arc::clone(&shared)));
        number += 1;
        while connections.try_join_next().is_some() {}
    }
}

/// Serves one connection to its end.
async fn attend(stream: TcpStream, connection: usize, shared: Arc<Shared>) {
    // A client that leaves in the middle is no failure.
    drop(converse(stream, connection, &shared).await);
    shared.open.send_modify(|open| *open -= 1);
}

async fn converse(mut stream: TcpStream, connection: usize, shared: &Shared) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut unread = Vec::new();
    while let Some(request) = read_request(&mut stream, &mut unread).await? {
        match reply(&mut stream, request, connection, shared).await? {
            Afterwards::Kept => {}
            Afterwards::Closed => break,
        }
    }
    Ok(())
}

async fn reply(
    stream: &mut TcpStream,
    request: RawRequest,
    connection: usize,
    shared: &Shared,
) -> io::Result<Afterwards> {
    let RawRequest { method, path, headers, body: bytes } = request;
    let (dialect, body) = match (method.as_str(), Dialect::at(&path)) {
        ("POST", Some(dialect)) => match serde_json::from_slice::<Value>(&bytes) {
            Ok(body) if body.get("stream") == Some(&Value::Bool(true)) => (dialect, body),
            _ => return refuse(stream, 400, "only JSON that asks for a stream").await,
        },
        ("GET", None) if path == "/v1/models" => {
            let model = json!({"id": "scripted", "object": "model", "owned_by": "testkit"});
            let list = json!({"object": "list", "data": [model]}).to_string();
            return whole(stream, 200, &[], &list).await;
        }
        _ => return refuse(stream, 404, "no such place").await,
    };
    let at = Instant::now();
    let recorded = Recorded { dialect, path, headers, body, bytes, at, connection };
    match shared.answer(recorded) {
        Performance::Silence => {
            wait_until_left(stream).await;
            Ok(Afterwards::Closed)
        }
        Performance::Status { status, headers, body } => {
            whole(stream, status, &headers, &body).await
        }
        Performance::Stream(acts) => write_stream(stream, acts).await,
    }
}

async fn refuse(stream: &mut TcpStream, status: u16, message: &str) -> io::Result<Afterwards> {
    let error = json!({"type": "invalid_request_error", "message": message});
    whole(stream, status, &[], &json!({"type": "error", "error": error}).to_string()).await
}

async fn whole(
    stream: &mut TcpStream,
    status: u16,
    headers: &[(String, String)],
    body: &str,
) -> io::Result<Afterwards> {
    let json = ("content-type".to_owned(), "application/json".to_owned());
    let headers = [&[json], headers].concat();
    write_whole(stream, status, &headers, body).await?;
    Ok(Afterwards::Kept)
}
