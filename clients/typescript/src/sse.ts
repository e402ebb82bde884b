// Reads server-sent events from the body of a response. What came in one piece is given in one piece.

export interface ServerSentEvent {
  id?: string;
  type: string;
  data: string;
}

/** Cuts text into events. Comments and incomplete events are left out. */
export class SseDecoder {
  #rest = "";
  #type = "";
  #data: string[] = [];
  #id: string | undefined;
  #afterCarriageReturn = false;

  /** The events that are complete with this text. */
  push(text: string): ServerSentEvent[] {
    const found: ServerSentEvent[] = [];
    // A line may end with CR, LF or both, and a piece may end between the two.
    const whole = this.#afterCarriageReturn && text.startsWith("\n") ? text.slice(1) : text;
    if (text !== "") this.#afterCarriageReturn = text.endsWith("\r");
    const lines = (this.#rest + whole).split(/\r\n|\r|\n/);
    this.#rest = lines.pop() ?? "";
    for (const line of lines) {
      const event = this.#line(line);
      if (event !== undefined) found.push(event);
    }
    return found;
  }

  #line(line: string): ServerSentEvent | undefined {
    if (line === "") return this.#dispatch();
    const colon = line.indexOf(":");
    if (colon === 0) return undefined;
    const name = colon === -1 ? line : line.slice(0, colon);
    const value = colon === -1 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (name === "data") this.#data.push(value);
    else if (name === "event") this.#type = value;
    else if (name === "id") this.#id = value;
    return undefined;
  }

  #dispatch(): ServerSentEvent | undefined {
    const { length } = this.#data;
    const event = {
      type: this.#type || "message",
      data: this.#data.join("\n"),
      ...(this.#id !== undefined && { id: this.#id }),
    };
    [this.#type, this.#data, this.#id] = ["", [], undefined];
    return length === 0 ? undefined : event;
  }
}

/** The events of a body, in the pieces in which they came. An empty piece is a sign of life. */
export async function* serverSentEvents(
  body: ReadableStream<Uint8Array>,
): AsyncGenerator<ServerSentEvent[], void, void> {
  const reader = body.getReader();
  const text = new TextDecoder();
  const decoder = new SseDecoder();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      yield decoder.push(text.decode(value, { stream: true }));
    }
  } finally {
    // Also when the reader stops early: the connection is not needed any more.
    await reader.cancel().catch(() => undefined);
  }
}
