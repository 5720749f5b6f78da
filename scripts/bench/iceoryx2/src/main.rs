//! What `foveate bench ring` measures, over iceoryx2: a frame of bytes from its writer to the copy of a reader in another
//! process, with an event for each frame, or with a reader that polls.
//!
//! `foveate-bench-iceoryx2 event|poll PAYLOAD_BYTES FRAMES INTERVAL_US` prints a line of JSON: the nanoseconds that publishing and
//! waking took, and of each frame that was read those from the send to the copy, and from the beginning to the copy. The same with
//! `reader` before it is the reader that it starts.

use std::error::Error;
use std::hint::{black_box, spin_loop};
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, thread};

use iceoryx2::port::listener::Listener;
use iceoryx2::port::notifier::Notifier;
use iceoryx2::port::publisher::Publisher;
use iceoryx2::port::subscriber::Subscriber;
use iceoryx2::prelude::*;
use rustix::time::{ClockId, clock_gettime};

type Failure = Box<dyn Error>;

/// Frames before the measurement, as many as in `foveate bench ring`.
const WARM_UP_FRAMES: u64 = 50;

/// What the first bytes of a frame say, as little-endian words: its number, when writing began, and when it was sent. A number
/// of 0 ends the measurement.
const HEAD_WORDS: usize = 3;

/// How long a reader waits for an event before it looks again.
const EVENT_TIMEOUT: Duration = Duration::from_secs(1);

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["reader", how, service] => read(how == "event", service),
        [how @ ("event" | "poll"), payload, frames, interval] => {
            write(how, payload.parse()?, frames.parse()?, Duration::from_micros(interval.parse()?))
        }
        _ => {
            Err("usage: foveate-bench-iceoryx2 event|poll PAYLOAD_BYTES FRAMES INTERVAL_US".into())
        }
    }
}

/// The ends of a writer.
struct Writing {
    publisher: Publisher<ipc::Service, [u8], ()>,
    notifier: Option<Notifier<ipc::Service>>,
    bytes: Vec<u8>,
}

fn write(how: &str, payload: usize, frames: u64, interval: Duration) -> Result<(), Failure> {
    let name = format!("foveate-bench-{}", std::process::id());
    let node = NodeBuilder::new().create::<ipc::Service>()?;
    let service = node
        .service_builder(&name.as_str().try_into()?)
        .publish_subscribe::<[u8]>()
        .open_or_create()?;
    let publisher = service.publisher_builder().initial_max_slice_len(payload).create()?;
    let events = node.service_builder(&name.as_str().try_into()?).event().open_or_create()?;
    let notifier = (how == "event").then(|| events.notifier_builder().create()).transpose()?;
    let mut writing = Writing { publisher, notifier, bytes: vec![0; payload] };

    let mut reader = Command::new(env::current_exe()?)
        .args(["reader", how, &name])
        .stdout(Stdio::piped())
        .spawn()?;
    let mut lines =
        BufReader::new(reader.stdout.take().expect("the command starts it with a pipe")).lines();
    lines.next().ok_or("the reader does not start")??;

    let (mut publish_ns, mut wake_ns) = (Vec::new(), Vec::new());
    let mut next = Instant::now();
    for number in 1..=WARM_UP_FRAMES + frames {
        let (published, woken) = writing.publish(number)?;
        if WARM_UP_FRAMES < number {
            publish_ns.push(published);
            wake_ns.push(woken);
        }
        next += interval;
        thread::sleep(next.saturating_duration_since(Instant::now()));
    }
    writing.publish(0)?;
    let seen = lines.next().ok_or("the reader has ended")??;
    reader.wait()?;
    println!("{{\"publish_ns\":{publish_ns:?},\"wake_ns\":{wake_ns:?},{seen}}}");
    Ok(())
}

impl Writing {
    /// Sends one frame, and returns how long that and the event took, in nanoseconds.
    fn publish(&mut self, number: u64) -> Result<(u64, u64), Failure> {
        let started = monotonic_ns();
        let sample = self.publisher.loan_slice_uninit(self.bytes.len())?;
        let mut sample = sample.write_from_slice(&self.bytes);
        let sending = monotonic_ns();
        for (place, word) in
            sample.payload_mut().chunks_exact_mut(8).zip([number, started, sending])
        {
            place.copy_from_slice(&word.to_le_bytes());
        }
        sample.send()?;
        let sent = monotonic_ns();
        if let Some(notifier) = &self.notifier {
            notifier.notify()?;
        }
        Ok((sent - started, monotonic_ns() - sent))
    }
}

fn read(with_events: bool, name: &str) -> Result<(), Failure> {
    let node = NodeBuilder::new().create::<ipc::Service>()?;
    let service =
        node.service_builder(&name.try_into()?).publish_subscribe::<[u8]>().open_or_create()?;
    let subscriber = service.subscriber_builder().create()?;
    let events = node.service_builder(&name.try_into()?).event().open_or_create()?;
    let listener = with_events.then(|| events.listener_builder().create()).transpose()?;
    println!("following");
    let (mut frame, mut copied_ns, mut total_ns) = (Vec::new(), Vec::new(), Vec::new());
    loop {
        await_frame(listener.as_ref())?;
        if !copy_newest(&subscriber, &mut frame)? {
            continue;
        }
        let now = monotonic_ns();
        let [number, started, sending] = head(&frame);
        if number == 0 {
            break;
        }
        if WARM_UP_FRAMES < number {
            copied_ns.push(now - sending);
            total_ns.push(now - started);
        }
    }
    println!("\"read_done_ns\":{copied_ns:?},\"total_ns\":{total_ns:?}");
    Ok(())
}

fn await_frame(listener: Option<&Listener<ipc::Service>>) -> Result<(), Failure> {
    match listener {
        Some(listener) => listener.timed_wait(|_| {}, EVENT_TIMEOUT).map(drop)?,
        None => spin_loop(),
    }
    Ok(())
}

/// Copies the newest frame that was not read; false if there is none.
fn copy_newest(
    subscriber: &Subscriber<ipc::Service, [u8], ()>,
    frame: &mut Vec<u8>,
) -> Result<bool, Failure> {
    let mut newest = None;
    while let Some(sample) = subscriber.receive()? {
        newest = Some(sample);
    }
    let Some(sample) = newest else { return Ok(false) };
    frame.clear();
    frame.extend_from_slice(sample.payload());
    black_box(frame);
    Ok(true)
}

fn head(frame: &[u8]) -> [u64; HEAD_WORDS] {
    let word = |index: usize| frame[index * 8..][..8].try_into().map(u64::from_le_bytes);
    std::array::from_fn(|index| word(index).expect("eight bytes"))
}

fn monotonic_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
