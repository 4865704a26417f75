import { test } from 'node:test';
import assert from 'node:assert/strict';
import * as talk from '../../page/talk.js';
import { change, gist, diffLines, stateOf } from '../../page/call.js';

let n = 0;
const event = (name, more = {}) => ({ id: `${n += 1}.0.0`, time: 1_000 + n, turn: 3, step: 1, event: name, ...more });
const message = (id, text, more = {}) => ({ id, role: 'user', parts: [{ type: 'text', text }], time: { created: 5 }, ...more });
const run = (...events) => events.reduce(talk.fold, talk.empty());
const shown = ({ items }) => items.map(({ kind, text, name, state, draft }) => [kind, text ?? name, state, draft].filter((x) => x !== undefined));
const tool = (call, status, more = {}) => ({ type: 'tool', callID: call, tool: 'bash', state: { status, input: '{"command":"ls"}', ...more } });

test('deltas join to one draft, which its durable part replaces at the same place', () => {
  const drafts = run(event('step_started', {}), event('reasoning_delta', { text: 'I ' }), event('reasoning_delta', { text: 'think' }),
    event('text_delta', { text: 'a' }), event('text_delta', { text: 'b' }));
  assert.deepEqual(shown(drafts), [['reasoning', 'I think', true], ['text', 'ab', true]]);
  const whole = [event('part_updated', { part: { type: 'reasoning', text: 'I think.' } }), event('part_updated', { part: { type: 'text', text: 'ab.' } })]
    .reduce(talk.fold, drafts);
  assert.deepEqual(shown(whole), [['reasoning', 'I think.'], ['text', 'ab.']]);
  assert.deepEqual(whole.items.map((item) => item.key), drafts.items.map((item) => item.key), 'the places keep their keys');
});

test('a failed request leaves none of its drafts', () => {
  assert.deepEqual(shown(run(event('text_delta', { text: 'half' }), event('request_failed', { error: 'cut off' }))),
    [['note', 'The request failed: cut off']]);
});

test('a call goes from being written to done, and keeps its input and result', () => {
  const states = [];
  let now = talk.empty();
  for (const next of [event('call_pending', { index: 0, call: 'c', name: 'bash' }), event('call_input', { index: 0, text: '{"command":' }),
    event('part_updated', { part: tool('c', 'pending') }), event('ask', { ask: 9, call: 'c', name: 'bash' }), event('ask_closed', { ask: 9 }),
    event('call_started', { ticket: 4, call: 'c', name: 'bash', input: '{"command":"ls"}' }), event('call_progress', { ticket: 4, title: 'half' }),
    event('call_finished', { ticket: 4, call: 'c', name: 'bash', content: 'x' })]) {
    now = talk.fold(now, next);
    states.push(now.items[0].state);
  }
  assert.equal(now.items.length, 1);
  assert.deepEqual(states, ['writing', 'writing', 'pending', 'asking', 'pending', 'running', 'running', 'completed']);
  assert.deepEqual([now.items[0].input, now.items[0].content, now.items[0].progress], ['{"command":"ls"}', 'x', 'half']);
});

test('a call id that a model uses twice means the newer call', () => {
  const twice = run(event('part_updated', { part: tool('c', 'pending') }), event('call_finished', { ticket: 1, call: 'c', content: 'first' }),
    event('part_updated', { part: tool('c', 'pending') }), event('call_finished', { ticket: 2, call: 'c', error: 'skipped', content: 'second' }));
  assert.deepEqual(twice.items.map((item) => [item.state, item.content]), [['completed', 'first'], ['skipped', 'second']]);
});

test('events that repeat what a stored message showed change nothing', () => {
  const parts = [{ type: 'text', text: 'hello' }, tool('c', 'completed', { output: 'first', time: { start: 1, end: 2 } })];
  const stored = talk.older(talk.empty(), [{ id: 'answer-10', role: 'assistant', parts }]);
  const repeated = [event('part_updated', { id: '10.0.0', part: parts[0] }), event('part_updated', { id: '10.0.1', part: tool('c', 'pending') }),
    event('call_started', { ticket: 11, call: 'c', name: 'bash', input: '{}' }), event('call_finished', { ticket: 11, call: 'c', content: 'first' })];
  assert.deepEqual(repeated.reduce(talk.fold, stored).items, stored.items);
  const next = talk.fold(stored, event('part_updated', { id: '100.0.0', part: { type: 'text', text: 'more' } }));
  assert.deepEqual(shown(next).at(-1), ['text', 'more'], 'another entry is another answer');
});

