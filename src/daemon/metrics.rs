//! Metrics for Prometheus: a thread of its own answers requests for `/metrics`.

use std::net::SocketAddr;
use std::sync::Arc;

pub use self::families::families;
use self::server::MetricsServer;
use super::DaemonError;
use foveate_server::snapshot::StatsSource;

mod families;
mod server;

/// Serves what `stats` reads at `address`, also known as `names`, until the server is dropped.
///
/// # Errors
///
/// If the address is in use, or not an address of this machine.
pub(super) fn serve(
    address: SocketAddr,
    names: &[String],
    stats: Arc<StatsSource>,
) -> Result<MetricsServer, DaemonError> {
    let page = move || families(&stats.snapshot()).text();
    let refused = |source| DaemonError::Metrics { address, source };
    let server = MetricsServer::bind(address, names, page).map_err(refused)?;
    tracing::info!(url = %format_args!("http://{}/metrics", server.address()), "metrics");
    Ok(server)
}
