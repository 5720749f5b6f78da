//! What the daemon counts, for Prometheus: a thread of its own answers whoever asks for `/metrics`.

use std::fmt::Write as _;
use std::net::SocketAddr;

use self::exporter::{Body, Exporter};
use super::DaemonError;
use crate::control::tally::Tally;

mod exporter;
mod families;

/// Metrics that are served until this is dropped.
#[derive(Debug)]
pub(super) struct Metrics {
    _exporter: Exporter,
}

impl Metrics {
    /// Serves what `tally` reads at `address`.
    ///
    /// # Errors
    ///
    /// If somebody else listens there, or it is no address of this machine.
    pub(super) fn serve(address: SocketAddr, tally: Tally) -> Result<Self, DaemonError> {
        let refused = |source| DaemonError::Metrics { address, source };
        let exporter = Exporter::bind(address, move || page(&tally)).map_err(refused)?;
        tracing::info!(url = %format_args!("http://{}/metrics", exporter.address()), "metrics");
        Ok(Self { _exporter: exporter })
    }
}

/// Everything that there is to tell, as Prometheus reads it.
fn page(tally: &Tally) -> Body {
    let families = families::families(&tally.all());
    let mut text = String::new();
    match prometheus::TextEncoder::new().encode_utf8(&families, &mut text) {
        Ok(()) => Ok(text),
        // Only families without samples are refused, and there are none.
        Err(error) => {
            tracing::error!(%error, "the metrics cannot be written");
            text.clear();
            let _ = writeln!(text, "the metrics cannot be written: {error}");
            Err(text)
        }
    }
}
