// What waits for a person: an approval with everything it covers, and a question with its choices.

import { useContext, useId, useRef, useState } from "preact/hooks";
import { type Approval, type Asked, type Item, newKey, type SessionInfo, sessionPath } from "turnstream";
import { ownName, request } from "./api";
import { useAct } from "./answer";
import { Diff } from "./diff";
import { clockSeconds } from "./format";
import { Icon, StateIcon } from "./icons";
import { Replaying } from "./replaying";
import { diffsOf } from "./tool";
import { inputText, target, verb } from "./words";

const OUTCOMES = {
  allow_once: "Allowed once",
  allow_always: "Always allowed",
  reject: "Rejected",
  cancelled: "Not answered: the turn was cancelled",
  expired: "Not answered in time",
  lost: "Lost with its turn",
} as const;

const BY = {
  client: "a client",
  policy: "the session's permission policy",
  agent: "the agent",
  gateway: "the gateway",
};

/** An answered request is one line. */
const MOST_SAID = 56;

interface WaitProps {
  session: SessionInfo;
  isLive: boolean;
}

const CANNOT = "Answers need the gateway. They work again when it is back.";

/** For a box that a person has just asked for. It is one function, so it runs when the box appears. */
function focusOnce(element: HTMLElement | null): void {
  element?.focus();
}

/** The input of a tool, without what its changes show already. */
function notInDiffs(input: unknown, diffs: ReturnType<typeof diffsOf>): string | undefined {
  if (typeof input !== "object" || input === null || Array.isArray(input)) {
    return input === undefined || input === null ? undefined : JSON.stringify(input, null, 2);
  }
  const shown = new Set<unknown>(diffs.flatMap(({ path, oldText, newText }) => [path, oldText, newText]));
  // A change of one place is what the diff shows.
  const isSaid = (name: string, value: unknown) =>
    diffs.length > 0 && (shown.has(value) || (name === "replace_all" && value === false));
  const rest = Object.entries(input).filter(([name, value]) => !isSaid(name, value));
  return rest.length === 0 ? undefined : JSON.stringify(Object.fromEntries(rest), null, 2);
}

