// Watches a session until its turn has ended, also while the gateway restarts.
// node watch.mjs SESSION

import { Client } from "turnstream";

const client = new Client({ address: process.env.TURNSTREAM_ADDRESS, token: process.env.TURNSTREAM_TOKEN });
const onLink = (link) => {
  if (link.state === "disconnected") console.log(`disconnected, again in ${link.retryIn} ms`);
};
for await (const state of client.follow(process.argv[2], { onLink })) {
  const { title, status } = state.session;
  console.log(
    `${title ?? "untitled"}: ${status}, ${state.items.size} items, ${state.openApprovals.length} wait`,
  );
  if (status === "idle" && state.turns.size > 0) break;
}
