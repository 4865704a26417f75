// A server of the page's contract that plays `script.json`, for working on the page and for its browser test without the runtime.
//   node mock.mjs [--port 7979] [--sessions 10000] [--token T] [--under /PATH]
// It prints its address. It knows what the page asks for, and no more; what it plays is the shape of events, not the runtime's rules.

import { createServer } from 'node:http';
import { readFileSync } from 'node:fs';
import { parseArgs } from 'node:util';

const { values: options } = parseArgs({ options: { port: { type: 'string', default: '7979' }, sessions: { type: 'string', default: '0' }, token: { type: 'string' }, under: { type: 'string', default: '' } } });
const HERE = new URL('.', import.meta.url);
const SCRIPT = JSON.parse(readFileSync(new URL('script.json', HERE)));
const CSP = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
const TYPES = { html: 'text/html; charset=utf-8', css: 'text/css; charset=utf-8', js: 'text/javascript; charset=utf-8', svg: 'image/svg+xml' };
const wait = (ms) => new Promise((resolve) => { setTimeout(resolve, ms); });
const sockets = new Set();

// The tree: nodes by key, and what changed since the last frame.
const nodes = new Map();
const dirty = new Set();
const gone = [];
const watchers = new Set();
let keys = 0;
const crashes = [];

function node(parent, id, kind, more = {}) {
  const key = (keys += 1);
  const up = parent ? `${nodes.get(parent).path}/` : '';
  const now = Date.now();
  nodes.set(key, { key, parent, id, path: `${up}${id}`, kind, status: 'running', reading: 'fresh', incarnation: 1, generation: key, restarts: 0, restarts_in_window: 0,
    handled: 3, queue: 0, queue_peak: 0, queue_rejected: 0, started_at: now, ...more });
  dirty.add(key);
  return key;
}
function patch(key, more) {
  nodes.set(key, { ...nodes.get(key), ...more });
  dirty.add(key);
}
function drop(key) {
  nodes.delete(key);
  gone.push(key);
}
const byName = (name) => [...nodes.values()].find((each) => each.path === name || each.id === name);

function crash(key, words, park = false) {
  const before = nodes.get(key);
  const reason = { kind: 'panic', detail: { text: words, location: null } };
  const restarts = before.restarts + (park ? 0 : 1);
  const at = Date.now();
  crashes.push({ number: crashes.length + 1, at, supervisor: nodes.get(before.parent).path, context: 'child_terminated', reason, offender: before.id, kind: before.kind, path: before.path,
    incarnation: before.incarnation, message: 'answered', in_hand_ms: 2, doing: before.doing, turn: before.turn, tape_seq: before.tape_seq, tokens: before.tokens, queue: before.queue,
    recent: [{ ago_ms: 420, kind: 'message', what: 'send' }, { ago_ms: 210, kind: 'phase', what: 'model', number: 3 }, { ago_ms: 2, kind: 'message', what: 'answered', number: 4 }],
    decision: park ? { kind: 'park' } : { kind: 'restart', after_ms: 0 }, in_window: restarts });
  patch(key, { restarts, restarts_in_window: restarts, last_exit: reason, last_exit_at: at, ...(park ? { status: 'parked', reading: 'post_mortem' } : { incarnation: before.incarnation + 1, started_at: at }) });
}

const root = node(null, 'runtime', 'supervisor');
const [tapes, models] = ['tapes', 'models', 'tools', 'compactions'].map((id) => node(root, id, 'supervisor'));
const pool = node(root, 'sessions', 'supervisor');
node(root, 'timekeeper', 'timekeeper');
node(tapes, 'tape store', 'tape store');
node(models, 'scripted', 'governor', { doing: '1 request runs, 0 wait' });
const session = (parent, id, more) => node(parent, id, 'session', { phase: 'idle', tape_seq: 12, tokens: 0, tokens_in: 0, tokens_out: 0, cost: 0, ...more });
const ago = (ms) => Date.now() - ms;
const nightly = session(pool, 'nightly-build', { phase: 'tools', turn: { turn: 8, step: 4 }, doing: 'turn 8 step 4: runs bash for 121 s', doing_since: ago(121_000), tokens: 48_210, tokens_in: 44_100, tokens_out: 4_110,
  cost: 182_400, queue: 2, queue_peak: 5, started_at: ago(4_100_000) });
