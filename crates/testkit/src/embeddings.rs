//! A server on loopback that makes vectors of texts, well or badly, and records what
//! it is asked.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::http::{header, read_request, wait_until_left, write_whole};

/// What is answered to a question.
#[derive(Clone, Debug)]
pub enum Embeddings {
    /// These vectors, in the form that everybody knows.
    Vectors(Vec<Vec<f32>>),
    /// A status and a body.
    Whole(u16, String),
    /// Nothing, for as long as anybody waits.
    Silence,
}

/// A question for vectors.
#[derive(Clone, Debug)]
pub struct Embedded {
    /// Where it was put.
    pub path: String,
    /// Its `authorization` header.
    pub authorization: Option<String>,
    /// Its `accept` header.
    pub accept: Option<String>,
    /// What is asked.
    pub body: Value,
}

impl Embedded {
    /// The texts.
    #[must_use]
    pub fn texts(&self) -> Vec<String> {
        let texts = self.body.get("input").and_then(Value::as_array);
        let texts = texts.into_iter().flatten();
        texts.map(|text| text.as_str().unwrap_or_default().to_owned()).collect()
    }
}

type Script = Box<dyn FnMut(&Embedded) -> Embeddings + Send>;

struct Shared {
    script: Mutex<Script>,
    asked: Mutex<Vec<Embedded>>,
}

/// The server. It is gone, with all its connections, when it is dropped.
pub struct EmbeddingServer {
    address: SocketAddr,
    shared: Arc<Shared>,
    /// Owns the listener; dropping it ends everything.
    _tasks: JoinSet<()>,
}

impl EmbeddingServer {
    /// Starts one that looks at each question to find the answer.
    ///
    /// # Errors
    /// When there is no port to listen on.
    pub async fn start(
        script: impl FnMut(&Embedded) -> Embeddings + Send + 'static,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let shared =
            Arc::new(Shared { script: Mutex::new(Box::new(script)), asked: Mutex::default() });
        let mut tasks = JoinSet::new();
        tasks.spawn(listen(listener, Arc::clone(&shared)));
        Ok(Self { address, shared, _tasks: tasks })
    }

    /// `http://127.0.0.1:PORT/v1`.
    #[must_use]
    pub fn base_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// The questions so far.
    #[must_use]
    pub fn asked(&self) -> Vec<Embedded> {
        self.shared.asked.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

async fn listen(listener: TcpListener, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let shared = Arc::clone(&shared);
        // A client that leaves in the middle is no failure.
        connections.spawn(async move { drop(converse(stream, &shared).await) });
        while connections.try_join_next().is_some() {}
    }
}

async fn converse(mut stream: TcpStream, shared: &Shared) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut unread = Vec::new();
    while let Some(request) = read_request(&mut stream, &mut unread).await? {
        let value = |name: &str| header(&request.headers, name).map(str::to_owned);
        let question = Embedded {
            authorization: value("authorization"),
            accept: value("accept"),
            body: serde_json::from_slice(&request.body).unwrap_or_default(),
            path: request.path,
        };
        let answer = {
            let mut script = shared.script.lock().unwrap_or_else(PoisonError::into_inner);
            script(&question)
        };
        shared.asked.lock().unwrap_or_else(PoisonError::into_inner).push(question);
        let (status, body) = match answer {
            Embeddings::Vectors(vectors) => (200, in_form(&vectors)),
            Embeddings::Whole(status, body) => (status, body),
            Embeddings::Silence => {
                wait_until_left(&mut stream).await;
                return Ok(());
            }
        };
        let json = ("content-type".to_owned(), "application/json".to_owned());
        write_whole(&mut stream, status, &[json], &body).await?;
    }
    Ok(())
}

fn in_form(vectors: &[Vec<f32>]) -> String {
    let entry = |(index, vector): (usize, &Vec<f32>)| json!({"object": "embedding", "index": index, "embedding": vector});
    let data: Vec<Value> = vectors.iter().enumerate().map(entry).collect();
    let usage = json!({"prompt_tokens": 1, "total_tokens": 1});
    json!({"object": "list", "data": data, "model": "vectors", "usage": usage}).to_string()
}
