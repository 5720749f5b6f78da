//! Clients that send nonsense, do not read, and leave in the middle.

use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::path::Path;

use foveate::messages::{DATAGRAM_BYTES_MAX, FromDaemon, Refusal, RefusalReason, clipped};
use rustix::io::Errno;
use rustix::net::{SendFlags, Shutdown};
use serde_json::Value;

use crate::control::RawClient;
use crate::mutation::{corpus, index, mutated};
use crate::naive::Random;

/// Messages of one exchange.
const EXCHANGE: usize = 25;

/// Messages to a daemon whose answers are not read.
const FLOOD: usize = 3000;

const LIST: &[u8] = br#"{"op":"list"}"#;
const LOOK_AND_WAIT: &[u8] = br#"{"op":"look","view":"camera/main","points":[[1,2]],"wait":true}"#;
const FOLLOW: &[u8] = br#"{"op":"subscribe","view":"camera/main","notify":true,"gaze":true}"#;
const OPEN: &[u8] = br#"{"op":"open_view","stream":"camera","view":{"budget":64,"slots":2}}"#;

/// One hostile client after the other, on one thread.
pub struct Attacker<'a> {
    socket: &'a Path,
    corpus: Vec<Vec<u8>>,
    random: Random,
    /// Messages that were sent.
    pub sent: u64,
    /// Refusals that came back.
    pub refusals: BTreeMap<RefusalReason, u64>,
}

/// Reply of the server.
enum Reply {
    Answer(Value),
    Refusal(RefusalReason),
    HungUp,
}

impl<'a> Attacker<'a> {
    pub fn new(socket: &'a Path, seed: u64) -> Self {
        let corpus = corpus().into_iter().map(|(_, bytes)| bytes).collect();
        Self { socket, corpus, random: Random(seed), sent: 0, refusals: BTreeMap::new() }
    }

    /// Sends messages on one connection. Each must be answered once, or, if it is empty, hung up on; who sends descriptors is hung up
    /// on, too. A request that makes sense is answered afterwards as it should be.
    pub fn exchange(&mut self) {
        let client = RawClient::connect(self.socket);
        for _ in 0..EXCHANGE {
            let message = self.message();
            let brings_descriptors = self.send(&client, &message);
            match self.reply(&client) {
                Reply::Answer(_) => assert!(!brings_descriptors),
                Reply::Refusal(RefusalReason::TooManyClients | RefusalReason::RateLimit) => return,
                Reply::Refusal(_) if brings_descriptors => return,
                Reply::Refusal(_) => {}
                Reply::HungUp => {
                    let text = clipped(&String::from_utf8_lossy(&message), 1000);
                    assert!(message.is_empty(), "hung up on without a reason after {text:?}");
                    return;
                }
            }
        }
        let brings_descriptors = self.send(&client, LIST);
        match self.reply(&client) {
            Reply::Answer(listing) => assert!(listing["streams"].is_array(), "{listing}"),
            Reply::Refusal(RefusalReason::RateLimit) => {}
            _ => assert!(brings_descriptors, "no listing"),
        }
    }

    /// Breaks off in one of many ways.
    pub fn offend(&mut self) {
        let client = RawClient::connect(self.socket);
        match self.random.below(7) {
            // Leaves with answers on their way.
            0 => {
                for _ in 0..EXCHANGE {
                    let message = self.message();
                    self.send(&client, &message);
                }
            }
            // Leaves while it waits.
            1 => drop(self.send(&client, LOOK_AND_WAIT)),
            // Says that it will say no more, and waits.
            2 => {
                self.send(&client, LOOK_AND_WAIT);
                let _ = rustix::net::shutdown(&client.0, Shutdown::Write);
                while !matches!(self.reply(&client), Reply::HungUp) {}
            }
            // Never reads.
            3 => {
                let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
                let sent = |_: &usize| rustix::net::send(&client.0, LIST, flags).is_ok();
                self.sent += (0..FLOOD).take_while(sent).count() as u64;
            }
            // Follows and records, and reads a few notices or none.
            4 => {
                self.send(&client, FOLLOW);
                for _ in 0..self.random.below(3) {
                    self.receive(&client);
                }
            }
            // Opens more views than it may.
            5 => {
                for _ in 0..6 {
                    self.send(&client, OPEN);
                    if matches!(self.reply(&client), Reply::HungUp) {
                        break;
                    }
                }
            }
            // Leaves at once.
            _ => {}
        }
    }

    fn message(&mut self) -> Vec<u8> {
        let random = &mut self.random;
        match random.below(24) {
            0 => b"[".repeat(1 + index(100_000, random)),
            1 => br#"{"a":"#.repeat(1 + index(20_000, random)),
            2 => vec![b' '; DATAGRAM_BYTES_MAX - 1 + index(4, random)],
            3 => (0..index(2000, random)).map(|_| random.byte()).collect(),
            4 => {
                let name = "n".repeat(1 + index(60_000, random));
                format!(r#"{{"op":"subscribe","view":"{name}/{name}"}}"#).into_bytes()
            }
            5..8 => {
                let index = index(self.corpus.len(), random);
                self.corpus[index].clone()
            }
            _ => mutated(&self.corpus, random),
        }
    }

    /// Sends `message`, sometimes with descriptors where the kernel lets them through, and returns whether with some.
    fn send(&mut self, client: &RawClient, message: &[u8]) -> bool {
        self.sent += 1;
        let brings_descriptors = self.random.below(64) == 0
            && client.send_descriptors(message, &[client.0.as_fd(); 3]) != Err(Errno::PERM);
        if !brings_descriptors {
            // Who was hung up on learns it when it receives.
            let _ = client.send(message);
        }
        brings_descriptors
    }

    /// The next answer; events are skipped.
    fn reply(&mut self, client: &RawClient) -> Reply {
        loop {
            let Some(datagram) = self.receive(client) else { return Reply::HungUp };
            assert!(datagram.len() <= DATAGRAM_BYTES_MAX, "{} bytes", datagram.len());
            match FromDaemon::from_datagram(&datagram).expect("the daemon speaks JSON") {
                FromDaemon::Accepted(answer) => return Reply::Answer(answer),
                FromDaemon::Refused(Refusal { reason, error, .. }) => {
                    assert!(reason != RefusalReason::Other && !error.is_empty(), "{datagram:?}");
                    *self.refusals.entry(reason).or_default() += 1;
                    return Reply::Refusal(reason);
                }
                FromDaemon::Event(_) | FromDaemon::Notice => {}
            }
        }
    }

    /// The next datagram; `None` after a hang-up.
    fn receive(&self, client: &RawClient) -> Option<Vec<u8>> {
        let mut buffer = vec![0; 2 * DATAGRAM_BYTES_MAX];
        match client.receive_into(&mut buffer) {
            Ok(0) | Err(Errno::CONNRESET) => None,
            Ok(len) => {
                buffer.truncate(len);
                Some(buffer)
            }
            Err(errno) => panic!("the daemon neither answers nor hangs up: {errno}"),
        }
    }
}
