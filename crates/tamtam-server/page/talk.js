// A session's conversation as a value: stored messages and events in, items to draw out. Each fold returns a new talk; an item that
// did not change stays the same object, so the view redraws only what changed.
//
// Items: {key, kind: 'said' | 'text' | 'reasoning' | 'call' | 'note', …}. An item with `draft` is provisional: the durable event that
// completes it replaces it, and what a failed or broken-off request left behind is removed.

import { outcome, cost, tokens, duration, line } from './format.js';

export const empty = () => ({
  items: [], waiting: [], asks: new Map(), tasks: new Map(), turn: null, left: null, context: null, stale: false, made: 0,
});

const textOf = (message) => message.parts.filter((part) => part.type === 'text').map((part) => part.text).join('\n');
const filesOf = (message) => message.parts.filter((part) => part.type === 'file').map((part) => part.filename ?? part.mime);

/** An item of kind `said` for a message of a person or host. */
export const said = (message, more = {}) => ({
  key: `m${message.id}`, kind: 'said', id: message.id, text: textOf(message), files: filesOf(message), at: message.time?.created, ...more,
});

function callOf(part, key, more = {}) {
  const { status, input, title, output, error, reason, metadata, time } = part.state;
  return { key, kind: 'call', call: part.callID, name: part.tool, input, state: status === 'error' ? (reason ?? 'failed') : status, title,
    content: output ?? error, details: metadata, started: time?.start, ended: time?.end, ...more };
}

/** The items of one stored message. */
function itemsOf(message) {
  if (message.role === 'user') return [said(message)];
  const items = [];
  message.parts.forEach((part, n) => {
    const key = `m${message.id}.${n}`;
    if (part.type === 'text' || part.type === 'reasoning') items.push({ key, kind: part.type, text: part.text });
    else if (part.type === 'tool') items.push(callOf(part, key));
    else if (part.type === 'compaction') items.push({ key, kind: 'note', text: 'The history before this point is replaced by a summary.' });
    else if (part.type === 'agent') items.push({ key, kind: 'note', text: `Agent: ${part.name ?? part.agent ?? ''}` });
    else if (part.type === 'retry') items.push({ key, kind: 'note', text: 'A request failed and was made again.' });
  });
  return items;
}

/** Puts stored messages, newest first as the server gives them, in front of what is there. */
export function older(talk, messages) {
  const before = [...messages].reverse().flatMap(itemsOf);
  const known = new Set(talk.items.map((item) => item.key));
  return { ...talk, items: [...before.filter((item) => !known.has(item.key)), ...talk.items] };
}

/** The state as it was asked for: the session's `now`, its queue, its asks and its tasks. */
export function begin(talk, { now, waiting = [], asks = [], tasks = [] }) {
  const turn = now?.turn ? { seq: now.turn, step: now.step ?? 0 } : null;
  const items = asks.reduce((all, ask) => (isOwn(ask) ? patchCall({ items: all }, { call: ask.call }, { state: 'asking', ask: ask.ask }).items : all), talk.items);
  return { ...talk, items, turn, left: now?.left ?? null, waiting: waiting.map(({ seq, message, delivery, ahead }) => ({ id: message.id, ...(ahead && { ahead }), text: textOf(message), delivery, stage: 'accepted', seq,
      accepted: message.time?.created })),
    asks: new Map(asks.map((ask) => [ask.ask, ask])), tasks: new Map(tasks.map((task) => [task.ticket, task])) };
}

const put = (items, at, item) => [...items.slice(0, at), item, ...items.slice(at + 1)];
const withoutDrafts = (items) => (items.some((item) => item.draft) ? items.filter((item) => !item.draft) : items);

/** The newest call with this id that is not over; -1 if there is none. */
function callAt(items, event) {
  for (let at = items.length - 1; at >= 0; at -= 1) {
    const item = items[at];
    if (item.kind === 'call' && !item.ended && (item.ticket ? item.ticket === event.ticket : item.call === event.call)) return at;
  }
  return -1;
}

function note(talk, event, text, tone = 'quiet') {
  return { ...talk, items: [...talk.items, { key: `e${event.id}`, kind: 'note', text, tone, at: event.time }] };
}

/** Patches an open call. One that is over stays so: the event repeats what a stored message showed already. */
function patchCall(talk, event, patch) {
  const at = callAt(talk.items, event);
  return at < 0 ? talk : { ...talk, items: put(talk.items, at, { ...talk.items[at], ...patch }) };
}

function draft(talk, kind, event) {
  const last = talk.items.at(-1);
  if (last?.draft && last.kind === kind) {
    return { ...talk, items: put(talk.items, talk.items.length - 1, { ...last, text: last.text + event.text }) };
  }
  return { ...talk, made: talk.made + 1, items: [...talk.items, { key: `d${talk.made}`, kind, text: event.text, draft: true }] };
}

