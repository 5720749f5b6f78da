//! A node of ROS 2 and its topics, as `rmw_zenoh` has them: names of keys, tokens of the graph, and what comes with a message.

use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use zenoh::bytes::ZBytes;
use zenoh::liveliness::LivelinessToken;
use zenoh::pubsub::{Publisher, Subscriber};
use zenoh::qos::CongestionControl;
use zenoh::sample::Sample;
use zenoh::{Session, Wait};

use super::messages::Type;

/// What all tokens of a graph begin with.
const GRAPH: &str = "@ros2_lv";

/// QoS of sensor data, in the tokens of the graph: best effort, the last one; all else by default.
const QOS: &str = "2::,1:,:,:,,";

/// A node in the root namespace.
#[derive(Debug)]
pub struct Node {
    session: Session,
    domain: usize,
    name: String,
    ids: AtomicUsize,
    _token: LivelinessToken,
}

impl Node {
    /// Joins the graph of a domain.
    ///
    /// # Errors
    ///
    /// If Zenoh refuses, as a name that is not part of a key.
    pub fn join(session: &Session, domain: usize, name: &str) -> zenoh::Result<Self> {
        // Domain, session, node, entity, kind, enclave, namespace, name; % is nothing, or a slash.
        let key = format!("{GRAPH}/{domain}/{}/0/0/NN/%/%/{name}", session.zid());
        let token = session.liveliness().declare_token(key).wait()?;
        let (session, name) = (session.clone(), name.to_owned());
        Ok(Self { session, domain, name, ids: AtomicUsize::new(1), _token: token })
    }

    /// A topic that it publishes.
    ///
    /// # Errors
    ///
    /// If Zenoh refuses.
    pub fn publish(&self, topic: &str, of: Type) -> zenoh::Result<Topic> {
        let publisher = self
            .session
            .declare_publisher(self.key(topic, of))
            .congestion_control(CongestionControl::Drop)
            .express(true)
            .wait()?;
        let (id, token) = self.announce("MP", topic, of)?;
        // Any 16 bytes that no other publisher has.
        let mut gid = self.session.zid().to_le_bytes();
        for (byte, of) in gid.iter_mut().zip(id.to_le_bytes()) {
            *byte ^= of;
        }
        Ok(Topic { publisher, gid, sequence: AtomicI64::new(1), _token: token })
    }

    /// A topic that it subscribes to.
    ///
    /// # Errors
    ///
    /// If Zenoh refuses.
    pub fn subscribe(
        &self,
        topic: &str,
        of: Type,
        take: impl Fn(Sample) + Send + Sync + 'static,
    ) -> zenoh::Result<(Subscriber<()>, LivelinessToken)> {
        let key = self.key(topic, of);
        let subscriber = self.session.declare_subscriber(key).callback(take).wait()?;
        Ok((subscriber, self.announce("MS", topic, of)?.1))
    }

    /// The key of a topic's messages.
    fn key(&self, topic: &str, of: Type) -> String {
        format!("{}/{}/{}/{}", self.domain, topic.trim_start_matches('/'), of.name, of.hash)
    }

    /// Tells the graph of an endpoint, and returns its number.
    fn announce(
        &self,
        kind: &str,
        topic: &str,
        of: Type,
    ) -> zenoh::Result<(usize, LivelinessToken)> {
        let id = self.ids.fetch_add(1, Ordering::Relaxed);
        let (zid, topic) = (self.session.zid(), topic.replace('/', "%"));
        let Self { domain, name, .. } = self;
        let Type { name: of, hash } = of;
        let key =
            format!("{GRAPH}/{domain}/{zid}/0/{id}/{kind}/%/%/{name}/{topic}/{of}/{hash}/{QOS}");
        Ok((id, self.session.liveliness().declare_token(key).wait()?))
    }
}

/// A topic that is published.
#[derive(Debug)]
pub struct Topic {
    publisher: Publisher<'static>,
    gid: [u8; 16],
    sequence: AtomicI64,
    _token: LivelinessToken,
}

impl Topic {
    /// Whether anybody subscribes.
    pub fn is_wanted(&self) -> bool {
        self.publisher.matching_status().wait().is_ok_and(|status| status.matching())
    }

    /// Publishes the bytes of a message.
    ///
    /// # Errors
    ///
    /// If Zenoh does not take it.
    pub fn put(&self, message: Vec<u8>) -> zenoh::Result<()> {
        let sequence = self.sequence.fetch_add(1, Ordering::Relaxed);
        self.publisher.put(message).attachment(self.attachment(sequence)).wait()
    }

    /// Number and time of a message, and who sent it: 33 bytes, the gid behind its length.
    fn attachment(&self, sequence: i64) -> ZBytes {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let now_ns = i64::try_from(now.as_nanos()).unwrap_or(i64::MAX);
        let mut bytes = Vec::with_capacity(33);
        bytes.extend_from_slice(&sequence.to_le_bytes());
        bytes.extend_from_slice(&now_ns.to_le_bytes());
        bytes.push(16);
        bytes.extend_from_slice(&self.gid);
        bytes.into()
    }
}
