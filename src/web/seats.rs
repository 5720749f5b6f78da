//! Limits open pages, and shares them among users.

use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::oneshot;

/// The user or page that holds a seat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    /// A user of this machine.
    User(u32),
    /// A machine, or a program whose user is not known, as one in another network namespace.
    Address(IpAddr),
}

impl Owner {
    /// The owner of the other end, `peer`, of a connection to `local`.
    pub(super) fn of(peer: SocketAddr, local: SocketAddr) -> Self {
        let user = peer.ip().to_canonical().is_loopback().then(|| user_of(peer, local)).flatten();
        user.map_or(Self::Address(peer.ip().to_canonical()), Self::User)
    }
}

/// The seats of a server.
#[derive(Debug)]
pub(super) struct Seats {
    most: usize,
    /// The owner of each page, the oldest first, and what is dropped when the page has to leave.
    taken: Mutex<Vec<(Owner, oneshot::Sender<()>)>>,
}

/// A page's seat, free again when it is dropped.
pub(super) struct Seat {
    seats: Arc<Seats>,
    /// Ends when another page takes the seat.
    pub(super) taken_over: oneshot::Receiver<()>,
}

impl Seats {
    /// Seats for at most `most` pages.
    pub(super) fn new(most: usize) -> Self {
        Self { most, taken: Mutex::default() }
    }

    /// A seat for a page of `owner`. When all are taken, the owner with the most pages loses its oldest page, or `owner` does if no
    /// other has more. `None` if each page has another owner.
    pub(super) fn claim(self: &Arc<Self>, owner: Owner) -> Option<Seat> {
        let mut taken = self.taken.lock();
        taken.retain(|(_, stay)| !stay.is_closed());
        if self.most <= taken.len() {
            let count = |owner| taken.iter().filter(|(other, _)| *other == owner).count();
            let own = count(owner);
            let busiest = taken.iter().map(|(owner, _)| (*owner, count(*owner)));
            let (busiest, pages) = busiest.max_by_key(|(_, pages)| *pages)?;
            if own == 0 && pages == 1 {
                return None;
            }
            let leaves = if own < pages { busiest } else { owner };
            let oldest = taken.iter().position(|(owner, _)| *owner == leaves)?;
            taken.remove(oldest);
        }
        let (stay, taken_over) = oneshot::channel();
        taken.push((owner, stay));
        Some(Seat { seats: Arc::clone(self), taken_over })
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.taken_over.close();
        self.seats.taken.lock().retain(|(_, stay)| !stay.is_closed());
    }
}

/// The user who holds the socket at `peer` that is connected to `local`, both on this machine.
fn user_of(peer: SocketAddr, local: SocketAddr) -> Option<u32> {
    // Either end may be a socket of IPv6 that talks IPv4.
    let both = [(as_v4(peer), as_v4(local)), (as_v6(peer), as_v6(local))];
    ["/proc/net/tcp", "/proc/net/tcp6"].into_iter().find_map(|path| {
        let table = fs::read_to_string(path).ok()?;
        both.iter().find_map(|(peer, local)| user_in(&table, *peer, *local))
    })
}

/// The user of a socket in a table of the kernel, as `proc_pid_net(5)` describes it.
fn user_in(table: &str, here: SocketAddr, there: SocketAddr) -> Option<u32> {
    let (here, there) = (in_hex(here), in_hex(there));
    table.lines().find_map(|line| {
        let mut words = line.split_ascii_whitespace().skip(1);
        let is_it = words.next()? == here && words.next()? == there;
        // State, queues, timer and retransmissions come before.
        if is_it { words.nth(4)?.parse().ok() } else { None }
    })
}

/// An address as the kernel's tables have it: words of 32 bits in the machine's order.
fn in_hex(address: SocketAddr) -> String {
    let octets = match address.ip() {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    };
    let words =
        octets.as_chunks().0.iter().map(|word| format!("{:08X}", u32::from_ne_bytes(*word)));
    format!("{}:{:04X}", words.collect::<String>(), address.port())
}

/// The address as IPv4, if it is an IPv4 address in IPv6 form.
fn as_v4(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

fn as_v6(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        IpAddr::V6(ip) => ip,
    };
    SocketAddr::new(ip.into(), address.port())
}
