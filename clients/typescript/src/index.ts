// A client of a Turnstream gateway, for browsers and for Node. README.md has examples.

export { delay } from "./backoff.js";
export {
  Client,
  type ClientOptions,
  type KeyOptions,
  newKey,
  Problem,
  type RequestOptions,
  sessionPath,
} from "./client.js";
export {
  Connection,
  type ConnectionOptions,
  type Follower,
  type Link,
  type Return,
  type SessionState,
} from "./connection.js";
export { CursorReset, type EventsOptions, type StreamLink } from "./events.js";
export { type Notice, SessionFold } from "./fold.js";
export { FollowedSession, type Reading } from "./followed.js";
export type { RunOptions } from "./run.js";
export { Store } from "./store.js";
export { type TurnEvents, turnEvents } from "./turn_events.js";
export type * from "./values.js";
export type * from "./wire.js";
