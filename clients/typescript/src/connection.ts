// One WebSocket for many sessions: the states of all, and the events of those that somebody follows. After
// a cut it reconnects, and each subscription continues at its cursor.

import { delay } from "./backoff.js";
import { type Client, Problem } from "./client.js";
import { Store } from "./store.js";
import type { BadEnd, Cost, Retry } from "./values.js";
import type { Activity, Event } from "./wire.js";

/** The state of a session, as the gateway reports it for all of them. */
export interface SessionState {
  session: string;
  status: Activity;
  agent: string;
  cwd: string;
  title?: string;
  retry?: Retry;
  cost?: Cost;
  /** How its last turn ended, if not well. */
  last?: BadEnd;
  /** When this client saw the state change; absent for states that it found. */
  changed?: number;
}

export type Link =
  | { state: "connecting" }
  | { state: "live" }
  | { state: "disconnected"; since: number; retryAt: number | undefined }
  | { state: "signed_out" };

/** What a reconnect brought. */
export interface Return {
  from: number;
  to: number;
  events: number;
}

/** One who follows a session. */
export interface Follower {
  /** Where to continue. */
  cursor(): string;
  event(event: Event): void;
  /** The cursor is void: the session has to be read again. */
  reset(): void;
  gone(): void;
  refused(problem: string): void;
}

interface Subscription {
  follower: Follower;
  /** Events up to this one are what was missed. */
  until: number;
  seen: number;
}

interface Frame {
  type: string;
  session?: string;
  id?: string;
  seq?: number;
  outcome?: string;
  from?: number;
  to?: number;
  status?: Activity;
  ended?: string;
  problem?: { detail?: string; title?: string };
}

/** Without any frame for so long, the gateway is asked for one. */
const PROBE_MS = 20_000;
/** An answer that takes longer means that the connection is dead, for example after a sleep. */
const ANSWER_MS = 5_000;
/** A session that does not exist: the answer to its end of a subscription is the proof of life. */
const PROBE = JSON.stringify({ unsubscribe: "ses_probe" });

export interface ConnectionOptions {
  /** The class of sockets. Node has one of its own since version 22. */
  WebSocket?: typeof globalThis.WebSocket;
}

export class Connection extends Store {
  link: Link = { state: "connecting" };
  /** The states of all sessions. `known` once all have come. */
  states = new Map<string, SessionState>();
  known = false;
  /** What the last reconnect brought, until it is dismissed. */
  back: Return | undefined;
  #socket: WebSocket | undefined;
  #subscriptions = new Map<string, Subscription>();
  #failures = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #heard = 0;
  #probed: number | undefined;
  /** The probe was not answered in time. An answer may wait in this program's own queue. */
  #overdue = false;
  /** Since when it was cut off, while it catches up. */
  #missing: { since: number; events: number } | undefined;
  #found = new Set<string>();
  #cut = new AbortController();
  #ended = new AbortController();
  #WebSocket: typeof globalThis.WebSocket;

  constructor(
    readonly client: Client,
    options: ConnectionOptions = {},
  ) {
    super();
    this.#WebSocket = options.WebSocket ?? globalThis.WebSocket;
    if (this.#WebSocket === undefined) {
      throw new Error("there is no WebSocket here; pass one as an option, or use client.events()");
    }
  }

