import { test } from 'node:test';
import assert from 'node:assert/strict';
import * as format from '../../page/format.js';

test('a duration has at most two units', () => {
  const cases = [[0, '0.0 s'], [999, '0.9 s'], [1_000, '1 s'], [59_999, '59 s'], [60_000, '1 min'], [200_000, '3 min 20 s'],
    [7_500_000, '2 h 5 min'], [90_000_000, '1 d 1 h'], [-1, ''], [undefined, '']];
  for (const [ms, words] of cases) assert.equal(format.duration(ms), words);
  assert.equal(format.since(2_000, 1_000), '0.0 s', 'a clock that is ahead gives no negative time');
  assert.equal(format.since(undefined, 1_000), '');
  assert.deepEqual(['3 min 20 s', '12 s', ''].map(format.coarse), ['3 min', '12 s', '']);
});

test('money is shown in dollars, and an unknown price is never shown as nothing', () => {
  const cases = [[{ cost: 0 }, '$0'], [{ cost: 7 }, '<$0.0001'], [{ cost: 2314 }, '$0.0023'], [{ cost: 1_250_000 }, '$1.25'],
    [{ cost: 250_000_000 }, '$250'], [{ unpriced: 3 }, 'unknown'], [{ unpriced: 1, cost_at_least: 500_000 }, '≥ $0.5000'], [{}, '']];
  for (const [figures, words] of cases) assert.equal(format.cost(figures), words);
  assert.equal(format.cost(undefined), '');
});

test('tokens are exact while they are few', () => {
  const cases = [[0, '0'], [9_999, '9,999'], [12_345, '12.3k'], [999_949, '999.9k'], [1_200_000, '1.2M'], [undefined, '']];
  for (const [n, words] of cases) assert.equal(format.tokens(n), words);
});

test('an end is told with its reason, and what was done about it', () => {
  assert.equal(format.reason({ kind: 'panic', detail: { text: 'boom', location: null } }), 'panic: boom');
  assert.equal(format.reason({ kind: 'killed' }), 'killed');
  assert.equal(format.reason({ kind: 'shutdown', detail: 'shutdown' }), 'shut down', 'nothing is said twice');
  assert.deepEqual([format.many(1, 'session'), format.many(10_006, 'session')], ['1 session', '10,006 sessions']);
  assert.equal(format.reason({ kind: 'start_failed', detail: 'no tape' }), 'failed to start: no tape');
  assert.equal(format.reason(undefined), '');
  assert.equal(format.decision({ kind: 'restart', after_ms: 0 }), 'restarted at once');
  assert.equal(format.decision({ kind: 'restart', after_ms: 1_500 }), 'restarted after 1 s');
  assert.equal(format.decision({ kind: 'park' }), 'parked');
  assert.equal(format.outcome({ outcome: 'step_limit', steps: 40 }), 'step limit: 40 steps');
  assert.equal(format.outcome({ outcome: 'done', text: 'x', steps: 3 }), 'done');
});

test('texts are cut to what fits', () => {
  assert.deepEqual(format.clip('abcdef', 4), { text: 'abcd', more: 2 });
  assert.deepEqual(format.clip('abc', 4), { text: 'abc', more: 0 });
  assert.equal(format.line('\n one\ntwo'), 'one');
  assert.equal(format.line('x'.repeat(9), 5), 'xxxx…');
});
