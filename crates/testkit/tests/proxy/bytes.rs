//! Faults of connections and bytes: they work on anything that speaks TCP.

use super::{Then, connect, get, http_proxy, read_to_end, upstream};
use std::io::ErrorKind;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use turnstream_testkit::proxy::{Action, Ending, Fault, FaultProxy, Pace, Point, Rest, Rule};

/// An upstream that speaks first, then sends everything back.
async fn echo() -> FaultProxy {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let _ = stream.write_all(b"hello ").await;
                let (mut from, mut to) = stream.split();
                let _ = tokio::io::copy(&mut from, &mut to).await;
                let _ = to.shutdown().await;
            });
        }
    });
    FaultProxy::tcp(address).await.unwrap()
}

async fn say(proxy: &FaultProxy, text: &[u8]) -> (Vec<u8>, std::io::Result<()>) {
    let mut stream = connect(proxy).await;
    let _ = stream.write_all(text).await;
    let _ = stream.shutdown().await;
    read_to_end(&mut stream).await
}

#[tokio::test]
async fn without_rules_plain_tcp_passes_both_ways_with_half_closes() {
    let proxy = echo().await;
    let sent: Vec<u8> = (0..200_000_u32).flat_map(u32::to_le_bytes).collect();
    let (received, end) = say(&proxy, &sent).await;
    assert!(received == [b"hello ".as_slice(), &sent].concat());
    end.unwrap();
    let record = proxy.record();
    assert_eq!((record.connections[0].bytes_up, record.connections[0].bytes_down), (800_000, 800_006));
    assert_eq!(record.fired, []);
}

#[tokio::test]
async fn a_cut_by_fin_ends_after_exactly_the_chosen_byte_and_only_once() {
    let proxy = echo().await;
    let cut = proxy.add(Rule::new(Fault::At(Point::Byte(9), Action::Cut(Ending::Fin))));
    let (received, end) = say(&proxy, b"world").await;
    assert_eq!(received, b"hello wor");
    end.unwrap();
    assert_eq!(proxy.fired(cut), 1);
    assert_eq!(say(&proxy, b"world").await.0, b"hello world");
}

#[tokio::test]
async fn a_cut_by_rst_delivers_the_bytes_before_it_and_then_an_error() {
    let proxy = echo().await;
    proxy.add(Rule::new(Fault::At(Point::Byte(9), Action::Cut(Ending::Rst))));
    let (received, end) = say(&proxy, b"world").await;
    assert_eq!(received, b"hello wor");
    assert_eq!(end.unwrap_err().kind(), ErrorKind::ConnectionReset);
}

