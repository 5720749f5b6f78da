//! A client in Rust steers through a restart of the real `foveated`: all errors of that time are transient.

use std::path::Path;

use foveate::ControlError;
use foveate::client::Client;
use foveate::messages::{Look, RefusalReason, ViewName};
use rustix::process::Signal;
use testkit::daemon::Place;
use testkit::scene::view;
use testkit::wait;

#[test]
fn steering_through_a_restart_meets_transient_errors_only() {
    let config = format!("[[stream]]\nname = 'camera'\nsource = 'test'\n{}", view("main", ""));
    for signal in [Signal::TERM, Signal::KILL] {
        let place = Place::new();
        let mut steering = Steering { client: None, error: None };
        let first = place.daemon(&config);
        wait::until("the first daemon is there", || steering.look(&place.socket()));
        first.process.signal(signal);
        wait::until("the daemon is away", || !steering.look(&place.socket()));
        first.process.finish();
        let _second = place.daemon(&config);
        wait::until("the second daemon is there", || steering.look(&place.socket()));
        assert!(steering.error.is_none(), "{signal:?}: {:?}", steering.error);
    }
}

/// A client that connects again when it must.
struct Steering {
    client: Option<Client>,
    /// The first error that is not transient.
    error: Option<ControlError>,
}

impl Steering {
    /// Looks at a point, and returns whether the daemon is there.
    fn look(&mut self, socket: &Path) -> bool {
        let name: ViewName = "camera/main".parse().unwrap();
        let client = self.client.take().map_or_else(|| Client::connect(socket), Ok);
        let looked = client.and_then(|mut client| {
            let looked = client.look(Look::at(&name, 8.0, 8.0));
            // After any other error the connection is of no use.
            if matches!(looked, Ok(_) | Err(ControlError::Refused(_))) {
                self.client = Some(client);
            }
            looked
        });
        match looked {
            Ok(_) => true,
            // It is there, and asked more often than a client may.
            Err(ControlError::Refused(refusal)) if refusal.reason == RefusalReason::RateLimit => {
                true
            }
            Err(error) => {
                if !error.is_transient() {
                    self.error.get_or_insert(error);
                }
                false
            }
        }
    }
}