test('a session is taken up as it is: what waits, what asks, what runs', () => {
  const stored = talk.older(talk.empty(), [{ id: 'a1', role: 'assistant', parts: [tool('c', 'pending'), tool('d', 'pending')] }]);
  const ask = { ask: 9, call: 'd', name: 'bash' };
  const taken = talk.begin(stored, { now: { turn: 3, step: 2 }, waiting: [{ seq: 5, message: message('m2', 'then this'), delivery: 'queue' }],
    asks: [ask, { ask: 10, kind: 'budget' }], tasks: [{ ticket: 4, session: 's2' }] });
  assert.deepEqual(taken.items.map((item) => item.state), ['pending', 'asking']);
  assert.deepEqual([[...taken.asks.keys()], [...taken.tasks.keys()], taken.turn], [[9, 10], [4], { seq: 3, step: 2 }]);
  assert.deepEqual(taken.waiting, [{ id: 'm2', text: 'then this', delivery: 'queue', stage: 'accepted', seq: 5, accepted: 5 }]);
  assert.deepEqual(talk.begin(talk.empty(), {}).turn, null, 'a session that sleeps');
});

test('a receipt goes from sent over accepted to delivered, in whatever order its news come', () => {
  const sent = talk.onItsWay(talk.empty(), { id: 'm1', text: 'stop', delivery: { steer: 'skip_remaining' }, stage: 'sent' });
  assert.deepEqual(sent.waiting.map(({ id, stage }) => [id, stage]), [['m1', 'sent']]);
  const accepted = talk.fold(sent, event('steered', { message: message('m1', 'stop'), delivery: { steer: 'skip_remaining' } }));
  const entry = Number(accepted.waiting[0].accepted) - 1_000; // the helper's times and entries run in step
  assert.deepEqual(accepted.waiting.map(({ id, stage, seq }) => [id, stage, seq]), [['m1', 'accepted', entry]]);
  const late = talk.onItsWay(accepted, { id: 'm1', stage: 'sent' });
  assert.equal(late.waiting[0].stage, 'accepted', 'it never goes back');
  const there = talk.fold(accepted, event('delivered', { messages: ['m1'] }));
  assert.deepEqual([there.waiting, shown(there)], [[], [['said', 'stop']]]);
  assert.ok(there.items[0].accepted < there.items[0].delivered);
  const receipt = talk.onItsWay(there, { id: 'm1', stage: 'accepted', accepted: 1 });
  assert.deepEqual([receipt.waiting.length, receipt.items.length], [0, 1], 'a receipt after the delivery adds nothing');
});

test('a message that was sent into the running answer waits all the same, and says where it is', () => {
  const waits = run(event('steered', { message: message('m1', 'stop'), delivery: { steer: 'skip_remaining' } }));
  const sent = talk.fold(waits, event('steering_moved', { message: 'm1', to: 'sent' }));
  const back = talk.fold(sent, event('steering_moved', { message: 'm1', to: 'returned', why: 'too late' }));
  assert.deepEqual([sent, back].map(({ waiting }) => [waiting[0].ahead, waiting[0].why]), [['sent', undefined], ['returned', 'too late']]);
  assert.deepEqual(talk.fold(back, event('delivered', { messages: ['m1'] })).waiting, []);
  for (const before of [sent, back]) {
    const [edited] = talk.fold(before, event('queue_edited', { message: message('m1', 'go on') })).waiting;
    assert.deepEqual([edited.text, 'ahead' in edited, 'why' in edited], ['go on', false, false], 'the model has other words');
  }
  const again = talk.fold(back, event('steering_moved', { message: 'm1', to: 'sent' }));
  assert.deepEqual([again.waiting[0].ahead, 'why' in again.waiting[0]], ['sent', false], 'an old reason goes');
  assert.deepEqual(talk.fold(talk.empty(), event('steering_moved', { message: 'm1', to: 'sent' })), talk.empty());
  const taken = talk.begin(talk.empty(), { waiting: [{ seq: 5, message: message('m2', 'then'), delivery: 'queue', ahead: 'committed' }] });
  assert.equal(taken.waiting[0].ahead, 'committed', 'when the page is opened later');
});

test('a turn starts with the messages that wait, once each', () => {
  const queued = run(event('queued', { message: message('m1', 'one'), delivery: 'queue' }), event('turn_started', { messages: ['m1'] }),
    event('turn_started', { messages: ['m1'] }));
  assert.deepEqual(shown(queued), [['said', 'one']]);
  assert.equal(queued.turn.seq, 3);
  assert.deepEqual(run(event('queued', { message: message('m1', 'one'), delivery: 'queue' }), event('withdrawn', { message: 'm1' })).waiting, []);
});

