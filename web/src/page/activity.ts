// When sessions were last active.

import { useEffect, useState } from "preact/hooks";
import type { Connection, SessionInfo } from "turnstream";
import { request } from "./api";

/** When each session was last active. States do not say it, so pages of the list are read. */
export function useActivity(connection: Connection): Map<string, number> {
  const [active, setActive] = useState(new Map<string, number>());
  const isLive = connection.isLive;
  useEffect(() => {
    if (!isLive) return;
    let ended = false;
    const read = async () => {
      const found = new Map<string, number>();
      let after: string | undefined;
      // The newest sessions. Older ones stand below, in no order of their own.
      for (let page = 0; page < 4 && !ended; page += 1) {
        const more = after === undefined ? "" : `&after=${encodeURIComponent(after)}`;
        const answer = await request<{ sessions: SessionInfo[]; next?: string }>(
          `/v1/sessions?limit=500${more}`,
        );
        for (const session of answer.sessions)
          if (session.active !== undefined) found.set(session.id, session.active);
        after = answer.next;
        if (after === undefined) break;
      }
      if (!ended) setActive(found);
    };
    read().catch(() => undefined);
    return () => {
      ended = true;
    };
  }, [isLive]);
  return active;
}
