// Words for numbers: durations, times, money, tokens, reasons. Values in, text out; nothing here reads a clock.

const UNITS = [[86_400_000, 'd'], [3_600_000, 'h'], [60_000, 'min'], [1_000, 's']];

/** A duration in words of at most two units: `0.4 s`, `12 s`, `3 min 20 s`, `2 h 5 min`. */
export function duration(ms) {
  if (!(ms >= 0)) return '';
  if (ms < 1_000) return `${(Math.floor(ms / 100) / 10).toFixed(1)} s`;
  const at = UNITS.findIndex(([size]) => ms >= size);
  const [size, unit] = UNITS[at];
  const whole = `${Math.floor(ms / size)} ${unit}`;
  if (at === UNITS.length - 1) return whole;
  const [next, name] = UNITS[at + 1];
  const rest = Math.floor((ms % size) / next);
  return rest ? `${whole} ${rest} ${name}` : whole;
}

/** How long something has lasted at `now`. A clock of the server that is ahead of ours gives zero, not a negative time. */
export const since = (at, now) => (at ? duration(Math.max(0, now - at)) : '');

/** A duration in its largest unit alone, for narrow places. */
export const coarse = (words) => words.split(' ').slice(0, 2).join(' ');

const two = (n) => String(n).padStart(2, '0');

/** The time of day, as `13:02:07`. */
export function clock(ms) {
  if (!ms) return '';
  const at = new Date(ms);
  return `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
}

/** Tokens: exact below ten thousand, then `12.3k` and `1.2M`. */
export function tokens(n) {
  if (n === undefined || n === null) return '';
  if (n < 10_000) return n.toLocaleString('en-US');
  if (n < 999_950) return `${(n / 1_000).toFixed(1)}k`;
  return `${(n / 1_000_000).toFixed(1)}M`;
}

/** Millionths of a dollar as dollars, with more digits for small amounts, and never as nothing while it is something. */
export function dollars(micro) {
  const usd = micro / 1e6;
  if (micro === 0) return '$0';
  if (usd >= 100) return `$${usd.toFixed(0)}`;
  if (usd < 0.0001) return '<$0.0001';
  return usd >= 1 ? `$${usd.toFixed(2)}` : `$${usd.toFixed(4)}`;
}

/** The cost of anything that has the three fields: `$0.21`; `≥ $0.21` while some requests have no price; `unknown`. */
export function cost({ cost: whole, cost_at_least: least, unpriced } = {}) {
  if (whole !== undefined) return dollars(whole);
  if (!unpriced) return '';
  return least ? `≥ ${dollars(least)}` : 'unknown';
}

/** One limit of a budget in its unit. */
export function amount(resource, n) {
  if (resource === 'usd' || resource === 'micro_usd') return dollars(n);
  if (resource === 'time_ms') return duration(n);
  return `${tokens(n)} ${resource}`;
}

const WORDS = { shutdown: 'shut down', start_failed: 'failed to start', start_timeout: 'start timed out' };

/** How an actor ended: `{"kind","detail"}` in one line. */
export function reason(exit) {
  if (!exit) return '';
  const detail = typeof exit.detail === 'object' && exit.detail ? exit.detail.text : exit.detail;
  const word = WORDS[exit.kind] ?? exit.kind;
  return detail && detail !== exit.kind ? `${word}: ${detail}` : word;
}

/** What the supervisor did about an end. */
export function decision(made) {
  const words = { park: 'parked', escalate: 'its supervisor gave up', ended: 'stays down', stopped: 'stopped as ordered',
    refused: 'its starter got the error' };
  if (made?.kind !== 'restart') return words[made?.kind] ?? made?.kind ?? '';
  return made.after_ms ? `restarted after ${duration(made.after_ms)}` : 'restarted at once';
}

/** How a turn ended, with what belongs to the outcome. */
export function outcome(event) {
  const { error, reason: why, tool, steps, recoveries, breach } = event;
  const more = error ?? why ?? tool ?? breach?.resource ?? (steps && `${steps} steps`) ?? (recoveries && `${recoveries} recoveries`);
  const word = String(event.outcome).replaceAll('_', ' ');
  return more && event.outcome !== 'done' ? `${word}: ${typeof more === 'string' ? more : JSON.stringify(more)}` : word;
}

/** A number with its noun. */
export const many = (n, noun) => `${n.toLocaleString('en-US')} ${noun}${n === 1 ? '' : 's'}`;

/** The first `max` characters, and how many are left out. */
export function clip(text, max) {
  return text.length <= max ? { text, more: 0 } : { text: text.slice(0, max), more: text.length - max };
}

/** The first line of a text, cut to `max` characters. */
export function line(text, max = 120) {
  const first = String(text).trimStart().split('\n', 1)[0];
  return first.length > max ? `${first.slice(0, max - 1)}…` : first;
}
