// The bottom of a session: what waits, the queue, and the box for the next prompt.

import { useRef, useState } from "preact/hooks";
import { newKey, type SessionFold, sessionPath } from "turnstream";
import { request } from "./api";
import { useAct } from "./answer";
import { moment, plural } from "./format";
import { Attached, AttachButton, type Attachment, useTakes } from "./attachments";
import { Forgotten } from "./forgotten";
import { capWords } from "./budget";
import { Icon, StateIcon } from "./icons";
import { promptText } from "./transcript";
import { classWords } from "./words";

/** Drafts survive a change of the view, and a reload of this tab. */
const draftKey = (session: string) => `turnstream.draft.${session}`;

interface DockProps {
  fold: SessionFold;
  isLive: boolean;
  hasNewBelow: boolean;
  toBottom: () => void;
}

export function Dock({ fold, isLive, hasNewBelow, toBottom }: DockProps) {
  const { session } = fold;
  const [text, setText] = useState(sessionStorage.getItem(draftKey(session.id)) ?? "");
  const [attached, setAttached] = useState<Attachment[]>([]);
  const isEmpty = text.trim() === "" && attached.length === 0;
  const reached = session.budget?.reached;
  const parked = session.unattended?.parked;
  const act = useAct();
  const choice = useAct();
  const cancel = useAct();
  const parking = useAct();
  const takes = useTakes(session.agent);
  const key = useRef(newKey());
  const turn = fold.openTurn;
  const waiting = [...fold.queue.values()].filter((prompt) => prompt.state === "waiting");
  const sent = [...fold.queue.values()].find((prompt) => prompt.state === "sent");
  const isBusy = turn !== undefined || sent !== undefined;
  const waits = fold.openApprovals.length + fold.openQuestions.length;
  const isCancelling = turn?.cancelling !== undefined || sent?.cancelling !== undefined;
  const change = (text: string) => {
    setText(text);
    if (text === "") sessionStorage.removeItem(draftKey(session.id));
    else sessionStorage.setItem(draftKey(session.id), text);
  };
  const send = async () => {
    if (isEmpty || !isLive || act.isBusy) return;
    const said = text.trim() === "" ? [] : [{ type: "text", text }];
    const body = { content: [...said, ...attached.map((one) => one.block)], key: key.current };
    if (await act.run(() => request(sessionPath(session.id, "/prompts"), { method: "POST", body }))) {
      // The key stays the same until a prompt is accepted, so that a repeat is not a second prompt.
      key.current = newKey();
      change("");
      setAttached([]);
      toBottom();
    }
  };
  const stop = () =>
    cancel.run(() =>
      request(sessionPath(session.id, "/cancel"), {
        method: "POST",
        body: turn === undefined ? {} : { turn: turn.turn },
      }),
    );
  const park = (how: "/wake" | "/cancel", body: object) => () =>
    parking.run(() => request(sessionPath(session.id, how), { method: "POST", body }));
  const withdraw = (prompt: string) =>
    act.run(() =>
      request(sessionPath(session.id, `/prompts/${encodeURIComponent(prompt)}`), { method: "DELETE" }),
    );
  if (session.ended !== undefined)
    return (
      <div class="dock">
        <p class="faint">This session has ended: {session.ended}.</p>
      </div>
    );
  return (
    <div class="dock">
      <div class="dock-inner">
        {(waits > 0 || isBusy || hasNewBelow) && (
          <div class="dock-line">
            {waits > 0 && (
              <a
                class="c-you"
                href={`#${session.id}`}
                onClick={(event) => {
                  event.preventDefault();
                  toWait();
                }}
              >
                <StateIcon state="waiting" />{" "}
                <b>
                  {waits} {waits === 1 ? "waits" : "wait"} for you
                </b>
              </a>
            )}
            {hasNewBelow && (
              <button type="button" class="link" onClick={toBottom}>
                New below
              </button>
            )}
            <span class="grow" />
            {isBusy && (
              <button
                type="button"
                class="quiet c-lost"
                disabled={!isLive || isCancelling || cancel.isBusy}
                onClick={stop}
              >
                <Icon name="stop" /> {isCancelling ? "Cancelling" : "Cancel turn"}
              </button>
            )}
          </div>
        )}
        {parked !== undefined && (
          <div class="notice gate parked">
            <Icon name="gate" />
            <p>
              <b>
                {parked.because === "limit" ? "Waits for a limit to end" : "Waits after a failure"}:{" "}
                {classWords(parked.reason)}.
              </b>{" "}
              It goes on by itself at {moment(parked.until, Date.now())}.
            </p>
            <span class="buttons">
              <button type="button" disabled={!isLive || parking.isBusy} onClick={park("/wake", {})}>
                Go on now
              </button>
              <button
                type="button"
                class="quiet"
                disabled={!isLive || parking.isBusy}
                onClick={park("/cancel", { turn: parked.of })}
              >
                Give up
              </button>
            </span>
          </div>
        )}
        {parking.problem !== undefined && (
          <p class="problem" role="alert">
            {parking.problem}
          </p>
        )}
        {reached !== undefined && (
          <p class="notice you">
            <b>Stopped at its budget of {capWords(reached, session.budget?.session?.[reached] ?? 0)}.</b>{" "}
            Raise it under Budget, and the queue goes on.
          </p>
        )}
        {cancel.problem !== undefined && (
          <p class="problem" role="alert">
            {cancel.problem}
          </p>
        )}
        <form
          class="box"
          onSubmit={(event) => {
            event.preventDefault();
            void send();
          }}
        >
          {waiting.length > 0 && (
            <ul class="queue" aria-label={`Queued, ${waiting.length}`}>
              {waiting.map((prompt) => (
                <li key={prompt.prompt} data-prompt={prompt.prompt}>
                  <span class="faint">Queued</span> <span class="ellipsis grow">{promptText(prompt)}</span>
                  <button
                    type="button"
                    class="link"
                    disabled={!isLive}
                    onClick={() => withdraw(prompt.prompt)}
                  >
                    Withdraw
                  </button>
                </li>
              ))}
            </ul>
          )}
          <Attached attached={attached} change={setAttached} />
          <textarea
            aria-label="Prompt"
            placeholder="Write a prompt"
            rows={Math.min(8, Math.max(1, text.split("\n").length))}
            value={text}
            onInput={(event) => change(event.currentTarget.value)}
            onKeyDown={(event) => {
              if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
                event.preventDefault();
                void send();
              }
            }}
          />
          <div class="box-line">
            <AttachButton attached={attached} change={setAttached} takes={takes} />
            <span class="faint ellipsis grow">
              {!isLive
                ? "Not connected: the prompt can be sent when the gateway is back."
                : [
                    isBusy
                      ? waiting.length > 0
                        ? "Runs after the queue"
                        : "Runs after this turn"
                      : undefined,
                    session.mode === undefined ? undefined : `${session.mode} mode`,
                    {
                      ask: "asks before it acts",
                      allow: "may do everything without asking",
                      deny: "every request is rejected",
                    }[session.permissions ?? "ask"],
                  ]
                    .filter((part) => part !== undefined)
                    .join(" · ")}
            </span>
            <button type="submit" class="primary" disabled={!isLive || act.isBusy || isEmpty}>
              {isBusy ? "Queue" : "Send"} <kbd>Ctrl Enter</kbd>
            </button>
          </div>
        </form>
        {act.name === "agent-forgot" && isLive && (
          <Forgotten session={session} act={choice} done={() => void send()} />
        )}
        {choice.problem !== undefined && (
          <p class="problem" role="alert">
            {choice.problem}
          </p>
        )}
        {act.problem !== undefined && act.name !== "agent-forgot" && (
          <p class="problem" role="alert">
            {act.problem}
          </p>
        )}
        {waiting.length > 1 && <p class="sr">{plural(waiting.length, "prompt")} queued</p>}
      </div>
    </div>
  );
}

/** Goes to the next card that waits. */
export function toWait(): void {
  const card = document.querySelector<HTMLElement>(".card.wait");
  card?.scrollIntoView({ block: "center" });
  const first = card?.querySelector<HTMLElement>("button.primary:enabled") ?? card?.querySelector("input");
  first?.focus({ preventScroll: true });
}
