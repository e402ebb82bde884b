// The list of keys, which `?` opens.

import { useEffect, useRef } from "preact/hooks";

const KEYS: [string, string][] = [
  ["/", "search"],
  ["j k", "next and previous session"],
  ["Enter", "open"],
  ["g s", "sessions"],
  ["g g", "gateway"],
  ["n", "new session"],
  ["w", "the next thing that waits"],
  ["t", "transcript or timeline"],
  ["[ ]", "the turn before, the turn after"],
  ["Ctrl Enter", "send the prompt"],
  ["Ctrl .", "cancel the turn"],
  ["A, Shift A, R", "in an approval card: allow once, always allow, reject"],
  ["Space", "play or pause a replay"],
  ["← →", "in a replay: event before, event after; with Shift: item"],
  ["Esc", "close"],
  ["?", "this list"],
];

export function KeysDialog({ close }: { close: () => void }) {
  const dialog = useRef<HTMLDialogElement>(null);
  // The browser keeps the focus inside, and gives it back afterwards.
  useEffect(() => dialog.current?.showModal(), []);
  return (
    <dialog ref={dialog} class="keys" aria-labelledby="keys-title" onClose={close}>
      <h2 id="keys-title">Keys</h2>
      <dl>
        {KEYS.map(([key, what]) => (
          <div key={key}>
            <dt>
              <kbd>{key}</kbd>
            </dt>
            <dd>{what}</dd>
          </div>
        ))}
      </dl>
      <form method="dialog">
        <button type="submit">Close</button>
      </form>
    </dialog>
  );
}
