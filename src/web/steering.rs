//! Where a page looks: commands to the daemon, over a connection of the page's own, with which its lease ends.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};

use super::messages::ToPage;
use foveate::ControlError;
use foveate::client::Client;
use foveate::messages::{Look, RefusalReason, ViewName};
use foveate_core::error::chain;

/// How often a view is told again where to look: a lease ends, and a policy takes over, after a silence. A small part
/// of what either takes, unless a configuration says otherwise.
const RENEWAL: Duration = Duration::from_millis(400);

/// What a page wants of a view.
#[derive(Clone, Debug)]
enum Command {
    Look { view: ViewName, x: f64, y: f64 },
    Release { view: ViewName },
}

/// Sends one command after the other; of those that come meanwhile the newest wins.
#[derive(Debug)]
pub(super) struct Steering {
    socket: PathBuf,
    /// `None` before the first command, and while one is on its way.
    client: Option<Client>,
    next: Option<Command>,
    under_way: Option<UnderWay>,
    /// What the view is told again and again, until the page says something else.
    held: Option<Held>,
}

#[derive(Debug)]
struct UnderWay {
    asked: JoinHandle<(Option<Client>, Result<ToPage, ControlError>)>,
    command: Command,
    /// The page has been told of it before.
    is_told: bool,
    /// The page does not want it any more.
    is_let_go: bool,
}

#[derive(Debug)]
struct Held {
    command: Command,
    renew_at: Instant,
    /// The page has been told of it.
    is_told: bool,
}

impl Steering {
    /// Nothing is steered yet.
    pub(super) fn new(socket: PathBuf) -> Self {
        Self { socket, client: None, next: None, under_way: None, held: None }
    }

    /// Makes `view` look at a point, in pixels, until something else is said.
    pub(super) fn look(&mut self, view: &ViewName, x: f64, y: f64) {
        self.want(Command::Look { view: view.clone(), x, y });
    }

    /// Gives `view` back to its policy, and to other clients.
    pub(super) fn release(&mut self, view: &ViewName) {
        self.want(Command::Release { view: view.clone() });
    }

    /// Hangs up: whatever was steered is free. Says whether anything was.
    pub(super) fn let_go(&mut self) -> bool {
        let is_steering = self.under_way.as_ref().is_some_and(|under_way| !under_way.is_let_go)
            || self.held.is_some()
            || self.client.is_some();
        (self.client, self.next, self.held) = (None, None, None);
        if let Some(under_way) = &mut self.under_way {
            under_way.is_let_go = true;
        }
        is_steering
    }

    /// Waits until a command has been answered, and returns what the page is to be told of it; for ever where nothing
    /// is steered. It may be given up and called again.
    pub(super) async fn answer(&mut self) -> Option<ToPage> {
        let Some(under_way) = &mut self.under_way else {
            match &self.held {
                Some(held) => sleep_until(held.renew_at).await,
                None => std::future::pending().await,
            }
            self.renew();
            return None;
        };
        let asked = (&mut under_way.asked).await;
        let UnderWay { command, is_told, is_let_go, .. } = self.under_way.take()?;
        let answer = match asked {
            Ok((client, answer)) if !is_let_go => {
                self.client = client;
                Some(self.settle(command, is_told, answer))
            }
            Ok(_) => None,
            Err(error) => {
                tracing::error!(%error, "a command to the daemon has not been finished");
                None
            }
        };
        if let Some(next) = self.next.take() {
            self.send(next, false);
        }
        let is_news = |answer: &ToPage| !is_told || matches!(answer, ToPage::Refused { .. });
        answer.flatten().filter(is_news)
    }

    fn want(&mut self, command: Command) {
        self.held = None;
        if self.under_way.is_some() {
            self.next = Some(command);
        } else {
            self.send(command, false);
        }
    }

    fn renew(&mut self) {
        if let Some(Held { command, is_told, .. }) = self.held.take() {
            self.send(command, is_told);
        }
    }

    fn send(&mut self, command: Command, is_told: bool) {
        let (socket, mut client) = (self.socket.clone(), self.client.take());
        let asking = command.clone();
        let asked = tokio::task::spawn_blocking(move || {
            let answer = ask_again(&mut client, &socket, &asking);
            (client, answer)
        });
        self.under_way = Some(UnderWay { asked, command, is_told, is_let_go: false });
    }

    /// Notes what an answer means for later, and puts it into words for the page.
    fn settle(
        &mut self,
        command: Command,
        is_told: bool,
        answer: Result<ToPage, ControlError>,
    ) -> Option<ToPage> {
        let is_look = matches!(command, Command::Look { .. });
        let renew_at = Instant::now() + RENEWAL;
        let (answer, is_held) = match answer {
            Ok(answer) => (Some(answer), is_look),
            Err(ControlError::Refused(refusal)) => match refusal.reason {
                // A hand that moves fast, or a camera that stands still: it is said once more.
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
            let is_told = is_told || answer.is_some();
            self.held = Some(Held { command, renew_at, is_told });
        }
        answer
    }
}

/// Asks over the connection there is; where the daemon has closed that, once more over another.
fn ask_again(
    client: &mut Option<Client>,
    socket: &Path,
    command: &Command,
) -> Result<ToPage, ControlError> {
    if let Some(client) = client {
        match ask(client, command) {
            Err(ControlError::Disconnected) => {}
            answer => return answer,
        }
    }
    ask(client.insert(Client::connect(socket)?), command)
}

fn ask(client: &mut Client, command: &Command) -> Result<ToPage, ControlError> {
    match command {
        Command::Look { view, x, y } => {
            let looking = client.look(Look::at(view, *x, *y))?;
            Ok(ToPage::Looking { x: looking.x, y: looking.y })
        }
        Command::Release { view } => client.release(view).map(|()| ToPage::Released),
    }
}
