//! A page's way into the past: pause, seek and step, small pictures of moments, and a recording of what is in memory.

use std::fs::File;
use std::io::{self, Read};
use std::sync::Arc;

use axum::extract::ws::{Message, WebSocket};
use tokio::sync::watch;
use tokio::task::{JoinHandle, spawn_blocking};

use super::{Closing, Page, Pane, PaneContent, Site, say, send};
use crate::follower::{Feed, Subject};
use crate::history::playhead::{FrameSource, Playhead};
use crate::history::{Revocation, Snapshot, unix_ms};
use crate::messages::{FeedState, ToPage};
use crate::packet::packet;
use foveate::messages::ViewName;
use foveate_core::error::chain;

/// Pane of small pictures.
const THUMBNAIL_PANE: u8 = 2;

/// Pane of a recording that is sent.
pub(super) const SAVED_PANE: u8 = 3;

/// Begins a piece of a recording; its serial number and its bytes follow.
const PIECE_MAGIC: [u8; 4] = *b"FVD1";

const PIECE_BYTES: usize = 512 << 10;

/// How far before the first frame a moment may lie to have a small picture.
const THUMBNAIL_TOLERANCE_MS: f64 = 1000.0;

/// A recording that a page asked for.
#[derive(Default)]
pub(super) struct PageRecording {
    /// The view, and whether its frames may still be shown.
    of: Option<(ViewName, Revocation)>,
    making: Option<JoinHandle<io::Result<MadeRecording>>>,
    made: Option<io::Result<MadeRecording>>,
    sending: Option<(File, u32)>,
}

struct MadeRecording {
    file: File,
    bytes: u64,
    frames: usize,
}

impl PageRecording {
    /// Waits until the recording is made; forever without one. Cancel-safe.
    pub(super) async fn made(&mut self) {
        let Some(making) = &mut self.making else { return std::future::pending().await };
        let made = making.await.unwrap_or_else(|error| Err(io::Error::other(error)));
        (self.making, self.made) = (None, Some(made));
    }
}

impl Page {
    /// The feed of a pane, and what it shows at first.
    pub(super) fn source(&self, subject: &Subject) -> (watch::Receiver<Feed>, PaneContent) {
        let Some(recording) = &self.site.settings.recording else {
            let main =
                self.panes[0].as_ref().filter(|_| matches!(subject, Subject::Uniform { .. }));
            let showing = match main.map(|main| &main.showing) {
                None | Some(PaneContent::Live) => PaneContent::Live,
                // The history has no frame of this view yet.
                Some(_) => PaneContent::Nothing,
            };
            return (self.site.followers.watch(subject), showing);
        };
        let (_, feed) = watch::channel(Feed::default());
        let is_it = matches!(subject, Subject::View(view) if *view == recording.view);
        let playhead = || Box::new(Playhead::new(FrameSource::Recorded(Arc::clone(recording))));
        let showing = if is_it {
            PaneContent::Past { playhead: playhead(), reported: None }
        } else {
            PaneContent::Nothing
        };
        (feed, showing)
    }

    /// Pauses if the page is live, moves the playhead, and shows what is there.
    pub(super) async fn move_playhead(
        &mut self,
        socket: &mut WebSocket,
        change: impl FnOnce(&mut Playhead),
    ) -> Result<(), Closing> {
        let Some(main) = &mut self.panes[0] else { return Ok(()) };
        if let PaneContent::Live = main.showing {
            let Some(snapshot) = kept(&self.site, self.is_reported, &main.subject) else {
                let error = if self.site.followers.histories.bytes_max() == 0 {
                    "cannot pause: `foveate web` runs with --history 0"
                } else {
                    "cannot pause: no frame of this view is in memory yet"
                };
                return say(socket, &ToPage::HistoryError { error: error.to_owned() }).await;
            };
            main.showing = past(FrameSource::Kept(snapshot));
        }
        let PaneContent::Past { playhead, reported } = &mut main.showing else { return Ok(()) };
        change(playhead);
        // The page waits for an answer, also if it is on the screen.
        *reported = None;
        let frame_seq = playhead.frame_seq();
        if let (Some(uniform), Some(frame_seq)) = (&mut self.panes[1], frame_seq) {
            if let PaneContent::Live | PaneContent::Nothing = uniform.showing {
                let snapshot = self.site.followers.histories.snapshot(&uniform.subject);
                uniform.showing = snapshot
                    .map_or(PaneContent::Nothing, |snapshot| past(FrameSource::Kept(snapshot)));
            }
            if let PaneContent::Past { playhead, .. } = &mut uniform.showing
                && !playhead.seek_frame(frame_seq)
            {
                uniform.showing = PaneContent::Nothing;
            }
        }
        self.show(0, socket).await?;
        self.show(1, socket).await
    }

