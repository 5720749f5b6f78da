//! One view: its ring is read by one thread, which publishes its frames.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use foveate::client::{Next, Subscription, SubscriptionError};
use foveate::messages::{ViewName, end_text, is_coming_back};
use foveate_core::error::chain;
use foveate_ring::{State, TokenFrameBuf};
use parking_lot::Mutex;
use serde_json::{Value, json};
use zenoh::bytes::Encoding;
use zenoh::liveliness::LivelinessToken;
use zenoh::pubsub::Publisher;
use zenoh::qos::{CongestionControl, Priority};
use zenoh::query::{Query, Queryable};
use zenoh::{Session, Wait};

use super::message::Encoder;
use super::steering::Steering;

/// How often the thread looks whether it should end.
const SLICE: Duration = Duration::from_millis(100);

/// Pause before a view that has ended, or is unknown, is asked for again.
const RETRY: Duration = Duration::from_secs(1);

/// Settings that all views of a bridge share.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The daemon's socket.
    pub socket: PathBuf,
    /// First part of the keys behind `foveate`.
    pub host: String,
    /// Identity of this run of the bridge.
    pub run: u64,
    /// Interval of messages that hold the whole frame, in messages; 0 for never.
    pub whole_every: u64,
    /// Interval at which the status is published.
    pub status_every: Duration,
}

/// What happened to a view since the bridge started.
#[derive(Debug, Default)]
struct Counts {
    /// Messages published.
    messages: AtomicU64,
    /// Messages that held the whole frame.
    whole: AtomicU64,
    /// Bytes of the payloads.
    bytes: AtomicU64,
    /// Tokens of the frames published.
    tokens: AtomicU64,
    /// Tokens of the published frames whose texels were in the message.
    texels: AtomicU64,
    /// Frames of the ring that were not published because this bridge, or the network, was busy with an earlier one.
    skipped: AtomicU64,
    /// Frames that were not published because they had no subscriber.
    unread: AtomicU64,
    /// Frames that Zenoh took no message of.
    failed: AtomicU64,
    /// Whole messages that readers asked for, because they joined or lost one.
    asked: AtomicU64,
    /// Messages of feedback, granted or refused.
    feedback: AtomicU64,
}

fn add(counter: &AtomicU64, number: u64) {
    counter.fetch_add(number, Ordering::Relaxed);
}

/// What the thread of a view shares with queries.
#[derive(Debug)]
struct Shared {
    name: ViewName,
    encoder: Mutex<Encoder>,
    counts: Counts,
    /// As in the ring, `starting` before, or `lost` where there is no daemon; and the reason.
    state: Mutex<(&'static str, String)>,
}

impl Shared {
    fn status(&self) -> Value {
        let Counts {
            messages,
            whole,
            bytes,
            tokens,
            texels,
            skipped,
            unread,
            failed,
            asked,
            feedback,
        } = &self.counts;
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let (state, reason) = self.state.lock().clone();
        json!({
            "view": self.name, "state": state, "reason": reason,
            "messages": of(messages), "whole": of(whole), "bytes": of(bytes),
            "tokens": of(tokens), "texels": of(texels),
            "skipped": of(skipped), "unread": of(unread), "failed": of(failed),
            "asked": of(asked), "feedback": of(feedback),
        })
    }

    /// Answers a query with the newest frame. Before the first there is no answer.
    fn answer_whole(&self, query: &Query) {
        let Some(message) = self.encoder.lock().whole() else { return };
        add(&self.counts.asked, 1);
        let reply = query.reply(query.key_expr().clone(), message.bytes);
        if let Err(error) = reply.encoding(encoding()).wait() {
            tracing::debug!("{}: a whole frame was not sent: {error}", self.name);
        }
    }
}

fn encoding() -> Encoding {
    Encoding::APPLICATION_OCTET_STREAM
}

/// A view that is published. Dropping it ends that.
#[derive(Debug)]
pub struct View {
    settings: Settings,
    session: Session,
    shared: Arc<Shared>,
    key: String,
    frames: Publisher<'static>,
    status: Publisher<'static>,
    alive: Option<LivelinessToken>,
    _queryables: Vec<Queryable<()>>,
}

impl View {
    /// Declares the keys of the view `name`. Without `steering` nobody can steer it.
    ///
    /// # Errors
    ///
    /// If Zenoh refuses, as with a host that is not part of a key.
    pub fn declare(
        session: &Session,
        name: &ViewName,
        settings: &Settings,
        steering: Option<&Arc<Steering>>,
    ) -> zenoh::Result<Self> {
        let key = format!("foveate/{}/{name}", settings.host);
        let shared = Arc::new(Shared {
            name: name.clone(),
            encoder: Mutex::new(Encoder::new(settings.run)),
            counts: Counts::default(),
            state: Mutex::new(("starting", String::new())),
        });
        let frames = session
            .declare_publisher(key.clone())
            .congestion_control(CongestionControl::Drop)
            .encoding(encoding())
            .express(true)
            .wait()?;
        let status = session
            .declare_publisher(format!("{key}/status"))
            .congestion_control(CongestionControl::Drop)
            // Beside the frames, which it must not wait for.
            .priority(Priority::DataHigh)
            .encoding(Encoding::APPLICATION_JSON)
            .wait()?;
        let of = Arc::clone(&shared);
        let mut queryables = vec![
            session
                .declare_queryable(key.clone())
                .callback(move |query| of.answer_whole(&query))
                .wait()?,
        ];
        let of = Arc::clone(&shared);
        let answer_status = move |query: Query| {
            let reply = query.reply(query.key_expr().clone(), of.status().to_string());
            if let Err(error) = reply.encoding(Encoding::APPLICATION_JSON).wait() {
                tracing::debug!("{}: a status was not sent: {error}", of.name);
            }
        };
        let queryable = session.declare_queryable(format!("{key}/status")).callback(answer_status);
        queryables.push(queryable.wait()?);
        if let Some(steering) = steering {
            let (of, steering) = (Arc::clone(&shared), Arc::clone(steering));
            let ask = move |query| {
                add(&of.counts.feedback, 1);
                steering.ask(&of.name, query);
            };
            let queryable = session.declare_queryable(format!("{key}/feedback")).callback(ask);
            queryables.push(queryable.wait()?);
        }
        let (settings, session) = (settings.clone(), session.clone());
        Ok(Self {
            settings,
            session,
            shared,
            key,
            frames,
            status,
            alive: None,
            _queryables: queryables,
        })
    }

