//! One connection through the proxy, in both directions.

use super::body::{BodyReader, Segment, chunk};
use super::buffered_reader::BufferedReader;
use super::editor::{Body, Editor, Step, about_events, needs_own_framing, splices_bytes};
use super::http::{self, Framing};
use super::rules::{Ending, Fault, RequestHead};
use super::sender::{Sender, Stop};
use super::shared_state::SharedState;
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
/// The longest life of a connection. No test lasts longer.
const LIFETIME: Duration = Duration::from_secs(600);
/// How long a client may take to read before a reset, since a reset discards unread bytes.
const BEFORE_RESET: Duration = Duration::from_secs(5);
/// How long the client's bytes are read after the end, since unread bytes turn the end into a reset.
const AFTER_FIN: Duration = Duration::from_millis(500);

/// What the proxy carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    Tcp,
    Http,
}

/// Serves one accepted connection to its end.
pub(super) async fn serve(
    shared: Arc<SharedState>,
    protocol: Protocol,
    upstream: SocketAddr,
    number: u64,
    mut client: TcpStream,
) {
    let mut cuts = shared.cuts.subscribe();
    let ending = tokio::select! {
        ending = run(&shared, protocol, upstream, number, &mut client) => ending,
        ending = async {
            // An error means that the proxy has ended, and this task with it.
            let _ = cuts.changed().await;
            cuts.borrow().unwrap_or(Ending::Fin)
        } => ending,
        () = sleep(LIFETIME) => Ending::Rst,
    };
    end(client, ending).await;
    shared.note(number, |record| record.ended = true);
}

async fn run(
    shared: &SharedState,
    protocol: Protocol,
    upstream: SocketAddr,
    number: u64,
    client: &mut TcpStream,
) -> Ending {
    for live in shared.matching(number, None) {
        match live.fault() {
            Fault::Refuse(ending) if shared.claim(&live, number) => return *ending,
            Fault::DelayConnect(pause) if shared.claim(&live, number) => sleep(*pause).await,
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
            shared.note(number, |record| record.upstream_error = Some(reason));
            return Ending::Rst;
        }
    };
    // Without this the system would delay small writes. On failure it does.
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let (from_client, to_client) = client.split();
    let (from_server, to_server) = server.split();
    let sender = Sender::new(to_client, shared, number);
    let ended = match protocol {
        Protocol::Tcp => {
            let up = raw_up(shared, number, BufferedReader::new(from_client), to_server);
            tokio::try_join!(up, raw_down(sender, BufferedReader::new(from_server))).err()
        }
        Protocol::Http => {
            let (heads, queue) = mpsc::unbounded_channel();
            let up = requests(shared, number, BufferedReader::new(from_client), to_server, heads);
            tokio::try_join!(up, responses(sender, BufferedReader::new(from_server), queue)).err()
        }
    };
    ended.map_or(Ending::Fin, |Stop(ending)| ending)
}

/// Ends the client's connection in the chosen way.
async fn end(mut client: TcpStream, ending: Ending) {
    match ending {
        Ending::Rst => {
            turnstream_drain::drained(&client, BEFORE_RESET).await;
            // Closing a socket with a linger time of zero sends a reset. On failure it is an ordinary end.
            let _ = client.set_zero_linger();
        }
        Ending::Fin => {
            // The client may have ended the connection already.
            let _ = client.shutdown().await;
            let mut rest = [0; 4096];
            let drain = async { while let Ok(1..) = client.read(&mut rest).await {} };
            // A client that keeps sending is cut off.
            let _ = timeout(AFTER_FIN, drain).await;
        }
    }
}

/// Passes on everything the client sends, and then its end.
async fn raw_up(
    shared: &SharedState,
    number: u64,
    mut from: BufferedReader<ReadHalf<'_>>,
    mut to: WriteHalf<'_>,
) -> Result<(), Stop> {
    loop {
        let length = from.buffer().len();
        send_up(shared, number, &mut to, from.buffer()).await?;
        from.consume(length);
        if !from.fill().await? {
            break;
        }
    }
    // The upstream may have ended already.
    let _ = to.shutdown().await;
    Ok(())
}

