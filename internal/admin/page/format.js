// Numbers and times as people read them.

const whole = new Intl.NumberFormat("en");

export const count = (n) => whole.format(n);

// span is a time from milliseconds: 340 ms, 1.5 s, 2 m 3 s.
export function span(ms) {
  if (ms < 0.05) return "0 ms";
  if (ms < 10) return `${+ms.toFixed(1)} ms`;
  if (ms < 1000) return `${Math.round(ms)} ms`;
  const s = ms / 1000;
  if (s < 10) return `${s.toFixed(1)} s`;
  if (s < 60) return `${Math.round(s)} s`;
  const m = Math.floor(s / 60);
  if (m < 60) return `${m} m ${Math.floor(s % 60)} s`;
  if (m < 48 * 60) return `${Math.floor(m / 60)} h ${m % 60} m`;
  return `${Math.floor(m / 1440)} days`;
}

// rate is a number per second.
export function rate(n) {
  if (n === 0) return "0";
  return n < 10 ? n.toFixed(1) : count(Math.round(n));
}

export const ago = (then, now) => {
  const ms = now - new Date(then).getTime();
  return ms < 1000 ? "now" : `${span(ms)} ago`;
};

export const clock = (time) => new Date(time).toISOString().slice(11, 19);
export const precise = (time) => new Date(time).toISOString().slice(11, 23);

// caller names somebody in one line.
export const caller = (p) => p.name || p.client || (p.owner ? "all clients" : "somebody");