node(nightly, 'bash 31', 'call', { doing: 'cargo test --workspace', doing_since: ago(121_000) });
const child = session(nightly, 'nightly-build.task-1', { phase: 'model', turn: { turn: 3, step: 2 }, doing: 'turn 3 step 2: asks scripted/script', doing_since: ago(3_000), tokens: 9_300, tokens_in: 9_000, tokens_out: 300, cost: 21_000 });
node(child, 'request 9', 'request', { doing: 'scripted/script', doing_since: ago(3_000) });
session(pool, 'kb-triage-17', { phase: 'asking', turn: { turn: 3, step: 1 }, doing: 'turn 3 step 1: waits for a person', doing_since: ago(260_000), tokens: 3_100, tokens_in: 2_900, tokens_out: 200, cost: undefined, unpriced: 2 });
crash(session(pool, 'poison', { phase: 'model', restarts: 2, doing: 'turn 3 step 1: asks scripted/script', doing_since: ago(9_000) }), 'index out of bounds: the len is 3 but the index is 7', true);
session(pool, 'paused-by-hand', { phase: 'paused' });
for (let n = 0; n < Number(options.sessions); n += 1) session(pool, `bulk-${String(n).padStart(5, '0')}`, { tokens: n * 7, tokens_in: n * 7, cost: n });

setInterval(() => {
  for (let n = 0; n < Number(options.sessions) / 100; n += 1) {
    const some = byName(`bulk-${String(Math.floor(Math.random() * Number(options.sessions))).padStart(5, '0')}`);
    patch(some.key, { tokens: some.tokens + 10, handled: some.handled + 1 });
  }
  if (!dirty.size && !gone.length) return;
  const frame = { changed: [...dirty].filter((key) => nodes.has(key)).map((key) => nodes.get(key)), gone: gone.splice(0) };
  dirty.clear();
  for (const response of watchers) response.write(`event: changed\ndata: ${JSON.stringify(frame)}\n\n`);
}, 500).unref();

// A session that plays the script.
class Played {
  constructor(id, parent = pool, replies = SCRIPT.replies.filter((reply) => !reply.when)) {
    Object.assign(this, { id, seq: 1, events: [], listeners: new Set(), messages: [], waiting: [], asks: new Map(), turn: null, step: 0, answer: 0, receipts: new Map(), sub: 0,
      used: { input: 0, output: 0 }, replies, tasks: [] });
    this.key = byName(id)?.key ?? session(parent, id);
  }

  event(kind, more = {}, durable = true) {
    if (durable) { this.seq += 1; this.sub = 0; }
    const id = durable ? `${this.seq}.0.0` : `${this.seq}.1.${this.sub += 1}`;
    const event = { v: 1, id, session: this.id, time: Date.now(), ...(this.turn ? { turn: this.turn } : {}), ...(this.step ? { step: this.step } : {}), event: kind, ...more };
    if (durable) this.events.push(event);
    for (const response of this.listeners) response.write(`${durable ? `id: ${id}\n` : ''}data: ${JSON.stringify(event)}\n\n`);
    return event;
  }

  state(phase, words) {
    patch(this.key, { phase, doing: words && `turn ${this.turn} step ${this.step}: ${words}`, doing_since: words && Date.now(), turn: this.turn ? { turn: this.turn, step: this.step } : undefined,
      tape_seq: this.seq, queue: this.waiting.length, tokens: this.used.input + this.used.output, tokens_in: this.used.input, tokens_out: this.used.output, cost: this.used.input + 5 * this.used.output });
  }

