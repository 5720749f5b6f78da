//! One page in one browser: what it is shown, and what it says.
//!
//! A page holds at most one frame that it has not acknowledged, of each picture. Frames that come meanwhile are passed
//! over, so that a browser that is slow, far away or in the background is shown fewer, and nobody else is.

use std::sync::Arc;
use std::time::Duration;

use axum::Error;
use axum::extract::ws::{CloseFrame, Message, WebSocket, close_code};
use tokio::sync::watch;
use tokio::time::{Instant, interval, timeout};

use super::decoder::DecodedFrame;
use super::follower::{Feed, Subject};
use super::messages::{FeedState, FromPage, ToPage};
use super::packet::packet;
use super::server::Shared;
use super::steering::Steering;
use foveate::messages::{ViewName, clipped};

/// A browser that takes nothing for so long is gone.
const SEND_LIMIT: Duration = Duration::from_secs(20);

/// How often a browser is asked whether it is there. It answers by itself, also for a page in the background.
const PING_INTERVAL: Duration = Duration::from_secs(2);

/// Who has said nothing for so long steers no more: a machine that sleeps, or a network that is gone, says no farewell.
const SILENCE_ENDS_STEERING: Duration = Duration::from_secs(6);

/// Who has said nothing for so long is gone.
const SILENCE_ENDS_PAGE: Duration = Duration::from_secs(30);

/// The longest reason with which a WebSocket may be closed, in bytes.
const CLOSE_REASON_BYTES: usize = 120;

/// Serves a page until it is closed.
pub(super) async fn run(socket: WebSocket, shared: Shared) {
    let page = Page {
        view: None,
        panes: [None, None],
        serial: 0,
        heard: Instant::now(),
        steering: Steering::new(shared.site.socket.clone()),
        shared,
    };
    let mut wire = Wire(socket);
    match page.serve(&mut wire).await {
        Ok(()) => {}
        Err(Closing::Gone) => {}
        Err(Closing::Misuse(reason)) => wire.close(close_code::POLICY, &reason).await,
    }
}

/// Tells a page that there are as many as there may be.
pub(super) async fn turn_away(socket: WebSocket, most: usize) {
    let reason = format!("{most} pages are open already: close one of them");
    Wire(socket).close(close_code::AGAIN, &reason).await;
}

/// Why a page is served no longer.
#[derive(Debug)]
enum Closing {
    /// It is closed, or takes nothing.
    Gone,
    /// It said what no page says.
    Misuse(String),
}

/// The WebSocket.
struct Wire(WebSocket);

impl Wire {
    async fn send(&mut self, message: Message) -> Result<(), Closing> {
        match timeout(SEND_LIMIT, self.0.send(message)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) | Err(_) => Err(Closing::Gone),
        }
    }

    async fn say(&mut self, message: &ToPage) -> Result<(), Closing> {
        self.send(Message::text(message.to_json())).await
    }

    async fn close(&mut self, code: u16, reason: &str) {
        let reason = clipped(reason, CLOSE_REASON_BYTES).into();
        // Whoever is gone already needs no reason.
        let _ = self.send(Message::Close(Some(CloseFrame { code, reason }))).await;
    }
}

struct Page {
    shared: Shared,
    /// What it shows.
    view: Option<ViewName>,
    /// The picture of the view, and that of the same budget spent uniformly.
    panes: [Option<Pane>; 2],
    /// Number of the newest packet, of either picture.
    serial: u32,
    /// When its browser last said anything.
    heard: Instant,
    steering: Steering,
}

/// What a page waits for.
enum News {
    Heard(Option<Result<Message, Error>>),
    Report,
    Feed(usize),
    Answer(Option<ToPage>),
    Ping,
}

impl Page {
    async fn serve(mut self, wire: &mut Wire) -> Result<(), Closing> {
        let site = &self.shared.site;
        let (view, read_only) = (site.view.clone(), site.read_only);
        let version = env!("CARGO_PKG_VERSION");
        wire.say(&ToPage::Hello { version, view, read_only }).await?;
        let mut report = self.shared.reports.join();
        let mut pings = interval(PING_INTERVAL);
        loop {
            let [main, uniform] = &mut self.panes;
            let news = tokio::select! {
                heard = wire.0.recv() => News::Heard(heard),
                Ok(()) = report.changed() => News::Report,
                () = changed(main) => News::Feed(0),
                () = changed(uniform) => News::Feed(1),
                answer = self.steering.answer() => News::Answer(answer),
                _ = pings.tick() => News::Ping,
            };
            if let News::Heard(Some(Ok(_))) = news {
                self.heard = Instant::now();
            }
            match news {
                News::Heard(Some(Ok(Message::Text(text)))) => self.hear(&text, wire).await?,
                News::Heard(Some(Ok(Message::Ping(_) | Message::Pong(_)))) => {}
                News::Heard(Some(Ok(Message::Binary(_)))) => {
                    return Err(Closing::Misuse("pages say nothing in binary".to_owned()));
                }
                News::Heard(None | Some(Err(_) | Ok(Message::Close(_)))) => return Ok(()),
                News::Report => {
                    let text = report.borrow_and_update().to_string();
                    wire.send(Message::text(text)).await?;
                }
                News::Feed(index) => self.show(index, wire).await?,
                News::Answer(Some(answer)) => wire.say(&answer).await?,
                News::Answer(None) => {}
                News::Ping => self.ask_whether_there(wire).await?,
            }
        }
    }

