//! The crowd: connections that do nothing, little, or harm.

use super::Plan;
use fastrand::Rng;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

/// The pause of a slow client between two bytes.
const SLOW: Duration = Duration::from_millis(50);
/// The pause of a hostile client between two attacks.
const BETWEEN_ATTACKS: Duration = Duration::from_millis(100);
/// How long a hostile client that stops in the middle holds its connection.
const HOLD: Duration = Duration::from_secs(3);

/// The crowd, until it is dropped.
pub(super) struct Crowd {
    _idle: Vec<TcpStream>,
    /// Dropping it ends them.
    _clients: JoinSet<()>,
    hostile_connections: Arc<AtomicUsize>,
}

/// What a client of the crowd needs.
#[derive(Clone)]
struct Target {
    address: SocketAddr,
    token: String,
}

impl Crowd {
    /// Gathers the crowd of a plan.
    pub(super) async fn gather(plan: &Plan) -> Self {
        let target = Target { address: plan.address, token: plan.token.clone() };
        let hostile_connections = Arc::new(AtomicUsize::new(0));
        let mut clients = JoinSet::new();
        for number in 0..plan.slow {
            clients.spawn(target.clone().slow(number));
        }
        for number in 0..plan.hostile {
            clients.spawn(target.clone().hostile(number, hostile_connections.clone()));
        }
        let mut idle = Vec::with_capacity(plan.idle);
        for number in 0..plan.idle {
            let socket = TcpStream::connect(plan.address).await;
            idle.push(socket.unwrap_or_else(|error| panic!("idle connection {number}: {error}")));
        }
        Self { _idle: idle, _clients: clients, hostile_connections }
    }

    /// How many connections the hostile clients opened so far.
    pub(super) fn hostile_connections(&self) -> usize {
        self.hostile_connections.load(Ordering::Relaxed)
    }
}

impl Target {
    /// Sends or reads a byte at a time, again and again. The gateway may close the connection at any time.
    async fn slow(self, number: usize) {
        loop {
            let gone = match number % 4 {
                0 => self.dribble(&self.request("GET /v1/agents", "")).await,
                1 => {
                    let head = self.request(
                        "POST /v1/sessions",
                        "Content-Type: application/json\r\nContent-Length: 400\r\n",
                    );
                    self.dribble(&(head + &" ".repeat(400))).await
                }
                2 => self.sip("GET /v1/events").await,
                _ => self.sip("GET /v1/sessions").await,
            };
            // A connection that breaks is a part of the soak.
            drop(gone);
            tokio::time::sleep(SLOW).await;
        }
    }

    /// Sends a request byte by byte.
    async fn dribble(&self, request: &str) -> io::Result<()> {
        let mut socket = TcpStream::connect(self.address).await?;
        for byte in request.bytes() {
            socket.write_all(&[byte]).await?;
            tokio::time::sleep(SLOW).await;
        }
        Ok(())
    }

    /// Reads an answer byte by byte.
    async fn sip(&self, what: &str) -> io::Result<()> {
        let mut socket = TcpStream::connect(self.address).await?;
        socket.write_all(self.request(what, "").as_bytes()).await?;
        while socket.read(&mut [0; 1]).await? > 0 {
            tokio::time::sleep(SLOW).await;
        }
        Ok(())
    }

    /// Attacks again and again.
    async fn hostile(self, number: usize, connections: Arc<AtomicUsize>) {
        let mut rng = Rng::with_seed(number as u64);
        loop {
            connections.fetch_add(1, Ordering::Relaxed);
            // An attack that is refused is a part of the soak.
            drop(self.attack(number, &mut rng).await);
            tokio::time::sleep(BETWEEN_ATTACKS).await;
        }
    }

    async fn attack(&self, number: usize, rng: &mut Rng) -> io::Result<()> {
        let mut socket = TcpStream::connect(self.address).await?;
        match number % 6 {
            0 => {
                let garbage: Vec<u8> = (0..rng.usize(1..4_096)).map(|_| rng.u8(..)).collect();
                socket.write_all(&garbage).await?;
                // There is no answer if the garbage could be the beginning of a request.
                drop(tokio::time::timeout(HOLD, socket.read(&mut [0; 512])).await);
            }
            1 => {
                let head = self.request("GET /v1/health", "");
                socket.write_all(&head.as_bytes()[..rng.usize(1..head.len() - 4)]).await?;
                tokio::time::sleep(HOLD).await;
            }
            2 => {
                let length = 9 << 20;
                let headers = format!("Content-Type: application/json\r\nContent-Length: {length}\r\n");
                socket.write_all(self.request("POST /v1/sessions", &headers).as_bytes()).await?;
                socket.write_all(&vec![b' '; length - 1]).await?;
                tokio::time::sleep(HOLD).await;
            }
            3 => {
                socket.write_all(b"GET /v1/health HTTP/1.1\r\n").await?;
                loop {
                    socket
                        .write_all(b"X-Flood: xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\r\n")
                        .await?;
                }
            }
            4 => {
                socket.write_all(self.request("GET /v1/sessions", "").as_bytes()).await?;
                socket.set_zero_linger()?;
            }
            _ => {
                socket.write_all(self.request("GET /v1/events", "").as_bytes()).await?;
                tokio::time::sleep(HOLD).await;
                socket.set_zero_linger()?;
            }
        }
        Ok(())
    }

    /// The head of a request.
    fn request(&self, what: &str, headers: &str) -> String {
        format!("{what} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\n{headers}\r\n", self.token)
    }
}
