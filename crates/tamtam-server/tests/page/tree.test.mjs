import { test } from 'node:test';
import assert from 'node:assert/strict';
import * as tree from '../../page/tree.js';

const node = (key, parent, more = {}) => ({ key, parent, id: `n${key}`, path: `p/${key}`, kind: 'supervisor', status: 'running', reading: 'fresh',
  queue: 0, restarts: 0, ...more });
const paths = (rows) => rows.map((row) => (row.head ? `# ${row.head}` : `${'  '.repeat(row.level - 1)}${row.node.id}`));
const session = (key, parent, more) => node(key, parent, { kind: 'session', phase: 'model', ...more });

test('the frames of the stream fold to the tree that a snapshot at the end shows', () => {
  let nodes = tree.fold(new Map(), 'snapshot', { nodes: [node(1, null), node(2, 1), node(3, 1)] });
  const before = nodes;
  nodes = tree.fold(nodes, 'changed', { changed: [node(2, 1, { queue: 4 }), node(4, 2)], gone: [3] });
  assert.deepEqual([...nodes.values()].sort((a, b) => a.key - b.key), [node(1, null), node(2, 1, { queue: 4 }), node(4, 2)]);
  assert.deepEqual([...before.keys()], [1, 2, 3], 'the map before is untouched');
  assert.deepEqual([...tree.fold(nodes, 'snapshot', { nodes: [node(9, null)] }).keys()], [9], 'a snapshot begins anew');
  assert.ok(tree.fold(nodes, 'changed', { gone: [4], changed: [node(4, 2)] }).has(4), 'a key that left and came back is there');
});

test('random differences fold to the tree that is there at the end', () => {
  let seed = 7;
  const random = (n) => { seed = (seed * 1103515245 + 12345) % 2147483648; return seed % n; };
  const truth = new Map([[1, node(1, null)]]);
  let nodes = tree.fold(new Map(), 'snapshot', { nodes: [...truth.values()] });
  for (let round = 0; round < 300; round += 1) {
    const changed = [];
    const gone = [];
    for (let n = 0; n < 20; n += 1) {
      const key = 2 + random(200);
      if (random(4) === 0) { if (truth.delete(key)) gone.push(key); } else truth.set(key, node(key, 1, { queue: random(9) }));
    }
    for (const key of new Set(gone)) if (truth.has(key)) gone.splice(0, gone.length, ...gone.filter((k) => k !== key));
    for (const [key, value] of truth) if (nodes.get(key) !== value) changed.push(value);
    nodes = tree.fold(nodes, 'changed', { changed, gone });
  }
  assert.deepEqual(new Map([...nodes].sort(([a], [b]) => a - b)), new Map([...truth].sort(([a], [b]) => a - b)));
});

test('rows are indented in the order of keys, and folding hides what is below', () => {
  const nodes = tree.fold(new Map(), 'snapshot', { nodes: [node(5, 2), node(1, null), node(3, 1), node(2, 1), node(7, 99)] });
  const shape = tree.shape(nodes);
  assert.deepEqual(paths(tree.rows(shape)), ['n1', '  n2', '    n5', '  n3', 'n7']);
  assert.deepEqual(paths(tree.rows(shape, { folded: new Set(['p/2']) })), ['n1', '  n2', '  n3', 'n7']);
  assert.deepEqual(tree.rows(shape).map((row) => [row.open, row.at, row.of]),
    [[true, 1, 2], [true, 1, 2], [undefined, 1, 1], [undefined, 2, 2], [undefined, 2, 2]]);
});

test('what needs a person comes first, the longest wait on top, and stays in the tree', () => {
  const nodes = tree.fold(new Map(), 'snapshot', { nodes: [node(1, null), session(2, 1, { phase: 'asking', doing: 'x', doing_since: 50 }),
    session(3, 1, { status: 'parked', reading: 'post_mortem', last_exit_at: 20 }), session(4, 1)] });
  assert.deepEqual(paths(tree.rows(tree.shape(nodes))), ['# Needs a person', 'n3', 'n2', '# Supervision tree', 'n1', '  n2', '  n3', '  n4']);
});