  send({ id, text, delivery = 'queue', steering = 'skip_remaining' }) {
    if (this.receipts.has(id)) return this.receipts.get(id);
    const message = { id, role: 'user', parts: [{ type: 'text', text }], time: { created: Date.now(), completed: Date.now() } };
    const kind = delivery === 'steer' ? { steer: steering } : delivery;
    const { length } = this.waiting;
    this.event(delivery === 'steer' ? 'steered' : 'queued', { message, delivery: kind });
    const receipt = { message: id, seq: this.seq, disposition: !this.turn ? 'started' : delivery === 'steer' ? 'steering' : { queued: { before: length } } };
    this.receipts.set(id, receipt);
    this.waiting.push({ seq: this.seq, message, delivery: kind });
    this.state(nodes.get(this.key).phase, this.turn ? 'got a message' : undefined);
    if (!this.turn) this.over = this.play();
    return receipt;
  }

  take(which) {
    const taken = this.waiting.filter(which);
    this.waiting = this.waiting.filter((each) => !which(each));
    this.messages.push(...taken.map(({ message }) => message));
    return taken.map(({ message }) => message.id);
  }

  steers() {
    return this.waiting.some(({ delivery }) => delivery.steer);
  }

  async play() {
    while (this.waiting.length && !this.turn) {
      const first = this.waiting[0];
      this.turn = this.seq + 1;
      this.aborted = null;
      const messages = this.take((each) => each === first);
      this.event('turn_started', { messages });
      for (this.step = 1; !this.aborted; this.step += 1) if (!(await this.oneStep())) break;
      this.event('turn_finished', { outcome: this.aborted ? 'aborted' : 'done', ...(this.aborted && { reason: this.aborted }), messages, usage: this.used, cost: this.used.input + 5 * this.used.output });
      this.turn = null;
      this.step = 0;
      this.state('idle');
    }
  }

  async oneStep() {
    const reply = this.replies[Math.min(this.answer, this.replies.length - 1)];
    this.answer += 1;
    const steering = this.take((each) => each.delivery.steer);
    if (steering.length) this.event('delivered', { messages: steering });
    this.event('step_started', { model: 'scripted/script', attempt: 1, used: 2_852, usable: 111_616, hash: '84d2' });
    this.state('model', 'asks scripted/script');
    const parts = [];
    if (reply.reasoning) {
      this.event('reasoning_delta', { text: reply.reasoning }, false);
      parts.push({ type: 'reasoning', text: reply.reasoning });
    }
    const pieces = [reply.text ?? []].flat();
    await wait(reply.delay_ms ?? 0);
    for (const text of pieces) {
      await wait(reply.chunk_delay_ms ?? 0);
      this.event('text_delta', { text }, false);
    }
    if (pieces.length) parts.push({ type: 'text', text: pieces.join('') });
    const calls = (reply.calls ?? []).map((call, n) => ({ call: `call_${this.answer}_${n}`, name: call.name, input: JSON.stringify(call.input) }));
    calls.forEach(({ call, name, input }, index) => {
      this.event('call_pending', { index, call, name }, false);
      this.event('call_input', { index, text: input }, false);
      parts.push({ type: 'tool', callID: call, tool: name, state: { status: 'pending', input } });
    });
    for (const part of parts) this.event('part_updated', { part });
    const message = { id: `a${this.seq}`, role: 'assistant', parts, time: { created: Date.now() } };
    this.messages.push(message);
    for (const call of calls) await this.run(call, parts.find((part) => part.callID === call.call));
    this.used = { input: this.used.input + reply.usage.input, output: this.used.output + reply.usage.output };
    this.event('step_finished', { calls: calls.map(({ name }) => name), finish: calls.length ? 'tool-calls' : 'stop', usage: reply.usage, cost: 210 });
    return calls.length > 0;
  }

