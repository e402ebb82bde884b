//! One connection through the proxy: both directions, from the connect to the end.

use super::body::{BodyReader, Segment, chunk};
use super::book::Book;
use super::edit::{Body, Editor, Step, about_events, needs_own_framing, splices_bytes};
use super::http::{self, Framing};
use super::rules::{Ending, Fault, RequestHead};
use super::sender::{Sender, Stop};
use super::source::Source;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

/// How long the upstream may take to accept.
const CONNECT: Duration = Duration::from_secs(10);
/// No test lasts longer; a connection forgotten by both ends must not outlive it.
const LIFETIME: Duration = Duration::from_secs(600);
/// How long a client may take to read what is before a reset, since a reset throws away what is under way.
const BEFORE_RESET: Duration = Duration::from_secs(5);
/// How long what a client still sends is read after the end, since unread bytes turn the end into a reset.
const AFTER_FIN: Duration = Duration::from_millis(500);

/// What the proxy carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    Tcp,
    Http,
}

/// Serves one accepted connection to its end.
pub(super) async fn serve(
    book: Arc<Book>,
    protocol: Protocol,
    upstream: SocketAddr,
    number: u64,
    mut client: TcpStream,
) {
    let mut cuts = book.cuts.subscribe();
    let ending = tokio::select! {
        ending = run(&book, protocol, upstream, number, &mut client) => ending,
        ending = async {
            // An error means that the proxy is gone, and this task with it.
            let _ = cuts.changed().await;
            cuts.borrow().unwrap_or(Ending::Fin)
        } => ending,
        () = sleep(LIFETIME) => Ending::Rst,
    };
    end(client, ending).await;
    book.note(number, |record| record.ended = true);
}

async fn run(
    book: &Book,
    protocol: Protocol,
    upstream: SocketAddr,
    number: u64,
    client: &mut TcpStream,
) -> Ending {
    for live in book.matching(number, None) {
        match live.fault() {
            Fault::Refuse(ending) if book.claim(&live, number) => return *ending,
            Fault::DelayConnect(pause) if book.claim(&live, number) => sleep(*pause).await,
            Fault::Refuse(_) | Fault::DelayConnect(_) => {}
            Fault::At(..) | Fault::Event(..) | Fault::Pace(_) => {}
        }
    }
    let mut server = match timeout(CONNECT, TcpStream::connect(upstream)).await {
        Ok(Ok(server)) => server,
        failed => {
            let reason = failed.map_or_else(
                |_| format!("{upstream} did not accept within {CONNECT:?}"),
                |result| result.map_or_else(|error| format!("{upstream}: {error}"), |_| String::new()),
            );
            book.note(number, |record| record.upstream_error = Some(reason));
            return Ending::Rst;
        }
    };
    // Without this the system would hold small writes back and change the timing.
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let (from_client, to_client) = client.split();
    let (from_server, to_server) = server.split();
    let sender = Sender::new(to_client, book, number);
    let ended = match protocol {
        Protocol::Tcp => {
            let up = raw_up(book, number, Source::new(from_client), to_server);
            tokio::try_join!(up, raw_down(sender, Source::new(from_server))).err()
        }
        Protocol::Http => {
            let (heads, queue) = mpsc::unbounded_channel();
            let up = requests(book, number, Source::new(from_client), to_server, heads);
            tokio::try_join!(up, responses(sender, Source::new(from_server), queue)).err()
        }
    };
    ended.map_or(Ending::Fin, |Stop(ending)| ending)
}

/// Ends the client's connection in the chosen way.
async fn end(mut client: TcpStream, ending: Ending) {
    match ending {
        Ending::Rst => {
            turnstream_drain::drained(&client, BEFORE_RESET).await;
            // Closing a socket that lingers for no time sends a reset. A failure leaves an ordinary end.
            let _ = client.set_zero_linger();
        }
        Ending::Fin => {
            let _ = client.shutdown().await;
            let mut rest = [0; 4096];
            let drain = async { while let Ok(1..) = client.read(&mut rest).await {} };
            // A client that goes on sending is cut off.
            let _ = timeout(AFTER_FIN, drain).await;
        }
    }
}

