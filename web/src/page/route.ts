// Which view is shown. It is in the fragment of the address, which no request carries.

import { useEffect, useState } from "preact/hooks";

export type Route =
  | { view: "sessions" }
  | { view: "session"; session: string }
  | { view: "timeline"; session: string; seq: number | undefined }
  | { view: "replay"; session: string; seq: number }
  | { view: "new"; from: string | undefined }
  | { view: "gateway" };

export function routeOf(hash: string): Route {
  const [path = "", query = ""] = hash.replace(/^#\/?/, "").split("?");
  const [view, id, part] = path.split("/");
  if (view === "session" && id !== undefined && id !== "") {
    const session = decodeURIComponent(id);
    const seq = Number(new URLSearchParams(query).get("seq"));
    if (part === "replay" && Number.isSafeInteger(seq) && seq > 0) return { view: "replay", session, seq };
    if (part !== "timeline") return { view: "session", session };
    return { view: "timeline", session, seq: Number.isSafeInteger(seq) && seq > 0 ? seq : undefined };
  }
  if (view === "new") return { view, from: new URLSearchParams(query).get("from") ?? undefined };
  if (view === "gateway") return { view };
  return { view: "sessions" };
}

export const link = {
  sessions: "#/",
  new: "#/new",
  newFrom: (id: string) => `#/new?from=${encodeURIComponent(id)}`,
  gateway: "#/gateway",
  session: (id: string) => `#/session/${encodeURIComponent(id)}`,
  replay: (id: string, seq: number) => `#/session/${encodeURIComponent(id)}/replay?seq=${seq}`,
  timeline: (id: string, seq?: number) =>
    `#/session/${encodeURIComponent(id)}/timeline${seq === undefined ? "" : `?seq=${seq}`}`,
};

export function useRoute(): Route {
  const [hash, setHash] = useState(location.hash);
  useEffect(() => {
    const changed = () => setHash(location.hash);
    addEventListener("hashchange", changed);
    return () => removeEventListener("hashchange", changed);
  }, []);
  return routeOf(hash);
}