/// Passes on everything the upstream sends as the body of one response.
async fn raw_down(mut sender: Sender<'_>, mut from: BufferedReader<ReadHalf<'_>>) -> Result<(), Stop> {
    let mut editor = Editor::new(sender.shared, sender.connection, Body::Bytes);
    loop {
        let content = from.take();
        let steps = editor.feed(&content, &sender.rules());
        perform(&mut sender, steps, <[u8]>::to_vec).await?;
        if !fill_or_flush(&mut from, &mut sender).await? {
            return sender.close().await;
        }
    }
}

/// Passes on requests. The other direction gets each head before the request is sent.
async fn requests(
    shared: &SharedState,
    number: u64,
    mut from: BufferedReader<ReadHalf<'_>>,
    mut to: WriteHalf<'_>,
    heads: mpsc::UnboundedSender<Arc<RequestHead>>,
) -> Result<(), Stop> {
    loop {
        let Some(length) = from.fill_head().await else { break };
        let Some(head) = http::request(&from.buffer()[..length], shared.next_request()) else { break };
        shared.note(number, |record| record.requests.push(format!("{} {}", head.method, head.target)));
        let mut body = BodyReader::new(http::request_framing(&head));
        let switching = head.method == "CONNECT" || head.header("upgrade").is_some();
        // The other direction ends only with the connection.
        let _ = heads.send(Arc::new(head));
        send_up(shared, number, &mut to, &from.buffer()[..length]).await?;
        from.consume(length);
        if switching {
            break;
        }
        while !body.is_done() {
            if from.buffer().is_empty() && !from.fill().await? {
                break;
            }
            let (_, used) = body.feed(from.buffer());
            send_up(shared, number, &mut to, &from.buffer()[..used]).await?;
            from.consume(used);
        }
    }
    // The end, or not HTTP: the rest passes unchanged.
    raw_up(shared, number, from, to).await
}

async fn send_up(
    shared: &SharedState,
    number: u64,
    to: &mut WriteHalf<'_>,
    bytes: &[u8],
) -> Result<(), Stop> {
    // An upstream that stopped reading may still answer. The other direction decides about the end.
    if to.write_all(bytes).await.is_ok() {
        shared.note(number, |record| record.bytes_up += bytes.len() as u64);
    }
    Ok(())
}

/// Passes on responses with their faults.
async fn responses(
    mut sender: Sender<'_>,
    mut from: BufferedReader<ReadHalf<'_>>,
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
    // The end, or not HTTP: the rest passes unchanged. After the upstream's end nothing can follow.
    raw_down(sender, from).await?;
    Err(Stop(Ending::Fin))
}

/// Passes on one response with a body.
async fn respond(
    sender: &mut Sender<'_>,
    from: &mut BufferedReader<ReadHalf<'_>>,
    head: &[u8],
    framing: Framing,
    events: bool,
) -> Result<(), Stop> {
    let own_wanted = |sender: &Sender<'_>| {
        let wants = |fault: &Fault| splices_bytes(fault) || (events && about_events(fault));
        sender.rules().iter().any(|live| wants(live.fault()))
    };
    // The head of a body with a length cannot be changed later. A chunked body can be reframed at any chunk.
    let with_length = matches!(framing, Framing::Length(_));
    let mut own_chunks = with_length && own_wanted(sender);
    if own_chunks {
        sender.send(&http::with_chunks(head)).await?;
    } else {
        sender.send(head).await?;
    }
    let body = if events && (own_chunks || !with_length) { Body::Events } else { Body::Bytes };
    let mut editor = Editor::new(sender.shared, sender.connection, body);
    let mut reader = BodyReader::new(framing);
    // In the upstream's framing the length of a body must not change.
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

/// Collects bytes, so that one read from the upstream stays one write. They are sent before the next action.
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

/// Reads more. Bytes that the sender delays are sent when their time has come.
async fn fill_or_flush(
    from: &mut BufferedReader<ReadHalf<'_>>,
    sender: &mut Sender<'_>,
) -> Result<bool, Stop> {
    if let Some(at) = sender.flush_at {
        match tokio::time::timeout_at(at, from.fill()).await {
            Ok(filled) => return filled,
            Err(_) => sender.flush().await?,
        }
    }
    from.fill().await
}