test('finding shows the hits with those above them, also below a folded row', () => {
  const nodes = tree.fold(new Map(), 'snapshot', { nodes: [node(1, null), node(2, 1), session(3, 2, { title: 'Nightly Build' }), session(4, 2)] });
  assert.deepEqual(paths(tree.rows(tree.shape(nodes), { find: 'nightly', folded: new Set(['p/1']) })), ['n1', '  n2', '    n3']);
  assert.deepEqual(tree.rows(tree.shape(nodes), { find: 'nobody' }), []);
});

test('a folded row carries the sums of all below it', () => {
  const nodes = tree.fold(new Map(), 'snapshot', { nodes: [node(1, null, { queue: 1 }),
    session(2, 1, { tokens: 100, cost: 5, queue: 2, restarts: 1 }),
    session(3, 1, { tokens: 50, unpriced: 1, cost_at_least: 3, phase: 'asking' })] });
  const sums = tree.rollUp(tree.shape(nodes));
  assert.deepEqual(sums.get(1), { tokens: 150, known: 8, unpriced: 1, queue: 3, restarts: 1, needs: 1, below: 2 });
  assert.deepEqual(tree.costOf(sums.get(1)), { unpriced: 1, cost_at_least: 8 });
  assert.deepEqual(tree.costOf(sums.get(2)), { cost: 5 });
  assert.deepEqual(tree.costOf({ tokens: 0, known: 0, unpriced: 0 }), {});
});

test('a task that is over is in the figures of its parent already, a working one is not', () => {
  const sum = (phase) => tree.rollUp(tree.shape(tree.fold(new Map(), 'snapshot', { nodes: [session(1, null, { tokens: 100, cost: 10 }),
    session(2, 1, { tokens: 40, cost: 4, phase })] }))).get(1);
  assert.deepEqual([sum('model').tokens, sum('model').known], [140, 14]);
  assert.deepEqual([sum('idle').tokens, sum('idle').known], [100, 10]);
});

test('states are a word and a tone, and say when a person is needed', () => {
  const cases = [[{ phase: 'asking' }, 'asks a person', 'warn', true], [{ phase: 'idle' }, 'idle', 'quiet', false],
    [{ status: 'parked', phase: 'idle' }, 'parked', 'bad', true], [{ status: 'backoff' }, 'back-off', 'warn', false],
    [{ reading: 'busy', phase: 'model' }, 'busy', 'warn', false], [{}, 'running', 'fine', false], [{ phase: 'new_one' }, 'new_one', 'fine', false]];
  for (const [more, word, tone, needs] of cases) {
    const state = tree.state(node(1, null, more));
    assert.deepEqual([state.word, state.tone, Boolean(state.needs)], [word, tone, needs]);
  }
});

test('what a node does is told by its reading', () => {
  assert.deepEqual(tree.doing(node(1, null, { reading: 'busy', busy_with: 'answered', busy_since: 3 })), { text: 'handles answered', at: 3 });
  assert.deepEqual(tree.doing(node(1, null, { doing: 'turn 3', doing_since: 4 })), { text: 'turn 3', at: 4 });
  assert.deepEqual(tree.doing(node(1, null, { started_at: 5 })), { text: '', at: 5 });
});

test('only the rows in the window are drawn', () => {
  assert.deepEqual(tree.seen(10_000, 28, 0, 560, 8), { from: 0, to: 28 });
  assert.deepEqual(tree.seen(10_000, 28, 28 * 5_000, 560, 8), { from: 4_992, to: 5_028 });
  assert.deepEqual(tree.seen(5, 28, 0, 560, 8), { from: 0, to: 5 });
});
