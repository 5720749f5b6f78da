//! One open page, served over its WebSocket.
//!
//! For each pane, a page has at most one frame in flight that it has not acknowledged; frames that arrive meanwhile are skipped.
//! A slow, remote or hidden browser gets fewer frames and delays no other.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::Error;
use axum::extract::ws::{CloseFrame, Message, WebSocket, close_code};
use tokio::sync::{Semaphore, oneshot, watch};
use tokio::time::{Instant, Interval, interval, timeout};

use super::decoder::{DecodedChannel, DecodedFrame};
use super::follower::{Feed, Followers, Subject};
use super::guard::AccessToken;
use super::history::playhead::{Moment, Playhead};
use super::history::recording::{MakeRecording, RecordedView};
use super::inspection::TokenReport;
use super::masking::{PageMasks, may_mask};
use super::messages::{FeedState, FromPage, ToPage};
use super::packet::packet;
use super::reports::LiveReports;
use super::seats::{Owner, Seats};
use super::steering::PageSteering;
use super::thumbnails::{THUMBNAILS_MAX, Thumbnails, WantedViews};
use foveate::messages::{Look, ViewName, clipped};
use foveate_core::mask::Mask;
use foveate_core::token::PATCH_SIDES;

use self::past::PageRecording;

mod past;

/// A page that cannot be written to for this long is closed.
const SEND_LIMIT: Duration = Duration::from_secs(20);

/// Browsers answer pings by themselves, even for pages in the background.
const PING_INTERVAL: Duration = Duration::from_secs(2);

/// Silence after which a page stops steering: a suspended machine or a lost network closes no connection.
const SILENCE_ENDS_STEERING: Duration = Duration::from_secs(6);

/// Silence after which a page is closed.
const SILENCE_ENDS_PAGE: Duration = Duration::from_secs(30);

/// Close code of a page that another one of the same owner replaces.
const REPLACED: u16 = 4001;

/// Time limit for telling a page that it is replaced.
const REPLACED_LIMIT: Duration = Duration::from_millis(500);

/// Close code of a page without the token.
const STRANGER: u16 = 4003;

/// How often a page gets new small pictures, if there are any.
const THUMBNAIL_INTERVAL: Duration = Duration::from_millis(250);

/// Longest close reason in bytes; the protocol allows 123.
const CLOSE_REASON_BYTES: usize = 120;

/// Settings from the command line.
#[derive(Debug)]
pub(super) struct Settings {
    /// The daemon's socket.
    pub(super) socket: PathBuf,
    /// The view that pages show first.
    pub(super) view: Option<ViewName>,
    /// Whether pages may not steer.
    pub(super) read_only: bool,
    /// Token that pages need.
    pub(super) token: Option<AccessToken>,
    /// Recording that pages show in place of a daemon.
    pub(super) recording: Option<Arc<RecordedView>>,
    /// Makes recordings; absent in a build that cannot.
    pub(super) make_recording: Option<MakeRecording>,
}

/// State that all pages share.
#[derive(Debug)]
pub(super) struct Site {
    pub(super) settings: Settings,
    pub(super) followers: Arc<Followers>,
    pub(super) thumbnails: Arc<Thumbnails>,
    pub(super) reports: LiveReports,
    pub(super) seats: Arc<Seats>,
    /// Held while a recording is made, so that there is one at a time.
    pub(super) saving: Arc<Semaphore>,
}