export function ApprovalCard({
  approval,
  item,
  session,
  isLive,
}: WaitProps & { approval: Approval; item: Item | undefined }) {
  const tool = { ...item?.tool, ...approval.tool };
  const isPast = useContext(Replaying);
  const act = useAct();
  const key = useRef(newKey());
  const [rejecting, setRejecting] = useState(false);
  const [message, setMessage] = useState("");
  const [chosen, setChosen] = useState<string>();
  const field = useId();
  const what = target(tool);
  if (approval.outcome !== undefined) {
    return (
      <p class="answered" data-approval={approval.approval}>
        <Icon name={approval.outcome.startsWith("allow") ? "check" : "cross"} />
        <span>
          {OUTCOMES[approval.outcome]}: {verb(tool)}{" "}
          <span class="mono" title={what}>
            {what.length > MOST_SAID ? `${what.slice(0, MOST_SAID)}…` : what}
          </span>
          {approval.by !== undefined && (
            <span class="faint">
              {" "}
              · by{" "}
              {approval.actor === undefined
                ? BY[approval.by]
                : approval.actor === ownName()
                  ? "you"
                  : approval.actor}
            </span>
          )}
          {approval.resolved !== undefined && <span class="faint"> · {clockSeconds(approval.resolved)}</span>}
          {approval.message !== undefined && <span> · “{approval.message}”</span>}
        </span>
      </p>
    );
  }
  const answer = (outcome: string, option: string | undefined, more: object = {}) =>
    act.run(() =>
      request(sessionPath(session.id, `/approvals/${encodeURIComponent(approval.approval)}`), {
        method: "POST",
        body: { outcome, ...(option !== undefined && { option }), key: key.current, ...more },
      }),
    );
  const offered = (kind: string) => approval.options.find((option) => option.kind === kind);
  const wider = approval.options.filter((option) => option.kind === "allow_always");
  const always = wider.find((option) => option.id === chosen) ?? wider[0];
  const reject = offered("reject_once") ?? offered("reject_always");
  const command = inputText(tool, ["command", "cmd"]);
  const reason = inputText(tool, ["description", "reason"]);
  const diffs = diffsOf(tool);
  const asks =
    command !== undefined
      ? "Allow this command?"
      : diffs.length > 0
        ? "Allow this change?"
        : `Allow this: ${verb(tool)}?`;
  // A change has its path above it.
  const places = (tool.locations ?? []).filter(({ path }) => !diffs.some((diff) => diff.path === path));
  const isOff = !isLive || act.isBusy;
  const whole = notInDiffs(tool.input, diffs);
  const keys = (event: KeyboardEvent) => {
    if (
      isOff ||
      event.ctrlKey ||
      event.metaKey ||
      event.altKey ||
      event.target instanceof HTMLTextAreaElement
    )
      return;
    if (event.key === "a") void answer("allow_once", offered("allow_once")?.id);
    else if (event.key === "A" && always !== undefined) void answer("allow_always", always.id);
    else if (event.key === "r") setRejecting(true);
    else return;
    event.preventDefault();
  };
  return (
    <section
      class="card wait"
      data-approval={approval.approval}
      aria-label="Waiting for you: allow this?"
      onKeyDown={keys}
    >
      <header>
        <StateIcon state="waiting" />
        <h3>{asks}</h3>
        <span class="faint">Waiting for you since {clockSeconds(approval.time)}</span>
      </header>
      <div class="wait-body">
        {command !== undefined && <pre class="judge">{command}</pre>}
        {command === undefined && diffs.length === 0 && tool.title !== undefined && (
          <p class="reading">{tool.title}</p>
        )}
        {diffs.map((diff, place) => (
          <div key={place} class="framed">
            <p class="more mono">{diff.path}</p>
            <Diff id={`${approval.approval} ${place}`} {...diff} />
          </div>
        ))}
        {command === undefined && whole !== undefined && <pre class="judge">{whole}</pre>}
        <dl class="facts">
          {diffs.length === 0 && <dt>Runs in</dt>}
          {diffs.length === 0 && <dd class="mono">{session.cwd}</dd>}
          {places.length > 0 && <dt>Files</dt>}
          {places.length > 0 && <dd class="mono">{places.map((place) => place.path).join(", ")}</dd>}
          {reason !== undefined && <dt>Agent’s reason</dt>}
          {reason !== undefined && <dd>“{reason}”</dd>}
        </dl>
        {wider.length === 1 && (
          <p class="always">
            <b>“Always allow” covers more than this.</b> The agent’s own words for it: “{wider[0]?.name}”. The
            gateway does not limit it further.
          </p>
        )}
        {wider.length > 1 && (
          <fieldset class="always">
            <legend>
              <b>“Always allow” covers more than this.</b> The agent offers, in its own words:
            </legend>
            {wider.map((option) => (
              <label key={option.id} class="choice">
                <input
                  type="radio"
                  name={`${field}-always`}
                  checked={option === always}
                  disabled={isOff}
                  onChange={() => setChosen(option.id)}
                />
                <span>{option.name}</span>
              </label>
            ))}
            <p>The gateway does not limit it further.</p>
          </fieldset>
        )}
        {act.problem !== undefined && (
          <p class="problem" role="alert">
            {act.problem}
          </p>
        )}
        {!isLive && !isPast && <p class="problem">{CANNOT}</p>}
        {rejecting ? (
          <form
            class="reject"
            onSubmit={(event) => {
              event.preventDefault();
              void answer("reject", reject?.id, message === "" ? {} : { message });
            }}
          >
            <label for={field}>What should the agent know? (optional)</label>
            <textarea
              ref={focusOnce}
              id={field}
              rows={2}
              value={message}
              onInput={(event) => setMessage(event.currentTarget.value)}
            />
            <div class="buttons">
              <button type="submit" class="primary" disabled={isOff}>
                Reject
              </button>
              <button type="button" onClick={() => setRejecting(false)}>
                Back
              </button>
            </div>
          </form>
        ) : (
          <div class="buttons">
            <button
              type="button"
              class="primary"
              disabled={isOff}
              onClick={() => answer("allow_once", offered("allow_once")?.id)}
            >
              Allow once <kbd>A</kbd>
            </button>
            {always !== undefined && (
              <button type="button" disabled={isOff} onClick={() => answer("allow_always", always.id)}>
                Always allow <kbd>Shift A</kbd>
              </button>
            )}
            <span class="grow" />
            <button type="button" class="quiet" disabled={isOff} onClick={() => setRejecting(true)}>
              Reject… <kbd>R</kbd>
            </button>
            <button
              type="button"
              class="quiet c-lost"
              disabled={isOff}
              onClick={() => answer("reject", reject?.id, { stop: true })}
            >
              Reject and stop turn
            </button>
          </div>
        )}
      </div>
    </section>
  );
}