    /// Reads and publishes until `stop` is set.
    pub fn run(mut self, stop: &AtomicBool) {
        while !stop.load(Ordering::Relaxed) {
            let outcome = self.follow(stop);
            self.alive = None;
            match outcome {
                Ok(reason) => self.set_state("ended", &reason),
                Err(error) => {
                    let reason = chain(&error);
                    tracing::warn!("{}: {reason}", self.shared.name);
                    self.set_state("lost", end_text(&reason));
                }
            }
            let until = Instant::now() + RETRY;
            while !stop.load(Ordering::Relaxed) && Instant::now() < until {
                std::thread::sleep(SLICE);
            }
        }
    }

    /// Follows the view until it ends, and returns the reason. While there is no daemon, it waits for one.
    fn follow(&mut self, stop: &AtomicBool) -> Result<String, SubscriptionError> {
        let Settings { socket, status_every, .. } = self.settings.clone();
        let mut subscription = Subscription::reconnecting(&socket, &self.shared.name, false)?;
        let mut frame = TokenFrameBuf::default();
        let mut status_at = Instant::now();
        let mut was_wanted = false;
        while !stop.load(Ordering::Relaxed) {
            match subscription.next_frame(&mut frame, SLICE) {
                Ok(Next::Frame { missed }) => {
                    add(&self.shared.counts.skipped, missed);
                    self.publish(&mut frame, &mut was_wanted);
                }
                Ok(Next::NewSegment) => {
                    if let Some(reader) = subscription.reader() {
                        self.shared.encoder.lock().enter(reader);
                    }
                }
                Ok(Next::TimedOut) => self.take_state(&subscription),
                Ok(Next::Ended(reason)) => return Ok(reason),
                Err(SubscriptionError::Disconnected) => {
                    self.alive = None;
                    self.set_state("lost", "there is no daemon");
                }
                Err(error) => return Err(error),
            }
            if status_at <= Instant::now() {
                status_at = Instant::now() + status_every;
                self.publish_status();
            }
        }
        Ok("the bridge stops".to_owned())
    }

    fn publish(&mut self, frame: &mut TokenFrameBuf, was_wanted: &mut bool) {
        self.set_state("live", "");
        let counts = &self.shared.counts;
        let is_wanted = self.frames.matching_status().wait().is_ok_and(|status| status.matching());
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let every = self.settings.whole_every;
        let is_due = every != 0 && of(&counts.messages).is_multiple_of(every);
        // A new subscriber has no frame yet.
        let is_whole = is_due || !std::mem::replace(was_wanted, is_wanted);
        // Queries are answered meanwhile: only the encoding is under the lock.
        let message = self.shared.encoder.lock().encode(frame, is_wanted, is_whole);
        if self.alive.is_none() {
            self.alive = self.session.liveliness().declare_token(self.key.clone()).wait().ok();
        }
        let Some(message) = message else { return add(&counts.unread, 1) };
        let tokens = self.shared.encoder.lock().token_count();
        let bytes = message.bytes.len() as u64;
        if let Err(error) = self.frames.put(message.bytes).wait() {
            tracing::debug!("{}: a frame was not published: {error}", self.shared.name);
            return add(&counts.failed, 1);
        }
        add(&counts.messages, 1);
        add(&counts.whole, u64::from(message.is_whole));
        add(&counts.bytes, bytes);
        add(&counts.tokens, tokens as u64);
        add(&counts.texels, message.texels as u64);
    }

    /// Takes the state over from the ring, where no frame came.
    fn take_state(&self, subscription: &Subscription) {
        match subscription.reader().map(|reader| reader.state()) {
            Some((State::Stalled, reason)) => self.set_state("stalled", &reason),
            Some((State::Ended, reason)) if is_coming_back(&reason) => {
                self.set_state("lost", end_text(&reason));
            }
            Some((State::Live | State::Ended, _)) => {}
            None => self.set_state("starting", "no frame has arrived yet"),
        }
    }

    /// Publishes a state at once if it differs from the last one.
    fn set_state(&self, state: &'static str, reason: &str) {
        let mut held = self.shared.state.lock();
        if (held.0, held.1.as_str()) == (state, reason) {
            return;
        }
        *held = (state, reason.to_owned());
        drop(held);
        tracing::info!(
            "{} is {state}{}{reason}",
            self.shared.name,
            if reason.is_empty() { "" } else { ": " }
        );
        self.publish_status();
    }

    fn publish_status(&self) {
        if let Err(error) = self.status.put(self.shared.status().to_string()).wait() {
            tracing::debug!("{}: the status was not published: {error}", self.shared.name);
        }
    }
}
