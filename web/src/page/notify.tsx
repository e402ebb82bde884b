// Browser notifications: a session waits for a person who looks at something else.

import { useEffect, useRef, useState } from "preact/hooks";
import type { Connection } from "turnstream";
import { Icon } from "./icons";
import { link } from "./route";

/** Tells about sessions that begin to wait, while the tab is not in view. */
export function useNotifications(connection: Connection): void {
  const told = useRef<Set<string>>(undefined);
  const waiting = [...connection.states.values()].filter((state) => state.status === "waiting");
  const ids = waiting.map((state) => state.session).join(" ");
  useEffect(() => {
    if (!connection.known) return;
    const before = told.current;
    told.current = new Set(waiting.map((state) => state.session));
    // What waited when the page was opened is on the screen already.
    if (before === undefined || !("Notification" in globalThis) || Notification.permission !== "granted")
      return;
    if (document.visibilityState === "visible" && document.hasFocus()) return;
    for (const { session, title, agent } of waiting) {
      if (before.has(session)) continue;
      // One for each session: a second one replaces the first.
      const shown = new Notification("Waiting for you", { body: title ?? agent, tag: session });
      shown.onclick = () => {
        focus();
        location.hash = link.session(session).slice(1);
        shown.close();
      };
    }
  }, [connection.known, ids]);
}

/** Offers notifications, as long as the browser has not been asked. */
export function NotifyButton() {
  const [permission, setPermission] = useState(
    "Notification" in globalThis ? Notification.permission : "denied",
  );
  if (permission !== "default") return null;
  const ask = async () => setPermission(await Notification.requestPermission());
  return (
    <button type="button" class="icon-button" aria-label="Notify me when something waits" onClick={ask}>
      <Icon name="bell" />
    </button>
  );
}