function part(talk, event) {
  const made = event.part;
  const kind = made.type === 'tool' ? 'call' : made.type;
  if (!['text', 'reasoning', 'call'].includes(kind)) return talk;
  // An answer is named after its entry: a part of one that a stored message showed is not new.
  if (talk.items.some((item) => item.key.startsWith(`manswer-${event.id.split('.', 1)[0]}.`))) return talk;
  const at = talk.items.findIndex((item) => item.draft && item.kind === kind && (kind !== 'call' || item.call === made.callID));
  const key = at >= 0 ? talk.items[at].key : `e${event.id}`;
  const item = kind === 'call' ? callOf(made, key) : { key, kind, text: made.text };
  return { ...talk, items: at >= 0 ? put(talk.items, at, item) : [...talk.items, item] };
}

function delivered(talk, event) {
  let { items, waiting } = talk;
  for (const id of event.messages) {
    const from = waiting.find((message) => message.id === id);
    waiting = waiting.filter((message) => message.id !== id);
    if (items.some((item) => item.kind === 'said' && item.id === id)) continue;
    items = [...items, { key: `m${id}`, kind: 'said', id, text: from?.text ?? '', files: from?.files ?? [], delivery: from?.delivery,
      accepted: from?.accepted, delivered: event.time, at: event.time, unknown: !from }];
  }
  return { ...talk, items, waiting };
}

/** A message on its way, by what is known of it: sent by this page, or heard of from the stream. The later stage stands. */
export function onItsWay(talk, message) {
  const at = talk.waiting.findIndex((waits) => waits.id === message.id);
  if (at >= 0) {
    const before = talk.waiting[at];
    const stage = before.stage === 'accepted' ? before.stage : (message.stage ?? before.stage);
    return { ...talk, waiting: put(talk.waiting, at, { ...before, ...message, stage }) };
  }
  const there = talk.items.findIndex((item) => item.kind === 'said' && item.id === message.id);
  if (there < 0) return { ...talk, waiting: [...talk.waiting, message] };
  const item = talk.items[there];
  return { ...talk, items: put(talk.items, there, { ...item, accepted: item.accepted ?? message.accepted }) };
}

// Where a message is that was sent into the running answer. It waits all the same.
function moved(talk, event) {
  const at = talk.waiting.findIndex((message) => message.id === event.message);
  if (at < 0) return talk;
  const { why, ...waits } = talk.waiting[at];
  return { ...talk, waiting: put(talk.waiting, at, { ...waits, ahead: event.to, ...(event.why && { why: event.why }) }) };
}

/** A message with other words: where the words before were on their way to is over, for the model has those and not these. */
function edited(talk, message) {
  const known = onItsWay(talk, { id: message.id, text: textOf(message), stage: 'accepted' });
  const at = known.waiting.findIndex((waits) => waits.id === message.id);
  if (at < 0) return known;
  const { ahead, why, ...waits } = known.waiting[at];
  return { ...known, waiting: put(known.waiting, at, waits) };
}

const withdraw = (talk, id) => ({ ...talk, waiting: talk.waiting.filter((message) => message.id !== id) });

// A question of a task names a call of the task, not one of this session.
const isOwn = (ask) => Boolean(ask.call) && !ask.from?.length;

function ask(talk, event) {
  const asked = { ...talk, asks: new Map(talk.asks).set(event.ask, event) };
  return isOwn(event) ? patchCall(asked, { call: event.call }, { state: 'asking', ask: event.ask }) : asked;
}

function askClosed(talk, event) {
  const asks = new Map(talk.asks);
  asks.delete(event.ask);
  const at = talk.items.findIndex((item) => item.kind === 'call' && item.ask === event.ask && item.state === 'asking');
  const items = at < 0 ? talk.items : put(talk.items, at, { ...talk.items[at], state: 'pending' });
  return { ...talk, asks, items };
}

function task(talk, event, patch) {
  const tasks = new Map(talk.tasks);
  tasks.set(event.ticket, { ...tasks.get(event.ticket), ticket: event.ticket, session: event.child, ...patch });
  return { ...talk, tasks };
}

