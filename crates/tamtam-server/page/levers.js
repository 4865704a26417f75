// The levers: what each one does, said before it is done.

import { h, button, complain, confirm, announce } from './dom.js';
import { actor, post, session } from './api.js';

const up = (node) => node && !['stopped', 'parked'].includes(node.status);

// [name, label, effect, when, options]
const OF_SESSION = [
  ['abort', 'Abort the turn', 'Ends the running turn: what runs is stopped, no process of it is left. Queued messages stay on hold.', (node) => Boolean(node?.turn), { reason: true, danger: true }],
  ['pause', 'Pause', 'Running work finishes; nothing new starts until it is resumed.', (node) => up(node) && node.phase !== 'paused'],
  ['resume', 'Resume', 'What was paused goes on.', (node) => node?.phase === 'paused'],
  ['go_on', 'Go on', 'Messages on hold, or an interrupted turn, continue.', (node) => ['held', 'interrupted'].includes(node?.phase)],
  ['compact', 'Compact', 'The older history is replaced by a summary. It can be undone.', up],
  ['undo', 'Undo the last turn', 'Takes the newest turn out of the conversation. Files stay as they are.', up],
  ['fork', 'Fork', 'Makes a new session that begins where this one is.', () => true],
  ['end', 'End the session', 'Ends it for good: it takes no more messages. Its tape stays.', up, { reason: true, danger: true }],
];
const OF_ACTOR = [
  ['restart', 'Restart the actor', 'Stops it and starts it again; a session is rebuilt from its tape, and calls that ran are answered as after a crash.', (node) => node?.status !== 'parked'],
  ['unpark', 'Unpark', 'It may start again, with its crashes forgotten.', (node) => node?.status === 'parked'],
  ['park', 'Park', 'Stops it and keeps it stopped; senders are told that it is parked.', (node) => node?.kind === 'session' && node.status !== 'parked', { danger: true }],
  ['passivate', 'Put to sleep', 'Gives its actor and memory back while it is idle; the next message wakes it.', (node) => node?.kind === 'session' && node.phase === 'idle'],
  ['stop', 'Stop the actor', 'Ends it with everything that it runs. A session’s tape stays; the next message goes on from there.', up, { danger: true }],
];

async function pull({ name, label, effect, path, subject, options = {} }) {
  const reason = await confirm({ title: `${label}?`, effect: `${subject}: ${effect}`, act: label, ...options });
  if (reason === null) return;
  try {
    const done = await post(path, reason ? { reason } : {});
    announce(`${label}: done`);
    if (name === 'fork') location.hash = `#/session/${encodeURIComponent(done.session)}`;
  } catch (error) {
    complain(error);
  }
}

/** Aborts the running turn of a session, after a confirmation: the lever that must be in reach. */
export function abort(id) {
  const [name, label, effect, , options] = OF_SESSION[0];
  return pull({ name, label, effect, path: session(id, `/${name}`), subject: id, options });
}

const entry = ([name, label, effect, when, options], path, subject, node) => when(node) && h('li', null,
  button(`${label}…`, () => pull({ name, label, effect, path, subject, options }), { class: options?.danger ? 'danger' : '', 'data-lever': name }), h('span', null, effect));

/** The levers that apply to a node now, as a list of buttons with what each does. `id` names its session, if it is one. */
export function levers(node, id) {
  const subject = node?.title || node?.id || id;
  return h('ul', { class: 'levers' },
    id && OF_SESSION.map((lever) => entry(lever, session(id, `/${lever[0]}`), subject, node)),
    (node || id) && OF_ACTOR.map((lever) => entry(lever, actor(node?.path ?? id, `/${lever[0]}`), subject, node)));
}

/** Drains the runtime, after a confirmation, and says who was not at rest. */
export async function drain() {
  const act = 'Drain';
  const sure = await confirm({ title: 'Drain the runtime?', act, danger: true,
    effect: 'Running turns finish, within ten seconds; from now on no new messages are taken.' });
  if (sure === null) return;
  try {
    const { left } = await post('/v1/drain', { deadline_ms: 10_000 });
    announce(left.length ? `Drained; not at rest: ${left.join(', ')}` : 'Drained; all are at rest', true);
  } catch (error) {
    complain(error);
  }
}