    /// Goes on to what has come since the page was paused, if `at_ms` lies there.
    pub(super) fn extend_past(&mut self, at_ms: f64) {
        let Some(main) = &mut self.panes[0] else { return };
        let PaneContent::Past { playhead, .. } = &main.showing else { return };
        let newest_ms = playhead.frames.newest_ms();
        if at_ms <= newest_ms {
            return;
        }
        let snapshot = self.site.followers.histories.snapshot(&main.subject).map(FrameSource::Kept);
        let reaches =
            |frames: &FrameSource| frames.at_ms(0) <= at_ms && newest_ms < frames.newest_ms();
        if let Some(frames) = snapshot.filter(reaches) {
            main.showing = past(frames);
            if let Some(uniform) = &mut self.panes[1] {
                uniform.showing = PaneContent::Nothing;
            }
        }
    }

    /// Returns to new frames; a recording has none.
    pub(super) async fn resume(&mut self, socket: &mut WebSocket) -> Result<(), Closing> {
        if self.site.settings.recording.is_some() {
            return Ok(());
        }
        for pane in self.panes.iter_mut().flatten() {
            pane.showing = PaneContent::Live;
        }
        say(socket, &ToPage::Resumed).await?;
        self.show(0, socket).await?;
        self.show(1, socket).await
    }

    /// Tells the page what is in memory and what has happened.
    pub(super) async fn send_history(&mut self, socket: &mut WebSocket) -> Result<(), Closing> {
        if self.panes.iter().flatten().any(Pane::is_revoked) {
            self.resume(socket).await?;
            let error = "the privacy masks have changed: what was in memory is gone".to_owned();
            say(socket, &ToPage::HistoryError { error }).await?;
        }
        let (Some(view), Some(main)) = (&self.view, &self.panes[0]) else { return Ok(()) };
        let since = self.timeline_serial.unwrap_or_default();
        let (entries, serial) = match &self.site.settings.recording {
            Some(recording) if self.timeline_serial.is_none() => {
                (recording.timeline.since(since), recording.timeline.serial())
            }
            Some(_) => return Ok(()),
            None => self.site.followers.timelines.since(view, since),
        };
        let histories = &self.site.followers.histories;
        let history = ToPage::History {
            extent: histories.extent(&main.subject),
            bytes: histories.bytes(),
            bytes_max: histories.bytes_max(),
            now_ms: unix_ms(),
        };
        let is_whole = self.timeline_serial.is_none();
        self.timeline_serial = Some(serial);
        if self.site.settings.recording.is_none() {
            say(socket, &history).await?;
        }
        if is_whole || !entries.is_empty() {
            say(socket, &ToPage::Timeline { is_whole, entries }).await?;
        }
        Ok(())
    }

    /// Sends the frame that had arrived at `at_ms`, if it is in memory, or in the recording.
    pub(super) async fn send_thumbnail(
        &mut self,
        at_ms: f64,
        socket: &mut WebSocket,
    ) -> Result<(), Closing> {
        let Some(main) = &self.panes[0] else { return Ok(()) };
        let frames = match &main.showing {
            PaneContent::Past { playhead, .. } if at_ms <= playhead.frames.newest_ms() => {
                Some(playhead.frames.clone())
            }
            _ => kept(&self.site, self.is_reported, &main.subject).map(FrameSource::Kept),
        };
        let reaches = |frames: &FrameSource| frames.at_ms(0) - THUMBNAIL_TOLERANCE_MS <= at_ms;
        let mut playhead = frames.filter(reaches).map(Playhead::new);
        let loaded = match &mut playhead {
            Some(playhead) => {
                playhead.seek(at_ms);
                playhead.load().await.ok()
            }
            None => None,
        };
        say(socket, &ToPage::Thumbnail { at_ms, is_kept: loaded.is_some() }).await?;
        match loaded {
            Some((frame, _)) => {
                let bytes = packet(THUMBNAIL_PANE, 0, &frame, None, None);
                send(socket, Message::Binary(bytes.into())).await
            }
            None => Ok(()),
        }
    }

    /// Begins to make a recording of what is in memory, or of what arrived there after `after_ms`.
    pub(super) async fn save(
        &mut self,
        after_ms: Option<f64>,
        socket: &mut WebSocket,
    ) -> Result<(), Closing> {
        let begun = self.begin_saving(after_ms);
        if after_ms.is_some() {
            self.recorded = None;
        }
        let failed = match begun {
            Ok(()) => return Ok(()),
            Err(error) => error.to_owned(),
        };
        say(socket, &ToPage::HistoryError { error: failed }).await
    }

