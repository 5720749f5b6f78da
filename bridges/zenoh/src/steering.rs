//! Feedback from remote clients: checked by the daemon like that of any client, over a connection for each of them.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::thread;
use std::time::Duration;

use foveate::ControlError;
use foveate::client::Client;
use foveate::messages::{DATAGRAM_BYTES_MAX, Refusal, RefusalReason, ViewName};
use foveate_core::error::chain;
use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use zenoh::Wait;
use zenoh::query::Query;

/// Most remote clients that steer at a time, of all views together: each costs the daemon a connection, of which one user may have
/// 32.
pub const CLIENTS_MAX: usize = 8;

/// Questions of a client that may wait for their answers.
const WAITING_MAX: usize = 16;

/// Silence after which a client's connection is closed, and with it its lease.
const IDLE: Duration = Duration::from_secs(30);

/// What remote clients may ask for. Opening views is not among it: these would live as long as the bridge's connection.
const OPERATIONS: [&str; 7] =
    ["look", "attend", "attend_tokens", "inject", "weigh", "release", "refresh"];

/// Parameter of a query that names its client.
const CLIENT: &str = "client";

/// Most bytes of such a name.
const CLIENT_BYTES_MAX: usize = 255;

/// Who steers: a view, and the name that the remote client gave itself.
type Steerer = (ViewName, String);

/// The remote clients of a bridge.
#[derive(Debug)]
pub struct Steering {
    socket: PathBuf,
    /// A thread ends under this lock, so that no question is given to one that is ending.
    clients: Mutex<HashMap<Steerer, SyncSender<Query>>>,
}

impl Steering {
    /// Steers the views of the daemon that listens on `socket`.
    pub fn new(socket: PathBuf) -> Self {
        Self { socket, clients: Mutex::default() }
    }

    /// Answers `query` about `view`, later and on another thread.
    pub fn ask(self: &Arc<Self>, view: &ViewName, query: Query) {
        // Check the size before keeping a copy.
        if let Err(refusal) = check_size(&query) {
            return answer(&query, &refused(&refusal));
        }
        let name = query.parameters().get(CLIENT).unwrap_or_default().to_owned();
        let steerer = (view.clone(), name);
        let mut clients = self.clients.lock();
        if !clients.contains_key(&steerer) {
            if CLIENTS_MAX <= clients.len() {
                let error = format!("{CLIENTS_MAX} remote clients steer views of this bridge");
                return answer(&query, &refused(&Refusal::new(RefusalReason::Busy, error)));
            }
            let (sender, receiver) = sync_channel(WAITING_MAX);
            let (steering, of) = (Arc::clone(self), steerer.clone());
            let thread = thread::Builder::new().name("steering".to_owned());
            if let Err(error) = thread.spawn(move || steering.serve(&of, &receiver)) {
                let error = format!("no thread can be started: {error}");
                return answer(&query, &refused(&Refusal::new(RefusalReason::Busy, error)));
            }
            clients.insert(steerer.clone(), sender);
        }
        if let Some(sender) = clients.get(&steerer)
            && let Err(TrySendError::Full(query) | TrySendError::Disconnected(query)) =
                sender.try_send(query)
        {
            let error = format!("{WAITING_MAX} messages of this client wait for their answers");
            answer(&query, &refused(&Refusal::new(RefusalReason::Busy, error)));
        }
    }

    /// The thread of a client.
    fn serve(&self, of: &Steerer, queries: &Receiver<Query>) {
        let mut connection = None;
        loop {
            match queries.recv_timeout(IDLE) {
                Ok(query) => answer(&query, &self.answer_to(&query, &of.0, &mut connection)),
                Err(RecvTimeoutError::Disconnected) => return,
                Err(RecvTimeoutError::Timeout) => {
                    let mut clients = self.clients.lock();
                    // A request that arrived meanwhile is answered first.
                    match queries.try_recv() {
                        Ok(query) => {
                            drop(clients);
                            answer(&query, &self.answer_to(&query, &of.0, &mut connection));
                        }
                        Err(_) => {
                            clients.remove(of);
                            return;
                        }
                    }
                }
            }
        }
    }

    fn answer_to(&self, query: &Query, view: &ViewName, connection: &mut Option<Client>) -> Value {
        let payload = query.payload().map(|payload| payload.to_bytes()).unwrap_or_default();
        let (request, raw) = match request(&payload, view) {
            Ok(request) => request,
            Err(refusal) => return refused(&refusal),
        };
        // A connection that the daemon closed, as one that restarts does, is replaced once.
        let is_new = connection.is_none();
        match self.asked(&request, raw, connection) {
            Err(ControlError::Disconnected) if !is_new => {
                answered(self.asked(&request, raw, connection))
            }
            result => answered(result),
        }
    }

    fn asked(
        &self,
        request: &Value,
        raw: &[u8],
        connection: &mut Option<Client>,
    ) -> Result<Value, ControlError> {
        let mut client = match connection.take() {
            Some(client) => client,
            None => Client::connect(&self.socket)?,
        };
        let result = client.request(request, raw);
        // After anything else an answer may still come, and would be taken for that to the next request.
        if matches!(result, Ok(_) | Err(ControlError::Refused(_))) {
            *connection = Some(client);
        }
        result
    }
}

/// Refuses a message, or the name of a client, that is larger than any honest one.
fn check_size(query: &Query) -> Result<(), Refusal> {
    let name_bytes = query.parameters().get(CLIENT).map_or(0, str::len);
    let payload_bytes = query.payload().map_or(0, |payload| payload.len());
    for (what, bytes, most) in [
        ("the name of a client", name_bytes, CLIENT_BYTES_MAX),
        ("a message", payload_bytes, DATAGRAM_BYTES_MAX),
    ] {
        if most < bytes {
            let error = format!("{what} has {bytes} bytes (expected at most {most})");
            return Err(Refusal::new(RefusalReason::TooLarge, error));
        }
    }
    Ok(())
}

/// The request in `payload`, about `view`, and the raw bytes behind it. What it says is checked by the daemon.
fn request<'a>(payload: &'a [u8], view: &ViewName) -> Result<(Value, &'a [u8]), Refusal> {
    let bad = |error: String| Refusal::new(RefusalReason::BadRequest, error);
    let mut parts = payload.splitn(2, |byte| *byte == b'\n');
    let (head, raw) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let mut request: Map<String, Value> =
        serde_json::from_slice(head).map_err(|error| bad(error.to_string()))?;
    let is_allowed = |op: &&Value| op.as_str().is_some_and(|op| OPERATIONS.contains(&op));
    if request.get("op").filter(is_allowed).is_none() {
        return Err(bad(format!("`op` is expected to be one of {}", OPERATIONS.join(", "))));
    }
    let own = json!(view);
    if request.get("view").is_some_and(|named| *named != own) {
        return Err(bad(format!("`view` is {view} here, and may be left out")));
    }
    request.insert("view".to_owned(), own);
    Ok((Value::Object(request), raw))
}

fn answered(result: Result<Value, ControlError>) -> Value {
    match result {
        Ok(answer) => answer,
        Err(ControlError::Refused(refusal)) => refused(&refusal),
        Err(error) => json!({ "ok": false, "reason": "unavailable", "error": chain(&error) }),
    }
}

fn refused(refusal: &Refusal) -> Value {
    let mut answer = json!(refusal);
    answer["ok"] = json!(false);
    answer
}

fn answer(query: &Query, answer: &Value) {
    let key = query.key_expr().clone();
    if let Err(error) = query.reply(key, answer.to_string()).wait() {
        tracing::debug!("an answer to feedback was not sent: {error}");
    }
}
