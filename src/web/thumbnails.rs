//! Small pictures of many views for the start page, read twice a second by one thread, as long as a page shows them.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use foveate::client::{Client, Next, Subscription, SubscriptionError};
use foveate::messages::ViewName;
use foveate_core::clock::monotonic_ns;
use foveate_ring::TokenFrameBuf;
use parking_lot::Mutex;

use super::decoder::Decoder;
use super::thumbnail::Thumbnail;

const INTERVAL: Duration = Duration::from_millis(500);

/// Most views that are read: each is a connection, of which a user may have 32.
pub(super) const THUMBNAILS_MAX: usize = 24;

/// Most events of a subscription before its newest frame: new segments.
const EVENTS_MAX: usize = 4;

const MAGIC: [u8; 4] = *b"FVT1";

/// The newest small picture of a view.
#[derive(Debug)]
pub(super) struct ViewThumbnail {
    picture: Thumbnail,
    captured_ns: u64,
}

/// The views that a page shows small pictures of.
pub(super) type WantedViews = Arc<Vec<ViewName>>;

/// Small pictures for all pages.
#[derive(Debug)]
pub(super) struct Thumbnails {
    socket: PathBuf,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    wanted: Vec<Weak<Vec<ViewName>>>,
    newest: HashMap<ViewName, Arc<ViewThumbnail>>,
    is_running: bool,
}

impl State {
    /// The views that pages show, each once: one of each page in turn, so that no page keeps others out.
    fn wanted(&mut self) -> Vec<ViewName> {
        self.wanted.retain(|wanted| 0 < wanted.strong_count());
        let pages: Vec<_> = self.wanted.iter().filter_map(Weak::upgrade).collect();
        let most = pages.iter().map(|views| views.len()).max().unwrap_or_default();
        let mut views: Vec<ViewName> = Vec::new();
        for view in (0..most).flat_map(|index| pages.iter().filter_map(move |page| page.get(index)))
        {
            if views.len() < THUMBNAILS_MAX && !views.contains(view) {
                views.push(view.clone());
            }
        }
        views
    }
}

impl Thumbnails {
    pub(super) fn new(socket: PathBuf) -> Self {
        Self { socket, state: Mutex::default() }
    }

    /// Reads `views` until the answer is dropped.
    pub(super) fn want(self: &Arc<Self>, views: Vec<ViewName>) -> WantedViews {
        let wanted = Arc::new(views);
        let mut state = self.state.lock();
        state.wanted.push(Arc::downgrade(&wanted));
        if !state.is_running {
            let reader = Reader { thumbnails: Arc::clone(self), views: HashMap::new() };
            let started = thread::Builder::new().name("thumbnails".to_owned());
            match started.spawn(|| reader.run()) {
                Ok(_) => state.is_running = true,
                Err(error) => {
                    tracing::warn!(%error, "cannot start the thread of the small pictures")
                }
            }
        }
        wanted
    }

    /// The packet of those of `wanted` whose picture is newer than in `sent`, which is updated; `None` without any.
    ///
    /// Little-endian: `FVT1`, u32 count, and for each view u16 bytes of its name, u16 width and height, u16 0, u64 age in
    /// nanoseconds, its name, and R, G, B of each pixel.
    pub(super) fn packet(
        &self,
        wanted: &WantedViews,
        sent: &mut HashMap<ViewName, u64>,
    ) -> Option<Vec<u8>> {
        let now_ns = monotonic_ns();
        let (mut count, mut bytes) = (0u32, [&MAGIC[..], &[0; 4]].concat());
        for view in wanted.iter() {
            let Some(newest) = self.state.lock().newest.get(view).map(Arc::clone) else { continue };
            if sent.insert(view.clone(), newest.captured_ns) == Some(newest.captured_ns) {
                continue;
            }
            let (name, size) = (view.to_string(), newest.picture.size);
            let lengths = [name.len(), size.width as usize, size.height as usize, 0];
            for length in lengths {
                bytes.extend_from_slice(&u16::try_from(length).unwrap_or(u16::MAX).to_le_bytes());
            }
            bytes.extend_from_slice(&now_ns.saturating_sub(newest.captured_ns).to_le_bytes());
            bytes.extend_from_slice(name.as_bytes());
            bytes.extend_from_slice(&newest.picture.rgb);
            count += 1;
        }
        bytes[4..8].copy_from_slice(&count.to_le_bytes());
        (0 < count).then_some(bytes)
    }
}

/// The thread that reads.
struct Reader {
    thumbnails: Arc<Thumbnails>,
    views: HashMap<ViewName, WatchedView>,
}

struct WatchedView {
    subscription: Subscription,
    decoder: Option<Decoder>,
}

impl Reader {
    fn run(mut self) {
        let mut frame = TokenFrameBuf::default();
        while let Some(wanted) = self.wanted() {
            self.views.retain(|view, _| wanted.contains(view));
            for view in &wanted {
                match self.read(view, &mut frame) {
                    Ok(Some(thumbnail)) => {
                        let mut state = self.thumbnails.state.lock();
                        state.newest.insert(view.clone(), Arc::new(thumbnail));
                    }
                    Ok(None) => {}
                    // The start page has the reason from the report; the view is tried again.
                    Err(_) => drop(self.views.remove(view)),
                }
            }
            thread::sleep(INTERVAL);
        }
    }

    /// The views to read; `None`, and the thread is to end, without any.
    fn wanted(&self) -> Option<Vec<ViewName>> {
        let mut state = self.thumbnails.state.lock();
        let wanted = state.wanted();
        state.newest.retain(|view, _| wanted.contains(view));
        state.is_running = !wanted.is_empty();
        state.is_running.then_some(wanted)
    }

    /// The picture of a frame that is new.
    fn read(
        &mut self,
        view: &ViewName,
        frame: &mut TokenFrameBuf,
    ) -> Result<Option<ViewThumbnail>, SubscriptionError> {
        if !self.views.contains_key(view) {
            let subscription = Client::connect(&self.thumbnails.socket)?.subscribe(view, false)?;
            self.views.insert(view.clone(), WatchedView { subscription, decoder: None });
        }
        let Some(WatchedView { subscription, decoder }) = self.views.get_mut(view) else {
            return Ok(None);
        };
        for _ in 0..EVENTS_MAX {
            match subscription.next_frame(frame, Duration::ZERO)? {
                Next::Frame { .. } => {
                    let Some(decoder) = decoder else { return Ok(None) };
                    let picture = Thumbnail::of(&decoder.decode(frame));
                    let captured_ns = frame.head.stamp.capture_ns;
                    return Ok(Some(ViewThumbnail { picture, captured_ns }));
                }
                Next::NewSegment => {
                    let reader = subscription.reader();
                    *decoder = reader.map(|reader| Decoder::new(reader.header()));
                }
                Next::TimedOut | Next::Ended(_) => break,
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_that_wants_many_views_keeps_no_other_page_out() {
        let views = |stream: &str, count: usize| -> Vec<ViewName> {
            (0..count).map(|index| format!("{stream}/{index}").parse().unwrap()).collect()
        };
        let (greedy, modest) = (Arc::new(views("a", THUMBNAILS_MAX)), Arc::new(views("b", 2)));
        let wanted = [&greedy, &modest].map(Arc::downgrade).to_vec();
        let mut state = State { wanted, ..State::default() };
        let read = state.wanted();
        assert_eq!(read.len(), THUMBNAILS_MAX);
        assert!(modest.iter().all(|view| read.contains(view)), "{read:?}");
        drop((greedy, modest));
        assert!(state.wanted().is_empty());
    }
}