/// Passes on everything the client sends, and then that it has ended.
async fn raw_up(
    book: &Book,
    number: u64,
    mut from: Source<ReadHalf<'_>>,
    mut to: WriteHalf<'_>,
) -> Result<(), Stop> {
    loop {
        let length = from.buffer().len();
        send_up(book, number, &mut to, from.buffer()).await?;
        from.consume(length);
        if !from.fill().await? {
            break;
        }
    }
    // The upstream may be gone already.
    let _ = to.shutdown().await;
    Ok(())
}

/// Passes on everything the upstream sends as the body of one response.
async fn raw_down(mut sender: Sender<'_>, mut from: Source<ReadHalf<'_>>) -> Result<(), Stop> {
    let mut editor = Editor::new(sender.book, sender.connection, Body::Bytes);
    loop {
        let content = from.take();
        let steps = editor.feed(&content, &sender.rules());
        perform(&mut sender, steps, <[u8]>::to_vec).await?;
        if !fill_or_flush(&mut from, &mut sender).await? {
            return sender.close().await;
        }
    }
}

/// Passes on requests, and tells the other direction about each before it leaves.
async fn requests(
    book: &Book,
    number: u64,
    mut from: Source<ReadHalf<'_>>,
    mut to: WriteHalf<'_>,
    heads: mpsc::UnboundedSender<Arc<RequestHead>>,
) -> Result<(), Stop> {
    loop {
        let Some(length) = from.fill_head().await else { break };
        let Some(head) = http::request(&from.buffer()[..length], book.next_request()) else { break };
        book.note(number, |record| record.requests.push(format!("{} {}", head.method, head.target)));
        let mut body = BodyReader::new(http::request_framing(&head));
        let switching = head.method == "CONNECT" || head.header("upgrade").is_some();
        // The other direction is gone only when the connection ends anyway.
        let _ = heads.send(Arc::new(head));
        send_up(book, number, &mut to, &from.buffer()[..length]).await?;
        from.consume(length);
        if switching {
            break;
        }
        while !body.is_done() {
            if from.buffer().is_empty() && !from.fill().await? {
                break;
            }
            let (_, used) = body.feed(from.buffer());
            send_up(book, number, &mut to, &from.buffer()[..used]).await?;
            from.consume(used);
        }
    }
    // The end, or not HTTP: the rest passes as it is.
    raw_up(book, number, from, to).await
}

async fn send_up(book: &Book, number: u64, to: &mut WriteHalf<'_>, bytes: &[u8]) -> Result<(), Stop> {
    // An upstream that has stopped reading may still be answering; the other direction decides the end.
    if to.write_all(bytes).await.is_ok() {
        book.note(number, |record| record.bytes_up += bytes.len() as u64);
    }
    Ok(())
}

/// Passes on responses with their faults.
async fn responses(
    mut sender: Sender<'_>,
    mut from: Source<ReadHalf<'_>>,
    mut queue: mpsc::UnboundedReceiver<Arc<RequestHead>>,
) -> Result<(), Stop> {
    let mut waiting: Option<Arc<RequestHead>> = None;
    loop {
        let Some(length) = from.fill_head().await else { break };
        let Some(head) = http::response(&from.buffer()[..length]) else { break };
        if waiting.is_none() {
            waiting = queue.try_recv().ok();
        }
        let Some(request) = waiting.clone() else { break };
        let bytes = from.buffer()[..length].to_vec();
        from.consume(length);
        sender.begin(Some(Arc::clone(&request)));
        if (100..200).contains(&head.status) && head.status != 101 {
            sender.send(&bytes).await?;
            continue;
        }
        waiting = None;
        if head.switches(&request.method) {
            sender.send(&bytes).await?;
            break;
        }
        let framing = head.framing(&request.method);
        respond(&mut sender, &mut from, &bytes, framing, head.is_event_stream()).await?;
    }
    // The end, or not HTTP: the rest passes as it is. After the upstream's end nothing can follow on HTTP.
    raw_down(sender, from).await?;
    Err(Stop(Ending::Fin))
}