/// Serves a page of `owner` until it leaves, or another one takes its seat.
pub(super) async fn run(
    mut socket: WebSocket,
    site: Arc<Site>,
    owner: Owner,
    taken_over: &mut oneshot::Receiver<()>,
) {
    let page = Page {
        view: None,
        panes: [None, None],
        serial: 0,
        last_message: Instant::now(),
        steering: PageSteering::new(site.settings.socket.clone()),
        thumbnails: None,
        may_mask: !site.settings.read_only && may_mask(owner),
        masks: PageMasks::new(site.settings.socket.clone()),
        timeline_serial: None,
        recorded: None,
        saving: PageRecording::default(),
        is_reported: false,
        site,
    };
    let outcome = tokio::select! {
        outcome = page.serve(&mut socket) => outcome,
        _ = taken_over => Err(Closing::Replaced),
    };
    match outcome {
        Ok(()) | Err(Closing::Gone) => {}
        Err(Closing::Misuse(reason)) => close(&mut socket, close_code::POLICY, &reason).await,
        Err(Closing::Replaced) => {
            let reason =
                "too many pages are open, and another one was opened: reload to continue here";
            // A page that stops reading must not keep the connection.
            let _ = timeout(REPLACED_LIMIT, close(&mut socket, REPLACED, reason)).await;
        }
    }
}

/// Refuses a page beyond the limit.
pub(super) async fn reject_beyond(mut socket: WebSocket, most: usize) {
    let reason = format!("too many pages of others (limit {most}): wait until one is closed");
    close(&mut socket, close_code::AGAIN, &reason).await;
}

/// Refuses a page without the token.
pub(super) async fn reject_stranger(mut socket: WebSocket) {
    let reason = "the address lacks the token: open the address that `foveate web` printed";
    close(&mut socket, STRANGER, reason).await;
}

/// Why a connection ends.
#[derive(Debug)]
enum Closing {
    Gone,
    /// Violation of the protocol.
    Misuse(String),
    /// Another page has taken the seat.
    Replaced,
}

async fn send(socket: &mut WebSocket, message: Message) -> Result<(), Closing> {
    match timeout(SEND_LIMIT, socket.send(message)).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(_)) | Err(_) => Err(Closing::Gone),
    }
}

async fn say(socket: &mut WebSocket, message: &ToPage) -> Result<(), Closing> {
    send(socket, Message::text(message.to_json())).await
}

async fn close(socket: &mut WebSocket, code: u16, reason: &str) {
    let reason = clipped(reason, CLOSE_REASON_BYTES).into();
    // Fails if the page is gone already.
    let _ = send(socket, Message::Close(Some(CloseFrame { code, reason }))).await;
}

struct Page {
    site: Arc<Site>,
    view: Option<ViewName>,
    /// The view's pane and, for comparison, a pane with a uniform view of the same budget.
    panes: [Option<Pane>; 2],
    /// Serial of the newest packet of either pane.
    serial: u32,
    last_message: Instant,
    steering: PageSteering,
    /// The small pictures of the start page, while it shows them.
    thumbnails: Option<PageThumbnails>,
    may_mask: bool,
    masks: PageMasks,
    /// Serial of the newest entry of the timeline that the page has; `None` before the first.
    timeline_serial: Option<u64>,
    /// Keeps the frames in memory that the page records.
    recorded: Option<Arc<f64>>,
    saving: PageRecording,
    /// Whether a report has come since the page opened: what masks hide that were set before is forgotten then.
    is_reported: bool,
}

/// The small pictures that a page shows.
struct PageThumbnails {
    wanted: WantedViews,
    /// Capture times of the pictures that the page has.
    sent: HashMap<ViewName, u64>,
    is_in_flight: bool,
    ticks: Interval,
}

