//! A reader that takes its time: nothing piles up in the gateway, because its upstream has to wait.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use socket2::{Domain, Socket, Type};

use crate::harness::wire::{PATIENCE, Wire};
use crate::harness::{Client, Gateway, Policy, Request, eventually};

const STREAM_BYTES: u64 = 1 << 30;
/// More than all sockets on the way hold (the system gives each up to 6 MiB), and far less than the
/// stream.
const TAKEN_BYTES_MAX: u64 = 48 << 20;
const MEMORY_GROWTH_MAX: usize = 8 << 20;

/// A server that answers each request with a stream of a gibibyte, as fast as it is taken.
pub(super) struct Torrent {
    pub(super) address: SocketAddr,
    /// What was taken of all streams so far.
    taken: Arc<AtomicU64>,
    /// Whether the last stream was broken off by its reader.
    broken: Arc<AtomicBool>,
}

impl Torrent {
    pub(super) fn start() -> Torrent {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let (taken, broken) = (Arc::<AtomicU64>::default(), Arc::<AtomicBool>::default());
        let (counting, breaking) = (Arc::clone(&taken), Arc::clone(&broken));
        thread::spawn(move || {
            while let Ok((stream, _)) = listener.accept() {
                let (counting, breaking) = (Arc::clone(&counting), Arc::clone(&breaking));
                thread::spawn(move || {
                    let failed = pour(stream, &counting).is_err();
                    breaking.store(failed, Ordering::SeqCst);
                });
            }
        });
        Torrent {
            address,
            taken,
            broken,
        }
    }

    pub(super) fn policy(&self) -> Policy {
        Policy::to_url(&format!("http://{}/mcp", self.address))
    }

    pub(super) fn taken(&self) -> u64 {
        self.taken.load(Ordering::SeqCst)
    }

    /// Waits until the stream moves no further.
    pub(super) fn wait_for_standstill(&self) -> u64 {
        let mut last = (0, 0);
        eventually("a stream that stands still", || {
            thread::sleep(Duration::from_millis(50));
            let taken = self.taken();
            last = if taken == last.0 {
                (taken, last.1 + 1)
            } else {
                (taken, 0)
            };
            taken > 0 && last.1 >= 10
        });
        last.0
    }

    /// Whether the last stream was broken off by its reader.
    pub(super) fn is_broken(&self) -> bool {
        self.broken.load(Ordering::SeqCst)
    }

    /// Waits until the stream's reader has gone; gives how long that took.
    pub(super) fn wait_for_break(&self) -> Duration {
        eventually("the end of the upstream's answer", || self.is_broken())
    }
}

fn pour(mut stream: TcpStream, taken: &AtomicU64) -> std::io::Result<()> {
    // All requests of these tests come in one piece.
    let _ = stream.read(&mut [0; 16 << 10])?;
    stream.write_all(
        b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n",
    )?;
    let event = format!("data: {}\n\n", "x".repeat((16 << 10) - 8));
    let chunk = format!("{:x}\r\n{event}\r\n", event.len()).into_bytes();
    let mut sent = 0;
    while sent < STREAM_BYTES {
        let part = stream.write(&chunk[sent as usize % chunk.len()..])? as u64;
        sent += part;
        taken.fetch_add(part, Ordering::SeqCst);
    }
    Ok(())
}

/// A client whose socket holds next to nothing.
pub(super) fn narrow(gateway: &Gateway) -> Client {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    socket
        .connect_timeout(&gateway.address.into(), PATIENCE)
        .unwrap();
    Client {
        wire: Wire::new(socket.into(), PATIENCE),
    }
}

#[test]
fn a_slow_reader_costs_bounded_memory() {
    let torrent = Torrent::start();
    // Comments and a tracker of events change nothing about that.
    for keep_alive in ["off", "10ms"] {
        let policy = torrent.policy();
        let policy = policy.set("/routes/0/streams/keep_alive", keep_alive.into());
        let gateway = Gateway::start(&policy);
        let (memory, taken) = (gateway.memory(), torrent.taken());
        let mut client = narrow(&gateway);
        client.send(&Request::call("torrent"));
        client.read_head();
        for _ in 0..4 {
            client.wire.exactly(1024).unwrap();
            thread::sleep(Duration::from_secs(1));
        }
        let standstill = torrent.wait_for_standstill() - taken;
        let growth = gateway.memory().saturating_sub(memory);
        println!(
            "of a stream of 1 GiB whose reader took 4 KiB, the upstream could send {} KiB; the \
             gateway grew by {} KiB",
            standstill >> 10,
            growth >> 10
        );
        assert!(
            standstill < TAKEN_BYTES_MAX,
            "{standstill} bytes were taken"
        );
        assert!(growth < MEMORY_GROWTH_MAX, "{growth} bytes more memory");
        drop(client);
        torrent.wait_for_break();
    }
}