    /// Lets go of what a browser steers that does not answer, and of the browser when it stays so.
    async fn ask_whether_there(&mut self, wire: &mut Wire) -> Result<(), Closing> {
        let silence = self.heard.elapsed();
        if SILENCE_ENDS_PAGE < silence {
            return Err(Closing::Gone);
        }
        if SILENCE_ENDS_STEERING < silence && self.steering.let_go() {
            wire.say(&ToPage::Released).await?;
        }
        wire.send(Message::Ping(Vec::new().into())).await
    }

    async fn hear(&mut self, text: &str, wire: &mut Wire) -> Result<(), Closing> {
        let message =
            serde_json::from_str(text).map_err(|error| Closing::Misuse(error.to_string()))?;
        match message {
            FromPage::Watch { view, compare } => self.watch(view, compare),
            FromPage::Ack { pane, serial } => {
                let index = usize::from(pane);
                if let Some(pane) = self.panes.get_mut(index).and_then(Option::as_mut)
                    && pane.acknowledge(serial)
                {
                    self.show(index, wire).await?;
                }
            }
            FromPage::Look { .. } | FromPage::Release if self.shared.site.read_only => {
                let error = "this page only shows: it was started with --read-only".to_owned();
                wire.say(&ToPage::Refused { reason: None, error }).await?;
            }
            FromPage::Look { x, y } => {
                if let Some(view) = &self.view {
                    self.steering.look(view, x, y);
                }
            }
            FromPage::Release => {
                if let Some(view) = &self.view {
                    self.steering.release(view);
                }
            }
        }
        Ok(())
    }

    /// Shows `view` from now on.
    fn watch(&mut self, view: Option<ViewName>, compare: bool) {
        if view != self.view {
            self.steering.let_go();
            let subject = view.clone().map(Subject::View);
            self.panes = [subject.map(|subject| self.pane(0, subject)), None];
            self.view = view;
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

    /// The picture that stands beside that of the view, once it is known what the view spends.
    fn uniform_subject(&self) -> Option<Subject> {
        let view = self.view.as_ref()?;
        let frame = self.panes[0].as_ref()?.feed.borrow().frame.clone()?;
        Some(Subject::Uniform {
            stream: view.stream().to_owned(),
            budget: frame.capacity,
            patch_side: frame.patch_side,
        })
    }

    fn pane(&self, index: u8, subject: Subject) -> Pane {
        let mut feed = self.shared.followers.watch(&subject);
        feed.mark_changed();
        Pane {
            index,
            subject,
            feed,
            told: None,
            held: None,
            serial: 0,
            awaits: false,
            wants_uniform: false,
        }
    }

    /// Sends what is new of a picture.
    async fn show(&mut self, index: usize, wire: &mut Wire) -> Result<(), Closing> {
        if let Some(pane) = &mut self.panes[index] {
            pane.show(wire, &mut self.serial).await?;
        }
        let [main, uniform] = &self.panes;
        if main.as_ref().is_some_and(|main| main.wants_uniform)
            && let Some(wanted) = self.uniform_subject()
            // The view may have been set to spend something else.
            && uniform.as_ref().is_none_or(|uniform| uniform.subject != wanted)
        {
            self.panes[1] = Some(self.pane(1, wanted));
        }
        Ok(())
    }
}

/// One picture of a page.
struct Pane {
    index: u8,
    subject: Subject,
    feed: watch::Receiver<Feed>,
    /// The state that the page knows.
    told: Option<(FeedState, String)>,
    /// The frame that was sent last, and that the page shows once it has acknowledged it.
    held: Option<Arc<DecodedFrame>>,
    /// Number of the packet that it was; no other packet of the page has it.
    serial: u32,
    /// It has not been acknowledged.
    awaits: bool,
    /// Another picture is to stand beside this one.
    wants_uniform: bool,
}

impl Pane {
    /// Notes that the page shows packet `serial`; false for any but the one that is waited for.
    fn acknowledge(&mut self, serial: u32) -> bool {
        let is_it = self.awaits && serial == self.serial;
        self.awaits &= !is_it;
        is_it
    }

    async fn show(&mut self, wire: &mut Wire, serial: &mut u32) -> Result<(), Closing> {
        let feed = self.feed.borrow_and_update().clone();
        let state = (feed.state, feed.reason.clone());
        if self.told.as_ref() != Some(&state) {
            let age_ms = feed.age().map(|age| age.as_secs_f64() * 1e3);
            self.told = Some(state.clone());
            let (state, reason) = state;
            wire.say(&ToPage::State { pane: self.index, state, reason, age_ms }).await?;
        }
        let Some(frame) = feed.frame.filter(|_| !self.awaits) else { return Ok(()) };
        if self.held.as_ref().is_some_and(|held| Arc::ptr_eq(held, &frame)) {
            return Ok(());
        }
        *serial = serial.wrapping_add(1);
        self.serial = *serial;
        let bytes = packet(self.index, self.serial, &frame, self.held.as_deref());
        self.held = Some(frame);
        self.awaits = true;
        wire.send(Message::Binary(bytes.into())).await
    }
}

/// Waits until there is something new to be seen; for ever where nothing is shown.
async fn changed(pane: &mut Option<Pane>) {
    let changed = match pane {
        Some(pane) => pane.feed.changed().await,
        None => std::future::pending().await,
    };
    // The follower is gone, which it never is before its pages, unless it could not be started.
    if changed.is_err() {
        std::future::pending::<()>().await;
    }
}