  async run({ call, name, input }, part) {
    const ticket = this.seq + 1;
    const finish = (more) => {
      part.state = more.error ? { status: 'error', input, error: more.content, reason: more.error, time: {} } : { status: 'completed', input, output: more.content, title: more.title, metadata: more.details, time: {} };
      this.event('call_finished', { ticket, call, name, ...more });
    };
    if (this.aborted) return finish({ error: 'aborted', content: 'Aborted.' });
    if (this.steers()) return finish({ error: 'skipped', content: `Skipped due to queued user message: ${name} was not run.` });
    if (name === 'edit' || name === 'write') {
      const answer = await this.asked(call, name, input);
      if (!['once', 'always'].includes(answer.grant)) {
        if (!answer.message) this.aborted = 'rejected';
        return finish({ error: 'denied', content: answer.message ?? 'Rejected.' });
      }
    }
    this.event('call_started', { ticket, call, name, input, attempt: 1 });
    this.state('tools', `runs ${name}`);
    const worker = node(this.key, `${name} ${ticket}`, 'call', { doing: name, doing_since: Date.now() });
    if (name === 'task') {
      const child = new Played(`${this.id}.task-${ticket}`, this.key, SCRIPT.replies.filter((reply) => reply.when));
      played.set(child.id, child);
      this.tasks.push({ ticket, session: child.id, queued: false, depth: 1, progress: null });
      this.event('task_started', { ticket, child: child.id, link: {}, depth: 1, adopted: false, queued: false });
      const { text } = child.replies[0];
      await child.send({ id: 'prompt', text: JSON.parse(input).prompt }) && await child.over;
      this.event('task_finished', { ticket, child: child.id, reason: 'done', text, steps: 1, usage: child.used });
      drop(worker);
      return finish({ content: text, title: 'Look around' });
    }
    if (name === 'bash') for (let n = 0; n < 60 && !this.aborted; n += 1) await wait(100);
    else await wait(200);
    drop(worker);
    if (name === 'edit') return finish({ content: 'Edited: greet.sh (1 replacement)', title: 'Edited greet.sh', details: { diff: { content: '@@ -1,2 +1,2 @@\n-echo Helo\n+echo Hello\n line2\n' }, path: 'greet.sh' } });
    if (name === 'read') return finish({ content: '     1\techo Helo\n     2\tline2', title: 'Read greet.sh' });
    return finish(this.aborted ? { error: 'aborted', content: 'Aborted.' } : { content: 'checked\n', title: name });
  }

  asked(call, name, input) {
    const ask = this.seq + 1;
    const { path } = JSON.parse(input);
    const body = { ask, call, name, kind: 'call', input, access: [{ permission: 'edit', pattern: path }], expires: Date.now() + 600_000, digest: '3700535a',
      offers: [{ offer: 1, rules: [{ permission: 'edit', pattern: path, action: 'allow' }], allows: `Allows changing \`${path}\`.` },
        { offer: 2, rules: [{ permission: 'edit', pattern: '*', action: 'allow' }], allows: 'Allows changing every file of the workspace.' }] };
    this.event('ask', body);
    this.state('asking', 'waits for a person');
    return new Promise((resolve) => {
      this.asks.set(ask, { body, answer: (grant) => { this.asks.delete(ask); this.event('ask_closed', { ask, grant: grant.grant, who: grant.who }); resolve(grant); } });
    });
  }
}

const played = new Map();
const open = (id) => {
  if (!played.has(id)) played.set(id, new Played(id));
  return played.get(id);
};

// HTTP.
const problem = (status, kind, detail, next) => ({ status, type: 'application/problem+json', body: { type: 'about:blank', title: kind, status, kind, retryable: false, detail, ...(next && { next }) } });
const ok = (body, status = 200) => ({ status, body });
const done = { status: 204 };
let away = 0;

function stream(response) {
  response.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-store' });
  response.write('retry: 1000\n\n');
  const beat = setInterval(() => response.write(': beat\n\n'), 15_000);
  response.on('close', () => { clearInterval(beat); watchers.delete(response); played.forEach((each) => each.listeners.delete(response)); });
}