impl Page {
    async fn serve(mut self, socket: &mut WebSocket) -> Result<(), Closing> {
        let settings = &self.site.settings;
        let (view, read_only) = (settings.view.clone(), settings.read_only);
        let version = env!("CARGO_PKG_VERSION");
        let recording = settings.recording.as_ref().map(|recording| recording.title.clone());
        let can_save = settings.make_recording.is_some() && recording.is_none();
        let masks = self.may_mask && recording.is_none();
        let hello = ToPage::Hello { version, view, read_only, masks, recording, can_save };
        say(socket, &hello).await?;
        let mut report = self.site.reports.join();
        let mut pings = interval(PING_INTERVAL);
        loop {
            let [main, uniform] = &mut self.panes;
            tokio::select! {
                message = socket.recv() => self.receive(message, socket).await?,
                Ok(()) = report.changed() => {
                    let text = report.borrow_and_update().to_string();
                    send(socket, Message::text(text)).await?;
                    self.is_reported = true;
                    self.send_history(socket).await?;
                }
                () = self.saving.made() => self.send_saved(socket).await?,
                () = changed(main) => self.show(0, socket).await?,
                () = changed(uniform) => self.show(1, socket).await?,
                answer = self.steering.answer() => {
                    if let Some(answer) = answer {
                        say(socket, &answer).await?;
                    }
                }
                answer = self.masks.answer() => say(socket, &answer).await?,
                () = due(&mut self.thumbnails) => self.show_thumbnails(socket).await?,
                _ = pings.tick() => self.ping(socket).await?,
            }
        }
    }

    /// Receives a message of the browser; `None` after a hang-up.
    async fn receive(
        &mut self,
        message: Option<Result<Message, Error>>,
        socket: &mut WebSocket,
    ) -> Result<(), Closing> {
        let Some(Ok(message)) = message else { return Err(Closing::Gone) };
        self.last_message = Instant::now();
        match message {
            Message::Text(text) => self.handle(&text, socket).await,
            Message::Ping(_) | Message::Pong(_) => Ok(()),
            Message::Binary(_) => {
                Err(Closing::Misuse("binary messages are not supported".to_owned()))
            }
            Message::Close(_) => Err(Closing::Gone),
        }
    }

    /// Pings the browser. One that does not answer stops steering, and later is dropped.
    async fn ping(&mut self, socket: &mut WebSocket) -> Result<(), Closing> {
        let silence = self.last_message.elapsed();
        if SILENCE_ENDS_PAGE < silence {
            return Err(Closing::Gone);
        }
        if SILENCE_ENDS_STEERING < silence && self.steering.release_all() {
            say(socket, &ToPage::Released).await?;
        }
        send(socket, Message::Ping(Vec::new().into())).await
    }

    async fn handle(&mut self, text: &str, socket: &mut WebSocket) -> Result<(), Closing> {
        let message =
            serde_json::from_str(text).map_err(|error| Closing::Misuse(error.to_string()))?;
        match message {
            FromPage::Watch { view, compare, channel } => {
                if view != self.view {
                    // A recording that is being made is of the view before.
                    self.saving = PageRecording::default();
                    self.recorded = None;
                    // Discards moments of the previous view that are on their way.
                    say(socket, &ToPage::Resumed).await?;
                }
                self.watch(view, compare && self.site.settings.recording.is_none());
                self.draw_channel(channel, socket).await?;
                self.send_history(socket).await?;
                self.show(0, socket).await?;
                self.show(1, socket).await?;
            }
            FromPage::Ack { pane: past::SAVED_PANE, serial } => {
                self.send_piece(serial, socket).await?;
            }
            FromPage::Ack { pane, serial } => {
                let index = usize::from(pane);
                if let Some(pane) = self.panes.get_mut(index).and_then(Option::as_mut)
                    && pane.acknowledge(serial)
                {
                    self.show(index, socket).await?;
                }
            }
            // A page of a recording has no small pictures, which come from a daemon.
            FromPage::Thumbnails { .. } if self.site.settings.recording.is_some() => {}
            FromPage::Thumbnails { views } => self.want_thumbnails(views),
            FromPage::AckThumbnails => {
                if let Some(thumbnails) = &mut self.thumbnails {
                    thumbnails.is_in_flight = false;
                }
            }
            FromPage::Inspect { x, y } => self.inspect((x, y), socket).await?,
            FromPage::Mask { .. } | FromPage::ClearMask { .. } if !self.may_mask => {
                let error = "masks cannot be set here (expected a browser of the user who runs `foveate web`, without --read-only): use \
                     `foveate mask`, or paste the mask into the configuration";
                say(socket, &ToPage::MaskRefused { error: error.to_owned() }).await?;
            }
            FromPage::Mask { name, points } => self.mask(Mask { name, points }, socket).await?,
            FromPage::ClearMask { name } => {
                self.mask(Mask { name, points: Vec::new() }, socket).await?;
            }
            FromPage::Look { .. } | FromPage::Release if self.site.settings.read_only => {
                let error = "steering is disabled: `foveate web` runs with --read-only".to_owned();
                say(socket, &ToPage::Refused { reason: None, error }).await?;
            }
            FromPage::Look { points, region } => {
                let Some(view) = &self.view else { return Ok(()) };
                let look = Look { region, ..Look::at_points(view, &points) };
                self.steering.look(look);
            }
            FromPage::Release => {
                if let Some(view) = &self.view {
                    self.steering.release(view);
                }
            }
            FromPage::Seek { .. }
            | FromPage::Step { .. }
            | FromPage::Live
            | FromPage::Thumbnail { .. }
            | FromPage::Record { .. }
            | FromPage::Save { .. } => self.handle_past(message, socket).await?,
        }
        Ok(())
    }