#[tokio::test]
async fn a_cut_by_rst_waits_until_a_slow_client_has_the_bytes_before_it() {
    let sent = vec![b'x'; 8 << 20];
    let proxy = FaultProxy::tcp(upstream(&[&sent], Then::Close).await).await.unwrap();
    let at = sent.len() as u64 - 1;
    let cut = proxy.add(Rule::new(Fault::At(Point::Byte(at), Action::Cut(Ending::Rst))));
    let mut stream = connect(&proxy).await;
    stream.write_all(b"\r\n\r\n").await.unwrap();
    let mut received = 0;
    let end = loop {
        if proxy.fired(cut) == 1 {
            // Longer in all than any fixed pause.
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        match stream.read(&mut vec![0; 64 * 1024]).await {
            Ok(0) => panic!("an ordinary end"),
            Ok(length) => received += length as u64,
            Err(error) => break error,
        }
    };
    assert_eq!((end.kind(), received), (ErrorKind::ConnectionReset, at));
}

#[tokio::test]
async fn a_cut_at_a_pattern_comes_right_after_it_even_if_it_arrives_in_pieces() {
    let pieces: [&[u8]; 3] = [b"one tw", b"o thr", b"ee"];
    let proxy = FaultProxy::tcp(upstream(&pieces, Then::Close).await).await.unwrap();
    proxy.add(Rule::new(Fault::At(Point::Pattern(b"two".to_vec()), Action::Cut(Ending::Fin))));
    assert_eq!(say(&proxy, b"\r\n\r\n").await.0, b"one two");
}

#[tokio::test]
async fn only_the_chosen_connection_is_hit() {
    let proxy = echo().await;
    proxy.add(Rule::new(Fault::At(Point::Byte(0), Action::Cut(Ending::Fin))).on_connection(2).always());
    assert_eq!(say(&proxy, b"a").await.0, b"hello a");
    assert_eq!(say(&proxy, b"b").await.0, b"");
    assert_eq!(say(&proxy, b"c").await.0, b"hello c");
}

#[tokio::test]
async fn a_refused_connection_never_reaches_the_upstream() {
    let proxy = echo().await;
    proxy.add(Rule::new(Fault::Refuse(Ending::Rst)));
    let (received, end) = say(&proxy, b"a").await;
    assert_eq!(received, b"");
    assert_eq!(end.unwrap_err().kind(), ErrorKind::ConnectionReset);
    assert_eq!(proxy.record().connections[0].bytes_up, 0);
}

#[tokio::test]
async fn with_the_door_closed_the_system_refuses_and_open_connections_live_on() {
    let proxy = echo().await;
    let mut stream = connect(&proxy).await;
    stream.read_exact(&mut [0; 6]).await.unwrap();
    proxy.stop_listening().await.unwrap();
    let refused = TcpStream::connect(proxy.address()).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
    stream.write_all(b"still").await.unwrap();
    stream.read_exact(&mut [0; 5]).await.unwrap();
    proxy.listen_again().await.unwrap();
    assert_eq!(say(&proxy, b"again").await.0, b"hello again");
}

#[tokio::test]
async fn delays_come_before_the_connect_before_the_first_byte_at_a_byte_and_per_piece() {
    let pause = Duration::from_millis(80);
    let faults = [
        Fault::DelayConnect(pause),
        Fault::At(Point::Byte(0), Action::Delay(pause)),
        Fault::At(Point::BodyByte(4), Action::Delay(pause)),
        Fault::Pace(Pace::EachChunk(pause)),
    ];
    for fault in faults {
        let proxy = http_proxy(&[b"HTTP/1.1 200 OK\r\n\r\n", b"1234", b"5678"], Then::Close).await;
        let name = format!("{fault:?}");
        let rule = proxy.add(Rule::new(fault));
        let started = Instant::now();
        assert_eq!(get(&proxy, "/").await.0, b"HTTP/1.1 200 OK\r\n\r\n12345678", "{name}");
        let pieces = if name.contains("EachChunk") { 2 } else { 1 };
        assert!(started.elapsed() >= pause * pieces, "{name} took {:?}", started.elapsed());
        assert_eq!(proxy.fired(rule), 1, "{name}");
    }
}

#[tokio::test]
async fn a_stall_holds_everything_after_it_until_it_is_released() {
    let proxy = echo().await;
    let stall = proxy.add(Rule::new(Fault::At(Point::Byte(8), Action::Stall)));
    let mut stream = connect(&proxy).await;
    stream.write_all(b"world").await.unwrap();
    proxy.wait_fired(stall, 1, Duration::from_secs(300)).await.unwrap();
    let mut first = [0; 8];
    stream.read_exact(&mut first).await.unwrap();
    assert_eq!(&first, b"hello wo");
    let more = tokio::time::timeout(Duration::from_millis(100), stream.read(&mut [0; 1])).await;
    assert!(more.is_err(), "bytes came through the stall");
    proxy.release();
    let mut rest = [0; 3];
    stream.read_exact(&mut rest).await.unwrap();
    assert_eq!(&rest, b"rld");
}

#[tokio::test]
async fn split_into_single_bytes_the_client_reads_them_in_many_pieces() {
    let proxy = echo().await;
    let pause = Duration::from_millis(10);
    let split = proxy.add(Rule::new(Fault::Pace(Pace::Split { size: 1, pause })));
    let mut stream = connect(&proxy).await;
    let mut reads: Vec<Vec<u8>> = Vec::new();
    let mut buffer = [0; 64];
    while reads.concat().len() < 6 {
        let length = stream.read(&mut buffer).await.unwrap();
        reads.push(buffer[..length].to_vec());
    }
    assert_eq!(reads.concat(), b"hello ");
    // A busy machine may join some of them.
    assert!(reads.len() >= 3, "{reads:?}");
    assert_eq!(proxy.fired(split), 1);
}

#[tokio::test]
async fn coalesced_pieces_arrive_in_one_read() {
    // Longer than any machine takes to send the pieces; the end of the upstream lets them go before that.
    let window = Duration::from_secs(60);
    let pieces: [&[u8]; 4] = [b"a", b"b", b"c", b"d"];
    let proxy = FaultProxy::tcp(upstream(&pieces, Then::Close).await).await.unwrap();
    proxy.add(Rule::new(Fault::Pace(Pace::Coalesce(window))));
    let mut stream = connect(&proxy).await;
    stream.write_all(b"\r\n\r\n").await.unwrap();
    let mut buffer = [0; 64];
    let length = stream.read(&mut buffer).await.unwrap();
    assert_eq!(&buffer[..length], b"abcd");
}

#[tokio::test]
async fn coalesced_pieces_leave_when_their_time_is_over_though_the_upstream_lives() {
    let proxy = FaultProxy::tcp(upstream(&[b"a", b"b"], Then::NextRequest).await).await.unwrap();
    proxy.add(Rule::new(Fault::Pace(Pace::Coalesce(Duration::from_millis(50)))));
    let mut stream = connect(&proxy).await;
    stream.write_all(b"\r\n\r\n").await.unwrap();
    let mut both = [0; 2];
    stream.read_exact(&mut both).await.unwrap();
    assert_eq!(&both, b"ab");
}

#[tokio::test]
async fn a_splice_puts_bytes_in_and_keeps_or_discards_the_rest() {
    for (rest, expected) in [(Rest::Keep, b"hello <x>world".as_slice()), (Rest::Discard, b"hello <x>")] {
        let proxy = echo().await;
        let splice = Action::Splice(b"<x>".to_vec(), rest);
        proxy.add(Rule::new(Fault::At(Point::BodyByte(6), splice)));
        assert_eq!(say(&proxy, b"world").await.0, expected);
    }
}

#[tokio::test]
async fn all_connections_are_cut_at_once() {
    let proxy = echo().await;
    let mut streams = [connect(&proxy).await, connect(&proxy).await];
    for stream in &mut streams {
        stream.read_exact(&mut [0; 6]).await.unwrap();
    }
    proxy.cut_all(Ending::Rst);
    for stream in &mut streams {
        assert_eq!(read_to_end(stream).await.1.unwrap_err().kind(), ErrorKind::ConnectionReset);
    }
    assert_eq!(say(&proxy, b"a").await.0, b"hello a", "later connections are not hit");
}

#[tokio::test]
async fn after_shutdown_nothing_listens_and_connections_are_closed() {
    let proxy = echo().await;
    let address = proxy.address();
    let mut stream = connect(&proxy).await;
    stream.read_exact(&mut [0; 6]).await.unwrap();
    proxy.shutdown().await;
    assert_eq!(TcpStream::connect(address).await.unwrap_err().kind(), ErrorKind::ConnectionRefused);
    assert!(read_to_end(&mut stream).await.0.is_empty());
}

#[tokio::test]
async fn a_rule_that_never_fires_is_an_error_that_shows_what_happened() {
    let proxy = echo().await;
    let rule = proxy.add(Rule::new(Fault::At(Point::Byte(1_000_000), Action::Stall)));
    assert_eq!(say(&proxy, b"a").await.0, b"hello a");
    let error = proxy.wait_fired(rule, 1, Duration::from_millis(50)).await.unwrap_err().to_string();
    assert!(error.contains("fired 0 of 1 times") && error.contains("bytes_down: 7"), "{error}");
}

#[tokio::test]
async fn an_upstream_that_is_away_resets_the_client_and_is_recorded() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let proxy = FaultProxy::tcp(address).await.unwrap();
    assert_eq!(say(&proxy, b"").await.1.unwrap_err().kind(), ErrorKind::ConnectionReset);
    let reason = proxy.record().connections[0].upstream_error.clone().unwrap();
    assert!(reason.contains(&address.to_string()), "{reason}");
}

#[tokio::test]
async fn an_upstream_on_another_machine_is_refused() {
    let error = FaultProxy::tcp("192.0.2.1:80".parse().unwrap()).await.unwrap_err();
    assert!(error.to_string().contains("192.0.2.1:80"), "{error}");
}