function events(one, after, response) {
  stream(response);
  const from = after === null ? one.seq : Number(String(after).split('.')[0]);
  for (const event of one.events) if (Number(event.id.split('.')[0]) > from) response.write(`id: ${event.id}\ndata: ${JSON.stringify(event)}\n\n`);
  one.listeners.add(response);
}

function ofSession(one, method, path, body, url) {
  const now = { seq: one.seq, turn: one.turn, step: one.step || null, paused: false, on_hold: false, interrupted: false, ended: null, left: {}, spent: {} };
  const name = nodes.get(one.key)?.id ?? one.id;
  switch (`${method} ${path[0] ?? ''}`) {
    case 'GET ': return ok({ session: name, title: null, agent: 'build', model: 'scripted/script', labels: {}, status: 'live', seq: one.seq, now });
    case 'GET messages': return ok({ messages: url.searchParams.get('before') ? [] : [...one.messages].reverse(), next: null, seq: one.seq });
    case 'GET queue': return ok({ waiting: one.waiting });
    case 'GET asks': return ok({ asks: [...one.asks.values()].map(({ body: each }) => each) });
    case 'GET tasks': return ok({ tasks: one.tasks.length ? one.tasks : one.id === 'nightly-build' ? [{ ticket: 14, session: 'nightly-build.task-1', queued: false, depth: 1, progress: { current_tool: 'grep', idle_ms: 900 } }] : [] });
    case 'POST messages': return body.delivery === 'reject' && one.turn ? problem(409, 'busy', 'a turn is running', 'wait for the running work, or abort it') : ok(one.send({ id: `x${one.seq}`, ...body }), 202);
    case 'DELETE queue': {
      const at = one.waiting.findIndex(({ message }) => message.id === decodeURIComponent(path[1]));
      if (at < 0) return problem(409, 'stale', 'the message does not wait any more');
      one.waiting.splice(at, 1);
      one.event('withdrawn', { message: decodeURIComponent(path[1]) });
      return done;
    }
    case 'POST asks': {
      const ask = one.asks.get(Number(path[1]));
      if (!ask) return problem(409, 'stale', 'the ask is closed');
      ask.answer(body);
      return done;
    }
    case 'POST abort':
      one.aborted = body.reason || 'aborted';
      one.asks.forEach((ask) => ask.answer({ grant: 'reject', message: 'aborted' }));
      return ok({ recorded: true });
    case 'POST pause': one.event('paused'); one.state('paused', 'paused'); return done;
    case 'POST resume': one.event('resumed'); one.state(one.turn ? 'model' : 'idle'); return done;
    case 'POST fork': return ok({ session: `${one.id}-fork` }, 201);
    default: return method === 'POST' ? done : problem(404, 'not_found', 'there is no such route');
  }
}

function ofActor(name, method, lever, body) {
  const found = byName(name);
  if (!found) return problem(404, 'not_found', `there is no actor ${name}`);
  if (method === 'GET') return ok({ node: found, crashes: crashes.filter((each) => each.path === found.path).slice(-5), trace: [{ ago_ms: 900, kind: 'message', what: 'send' }, { ago_ms: 12, kind: 'message', what: 'answered', number: 4 }] });
  if (lever === 'crash') crash(found.key, body.words, found.restarts === 2);
  if (lever === 'restart') patch(found.key, { incarnation: found.incarnation + 1, restarts: found.restarts + 1, started_at: Date.now(), last_exit: { kind: 'shutdown', detail: 'restart by hand' }, last_exit_at: Date.now() });
  if (lever === 'park') patch(found.key, { status: 'parked', reading: 'post_mortem' });
  if (lever === 'unpark') patch(found.key, { status: 'running', reading: 'fresh', phase: 'idle', doing: undefined, incarnation: found.incarnation + 1, started_at: Date.now() });
  if (lever === 'stop') patch(found.key, { status: 'stopped', reading: 'post_mortem', last_exit: { kind: 'shutdown', detail: 'stopped by hand' }, last_exit_at: Date.now() });
  if (lever === 'passivate') drop(found.key);
  return done;
}