    /// Handles a message about the past; ignores other messages.
    async fn handle_past(
        &mut self,
        message: FromPage,
        socket: &mut WebSocket,
    ) -> Result<(), Closing> {
        match message {
            FromPage::Seek { at } => {
                self.extend_past(at.unwrap_or(f64::MIN));
                self.move_playhead(socket, |playhead| {
                    if let Some(at_ms) = at {
                        playhead.seek(at_ms);
                    }
                })
                .await?;
            }
            FromPage::Step { by } => {
                self.move_playhead(socket, |playhead| playhead.move_by(by)).await?
            }
            FromPage::Live => self.resume(socket).await?,
            FromPage::Thumbnail { at } => self.send_thumbnail(at, socket).await?,
            FromPage::Record { after } => {
                let main = self.panes[0].as_ref();
                let histories = &self.site.followers.histories;
                self.recorded = main.and_then(|main| histories.record(&main.subject, after));
            }
            FromPage::Save { after } => self.save(after, socket).await?,
            _ => {}
        }
        Ok(())
    }

    /// Shows small pictures of `views` from now on, of the first if there are too many.
    fn want_thumbnails(&mut self, mut views: Vec<ViewName>) {
        views.truncate(THUMBNAILS_MAX);
        if views.is_empty() {
            self.thumbnails = None;
            return;
        }
        let wanted = self.site.thumbnails.want(views);
        let Some(before) = self.thumbnails.take() else {
            let ticks = interval(THUMBNAIL_INTERVAL);
            let sent = HashMap::new();
            self.thumbnails = Some(PageThumbnails { wanted, sent, is_in_flight: false, ticks });
            return;
        };
        // Pictures that the page holds are not sent again when others scroll into sight, and new ones wait until it has shown the last.
        let sent = before.sent.into_iter().filter(|(view, _)| wanted.contains(view)).collect();
        self.thumbnails = Some(PageThumbnails { wanted, sent, ..before });
    }

    async fn show_thumbnails(&mut self, socket: &mut WebSocket) -> Result<(), Closing> {
        let Some(thumbnails) = &mut self.thumbnails else { return Ok(()) };
        if thumbnails.is_in_flight {
            return Ok(());
        }
        let packet = self.site.thumbnails.packet(&thumbnails.wanted, &mut thumbnails.sent);
        let Some(packet) = packet else { return Ok(()) };
        thumbnails.is_in_flight = true;
        send(socket, Message::Binary(packet.into())).await
    }

    /// Tells of the token under a point of the frame that was sent last.
    async fn inspect(&self, point: (f64, f64), socket: &mut WebSocket) -> Result<(), Closing> {
        let frame = self.panes[0].as_ref().and_then(|main| main.held.as_ref());
        let token = self
            .view
            .as_ref()
            .zip(frame)
            .and_then(|(view, frame)| TokenReport::at(view, frame, point));
        say(socket, &ToPage::Token { token }).await
    }

