// Which view is shown. It is in the fragment of the address, which no request carries.

import { useEffect, useState } from "preact/hooks";

export type Route =
  | { view: "sessions" }
  | { view: "session"; session: string; place: string | undefined }
  | { view: "timeline"; session: string; seq: number | undefined }
  | { view: "replay"; session: string; seq: number }
  | { view: "new"; from: string | undefined; agent: string | undefined }
  | { view: "gateway" };

export function routeOf(hash: string): Route {
  const [path = "", query = ""] = hash.replace(/^#\/?/, "").split("?");
  const [view, id, part] = path.split("/");
  if (view === "session" && id !== undefined && id !== "") {
    const session = decodeURIComponent(id);
    const asked = new URLSearchParams(query);
    const seq = Number(asked.get("seq"));
    if (part === "replay" && Number.isSafeInteger(seq) && seq > 0) return { view: "replay", session, seq };
    if (part !== "timeline") return { view: "session", session, place: asked.get("at") ?? undefined };
    return { view: "timeline", session, seq: Number.isSafeInteger(seq) && seq > 0 ? seq : undefined };
  }
  if (view === "new") {
    const asked = new URLSearchParams(query);
    return { view, from: asked.get("from") ?? undefined, agent: asked.get("agent") ?? undefined };
  }
  if (view === "gateway") return { view };
  return { view: "sessions" };
}

export const link = {
  sessions: "#/",
  new: "#/new",
  newFrom: (id: string) => `#/new?from=${encodeURIComponent(id)}`,
  newWith: (agent: string) => `#/new?agent=${encodeURIComponent(agent)}`,
  gateway: "#/gateway",
  /** `place` is the id of an item or a prompt. */
  session: (id: string, place?: string) =>
    `#/session/${encodeURIComponent(id)}${place === undefined ? "" : `?at=${encodeURIComponent(place)}`}`,
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
