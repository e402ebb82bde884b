// Whether what is shown is the past: nothing in it can be answered.

import { createContext } from "preact";

export const Replaying = createContext(false);