    /// Sets a mask of the view's stream; a mask without corners clears the one of the same name.
    async fn mask(&mut self, mask: Mask, socket: &mut WebSocket) -> Result<(), Closing> {
        let Some(view) = &self.view else { return Ok(()) };
        match self.masks.change(view.stream(), mask) {
            Some(answer) => say(socket, &answer).await,
            None => Ok(()),
        }
    }

    /// Shows `view` from now on.
    fn watch(&mut self, view: Option<ViewName>, compare: bool) {
        if view != self.view {
            self.steering.release_all();
            let subject = view.clone().map(Subject::View);
            self.panes = [subject.map(|subject| self.pane(0, subject)), None];
            self.view = view;
            self.timeline_serial = None;
        }
        if !compare {
            self.panes[1] = None;
        } else if self.panes[1].is_none() {
            self.panes[1] = self.uniform_subject().map(|subject| self.pane(1, subject));
        }
        if let Some(main) = &mut self.panes[0] {
            main.wants_uniform = compare;
        }
    }

    /// Sends the cells of this channel with the frames of the view from now on.
    async fn draw_channel(
        &mut self,
        channel: Option<String>,
        socket: &mut WebSocket,
    ) -> Result<(), Closing> {
        if let Some(main) = &mut self.panes[0]
            && main.channel != channel
        {
            main.channel = channel;
            // Send the newest frame again, with the other channel. A canvas gets the channel with the next frame, because a whole frame
            // would clear the canvas.
            main.held.take_if(|held| held.tile_frames.is_none());
            self.show(0, socket).await?;
        }
        Ok(())
    }

    /// The uniform view of the same budget; `None` until the view's first frame.
    fn uniform_subject(&self) -> Option<Subject> {
        let view = self.view.as_ref()?;
        let frame = self.panes[0].as_ref()?.feed.borrow().frame.clone()?;
        let (budget, patch_side) = uniform_budget(&frame);
        Some(Subject::Uniform { stream: view.stream().to_owned(), budget, patch_side })
    }

    fn pane(&self, index: u8, subject: Subject) -> Pane {
        let (mut feed, showing) = self.source(&subject);
        feed.mark_changed();
        Pane {
            index,
            subject,
            feed,
            showing,
            reported: None,
            held: None,
            serial: 0,
            is_in_flight: false,
            wants_uniform: false,
            channel: None,
            told_channels: Vec::new(),
        }
    }

    /// Sends the news of a pane.
    async fn show(&mut self, index: usize, socket: &mut WebSocket) -> Result<(), Closing> {
        if let Some(pane) = &mut self.panes[index] {
            pane.show(socket, &mut self.serial).await?;
        }
        let [main, uniform] = &self.panes;
        if main.as_ref().is_some_and(|main| main.wants_uniform)
            && let Some(wanted) = self.uniform_subject()
            // The budget of the view may have changed.
            && uniform.as_ref().is_none_or(|uniform| uniform.subject != wanted)
        {
            self.panes[1] = Some(self.pane(1, wanted));
        }
        Ok(())
    }
}

/// Budget and side of the tokens of a uniform view to compare with; in place of windows and samples, as many texels in tokens of a side
/// that such a view may have.
fn uniform_budget(frame: &DecodedFrame) -> (usize, u32) {
    let side = frame.patch_side;
    if PATCH_SIDES.contains(&side) {
        return (frame.capacity, side);
    }
    let texels = frame.records.len() * side.pow(2) as usize;
    let side = side.clamp(*PATCH_SIDES.start(), *PATCH_SIDES.end());
    ((texels / side.pow(2) as usize).max(1), side)
}

/// The content of a pane.
enum PaneContent {
    /// The newest frame of its feed.
    Live,
    /// A past frame; `reported` is the moment that the page knows.
    Past { playhead: Box<Playhead>, reported: Option<Moment> },
    /// Nothing: the page is paused, and no past frames of this pane are kept.
    Nothing,
}

