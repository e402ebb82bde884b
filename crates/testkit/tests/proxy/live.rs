//! Rules that come and go in the middle of an event stream.

use super::{connect, read_until, request};
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use turnstream_testkit::proxy::{Action, Edit, Ending, EventMatch, Fault, FaultProxy, Point, Rule};

/// An event stream into which the test writes as it goes.
struct Stream {
    proxy: FaultProxy,
    client: TcpStream,
    upstream: mpsc::UnboundedSender<String>,
}

async fn open() -> Stream {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (upstream, mut texts) = mpsc::unbounded_channel::<String>();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        read_until(&mut stream, b"\r\n\r\n").await;
        let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
        stream.write_all(head.as_bytes()).await.unwrap();
        while let Some(text) = texts.recv().await {
            let chunk = format!("{:x}\r\n{text}\r\n", text.len());
            if stream.write_all(chunk.as_bytes()).await.is_err() {
                return;
            }
        }
    });
    let proxy = FaultProxy::http(address).await.unwrap();
    let mut client = connect(&proxy).await;
    request(&mut client, "/events").await;
    read_until(&mut client, b"\r\n\r\n").await;
    Stream { proxy, client, upstream }
}

impl Stream {
    fn send(&self, text: &str) {
        self.upstream.send(text.to_owned()).unwrap();
    }

    /// The content of the next chunk.
    async fn next(&mut self) -> String {
        let read = async {
            let size = read_until(&mut self.client, b"\r\n").await;
            let size = usize::from_str_radix(std::str::from_utf8(&size).unwrap().trim(), 16).unwrap();
            let mut content = vec![0; size + 2];
            tokio::io::AsyncReadExt::read_exact(&mut self.client, &mut content).await.unwrap();
            String::from_utf8(content[..size].to_vec()).unwrap()
        };
        tokio::time::timeout(Duration::from_secs(300), read).await.expect("no chunk within 300 s")
    }
}

#[tokio::test]
async fn without_event_rules_half_an_event_is_passed_on_at_once() {
    let mut stream = open().await;
    stream.send("data: hal");
    assert_eq!(stream.next().await, "data: hal");
    stream.send("f\n\n");
    assert_eq!(stream.next().await, "f\n\n");
}

#[tokio::test]
async fn a_rule_added_in_the_middle_of_an_event_holds_from_the_next() {
    let mut stream = open().await;
    stream.send("data: on");
    assert_eq!(stream.next().await, "data: on");
    let rule = stream.proxy.add(Rule::new(Fault::Event(EventMatch::new(|_| true), Edit::Drop)));
    stream.send("e\n\ndata: two\n\ndata: three\n\n");
    assert_eq!(stream.next().await, "e\n\ndata: three\n\n");
    assert_eq!(stream.proxy.fired(rule), 1);
}

#[tokio::test]
async fn events_are_numbered_over_the_whole_response_whenever_the_rule_came() {
    let mut stream = open().await;
    stream.send("data: 1\n\ndata: 2\n");
    assert_eq!(stream.next().await, "data: 1\n\ndata: 2\n");
    stream.send("\n");
    assert_eq!(stream.next().await, "\n");
    stream.proxy.add(Rule::new(Fault::Event(EventMatch::nth(4), Edit::Drop)));
    stream.send("data: 3\n\ndata: 4\n\ndata: 5\n\n");
    assert_eq!(stream.next().await, "data: 3\n\ndata: 5\n\n");
}

#[tokio::test]
async fn a_removed_rule_fires_no_more() {
    let mut stream = open().await;
    let rule = stream.proxy.add(Rule::new(Fault::Event(EventMatch::new(|_| true), Edit::Drop)).always());
    stream.send("data: 1\n\n");
    stream.proxy.wait_fired(rule, 1, Duration::from_secs(300)).await.unwrap();
    stream.proxy.remove(rule);
    stream.send("data: 2\n\n");
    assert_eq!(stream.next().await, "data: 2\n\n");
}

#[tokio::test]
async fn a_stream_can_be_stalled_released_and_then_cut_while_it_runs() {
    let mut stream = open().await;
    stream.send("data: 1\n\n");
    stream.next().await;
    let point = Point::AfterEvent(EventMatch::containing("2"));
    let stall = stream.proxy.add(Rule::new(Fault::At(point, Action::Stall)));
    stream.send("data: 2\n\ndata: 3\n\n");
    assert_eq!(stream.next().await, "data: 2\n\n");
    stream.proxy.wait_fired(stall, 1, Duration::from_secs(300)).await.unwrap();
    stream.proxy.release();
    assert_eq!(stream.next().await, "data: 3\n\n");
    stream.proxy.cut_all(Ending::Fin);
    let (rest, end) = super::read_to_end(&mut stream.client).await;
    assert!(rest.is_empty());
    end.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_release_right_after_a_stall_has_fired_is_never_lost() {
    for round in 0..200 {
        let mut stream = open().await;
        let point = Point::AfterEvent(EventMatch::containing("1"));
        let stall = stream.proxy.add(Rule::new(Fault::At(point, Action::Stall)));
        stream.send("data: 1\n\ndata: 2\n\n");
        stream.proxy.wait_fired(stall, 1, Duration::from_secs(300)).await.unwrap();
        stream.proxy.release();
        assert_eq!(stream.next().await, "data: 1\n\n", "round {round}");
        assert_eq!(stream.next().await, "data: 2\n\n", "round {round}");
    }
}

#[tokio::test]
async fn a_release_lets_only_stalls_go_on_that_were_reached() {
    let mut stream = open().await;
    let stall = |text| {
        stream.proxy.add(Rule::new(Fault::At(Point::AfterEvent(EventMatch::containing(text)), Action::Stall)))
    };
    let (first, second) = (stall("1"), stall("2"));
    stream.send("data: 1\n\ndata: 2\n\ndata: 3\n\n");
    stream.proxy.wait_fired(first, 1, Duration::from_secs(300)).await.unwrap();
    assert_eq!(stream.proxy.fired(second), 0);
    stream.proxy.release();
    stream.proxy.wait_fired(second, 1, Duration::from_secs(300)).await.unwrap();
    assert_eq!(stream.next().await + &stream.next().await, "data: 1\n\ndata: 2\n\n");
    let more = tokio::time::timeout(Duration::from_millis(100), read_until(&mut stream.client, b"\n")).await;
    assert!(more.is_err(), "bytes came through the second stall");
    stream.proxy.release();
    assert_eq!(stream.next().await, "data: 3\n\n");
}

#[tokio::test]
async fn an_event_held_back_for_a_later_place_does_not_hold_back_others() {
    let mut stream = open().await;
    stream.proxy.add(Rule::new(Fault::Event(EventMatch::containing("1"), Edit::Later(2))));
    stream.send("data: 1\n\n");
    stream.send("data: 2\n\n");
    assert_eq!(stream.next().await, "data: 2\n\n");
    stream.send("data: 3\n\n");
    assert_eq!(stream.next().await, "data: 3\n\ndata: 1\n\n");
}
