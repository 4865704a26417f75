// The server: requests, and streams that come back by themselves.

import { empty, feed } from './sse.js';

const SILENCE_MS_MAX = 45_000; // three heartbeats of the server
const WAIT_MS_MAX = 10_000;

/** An answer that is not good: the server's own sentence, what to do next, and its kind. */
export class Problem extends Error {
  constructor(status, body) {
    super(body?.detail ?? body?.title ?? `the server answered ${status}`);
    Object.assign(this, { status, kind: body?.kind ?? 'failed', retryable: body?.retryable ?? false, next: body?.next ?? '' });
  }
}

// A host may mount the server under a path of its own: `/v1/…` means the one beside `/page/`, where this module is.
const ROOT = new URL('..', import.meta.url).pathname.replace(/\/$/, '');
const under = (path) => `${ROOT}${path}`;

async function problem(response) {
  return new Problem(response.status, await response.json().catch(() => null));
}

/** One request. Gives the JSON of the answer, or null if it has none. */
export async function ask(method, path, body) {
  const options = { method, headers: {}, cache: 'no-store' };
  if (body !== undefined) Object.assign(options, { headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) });
  let response;
  try {
    response = await fetch(under(path), options);
  } catch {
    throw new Problem(0, { detail: 'the server cannot be reached', next: 'try again in a moment', kind: 'away', retryable: true });
  }
  if (!response.ok) throw await problem(response);
  const text = await response.text();
  return text ? JSON.parse(text) : null;
}

export const get = (path) => ask('GET', path);
export const post = (path, body = {}) => ask('POST', path, body);
export const session = (id, rest = '') => `/v1/sessions/${encodeURIComponent(id)}${rest}`;
export const actor = (path, rest = '') => `/v1/actors/${encodeURIComponent(path)}${rest}`;

/** An id for a message. `crypto.randomUUID` is not there on plain HTTP to another machine; this is. */
export const newId = () => Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, '0')).join('');

/**
 * Follows a stream until `stop()` of what it gives. `path(last)` makes the address from the last event's id (null at first).
 * `frame(name, data)` gets each frame; `state(word, detail)` hears `live`, `away` (with the time of the next try), and `ended`.
 * A line that is silent for three heartbeats counts as dead.
 */
export function follow(path, { frame, state }) {
  let stopped = false;
  let last = null;
  let tries = 0;
  let least = 1_000;
  let attempt = null;
  let wake = null;
  const pause = (ms) => new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    wake = () => { clearTimeout(timer); resolve(); };
  });

  async function once() {
    attempt = new AbortController();
    let watchdog = setTimeout(() => attempt.abort(), SILENCE_MS_MAX);
    try {
      const response = await fetch(under(path(last)), { signal: attempt.signal, cache: 'no-store', headers: { accept: 'text/event-stream' } });
      if (!response.ok) throw await problem(response);
      state('live');
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      let parser = empty();
      for (;;) {
        const { value, done } = await reader.read();
        if (done) return null;
        clearTimeout(watchdog);
        watchdog = setTimeout(() => attempt.abort(), SILENCE_MS_MAX);
        const fed = feed(parser, value);
        parser = fed.state;
        least = fed.retry ?? least;
        for (const { name, id, data } of fed.frames) {
          tries = 0;
          if (stopped) return null;
          if (name === 'ended') return JSON.parse(data).why ?? 'ended';
          if (name === 'draining') { least = JSON.parse(data).retry_ms ?? least; return null; }
          if (name === 'lagged') return null;
          frame(name, JSON.parse(data));
          last = id ?? last;
        }
      }
    } finally {
      clearTimeout(watchdog);
      attempt.abort();
    }
  }

  (async () => {
    while (!stopped) {
      try {
        const why = await once();
        if (why && !stopped) { state('ended', why); return; }
      } catch (error) {
        if (error instanceof Problem && [401, 403, 404].includes(error.status) && !stopped) { state(error.status === 401 ? 'login' : 'ended', error.message); return; }
        if (!(error instanceof Problem || error.name === 'AbortError' || error instanceof TypeError)) console.error(error);
      }
      if (stopped) return;
      const ms = Math.min(WAIT_MS_MAX, least * 2 ** Math.min(tries, 5)) * (0.75 + Math.random() / 2);
      tries += 1;
      state('away', Date.now() + ms);
      await pause(ms);
    }
  })();
  const now = () => wake?.();
  addEventListener('online', now);
  return { now, stop() { stopped = true; removeEventListener('online', now); attempt?.abort(); wake?.(); } };
}