    fn begin_saving(&mut self, after_ms: Option<f64>) -> Result<(), &'static str> {
        let make = self.site.settings.make_recording;
        let make = make.ok_or("cannot save: this `foveate` was built without `mcap`")?;
        let main = self.panes[0].as_ref().ok_or("cannot save: no view is chosen")?;
        let view = self.view.clone().ok_or("cannot save: no view is chosen")?;
        let snapshot = match &main.showing {
            PaneContent::Past { playhead, .. } => match &playhead.frames {
                // What has arrived while the page is paused belongs to a recording that goes on.
                FrameSource::Kept(_) if after_ms.is_some() => {
                    kept(&self.site, self.is_reported, &main.subject)
                }
                FrameSource::Kept(snapshot) => Some(snapshot.clone()),
                FrameSource::Recorded(_) => return Err("cannot save: this is a recording already"),
            },
            _ => kept(&self.site, self.is_reported, &main.subject),
        };
        let mut snapshot = snapshot.ok_or("cannot save: no frame of this view is in memory")?;
        if let Some(after_ms) = after_ms {
            snapshot.drop_until(after_ms);
        }
        if snapshot.frames.is_empty() {
            return Err("cannot save: no frame has arrived since the recording began");
        }
        let permit = Arc::clone(&self.site.saving).try_acquire_owned();
        let permit = permit.map_err(|_| "a recording is being made already: try again soon")?;
        let of = Some((view.clone(), snapshot.revocation.clone()));
        let making = spawn_blocking(move || {
            let _permit = permit;
            let frames = snapshot.frames.len();
            let file = make(&view, &mut snapshot.to_record())?;
            let bytes = file.metadata()?.len();
            Ok(MadeRecording { file, bytes, frames })
        });
        self.saving = PageRecording { of, making: Some(making), ..PageRecording::default() };
        Ok(())
    }

    /// Begins to send the recording that was made.
    pub(super) async fn send_saved(&mut self, socket: &mut WebSocket) -> Result<(), Closing> {
        let Some((view, _)) = &self.saving.of else { return Ok(()) };
        match self.saving.made.take() {
            Some(Ok(MadeRecording { file, bytes, frames })) => {
                let name = view.to_string().replace('/', "-");
                say(socket, &ToPage::Saving { name, bytes, frames }).await?;
                self.saving.sending = Some((file, 0));
                self.send_piece(0, socket).await
            }
            Some(Err(error)) => {
                let error = format!("cannot make the recording: {}", chain(&error));
                say(socket, &ToPage::HistoryError { error }).await
            }
            None => Ok(()),
        }
    }

    /// Sends the next piece after the page has got piece `serial`; an empty one is the end.
    pub(super) async fn send_piece(
        &mut self,
        serial: u32,
        socket: &mut WebSocket,
    ) -> Result<(), Closing> {
        if self.saving.of.as_ref().is_some_and(|(_, revocation)| revocation.is_revoked()) {
            self.saving = PageRecording::default();
            let error = "cannot save: the privacy masks have changed".to_owned();
            return say(socket, &ToPage::HistoryError { error }).await;
        }
        let Some((file, sent)) = &mut self.saving.sending else { return Ok(()) };
        if serial != *sent {
            return Ok(());
        }
        *sent += 1;
        let mut piece = Vec::with_capacity(PIECE_BYTES + 8);
        piece.extend_from_slice(&PIECE_MAGIC);
        piece.extend_from_slice(&sent.to_le_bytes());
        let read = file.take(PIECE_BYTES as u64).read_to_end(&mut piece);
        match read {
            Ok(read) => {
                if read == 0 {
                    self.saving.sending = None;
                }
                send(socket, Message::Binary(piece.into())).await
            }
            Err(error) => {
                self.saving.sending = None;
                let error = format!("cannot read the recording again: {}", chain(&error));
                say(socket, &ToPage::HistoryError { error }).await
            }
        }
    }
}

/// The frames of `subject` that are in memory, once it is known which masks they must have.
fn kept(site: &Site, is_reported: bool, subject: &Subject) -> Option<Snapshot> {
    is_reported.then(|| site.followers.histories.snapshot(subject)).flatten()
}

fn past(frames: FrameSource) -> PaneContent {
    PaneContent::Past { playhead: Box::new(Playhead::new(frames)), reported: None }
}

impl Pane {
    fn is_revoked(&self) -> bool {
        matches!(&self.showing, PaneContent::Past { playhead, .. } if playhead.frames.is_revoked())
    }

    /// Shows the frame at the playhead.
    pub(super) async fn show_moment(
        &mut self,
        socket: &mut WebSocket,
        serial: &mut u32,
    ) -> Result<(), Closing> {
        let PaneContent::Past { playhead, reported } = &mut self.showing else {
            let reason = "nothing of this picture is in memory for this moment".to_owned();
            return self.say_state((FeedState::Ended, reason), None, socket).await;
        };
        if self.is_in_flight || playhead.frames.is_revoked() {
            return Ok(());
        }
        let (frame, moment) = match playhead.load().await {
            Ok(loaded) => loaded,
            Err(error) => {
                let error = format!("cannot show this moment: {}", chain(&error));
                return say(socket, &ToPage::HistoryError { error }).await;
            }
        };
        let is_news = reported.as_ref() != Some(&moment);
        *reported = Some(moment.clone());
        self.say_state((FeedState::Live, String::new()), None, socket).await?;
        if is_news && self.index == 0 {
            say(socket, &ToPage::Moment(moment)).await?;
        }
        self.send_frame(frame, socket, serial).await
    }
}