/// Passes on one response with a body.
async fn respond(
    sender: &mut Sender<'_>,
    from: &mut Source<ReadHalf<'_>>,
    head: &[u8],
    framing: Framing,
    events: bool,
) -> Result<(), Stop> {
    let own_wanted = |sender: &Sender<'_>| {
        let wants = |fault: &Fault| splices_bytes(fault) || (events && about_events(fault));
        sender.rules().iter().any(|live| wants(live.fault()))
    };
    // The head of a body with a length cannot be changed any more later. Chunks can become ours at any chunk.
    let with_length = matches!(framing, Framing::Length(_));
    let mut own_chunks = with_length && own_wanted(sender);
    if own_chunks {
        sender.send(&http::with_chunks(head)).await?;
    } else {
        sender.send(head).await?;
    }
    let body = if events && (own_chunks || !with_length) { Body::Events } else { Body::Bytes };
    let mut editor = Editor::new(sender.book, sender.connection, body);
    let mut reader = BodyReader::new(framing);
    // In the upstream's own framing a body must stay as long as it is.
    let rules = |sender: &Sender<'_>, own_chunks: bool| {
        let mut rules = sender.rules();
        rules.retain(|live| own_chunks || framing == Framing::Close || !needs_own_framing(live.fault()));
        rules
    };
    let frame =
        |own_chunks: bool| move |content: &[u8]| if own_chunks { chunk(content) } else { content.to_vec() };
    while !reader.is_done() {
        if from.buffer().is_empty() {
            let filled = fill_or_flush(from, sender).await;
            if !matches!(filled, Ok(true)) {
                let steps = editor.finish(&rules(sender, own_chunks));
                perform(sender, steps, frame(own_chunks)).await?;
                sender.send(&reader.rest()).await?;
                filled?;
                sender.close().await?;
                return Err(Stop(Ending::Fin));
            }
        }
        let (segments, used) = reader.feed(from.buffer());
        from.consume(used);
        let mut wire = Vec::new();
        for segment in segments {
            match segment {
                Segment::Content(content) => {
                    let steps = editor.feed(&content, &rules(sender, own_chunks));
                    gather(sender, steps, frame(own_chunks), &mut wire).await?;
                }
                Segment::Size(bytes) => {
                    own_chunks = own_chunks || own_wanted(sender);
                    if !own_chunks {
                        wire.extend(bytes);
                    }
                }
                Segment::ChunkEnd(bytes) => {
                    if !own_chunks {
                        wire.extend(bytes);
                    }
                }
                Segment::Last(bytes) | Segment::Broken(bytes) => {
                    let steps = editor.finish(&rules(sender, own_chunks));
                    gather(sender, steps, frame(own_chunks), &mut wire).await?;
                    wire.extend(bytes);
                }
            }
        }
        if reader.is_done() && with_length {
            let steps = editor.finish(&rules(sender, own_chunks));
            gather(sender, steps, frame(own_chunks), &mut wire).await?;
            if own_chunks {
                wire.extend_from_slice(b"0\r\n\r\n");
            }
        }
        sender.send(&wire).await?;
    }
    sender.flush().await
}

async fn perform(
    sender: &mut Sender<'_>,
    steps: Vec<Step>,
    frame: impl Fn(&[u8]) -> Vec<u8>,
) -> Result<(), Stop> {
    let mut wire = Vec::new();
    gather(sender, steps, frame, &mut wire).await?;
    sender.send(&wire).await
}

/// Collects what is to be sent, so that one piece from the upstream stays one write; sends it before it acts.
async fn gather(
    sender: &mut Sender<'_>,
    steps: Vec<Step>,
    frame: impl Fn(&[u8]) -> Vec<u8>,
    wire: &mut Vec<u8>,
) -> Result<(), Stop> {
    for step in steps {
        match step {
            Step::Send(content) => wire.extend(frame(&content)),
            Step::Cut(ending) => {
                sender.send(&std::mem::take(wire)).await?;
                sender.cut(ending).await?;
            }
            Step::Pause(live) => {
                sender.send(&std::mem::take(wire)).await?;
                sender.pause(&live).await?;
            }
        }
    }
    Ok(())
}

/// Reads more; if the sender holds bytes back until a time, lets them go then.
async fn fill_or_flush(from: &mut Source<ReadHalf<'_>>, sender: &mut Sender<'_>) -> Result<bool, Stop> {
    if let Some(at) = sender.flush_at {
        match tokio::time::timeout_at(at, from.fill()).await {
            Ok(filled) => return filled,
            Err(_) => sender.flush().await?,
        }
    }
    from.fill().await
}
