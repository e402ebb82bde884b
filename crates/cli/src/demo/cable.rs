//! The connection between the client and the gateway: a relay that can be cut.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

/// A relay on loopback. Dropping it ends every connection.
pub(super) struct Cable {
    address: SocketAddr,
    gateway: Arc<Mutex<SocketAddr>>,
    is_cut: watch::Sender<bool>,
    relaying: JoinHandle<()>,
}

impl Cable {
    /// A relay to this gateway.
    pub(super) async fn lay(gateway: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let gateway = Arc::new(Mutex::new(gateway));
        let (is_cut, cuts) = watch::channel(false);
        let relaying = tokio::spawn(accept(listener, Arc::clone(&gateway), cuts));
        Ok(Self { address, gateway, is_cut, relaying })
    }

    /// The address for the client.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// New connections lead to this gateway.
    pub(super) fn lead_to(&self, gateway: SocketAddr) {
        *self.gateway.lock().unwrap_or_else(PoisonError::into_inner) = gateway;
    }

    /// Resets every connection, and refuses new ones until it is mended.
    pub(super) fn cut(&self) {
        self.is_cut.send_replace(true);
    }

    /// Lets new connections through.
    pub(super) fn mend(&self) {
        self.is_cut.send_replace(false);
    }
}

impl Drop for Cable {
    fn drop(&mut self) {
        self.relaying.abort();
    }
}

async fn accept(listener: TcpListener, gateway: Arc<Mutex<SocketAddr>>, cuts: watch::Receiver<bool>) {
    let mut connections = JoinSet::new();
    loop {
        // A client that left at once is no reason to stop.
        let Ok((client, _)) = listener.accept().await else { continue };
        let address = *gateway.lock().unwrap_or_else(PoisonError::into_inner);
        connections.spawn(relay(client, address, cuts.clone()));
        while connections.try_join_next().is_some() {}
    }
}

async fn relay(mut client: TcpStream, gateway: SocketAddr, mut cuts: watch::Receiver<bool>) {
    let relayed = async {
        let mut server = TcpStream::connect(gateway).await?;
        // Events are small, and a person looks on.
        drop((client.set_nodelay(true), server.set_nodelay(true)));
        tokio::io::copy_bidirectional(&mut client, &mut server).await
    };
    let is_whole = tokio::select! {
        biased;
        _ = cuts.wait_for(|is_cut| *is_cut) => false,
        relayed = relayed => relayed.is_ok(),
    };
    if !is_whole {
        // With a linger of zero the kernel answers the close with a reset.
        drop(client.set_zero_linger());
    }
}

#[cfg(test)]
mod tests {
    use super::Cable;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};

    #[tokio::test]
    async fn a_cut_cable_resets_its_connections_and_takes_new_ones_when_it_is_mended() {
        let gateway = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let cable = Cable::lay(gateway.local_addr().unwrap()).await.unwrap();
        let mut client = TcpStream::connect(cable.address()).await.unwrap();
        let (mut server, _) = gateway.accept().await.unwrap();
        server.write_all(b"one").await.unwrap();
        let mut bytes = [0; 3];
        client.read_exact(&mut bytes).await.unwrap();
        assert_eq!(&bytes, b"one");
        cable.cut();
        let error = client.read(&mut bytes).await.unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
        let mut refused = TcpStream::connect(cable.address()).await.unwrap();
        assert!(!matches!(refused.read(&mut bytes).await, Ok(1..)));
        cable.mend();
        let mut client = TcpStream::connect(cable.address()).await.unwrap();
        let (mut server, _) = gateway.accept().await.unwrap();
        server.write_all(b"two").await.unwrap();
        client.read_exact(&mut bytes).await.unwrap();
        assert_eq!(&bytes, b"two");
    }
}
