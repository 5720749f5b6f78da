//! Steering of views by a page, over a control connection of its own: the page's lease ends with the connection.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};

use super::messages::ToPage;
use foveate::ControlError;
use foveate::client::Client;
use foveate::messages::{Look, RefusalReason, ViewName};
use foveate_core::error::chain;

/// How often a look is renewed, so that the lease does not expire and the policy does not take over. A small part of the
/// default limits of both.
const RENEWAL: Duration = Duration::from_millis(400);

#[derive(Clone, Debug)]
enum SteeringCommand {
    Look(Box<Look>),
    Release { view: ViewName },
}

/// Sends one command at a time; of those that arrive meanwhile, the newest wins.
#[derive(Debug)]
pub(super) struct PageSteering {
    socket: PathBuf,
    /// `None` before the first command, and while one is in flight.
    client: Option<Client>,
    next: Option<SteeringCommand>,
    in_flight: Option<InFlight>,
    /// The look to renew until the next command.
    held: Option<HeldGaze>,
}

#[derive(Debug)]
struct InFlight {
    request: JoinHandle<(Option<Client>, Result<ToPage, ControlError>)>,
    command: SteeringCommand,
    /// The page knows its result already: it is a renewal.
    is_reported: bool,
    is_cancelled: bool,
}

#[derive(Debug)]
struct HeldGaze {
    command: SteeringCommand,
    renew_at: Instant,
    is_reported: bool,
}

impl PageSteering {
    pub(super) fn new(socket: PathBuf) -> Self {
        Self { socket, client: None, next: None, in_flight: None, held: None }
    }

    /// Makes a view look somewhere until the next command.
    pub(super) fn look(&mut self, look: Look) {
        self.submit(SteeringCommand::Look(Box::new(look)));
    }

    /// Returns `view` to its policy, and ends the lease.
    pub(super) fn release(&mut self, view: &ViewName) {
        self.submit(SteeringCommand::Release { view: view.clone() });
    }

    /// Closes the connection, which ends all leases. Returns whether there was anything to release.
    pub(super) fn release_all(&mut self) -> bool {
        let is_steering = self.in_flight.as_ref().is_some_and(|request| !request.is_cancelled)
            || self.held.is_some()
            || self.client.is_some();
        (self.client, self.next, self.held) = (None, None, None);
        if let Some(in_flight) = &mut self.in_flight {
            in_flight.is_cancelled = true;
        }
        is_steering
    }

    /// Waits for the answer to a command, or forever without one, and returns its message for the page, if any. Cancel-safe.
    pub(super) async fn answer(&mut self) -> Option<ToPage> {
        let Some(in_flight) = &mut self.in_flight else {
            match &self.held {
                Some(held) => sleep_until(held.renew_at).await,
                None => std::future::pending().await,
            }
            self.renew();
            return None;
        };
        let finished = (&mut in_flight.request).await;
        let InFlight { command, is_reported, is_cancelled, .. } = self.in_flight.take()?;
        let answer = match finished {
            Ok((client, answer)) if !is_cancelled => {
                self.client = client;
                Some(self.settle(command, is_reported, answer))
            }
            Ok(_) => None,
            Err(error) => {
                tracing::error!(%error, "the thread of a command to the daemon panicked");
                None
            }
        };
        if let Some(next) = self.next.take() {
            self.send(next, false);
        }
        let is_news = |answer: &ToPage| !is_reported || matches!(answer, ToPage::Refused { .. });
        answer.flatten().filter(is_news)
    }

    fn submit(&mut self, command: SteeringCommand) {
        self.held = None;
        if self.in_flight.is_some() {
            self.next = Some(command);
        } else {
            self.send(command, false);
        }
    }

    fn renew(&mut self) {
        if let Some(HeldGaze { command, is_reported, .. }) = self.held.take() {
            self.send(command, is_reported);
        }
    }

    fn send(&mut self, command: SteeringCommand, is_reported: bool) {
        let (socket, mut client) = (self.socket.clone(), self.client.take());
        let sent = command.clone();
        let request = tokio::task::spawn_blocking(move || {
            let answer = request_with_retry(&mut client, &socket, &sent);
            (client, answer)
        });
        self.in_flight = Some(InFlight { request, command, is_reported, is_cancelled: false });
    }

    /// Schedules the renewal of a look, and returns the message for the page.
    fn settle(
        &mut self,
        command: SteeringCommand,
        is_reported: bool,
        answer: Result<ToPage, ControlError>,
    ) -> Option<ToPage> {
        let is_look = matches!(command, SteeringCommand::Look(_));
        let renew_at = Instant::now() + RENEWAL;
        let (answer, is_held) = match answer {
            Ok(answer) => (Some(answer), is_look),
            Err(ControlError::Refused(refusal)) => match refusal.reason {
                // Retried with the renewal: the pointer moves fast, or the camera stands still.
                RefusalReason::RateLimit | RefusalReason::Busy => (None, true),
                reason => {
                    (Some(ToPage::Refused { reason: Some(reason), error: refusal.error }), false)
                }
            },
            Err(error) => {
                self.client = None;
                (Some(ToPage::Refused { reason: None, error: chain(&error) }), false)
            }
        };
        if is_held && self.next.is_none() {
            let is_reported = is_reported || answer.is_some();
            self.held = Some(HeldGaze { command, renew_at, is_reported });
        }
        answer
    }
}

/// Sends a command over the existing connection, or over a new one if the daemon has closed it.
fn request_with_retry(
    client: &mut Option<Client>,
    socket: &Path,
    command: &SteeringCommand,
) -> Result<ToPage, ControlError> {
    if let Some(client) = client {
        match request(client, command) {
            Err(ControlError::Disconnected) => {}
            answer => return answer,
        }
    }
    request(client.insert(Client::connect(socket)?), command)
}

fn request(client: &mut Client, command: &SteeringCommand) -> Result<ToPage, ControlError> {
    match command {
        SteeringCommand::Look(look) => {
            client.look(Look::clone(look)).map(|looking| ToPage::Looking { points: looking.points })
        }
        SteeringCommand::Release { view } => client.release(view).map(|()| ToPage::Released),
    }
}