/// One of the two pictures of a page.
struct Pane {
    index: u8,
    subject: Subject,
    feed: watch::Receiver<Feed>,
    showing: PaneContent,
    /// The state and reason that were sent last.
    reported: Option<(FeedState, String)>,
    /// The frame that was sent last.
    held: Option<Arc<DecodedFrame>>,
    /// Serial of the packet; unique within the page.
    serial: u32,
    /// Whether the page has yet to acknowledge the packet.
    is_in_flight: bool,
    /// The page compares it with the uniform view.
    wants_uniform: bool,
    /// Name of the channel that the page draws over it.
    channel: Option<String>,
    /// Channel names that the page has received.
    told_channels: Vec<String>,
}

impl Pane {
    /// Returns whether `serial` is the packet in flight, which no longer is.
    fn acknowledge(&mut self, serial: u32) -> bool {
        let is_expected = self.is_in_flight && serial == self.serial;
        self.is_in_flight &= !is_expected;
        is_expected
    }

    async fn show(&mut self, socket: &mut WebSocket, serial: &mut u32) -> Result<(), Closing> {
        if !matches!(self.showing, PaneContent::Live) {
            return self.show_moment(socket, serial).await;
        }
        let feed = self.feed.borrow_and_update().clone();
        let age_ms = feed.age().map(|age| age.as_secs_f64() * 1e3);
        self.say_state((feed.state, feed.reason), age_ms, socket).await?;
        match feed.frame {
            Some(frame) if !self.is_in_flight => self.send_frame(frame, socket, serial).await,
            _ => Ok(()),
        }
    }

    /// Reports a state and its reason if they are new.
    async fn say_state(
        &mut self,
        state: (FeedState, String),
        age_ms: Option<f64>,
        socket: &mut WebSocket,
    ) -> Result<(), Closing> {
        if self.reported.as_ref() == Some(&state) {
            return Ok(());
        }
        self.reported = Some(state.clone());
        let (state, reason) = state;
        say(socket, &ToPage::State { pane: self.index, state, reason, age_ms }).await
    }

    /// Sends a frame that is not on the screen.
    async fn send_frame(
        &mut self,
        frame: Arc<DecodedFrame>,
        socket: &mut WebSocket,
        serial: &mut u32,
    ) -> Result<(), Closing> {
        if self.held.as_ref().is_some_and(|held| Arc::ptr_eq(held, &frame)) {
            return Ok(());
        }
        let published = frame.channels.iter().map(|channel| &channel.name);
        if !published.clone().eq(&self.told_channels) {
            self.told_channels = published.cloned().collect();
            say(socket, &ToPage::Channels { names: self.told_channels.clone() }).await?;
        }
        *serial = serial.wrapping_add(1);
        self.serial = *serial;
        let is_drawn = |channel: &&DecodedChannel| self.channel.as_ref() == Some(&channel.name);
        let channel = frame.channels.iter().find(is_drawn);
        let bytes = packet(self.index, self.serial, &frame, self.held.as_deref(), channel);
        self.held = Some(frame);
        self.is_in_flight = true;
        send(socket, Message::Binary(bytes.into())).await
    }
}

/// Waits until small pictures may be due; forever if the page shows none.
async fn due(thumbnails: &mut Option<PageThumbnails>) {
    match thumbnails {
        Some(thumbnails) => drop(thumbnails.ticks.tick().await),
        None => std::future::pending().await,
    }
}

/// Waits until the feed of `pane` changes; forever without a pane, or while it is paused.
async fn changed(pane: &mut Option<Pane>) {
    let changed = match pane {
        Some(pane) if matches!(pane.showing, PaneContent::Live) => pane.feed.changed().await,
        _ => std::future::pending().await,
    };
    // The sender is gone only if the follower could not be started.
    if changed.is_err() {
        std::future::pending::<()>().await;
    }
}
