// The state of one session: a page of history, and the events after it. A pure copy of the gateway's fold,
// for what a page shows. Superseded items are kept and marked, since a person wants to see them.

import type { Aside, Event } from "./wire.js";
import type {
  Approval,
  Asked,
  Continuation,
  Cost,
  Item,
  ItemsPage,
  Prompt,
  SessionInfo,
  Tool,
  Turn,
  Usage,
} from "./values.js";

export interface Notice {
  seq: number;
  time: number;
  turn?: string;
  code: string;
  message: string;
  /** The other session of a handover. */
  session?: string;
}

/** With more items than `most`, a live session drops its oldest ones; they are on pages of history. */
const MOST = 800;
const KEEP = 500;

export class SessionFold {
  generation = "";
  head = 0;
  items = new Map<string, Item>();
  turns = new Map<string, Turn>();
  prompts = new Map<string, Prompt>();
  queue = new Map<string, Prompt>();
  approvals = new Map<string, Approval>();
  questions = new Map<string, Asked>();
  notices: Notice[] = [];
  /** The seq with which a turn began, where it was seen. */
  turnSeq = new Map<string, number>();
  /** Somebody reads older items: none are dropped. */
  isReadBack = false;
  /** Older items follow before this one. */
  next: string | undefined;

  constructor(public session: SessionInfo) {}

  /** Begins with the newest page. */
  static of(session: SessionInfo, page: ItemsPage): SessionFold {
    const fold = new SessionFold(session);
    fold.generation = page.generation;
    fold.head = page.head;
    for (const item of [...page.items].reverse()) fold.items.set(item.item, item);
    for (const turn of [...page.turns].reverse()) fold.turns.set(turn.turn, turn);
    for (const prompt of page.prompts) fold.prompts.set(prompt.prompt, prompt);
    for (const prompt of page.queue ?? []) fold.queue.set(prompt.prompt, prompt);
    for (const approval of page.approvals ?? []) fold.approvals.set(approval.approval, approval);
    for (const asked of page.questions ?? []) fold.questions.set(asked.question, asked);
    fold.next = page.next;
    return fold;
  }

  get cursor(): string {
    return `${this.generation}:${this.head}`;
  }

  get openTurn(): Turn | undefined {
    return [...this.turns.values()].findLast((turn) => turn.outcome === undefined);
  }

  get openApprovals(): Approval[] {
    return [...this.approvals.values()].filter((approval) => approval.outcome === undefined);
  }

  get openQuestions(): Asked[] {
    return [...this.questions.values()].filter((asked) => asked.outcome === undefined);
  }

  /** Adds an older page before the items that are here. */
  addOlder(page: ItemsPage): void {
    const older = new Map<string, Item>();
    for (const item of [...page.items].reverse()) if (!this.items.has(item.item)) older.set(item.item, item);
    this.items = new Map([...older, ...this.items]);
    const turns = new Map<string, Turn>();
    for (const turn of [...page.turns].reverse()) if (!this.turns.has(turn.turn)) turns.set(turn.turn, turn);
    this.turns = new Map([...turns, ...this.turns]);
    for (const prompt of page.prompts)
      if (!this.prompts.has(prompt.prompt)) this.prompts.set(prompt.prompt, prompt);
    for (const approval of page.approvals ?? [])
      if (!this.approvals.has(approval.approval)) this.approvals.set(approval.approval, approval);
    for (const asked of page.questions ?? [])
      if (!this.questions.has(asked.question)) this.questions.set(asked.question, asked);
    this.next = page.next;
  }

