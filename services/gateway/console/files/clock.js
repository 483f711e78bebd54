// The gateway's clock: a browser's may be a day off, and what has expired or since when something is so is by the gateway's.

const least = 5_000; // ms that are told apart: an answer has its time in seconds, and took a while

let ahead = 0; // ms

// heard takes the time of an answer.
export function heard(date) {
  const off = Date.parse(date ?? "") - Date.now();
  if (!Number.isNaN(off)) ahead = Math.abs(off) < least ? 0 : off;
}

// now is the time there, in ms.
export const now = () => Date.now() + ahead;