test('asks are open until they are closed, and the end of a turn closes its own', () => {
  const asked = run(event('turn_started', { messages: [] }), event('ask', { ask: 7, name: 'edit' }), event('ask', { ask: 8, name: 'bash' }));
  assert.deepEqual([...asked.asks.keys()], [7, 8]);
  assert.deepEqual([...talk.fold(asked, event('ask_closed', { ask: 7, grant: 'once' })).asks.keys()], [8]);
  assert.equal(talk.fold(asked, event('turn_finished', { outcome: 'aborted', reason: 'no' })).asks.size, 0);
});

test('the question of a task marks no call of its parent', () => {
  const asked = run(event('part_updated', { part: tool('c', 'pending') }), event('ask', { ask: 7, call: 'c', name: 'edit', from: [{ session: 's2' }] }));
  assert.deepEqual([asked.items[0].state, asked.asks.size], ['pending', 1]);
});

test('a budget that asks is an open ask, one that stops is not', () => {
  assert.equal(run(event('budget', { then: 'ask', ask: 5, text: 'used up' })).asks.get(5).kind, 'budget');
  assert.equal(run(event('budget', { then: 'stop', text: 'used up' })).asks.size, 0);
});

test('stored messages stand in front, oldest first, and are not shown twice', () => {
  const answer = { id: 'a1', role: 'assistant', parts: [{ type: 'step-start' }, { type: 'text', text: 'hello' },
    tool('c', 'completed', { output: 'x', metadata: { diff: { content: '-a\n+b\n' } }, time: { start: 1, end: 2 } })], time: { created: 6 } };
  const page = [answer, message('m1', 'hi')];
  const once = talk.older(talk.empty(), page);
  assert.deepEqual(shown(once), [['said', 'hi'], ['text', 'hello'], ['call', 'bash', 'completed']]);
  assert.deepEqual(shown(talk.older(once, page)), shown(once));
  assert.equal(change(once.items[2]).length, 2);
});

test('a break of the stream takes the drafts away and nothing else', () => {
  const half = run(event('part_updated', { part: { type: 'text', text: 'whole' } }), event('text_delta', { text: 'ha' }));
  assert.deepEqual(shown(talk.broken(half)), [['text', 'whole']]);
});

test('tasks are known with their end', () => {
  const over = run(event('task_started', { ticket: 4, child: 's2', queued: true }), event('task_begun', { ticket: 4, child: 's2' }),
    event('task_finished', { ticket: 4, child: 's2', reason: 'done', text: 'found it' }));
  assert.deepEqual([...over.tasks.values()].map(({ session, queued, over: end }) => [session, queued, end]), [['s2', false, 'done']]);
});

test('an unknown event changes nothing, an unchanged item stays the same object', () => {
  const before = run(event('part_updated', { part: { type: 'text', text: 'a' } }));
  assert.equal(talk.fold(before, event('something_new')), before);
  assert.equal(talk.fold(before, event('text_delta', { text: 'b' })).items[0], before.items[0]);
});

test('a call shows what it changes before it ran, and what it changed after', () => {
  const asked = { name: 'edit', input: '{"path":"a","old_string":"x\\ny","new_string":"z"}' };
  assert.deepEqual(change(asked).map((line) => line.text), ['-x', '-y', '+z']);
  const done = { ...asked, details: { diff: { content: '@@ -1 +1 @@\n-x\n+z\n same\n' } } };
  assert.deepEqual(change(done).map((line) => line.kind), ['hunk', 'del', 'add', 'same']);
  assert.deepEqual(change({ name: 'write', input: '{"content":"a\\nb\\n"}' }).map((line) => line.text), ['+a', '+b']);
  assert.equal(change({ name: 'bash', input: '{"command":"ls"}' }), null);
  assert.equal(change({ name: 'edit', input: '{"path":"a","old' }), null, 'arguments that are not whole');
  assert.equal(gist('{"n":1,"command":"ls -l\\nrm"}'), 'ls -l');
  assert.equal(gist('[1]'), '[1]');
  assert.equal(gist('{"seconds":6}'), '{"seconds":6}', 'arguments without a text are shown as they are');
  assert.deepEqual(diffLines('--- a\n+++ b\n-x\n'), [{ kind: 'del', text: '-x' }]);
  assert.deepEqual(stateOf({ state: 'skipped' }), ['skipped', 'held']);
  assert.deepEqual(stateOf({ state: 'timeout' }), ['timeout', 'bad']);
});