const ANSWERS = {
  answered: "Answered",
  rejected: "Declined to answer",
  cancelled: "Not answered: the turn was cancelled",
  expired: "Not answered in time",
  lost: "Lost with its turn",
} as const;

export function QuestionCard({ asked, session, isLive }: WaitProps & { asked: Asked }) {
  const isPast = useContext(Replaying);
  const act = useAct();
  const key = useRef(newKey());
  const name = useId();
  const [chosen, setChosen] = useState<Record<string, string[]>>({});
  const [own, setOwn] = useState<Record<string, string>>({});
  if (asked.outcome !== undefined) {
    return (
      <div class="answered" data-question={asked.question}>
        <Icon name={asked.outcome === "answered" ? "check" : "cross"} />
        <span>
          {ANSWERS[asked.outcome]}
          {asked.questions.map((question) => (
            <span key={question.id}>
              {" "}
              · {question.text}{" "}
              {asked.answers?.[question.id] !== undefined && <b>{asked.answers[question.id]?.join(", ")}</b>}
            </span>
          ))}
        </span>
      </div>
    );
  }
  const path = sessionPath(session.id, `/questions/${encodeURIComponent(asked.question)}`);
  const answers = Object.fromEntries(
    asked.questions.map((question) => {
      const written = (own[question.id] ?? "").trim();
      const picked = chosen[question.id] ?? [];
      return [question.id, written === "" ? picked : question.multiple ? [...picked, written] : [written]];
    }),
  );
  const isWhole = Object.values(answers).every((given) => given.length > 0);
  const isOff = !isLive || act.isBusy;
  return (
    <form
      class="card wait"
      data-question={asked.question}
      aria-label="Waiting for you: a question"
      onSubmit={(event) => {
        event.preventDefault();
        void act.run(() => request(path, { method: "POST", body: { answers, key: key.current } }));
      }}
    >
      <header>
        <StateIcon state="waiting" />
        <h3>A question from the agent</h3>
        <span class="faint">Waiting for you since {clockSeconds(asked.time)}</span>
      </header>
      <div class="wait-body">
        {asked.questions.map((question) => (
          <fieldset key={question.id}>
            <legend class="reading">{question.text}</legend>
            {(question.options ?? []).map((option) => (
              <label key={option.label} class="choice">
                <input
                  type={question.multiple ? "checkbox" : "radio"}
                  name={`${name}-${question.id}`}
                  checked={(chosen[question.id] ?? []).includes(option.label)}
                  onChange={(event) => {
                    const before = chosen[question.id] ?? [];
                    const rest = before.filter((label) => label !== option.label);
                    const now = question.multiple
                      ? event.currentTarget.checked
                        ? [...rest, option.label]
                        : rest
                      : [option.label];
                    setChosen({ ...chosen, [question.id]: now });
                    if (!question.multiple) setOwn({ ...own, [question.id]: "" });
                  }}
                />
                <span>
                  {option.label}
                  {option.description !== undefined && <span class="detail">{option.description}</span>}
                </span>
              </label>
            ))}
            {(question.custom || (question.options ?? []).length === 0) && (
              <input
                type="text"
                aria-label="Something else"
                placeholder="Something else"
                value={own[question.id] ?? ""}
                onInput={(event) => setOwn({ ...own, [question.id]: event.currentTarget.value })}
              />
            )}
          </fieldset>
        ))}
        {act.problem !== undefined && (
          <p class="problem" role="alert">
            {act.problem}
          </p>
        )}
        {!isLive && !isPast && <p class="problem">{CANNOT}</p>}
        <div class="buttons">
          <button type="submit" class="primary" disabled={isOff || !isWhole}>
            Answer
          </button>
          <button
            type="button"
            class="quiet"
            disabled={isOff}
            onClick={() =>
              act.run(() =>
                request(path, { method: "POST", body: { outcome: "rejected", key: key.current } }),
              )
            }
          >
            Decline to answer
          </button>
        </div>
      </div>
    </form>
  );
}