const FOLDS = {
  queued: (talk, event) => onItsWay(talk, waits(event)),
  steered: (talk, event) => onItsWay(talk, waits(event)),
  queue_edited: (talk, event) => edited(talk, event.message),
  steering_moved: (talk, event) => moved(talk, event),
  withdrawn: (talk, event) => withdraw(talk, event.message.id ?? event.message),
  turn_started: (talk, event) => ({ ...delivered(talk, event), turn: { seq: event.turn, step: 0, since: event.time } }),
  delivered,
  step_started: (talk, event) => ({ ...talk, items: withoutDrafts(talk.items), context: [event.used, event.usable],
    turn: { ...talk.turn, seq: event.turn, step: event.step, model: event.model, at: event.time } }),
  text_delta: (talk, event) => draft(talk, 'text', event),
  reasoning_delta: (talk, event) => draft(talk, 'reasoning', event),
  call_pending: (talk, event) => ({ ...talk, made: talk.made + 1, items: [...talk.items, { key: `d${talk.made}`, kind: 'call',
    call: event.call, name: event.name, input: '', index: event.index, state: 'writing', draft: true }] }),
  call_input: (talk, event) => {
    const at = talk.items.findIndex((item) => item.draft && item.kind === 'call' && item.index === event.index);
    return at < 0 ? talk : { ...talk, items: put(talk.items, at, { ...talk.items[at], input: talk.items[at].input + event.text }) };
  },
  part_updated: part,
  call_started: (talk, event) => patchCall(talk, { call: event.call }, { state: 'running', ticket: event.ticket, started: event.time,
    input: event.input }),
  call_progress: (talk, event) => patchCall(talk, event, { progress: event.title }),
  call_finished: (talk, event) => patchCall(talk, event, { state: event.error ?? 'completed', ended: event.time, content: event.content,
    details: event.details, title: event.title }),
  ask,
  ask_closed: askClosed,
  budget: (talk, event) => note(event.ask ? ask(talk, { ...event, kind: 'budget' }) : talk, event, event.text ?? 'A budget is used up.', 'warn'),
  request_failed: (talk, event) => note({ ...talk, items: withoutDrafts(talk.items) }, event, `The request failed: ${event.error}${event.fallback ? `: goes on with ${event.fallback}` : ''}`, 'bad'),
  retry: (talk, event) => note(talk, event,
    `Tries again${event.until > event.time ? ` in ${duration(event.until - event.time)}` : ''} (attempt ${event.attempt})`),
  step_finished: (talk, event) => {
    const miss = event.cache_miss;
    const next = { ...talk, left: event.left ?? talk.left };
    return miss ? note(next, event, `${miss.tokens} tokens came from no cache (${miss.why})`) : next;
  },
  turn_finished: (talk, event) => {
    const used = event.usage ? `${tokens(event.usage.input)} tokens in, ${tokens(event.usage.output)} out` : '';
    const facts = [outcome(event), used, cost(event)].filter(Boolean).join(' · ');
    return { ...note({ ...talk, items: withoutDrafts(talk.items) }, event, `Turn ended: ${facts}`, event.outcome === 'done' ? 'fine' : 'warn'),
      turn: null, asks: new Map([...talk.asks].filter(([, open]) => open.turn && open.turn !== event.turn)) };
  },
  session_recovered: (talk, event) => note({ ...talk, items: withoutDrafts(talk.items) },
    event, event.resumed === false ? 'Rebuilt from its tape after a stop in mid-turn; it waits for “Go on”.'
      : 'Rebuilt from its tape after a stop in mid-turn; the turn goes on.', 'warn'),
  task_started: (talk, event) => note(task(talk, event, { link: event.link, depth: event.depth, queued: event.queued ?? false }), event,
    `Task ${event.ticket} started: session ${event.child}`),
  task_begun: (talk, event) => task(talk, event, { queued: false }),
  task_finished: (talk, event) => note(task(talk, event, { over: event.reason, text: event.text }), event,
    `Task ${event.ticket} ended: ${event.reason}${event.text ? ` – ${line(event.text, 160)}` : ''}`, event.reason === 'done' ? 'fine' : 'warn'),
  task_left: (talk, event) => task(talk, event, { over: 'left' }),
  compaction_started: (talk, event) => note(talk, event, 'The older history is being summed up.'),
  compaction_finished: (talk, event) => note(talk, event, event.error ? `The summary failed: ${event.error}` : `${event.items} items are replaced by a summary.`,
    event.error ? 'bad' : 'quiet'),
  context_warning: (talk, event) => note(talk, event, `More than 80 % of the context is used (${tokens(event.used)} of ${tokens(event.usable)}).`, 'warn'),
  agent_switched: (talk, event) => note(talk, event, `Agent: ${event.agent}`),
  rolled_back: (talk) => ({ ...talk, stale: true }),
  merged: (talk) => ({ ...talk, stale: true }),
  compaction_undone: (talk) => ({ ...talk, stale: true }),
  paused: (talk, event) => note(talk, event, 'Paused: nothing new starts.'),
  resumed: (talk, event) => note(talk, event, 'Resumed.'),
  ended: (talk, event) => note({ ...talk, turn: null }, event, `The session has ended: ${event.why ?? ''}`, 'warn'),
  files_restored: (talk, event) => note(talk, event, `Files restored: ${event.files?.length ?? 0}`),
  hook_error: (talk, event) => note(talk, event, `Hook ${event.hook} failed: ${event.error}`, 'bad'),
  storage_failed: (talk, event) => note(talk, event, `The tape could not be written: ${event.error}`, 'bad'),
};

const waits = (event) => ({ id: event.message.id, text: textOf(event.message), files: filesOf(event.message), delivery: event.delivery,
  stage: 'accepted', accepted: event.time, seq: Number(event.id.split('.', 1)[0]) });

/** Folds one event. An event that this page does not know changes nothing. */
export function fold(talk, event) {
  const known = FOLDS[event.event];
  return known ? known(talk, event) : talk;
}

/** After a break of the stream: what was provisional has a hole, so it goes; its durable form comes with the stream. */
export const broken = (talk) => ({ ...talk, items: withoutDrafts(talk.items) });