function answer(method, url, body, request, response) {
  const [, top, what, name, ...rest] = url.pathname.split('/');
  if (url.pathname === '/' || top === 'page') {
    const file = top === 'page' ? what : 'index.html';
    try {
      const raw = readFileSync(new URL(`../../page/${file}`, HERE));
      return { status: 200, type: TYPES[file.split('.').pop()], raw: file === 'index.html' ? String(raw).replaceAll('="/page/', `="${options.under}/page/`) : raw };
    } catch {
      return problem(404, 'not_found', 'there is no such file');
    }
  }
  if (url.pathname === '/mock/away') {
    away = Date.now() + body.ms;
    sockets.forEach((socket) => { if (socket !== request.socket) socket.destroy(); });
    return done;
  }
  if (url.pathname === '/v1/login') return body.token === options.token ? { ...done, cookie: `token=${options.token}; HttpOnly; SameSite=Strict; Path=/` } : problem(401, 'unauthorized', 'the token is wrong');
  if (options.token && ![`token=${options.token}`, `Bearer ${options.token}`].some((given) => [request.headers.cookie, request.headers.authorization].includes(given))) return problem(401, 'unauthorized', 'a token is needed');
  if (url.pathname === '/v1') return ok({ name: 'tamtam', version: '0.1.0', scope: 'all', draining: false, several_nodes: false, needs_token: Boolean(options.token) });
  if (url.pathname === '/v1/tree/events') {
    stream(response);
    response.write(`event: snapshot\ndata: ${JSON.stringify({ nodes: [...nodes.values()] })}\n\n`);
    watchers.add(response);
    return null;
  }
  if (what === 'crashes') return ok({ crashes });
  if (what === 'drain') return ok({ left: [] });
  if (what === 'actors') return ofActor(decodeURIComponent(name), method, rest[0], body);
  if (what === 'sessions' && !name) {
    const one = open(body.id);
    return ok({ session: { session: body.id, seq: one.seq }, receipt: body.prompt ? one.send({ id: `p${one.seq}`, ...body.prompt }) : null }, 201);
  }
  if (what === 'sessions') {
    const id = decodeURIComponent(name);
    if (!played.has(id) && !byName(id)) return problem(404, 'not_found', `there is no session ${id}`);
    const one = open(id);
    if (method === 'GET' && ['queue', 'asks', 'tasks'].includes(rest[0]) && nodes.get(one.key)?.status === 'parked') return problem(409, 'parked', 'the session is parked');
    if (method === 'GET' && rest[0] === 'events') { events(one, url.searchParams.get('after'), response); return null; }
    return ofSession(one, method, rest, body, url);
  }
  return problem(404, 'not_found', 'there is no such route');
}

const server = createServer(async (request, response) => {
  if (Date.now() < away) { request.socket.destroy(); return; }
  let text = '';
  for await (const piece of request) text += piece;
  const url = new URL(request.url.startsWith(options.under) ? request.url.slice(options.under.length) || '/' : '/outside', 'http://mock');
  const made = answer(request.method, url, text ? JSON.parse(text) : {}, request, response);
  if (!made) return;
  const headers = { 'content-security-policy': CSP, 'x-content-type-options': 'nosniff' };
  if (made.cookie) headers['set-cookie'] = made.cookie;
  if (made.body !== undefined || made.raw) headers['content-type'] = made.type ?? 'application/json';
  response.writeHead(made.status, headers);
  response.end(made.raw ?? (made.body === undefined ? undefined : JSON.stringify(made.body)));
});
server.on('connection', (socket) => { sockets.add(socket); socket.on('close', () => sockets.delete(socket)); });
server.listen(Number(options.port), '127.0.0.1', () => console.log(`http://127.0.0.1:${server.address().port}${options.under}`));
