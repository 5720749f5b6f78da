//! Privacy masks that a page sets, over the daemon's admin socket.

use std::path::PathBuf;

use foveate::ControlError;
use foveate::messages::clipped;
use foveate_control::{AdminRequest, order};
use foveate_core::error::chain;
use foveate_core::mask::{Mask, check_corners};
use rustix::process::geteuid;
use serde_json::Value;
use tokio::task::{JoinHandle, spawn_blocking};

use super::messages::ToPage;
use super::seats::Owner;

/// Whether a page of `owner` may set masks: its browser runs as the user of this program, who could use `foveate mask` as well. Whether
/// that user may, the daemon decides.
pub(super) fn may_mask(owner: Owner) -> bool {
    owner == Owner::User(geteuid().as_raw())
}

/// Changes masks, one at a time.
#[derive(Debug)]
pub(super) struct PageMasks {
    socket: PathBuf,
    in_flight: Option<JoinHandle<Result<Value, ControlError>>>,
}

impl PageMasks {
    pub(super) fn new(socket: PathBuf) -> Self {
        Self { socket, in_flight: None }
    }

    /// Asks the daemon to set a mask of `stream`; a mask without corners clears the one of the same name. Answers at once if that is impossible.
    pub(super) fn change(&mut self, stream: &str, mask: Mask) -> Option<ToPage> {
        let refused = |error| Some(ToPage::MaskRefused { error });
        if self.in_flight.is_some() {
            return refused("the mask before is not set yet: try again".to_owned());
        }
        let (mut clear, mut set) = (Vec::new(), Vec::new());
        if mask.points.is_empty() {
            clear.push(mask.name);
        } else if let Err(error) = check_corners(&mask.points) {
            return refused(error);
        } else {
            set.push(mask);
        }
        let stream = stream.to_owned();
        let request = AdminRequest::Mask { stream, clear_all: false, clear, set };
        let socket = self.socket.clone();
        self.in_flight = Some(spawn_blocking(move || order(&socket, &request)));
        None
    }

    /// Waits for the daemon's answer, or forever without a request. Cancel-safe.
    pub(super) async fn answer(&mut self) -> ToPage {
        let Some(in_flight) = &mut self.in_flight else { return std::future::pending().await };
        let answer = in_flight.await;
        self.in_flight = None;
        match answer {
            Ok(Ok(answer)) => ToPage::Masked {
                reason: answer["reason"].as_str().map(|reason| clipped(reason, 200)),
            },
            Ok(Err(ControlError::Refused(refusal))) => ToPage::MaskRefused { error: refusal.error },
            Ok(Err(error)) => ToPage::MaskRefused { error: chain(&error) },
            Err(error) => ToPage::MaskRefused {
                error: format!("the thread that asks the daemon has failed: {error}"),
            },
        }
    }
}
