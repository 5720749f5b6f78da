//! A node of ROS 2 and its topics, as `rmw_zenoh` has them: names of keys, tokens of the graph, and what comes with a message.

use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use hiroz_protocol::KeyExprFormat;
use hiroz_protocol::entity::{EndpointEntity, EndpointKind, NodeEntity, TypeHash, TypeInfo};
use hiroz_protocol::qos::{QosHistory, QosProfile, QosReliability};
use zenoh::bytes::ZBytes;
use zenoh::liveliness::LivelinessToken;
use zenoh::pubsub::{Publisher, Subscriber};
use zenoh::qos::CongestionControl;
use zenoh::sample::Sample;
use zenoh::{Session, Wait};

use super::messages::Type;

/// A node. Its topics are relative to its name, as in `/foveate/front/policy/tokens`.
#[derive(Debug)]
pub struct Node {
    session: Session,
    entity: NodeEntity,
    ids: AtomicUsize,
    _token: LivelinessToken,
}

impl Node {
    /// Joins the graph of a domain, by default 0.
    ///
    /// # Errors
    ///
    /// If Zenoh refuses.
    pub fn join(session: &Session, domain: usize, name: &str) -> zenoh::Result<Self> {
        let entity = NodeEntity::new(
            domain,
            session.zid(),
            0,
            name.to_owned(),
            String::new(),
            String::new(),
        );
        let key = KeyExprFormat::RmwZenoh.node_liveliness_key_expr(&entity)?;
        let token = session.liveliness().declare_token(key.0).wait()?;
        Ok(Self { session: session.clone(), entity, ids: AtomicUsize::new(1), _token: token })
    }

    /// A topic that it publishes.
    ///
    /// # Errors
    ///
    /// If Zenoh refuses.
    pub fn publish(&self, topic: &str, of: Type) -> zenoh::Result<Topic> {
        let entity = self.endpoint(topic, of, EndpointKind::Publisher);
        let publisher = self
            .session
            .declare_publisher(self.key(&entity)?)
            .congestion_control(CongestionControl::Drop)
            .express(true)
            .wait()?;
        let token = self.announce(&entity)?;
        let gid = gid(&entity);
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
        let entity = self.endpoint(topic, of, EndpointKind::Subscription);
        let subscriber =
            self.session.declare_subscriber(self.key(&entity)?).callback(take).wait()?;
        Ok((subscriber, self.announce(&entity)?))
    }

    fn endpoint(&self, topic: &str, of: Type, kind: EndpointKind) -> EndpointEntity {
        let hash = TypeHash::from_rihs_string(of.hash).unwrap_or(TypeHash::zero());
        EndpointEntity {
            id: self.ids.fetch_add(1, Ordering::Relaxed),
            node: Some(self.entity.clone()),
            kind,
            topic: topic.to_owned(),
            type_info: Some(TypeInfo::new(of.name, hash)),
            qos: QosProfile {
                reliability: QosReliability::BestEffort,
                history: QosHistory::KeepLast(1),
                ..QosProfile::default()
            },
        }
    }

    fn key(&self, entity: &EndpointEntity) -> zenoh::Result<String> {
        Ok(KeyExprFormat::RmwZenoh.topic_key_expr(entity)?.to_string())
    }

    fn announce(&self, entity: &EndpointEntity) -> zenoh::Result<LivelinessToken> {
        let key = KeyExprFormat::RmwZenoh.liveliness_key_expr(entity, &self.session.zid())?;
        self.session.liveliness().declare_token(key.0).wait()
    }
}

/// Identity of an endpoint: any 16 bytes that no other has.
fn gid(entity: &EndpointEntity) -> [u8; 16] {
    let mut gid = [0; 16];
    if let Some(node) = &entity.node {
        gid = node.z_id.to_le_bytes();
    }
    for (byte, of) in gid.iter_mut().zip(entity.id.to_le_bytes()) {
        *byte ^= of;
    }
    gid
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