  /** Adds what pages of items leave out, from events before the head: notices, and superseded items. */
  addFromLog(events: Event[]): void {
    const side = new SessionFold(this.session);
    side.isReadBack = true;
    for (const event of events) if (event.seq <= this.head) side.apply(event);
    const known = new Set(this.notices.map((notice) => notice.seq));
    const added = side.notices.filter((notice) => !known.has(notice.seq));
    this.notices = [...added, ...this.notices].sort((a, b) => a.seq - b.seq);
    for (const [turn, seq] of side.turnSeq) this.turnSeq.set(turn, seq);
    for (const { item, ended } of side.items.values()) {
      if (ended !== undefined) this.#item(item, (own) => ({ ended: own.ended ?? ended }));
    }
    for (const approval of side.approvals.values()) {
      const own = this.approvals.get(approval.approval);
      if (own !== undefined && own.resolved === undefined && approval.resolved !== undefined) {
        this.approvals.set(approval.approval, { ...own, resolved: approval.resolved });
      }
    }
    const voided = [...side.items.values()].filter(
      (item) => item.voidBy !== undefined && !this.items.has(item.item),
    );
    if (voided.length === 0) return;
    const all = [...this.items.values(), ...voided].sort((a, b) => a.time - b.time);
    this.items = new Map(all.map((item) => [item.item, item]));
  }

