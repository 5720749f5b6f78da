//! The log thread. Events wait for it in a bounded queue, so that no thread waits for a slow or stalled log.

use std::fmt;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, bounded};
use tracing::dispatcher::{self, Dispatch};
use tracing::field::{self, Field, Value, Visit};
use tracing::{Event, Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

use crate::redact::{printable, redacted};

/// Most events that wait.
const EVENTS_MAX: usize = 1024;

/// Longest text of a field in bytes. Longer ones are cut, since clients can cause them.
const TEXT_BYTES_MAX: usize = 4096;

/// Most fields of an event in `tracing`.
const FIELDS_MAX: usize = 32;

/// Longest wait for the last events of a program that ends.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

static DROPPED: AtomicU64 = AtomicU64::new(0);

/// Events dropped so far because the queue was full.
pub fn dropped() -> u64 {
    DROPPED.load(Ordering::Relaxed)
}

/// A running log. Dropping it [flushes](Self::flush).
#[derive(Debug)]
pub struct Log(Option<Sender<LogMessage>>);

impl Log {
    /// A log without a thread.
    pub(super) fn direct() -> Self {
        Self(None)
    }

    /// Waits at most two seconds until all events so far are written. False if they are not: the log is stalled.
    pub fn flush(&self) -> bool {
        let Some(queue) = &self.0 else { return true };
        let (done, flushed) = bounded(1);
        queue.send_timeout(LogMessage::Flush(done), FLUSH_TIMEOUT).is_ok()
            && flushed.recv_timeout(FLUSH_TIMEOUT).is_ok()
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        self.flush();
    }
}

/// Starts the thread that passes events to `target`, and returns the layer that queues them. Without a thread there is no layer.
pub(super) fn queue_to(target: Dispatch) -> io::Result<(QueueLayer, Log)> {
    let (events, queue) = bounded(EVENTS_MAX);
    thread::Builder::new().name("log".to_owned()).spawn(move || write(&queue, &target))?;
    Ok((QueueLayer(events.clone()), Log(Some(events))))
}

/// Queues events. Spans are not passed on.
#[derive(Debug)]
pub(super) struct QueueLayer(Sender<LogMessage>);

impl<S: Subscriber> Layer<S> for QueueLayer {
    fn on_event(&self, event: &Event<'_>, _context: Context<'_, S>) {
        let mut texts = Texts::default();
        event.record(&mut texts);
        if self.0.try_send(LogMessage::Event(event.metadata(), texts)).is_err() {
            DROPPED.fetch_add(1, Ordering::Relaxed);
        }
    }
}

enum LogMessage {
    Event(&'static Metadata<'static>, Texts),
    Flush(Sender<()>),
}

/// The fields of an event as text: a string, which formats may quote, or what displays as the text of anything else.
#[derive(Default)]
struct Texts(Vec<(Field, Box<dyn Value + Send>)>);

impl Visit for Texts {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.push((field.clone(), Box::new(shown(value))));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let text = field::display(shown(&format!("{value:?}")));
        self.0.push((field.clone(), Box::new(text)));
    }
}

/// The text as the log shows it: printable, redacted and cut. It is cut last, because a cut secret would not be recognised.
fn shown(text: &str) -> String {
    let mut text = printable(&redacted(text));
    if TEXT_BYTES_MAX < text.len() {
        text.truncate(text.floor_char_boundary(TEXT_BYTES_MAX));
        text.push_str(" ...");
    }
    text
}

/// Passes events to `target` for ever.
fn write(queue: &Receiver<LogMessage>, target: &Dispatch) {
    let mut reported = 0;
    for message in queue {
        match message {
            LogMessage::Event(metadata, texts) => write_event(metadata, &texts, target),
            // Nobody waits any more if it took too long.
            LogMessage::Flush(done) => drop(done.try_send(())),
        }
        let dropped = dropped();
        if reported < dropped && queue.is_empty() {
            let lines = dropped - reported;
            dispatcher::with_default(target, || {
                tracing::warn!(lines, "the log was too slow: dropped lines")
            });
            reported = dropped;
        }
    }
}

fn write_event(metadata: &'static Metadata<'static>, Texts(texts): &Texts, target: &Dispatch) {
    let fields = metadata.fields();
    let Some(any) = fields.iter().next() else { return };
    let mut values: [(&Field, Option<&dyn Value>); FIELDS_MAX] = [(&any, None); FIELDS_MAX];
    for (place, (field, text)) in values.iter_mut().zip(texts) {
        *place = (field, Some(&**text));
    }
    target.event(&Event::new_child_of(None, metadata, &fields.value_set(&values)));
}