  start(): void {
    void this.#connect();
    const watch = setInterval(() => this.#watch(), 1_000);
    const { signal } = this.#ended;
    signal.addEventListener("abort", () => clearInterval(watch));
    if (typeof document === "undefined") return;
    for (const woken of ["online", "pageshow", "focus"]) {
      addEventListener(woken, () => this.#look(), { signal });
    }
    for (const woken of ["visibilitychange", "resume"]) {
      document.addEventListener(woken, () => this.#look(), { signal });
    }
  }

  /** Ends the connection for good. */
  end(): void {
    this.#ended.abort();
    clearTimeout(this.#timer);
    const socket = this.#socket;
    this.#socket = undefined;
    socket?.close();
  }

  get isLive(): boolean {
    return this.link.state === "live";
  }

  /** Events that are still to come before the followers have what the gateway knows. */
  get toGo(): number {
    let sum = 0;
    for (const { until, seen } of this.#subscriptions.values()) sum += Math.max(0, until - seen);
    return sum;
  }

  /** Ends when the connection is cut: a request that was under way then may never be answered. */
  get untilCut(): AbortSignal {
    return this.#cut.signal;
  }

  tryNow(): void {
    if (this.link.state !== "disconnected" || this.link.retryAt === undefined) return;
    clearTimeout(this.#timer);
    void this.#connect();
  }

  dismissBack(): void {
    this.back = undefined;
    this.changed();
  }

  /** Follows a session until the returned function is called. */
  follow(session: string, follower: Follower): () => void {
    const subscription: Subscription = { follower, until: 0, seen: 0 };
    this.#subscriptions.set(session, subscription);
    // Also while the states are still coming: the subscriptions of a new connection were sent when it opened.
    this.#subscribe(session, follower);
    return () => {
      if (this.#subscriptions.get(session) !== subscription) return;
      this.#subscriptions.delete(session);
      this.#send({ unsubscribe: session });
    };
  }

  #send(message: object): void {
    if (this.#socket?.readyState === this.#WebSocket.OPEN) this.#socket.send(JSON.stringify(message));
  }

  #subscribe(session: string, follower: Follower): void {
    this.#send({ subscribe: session, after: follower.cursor() });
  }

  async #connect(): Promise<void> {
    if (this.link.state === "disconnected") this.#set({ ...this.link, retryAt: undefined });
    let ticket: string;
    try {
      const signal = AbortSignal.timeout(ANSWER_MS);
      ticket = await this.client.ticket(undefined, signal);
    } catch (error) {
      if (error instanceof Problem && error.status === 401) this.#set({ state: "signed_out" });
      else this.#failed();
      return;
    }
    if (this.#ended.signal.aborted) return;
    const address = this.client.address === "" ? location.origin : this.client.address;
    const url = `${address.replace(/^http/, "ws")}/v1/ws?ticket=${encodeURIComponent(ticket)}`;
    const socket = new this.#WebSocket(url);
    this.#socket = socket;
    this.#heard = Date.now();
    socket.onopen = () => this.#opened(socket);
    socket.onmessage = ({ data }) => {
      if (this.#socket === socket) this.#frame(JSON.parse(String(data)) as Frame);
    };
    socket.onclose = () => {
      if (this.#socket === socket) this.#failed();
    };
  }

  #opened(socket: WebSocket): void {
    if (this.#socket !== socket) return;
    this.#failures = 0;
    this.#found.clear();
    this.#missing = this.link.state === "disconnected" ? { since: this.link.since, events: 0 } : undefined;
    for (const [session, subscription] of this.#subscriptions) {
      // Until the first frame says how many events were missed, at least one answer is to come.
      [subscription.until, subscription.seen] = [1, 0];
      this.#subscribe(session, subscription.follower);
    }
  }

  #failed(): void {
    if (this.#ended.signal.aborted) return;
    this.#cut.abort();
    this.#cut = new AbortController();
    this.#socket = undefined;
    this.#probed = undefined;
    for (const subscription of this.#subscriptions.values()) [subscription.until, subscription.seen] = [0, 0];
    const since = this.link.state === "disconnected" ? this.link.since : Date.now();
    const wait = delay(this.#failures, Math.random());
    this.#failures += 1;
    this.#set({ state: "disconnected", since, retryAt: Date.now() + wait });
    this.#timer = setTimeout(() => void this.#connect(), wait);
  }

  /** Ends a connection that does not answer, and asks one that was quiet. */
  #watch(): void {
    if (this.#socket === undefined) return;
    const now = Date.now();
    if (this.#probed === undefined) {
      if (now - this.#heard > PROBE_MS) this.#probe();
    } else if (now - this.#probed > ANSWER_MS) {
      // A busy program runs this timer before it reads what has come: it is given one more turn.
      if (this.#overdue) this.#drop();
      this.#overdue = true;
    }
  }

  /** The machine or the tab woke up: the connection may be dead without anybody having said so. */
  #look(): void {
    if (document.hidden) return;
    if (this.link.state === "disconnected") this.tryNow();
    else if (this.#probed === undefined) this.#probe();
  }

  #probe(): void {
    if (this.#socket?.readyState !== this.#WebSocket.OPEN) return;
    this.#probed = Date.now();
    this.#overdue = false;
    this.#socket.send(PROBE);
  }

  #drop(): void {
    const socket = this.#socket;
    this.#failed();
    socket?.close();
  }

  #set(link: Link): void {
    this.link = link;
    this.changed();
  }

  #frame(frame: Frame): void {
    this.#heard = Date.now();
    this.#probed = undefined;
    if (frame.session !== undefined && (frame.id !== undefined || frame.type !== "session.status")) {
      this.#ofSession(frame, frame.session);
    } else if (frame.type === "session.status" && frame.session !== undefined) {
      this.#state(frame as Frame & SessionState);
    } else if (frame.type === "stream" && frame.outcome === "caught_up") {
      this.#allStates();
    }
    this.changed();
  }

  #state(frame: Frame & SessionState): void {
    const { session } = frame;
    this.#found.add(session);
    if (frame.ended !== undefined) {
      this.states.delete(session);
      return;
    }
    const before = this.states.get(session);
    const same = before?.status === frame.status && before.title === frame.title;
    const changed = same ? before.changed : Date.now();
    const { status, agent, cwd, title, retry, cost, last } = frame;
    const found = !this.known || (same && changed === undefined);
    this.states.set(session, {
      session,
      status,
      agent,
      cwd,
      ...(title !== undefined && { title }),
      ...(retry !== undefined && { retry }),
      ...(cost !== undefined && { cost }),
      ...(last !== undefined && { last }),
      ...(!found && changed !== undefined && { changed }),
    });
  }

  #allStates(): void {
    for (const session of this.states.keys()) if (!this.#found.has(session)) this.states.delete(session);
    this.known = true;
    this.link = { state: "live" };
    this.#caughtUp();
  }

  #ofSession(frame: Frame, session: string): void {
    const subscription = this.#subscriptions.get(session);
    if (subscription === undefined) return;
    const { follower } = subscription;
    if (frame.type === "error") {
      [subscription.until, subscription.seen] = [0, 0];
      follower.refused(frame.problem?.detail ?? frame.problem?.title ?? "The session cannot be followed.");
    } else if (frame.type === "stream") {
      this.#cursor(frame, subscription);
    } else if (frame.id !== undefined && frame.seq !== undefined) {
      if (this.#missing !== undefined && frame.seq <= subscription.until) this.#missing.events += 1;
      subscription.seen = frame.seq;
      follower.event(frame as unknown as Event);
    }
    this.#caughtUp();
  }

  #cursor(frame: Frame, subscription: Subscription): void {
    switch (frame.outcome) {
      case "replayed":
        subscription.until = frame.to ?? 0;
        subscription.seen = (frame.from ?? 1) - 1;
        break;
      case "reset":
        [subscription.until, subscription.seen] = [0, 0];
        subscription.follower.reset();
        break;
      case "gone":
        [subscription.until, subscription.seen] = [0, 0];
        subscription.follower.gone();
        break;
      default:
        [subscription.until, subscription.seen] = [0, 0];
    }
  }

  #caughtUp(): void {
    if (this.#missing === undefined || !this.isLive || this.toGo > 0) return;
    this.back = { from: this.#missing.since, to: Date.now(), events: this.#missing.events };
    this.#missing = undefined;
  }
}
