//! How clients take what is there for them: slowly, in the end, or not at all; and what the log says
//! of each.

mod blocked;
mod deadline;
mod slow;
mod windows;

use std::iter::once;

use socket2::{Domain, Socket, Type};

use crate::harness::wire::{PATIENCE, Wire};
use crate::harness::{Client, Gateway, Play};

/// The end of an answer that its client took nothing of for too long.
const UNTAKEN: &str = "limit:listen.write_idle_timeout";

/// A client whose socket is given so much room.
fn narrow(gateway: &Gateway, bytes: usize) -> Client {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.set_recv_buffer_size(bytes).unwrap();
    socket
        .connect_timeout(&gateway.address.into(), PATIENCE)
        .unwrap();
    Client {
        wire: Wire::new(socket.into(), PATIENCE),
    }
}

/// The steps of a stream with so many events of so many bytes, without its end.
fn events(count: usize, bytes: usize) -> Vec<Play> {
    let event = format!("data: {}\n\n", "x".repeat(bytes - "data: \n\n".len()));
    once(Play::sse_head())
        .chain(std::iter::repeat_n(Play::chunk(event), count))
        .collect()
}