  /** Applies one event. Types that this version does not know change nothing. */
  apply(event: Event): void {
    this.head = event.seq;
    switch (event.type) {
      case "session.created":
        break;
      case "session.updated": {
        const { title, model, mode, context, permissions } = event;
        this.session = { ...this.session, ...defined({ title, model, mode, context, permissions }) };
        break;
      }
      case "session.status": {
        const { attempt, reason, until, message } = event;
        const { retry: _, ...session } = this.session;
        const retry =
          event.status === "retrying" ? { retry: defined({ attempt, reason, until, message }) } : {};
        this.session = { ...session, ...retry, status: event.status };
        break;
      }
      case "session.resumed":
        break;
      case "session.ended":
        this.session = { ...this.session, ended: event.reason };
        break;
      case "prompt.accepted": {
        const { prompt, content, time, actor } = event;
        this.queue.set(prompt, { prompt, content, time, state: "waiting", ...defined({ actor }) });
        break;
      }
      case "prompt.sent":
        this.#queued(event.prompt, { state: "sent" });
        break;
      case "prompt.taken":
        this.#settle(event.prompt, "taken", event.turn);
        this.#turn(event.turn, (turn) => ({ prompts: [...new Set([...turn.prompts, event.prompt])] }));
        break;
      case "prompt.withdrawn":
        this.#settle(event.prompt, "withdrawn");
        break;
      case "turn.started": {
        const { turn, origin, prompts = [], time: started } = event;
        this.turns.set(turn, { turn, origin, prompts, started, attempts: [] });
        this.turnSeq.set(turn, event.seq);
        break;
      }
      case "turn.ended": {
        const { outcome, stop_reason, usage, cost, error, time: ended } = event;
        this.#turn(event.turn, () => ({ ended, outcome, ...defined({ stop_reason, usage, cost, error }) }));
        this.#spent(usage, cost);
        const { last: _, ...session } = this.session;
        const end = outcome === "completed" ? {} : { last: { outcome, ...defined({ class: error?.class }) } };
        this.session = { ...session, ...end };
        this.#trim();
        break;
      }
      case "attempt.started": {
        const { attempt, step, model } = event;
        this.#turn(event.turn, (turn) => ({
          attempts: [...turn.attempts, { attempt, step, ...defined({ model }) }],
        }));
        break;
      }
      case "attempt.ended": {
        const { finish, usage, cost } = event;
        this.#attempt(event.turn, event.attempt, { ended: true, ...defined({ finish, usage, cost }) });
        break;
      }
      case "attempt.superseded":
        this.#attempt(event.turn, event.attempt, { ended: true, superseded_by: event.by });
        for (const id of event.items) {
          const item = this.items.get(id);
          if (item !== undefined) this.items.set(id, { ...item, voidBy: event.by });
        }
        break;
      case "item.started": {
        const { item, turn, attempt, parent, kind, role, synthetic, text, tool, time } = event;
        this.items.set(item, {
          item,
          kind,
          time,
          state: "streaming",
          ...defined({ turn, attempt, parent, role, synthetic, text, tool }),
        });
        this.#trim();
        break;
      }
      case "item.delta": {
        const field = event.field ?? "text";
        this.#item(event.item, (item) => ({ [field]: (item[field] ?? "") + event.text }));
        break;
      }
      case "item.replaced":
        this.#item(event.item, () => ({ [event.field ?? "text"]: event.text }));
        break;
      case "item.updated":
        this.#item(event.item, (item) => ({
          ...defined({ parent: event.parent }),
          ...merged(item, event.tool),
        }));
        break;
      case "item.ended": {
        const { state, reason, incomplete, time: ended } = event;
        this.#item(event.item, () => ({ state, ended, ...defined({ reason, incomplete }) }));
        break;
      }
      case "item.revised": {
        const { late, state, text } = event;
        const whole = text === undefined ? {} : { text, incomplete: false };
        this.#item(event.item, (item) => ({
          ...defined({ late, state }),
          ...whole,
          ...merged(item, event.tool),
        }));
        break;
      }
      case "item.removed":
        this.items.delete(event.item);
        break;
      case "approval.requested": {
        const { approval, turn, item, tool, options = [], time } = event;
        this.approvals.set(approval, { approval, options, time, ...defined({ turn, item, tool }) });
        break;
      }
      case "approval.resolved": {
        const { outcome, by, option, message, actor, time: resolved } = event;
        const open = this.approvals.get(event.approval);
        if (open === undefined) break;
        const answer = { outcome, by, resolved, ...defined({ option, message, actor }) };
        this.approvals.set(event.approval, { ...open, ...answer });
        break;
      }
      case "question.asked": {
        const { question, questions, turn, item, time } = event;
        this.questions.set(question, { question, questions, time, ...defined({ turn, item }) });
        break;
      }
      case "question.answered": {
        const open = this.questions.get(event.question);
        const { outcome, answers, actor } = event;
        if (open !== undefined)
          this.questions.set(event.question, { ...open, outcome, ...defined({ answers, actor }) });
        break;
      }
      case "notice": {
        const { seq, time, turn, code, message } = event;
        this.notices.push({ seq, time, code, message, ...defined({ turn }) });
        break;
      }
      default:
        this.#aside(event);
    }
  }

  /** Events that not every reader has to know: those without a line here change nothing. */
  #aside(event: Aside): void {
    switch (event.type) {
      case "prompt.cancelling":
        this.#queued(event.prompt, { cancelling: event.by });
        break;
      case "turn.cancelling":
        this.#turn(event.turn, () => ({ cancelling: event.by }));
        break;
      case "budget.set": {
        // The caps of one prompt are in the session only while its turn is open.
        if (event.prompt !== undefined) break;
        const used = this.session.budget?.used ?? { time: 0 };
        this.session = { ...this.session, budget: { ...event.budget, used } };
        break;
      }
      case "budget.reached": {
        const { budget } = this.session;
        if (event.scope !== "session" || budget === undefined) break;
        this.session = { ...this.session, budget: { ...budget, reached: event.cap } };
        break;
      }
      case "budget.used": {
        const { budget } = this.session;
        if (budget !== undefined) this.session = { ...this.session, budget: { ...budget, used: event.used } };
        break;
      }
      case "unattended.parked": {
        const { of, because, reason, until } = event;
        const parked = { of, because, reason, until } as Continuation & { until: number };
        this.session = { ...this.session, unattended: { ...this.session.unattended, parked } };
        break;
      }
      case "unattended.released": {
        const { parked: _, ...rules } = this.session.unattended ?? {};
        this.session = { ...this.session, unattended: rules };
        break;
      }
      case "prompt.continues": {
        const { of, because, reason } = event;
        this.#queued(event.prompt, { continues: { of, because, reason } as Continuation });
        break;
      }
      case "session.handed_over": {
        const before = this.session.handed_over ?? [];
        this.session = { ...this.session, handed_over: [...new Set([...before, event.to])] };
        this.#handover(event, `Handed over to ${event.agent}.`, event.to);
        break;
      }
      case "session.inherited": {
        const { from, agent, entries, left_out = 0 } = event;
        this.session = { ...this.session, from: { session: from, agent } };
        const left = left_out === 0 ? "" : ` ${left_out} older entries are left out.`;
        this.#handover(event, `Handed over from ${agent}, with ${entries} entries.${left}`, from);
        break;
      }
    }
  }

  #spent(usage: Usage | undefined, cost: Cost | undefined): void {
    if (usage !== undefined) {
      const sum: Usage = { ...this.session.usage };
      for (const name of ["input", "output", "reasoning", "cache_read", "cache_write"] as const) {
        const used = usage[name];
        if (used !== undefined) sum[name] = (sum[name] ?? 0) + used;
      }
      this.session = { ...this.session, usage: sum };
    }
    const before = this.session.cost;
    if (cost === undefined || (before !== undefined && before.currency !== cost.currency)) return;
    const amount = (before?.amount ?? 0) + cost.amount;
    this.session = { ...this.session, cost: { currency: cost.currency, amount } };
  }

  #handover({ seq, time }: Aside, message: string, session: string): void {
    this.notices.push({ seq, time, code: "handover", message, session });
  }

  #item(id: string, change: (item: Item) => Partial<Item>): void {
    const item = this.items.get(id);
    if (item !== undefined) this.items.set(id, { ...item, ...change(item) });
  }

  #turn(id: string, change: (turn: Turn) => Partial<Turn>): void {
    const turn = this.turns.get(id);
    if (turn !== undefined) this.turns.set(id, { ...turn, ...change(turn) });
  }

  #attempt(turn: string, id: string, change: Partial<Turn["attempts"][number]>): void {
    this.#turn(turn, ({ attempts }) => ({
      attempts: attempts.map((attempt) => (attempt.attempt === id ? { ...attempt, ...change } : attempt)),
    }));
  }

  #queued(id: string, change: Partial<Prompt>): void {
    const prompt = this.queue.get(id);
    if (prompt !== undefined) this.queue.set(id, { ...prompt, ...change });
  }

  #settle(id: string, state: Prompt["state"], turn?: string): void {
    const prompt = this.queue.get(id);
    if (prompt === undefined) return;
    this.queue.delete(id);
    this.prompts.set(id, { ...prompt, state, ...defined({ turn }) });
  }

  /** Bounds the memory of a session that is watched for long. */
  #trim(): void {
    if (this.items.size <= MOST || this.isReadBack) return;
    const kept = [...this.items].slice(-KEEP);
    this.items = new Map(kept);
    this.next = kept[0]?.[0];
    const turns = new Set(kept.map(([, item]) => item.turn));
    const first = [...this.turns.keys()].find((turn) => turns.has(turn));
    let keep = false;
    for (const turn of [...this.turns.keys()]) {
      keep ||= turn === first;
      if (keep) continue;
      for (const prompt of this.turns.get(turn)?.prompts ?? []) this.prompts.delete(prompt);
      this.turns.delete(turn);
    }
    const kept_turn = (about: { turn?: string }) => about.turn === undefined || this.turns.has(about.turn);
    this.approvals = new Map([...this.approvals].filter(([, about]) => kept_turn(about)));
    this.questions = new Map([...this.questions].filter(([, about]) => kept_turn(about)));
    this.notices = this.notices.filter(kept_turn);
  }
}

function merged(item: Item, patch: Tool | undefined): Partial<Item> {
  if (patch === undefined) return {};
  const tool = { ...item.tool, ...patch };
  // The streamed arguments are replaced by the whole ones.
  if (patch.input === undefined) return { tool };
  const { input: _, ...rest } = item;
  return { ...rest, input: undefined, tool } as Partial<Item>;
}

type Defined<T> = { [K in keyof T]?: Exclude<T[K], undefined> };

/** The object without members that are undefined. */
function defined<T extends object>(object: T): Defined<T> {
  return Object.fromEntries(Object.entries(object).filter(([, value]) => value !== undefined)) as Defined<T>;
}
