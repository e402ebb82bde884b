//! One connection through the proxy: both directions, from the connect to the end.

use super::body::{BodyReader, Segment, chunk};
use super::book::Book;
use super::edit::{Body, Editor, Step, about_events, splices_bytes};
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
/// How long bytes before a reset get to reach the client, since a reset throws away what is under way.
const BEFORE_RESET: Duration = Duration::from_millis(30);
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
            sleep(BEFORE_RESET).await;
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
        let Some(length) = from.fill_head().await? else { break };
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
        let Some(length) = from.fill_head().await? else { break };
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
    let rules = sender.rules();
    let splices = rules.iter().any(|live| splices_bytes(live.fault()));
    let wants_events = events && rules.iter().any(|live| about_events(live.fault()));
    // A body with a length is only taken apart if a rule says so now: its head cannot be changed any more later.
    let reframe = match framing {
        Framing::Empty => false,
        Framing::Length(_) => splices || wants_events,
        Framing::Chunked | Framing::Close => splices || events,
    };
    let chunked = reframe && framing != Framing::Close;
    if reframe && matches!(framing, Framing::Length(_)) {
        sender.send(&http::with_chunks(head)).await?;
    } else {
        sender.send(head).await?;
    }
    let body = if events && reframe { Body::Events } else { Body::Bytes };
    let mut editor = Editor::new(sender.book, sender.connection, body);
    let mut reader = BodyReader::new(framing);
    let frame = |content: &[u8]| if chunked { chunk(content) } else { content.to_vec() };
    while !reader.is_done() {
        if from.buffer().is_empty() && !fill_or_flush(from, sender).await? {
            let steps = editor.finish(&sender.rules());
            perform(sender, steps, frame).await?;
            sender.close().await?;
            return Err(Stop(Ending::Fin));
        }
        let (segments, used) = reader.feed(from.buffer());
        from.consume(used);
        let mut wire = Vec::new();
        for segment in segments {
            match segment {
                Segment::Content(content) => {
                    let steps = editor.feed(&content, &sender.rules());
                    gather(sender, steps, frame, &mut wire).await?;
                }
                Segment::Framing(bytes) if !reframe => wire.extend(bytes),
                Segment::Framing(_) => {}
                Segment::Last(bytes) => {
                    let steps = editor.finish(&sender.rules());
                    gather(sender, steps, frame, &mut wire).await?;
                    wire.extend(bytes);
                }
            }
        }
        if reader.is_done() && matches!(framing, Framing::Length(_)) {
            let steps = editor.finish(&sender.rules());
            gather(sender, steps, frame, &mut wire).await?;
            if reframe {
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
            Step::Act(action) => {
                sender.send(&std::mem::take(wire)).await?;
                sender.act(&action).await?;
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
