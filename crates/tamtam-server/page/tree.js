// The supervision tree as a value: folding the stream's frames, states in words, figures rolled up, and the rows to draw.
// Nothing here touches the document.

/** Folds one frame (`snapshot` or `changed`) into the nodes by key. Returns a new map; the old one stays as it was. */
export function fold(nodes, name, data) {
  if (name === 'snapshot') return new Map(data.nodes.map((node) => [node.key, node]));
  const next = new Map(nodes);
  for (const key of data.gone ?? []) next.delete(key);
  for (const node of data.changed ?? []) next.set(node.key, node);
  return next;
}

const STATUS = {
  stopped: ['stopped', 'quiet'], starting: ['starting', 'moving'], stopping: ['stopping', 'moving'], backoff: ['back-off', 'warn'],
  parked: ['parked', 'bad'], unkillable: ['unkillable', 'bad'],
};
const PHASE = {
  idle: ['idle', 'quiet'], model: ['model', 'busy'], tools: ['tools', 'busy'], retry: ['retry', 'warn'], asking: ['asks a person', 'warn'],
  paused: ['paused', 'held'], held: ['on hold', 'held'], interrupted: ['interrupted', 'warn'], storage: ['storage', 'bad'],
};
const NEEDS = {
  asking: 'waits for an answer', interrupted: 'cut off twice: go on, or abort', storage: 'the disk, or the database, takes nothing',
};

/** A node's state: a word, a tone for its colour, and why a person is needed (null if none is). */
export function state(node) {
  const up = node.status === 'running';
  const [word, tone] = (up ? PHASE[node.phase] : STATUS[node.status]) ?? [up ? (node.phase ?? 'running') : node.status, 'fine'];
  if (node.status === 'parked') return { word, tone, needs: 'parked: unpark it, or leave it' };
  if (node.status === 'unkillable') return { word, tone, needs: 'was killed and still runs' };
  if (up && node.reading === 'busy') return { word: 'busy', tone: 'warn', needs: null };
  return { word, tone, needs: (up && NEEDS[node.phase]) || null };
}

/** What a node does, in its words, and since when. */
export function doing(node) {
  if (node.reading === 'busy') return { text: `handles ${node.busy_with}`, at: node.busy_since };
  if (node.doing) return { text: node.reading === 'post_mortem' ? `was at: ${node.doing}` : node.doing, at: node.doing_since };
  return { text: '', at: node.status === 'running' ? node.started_at : node.last_exit_at };
}

/** The nodes with their children in order. A node whose parent is unknown is a root, so that nothing is ever hidden. */
export function shape(nodes) {
  const children = new Map();
  const roots = [];
  for (const node of [...nodes.values()].sort((a, b) => a.key - b.key)) {
    if (!nodes.has(node.parent)) roots.push(node);
    else if (children.has(node.parent)) children.get(node.parent).push(node);
    else children.set(node.parent, [node]);
  }
  return { nodes, roots, children };
}

const NOTHING = { tokens: 0, known: 0, unpriced: 0, queue: 0, restarts: 0, needs: 0, below: 0 };

// A session's own figures include its tasks that are over, so a child that rests adds nothing to its parent's.
const counted = (child, parent) => !(child.kind === 'session' && parent.kind === 'session' && child.phase === 'idle');

/** The sums of each node with all below it, by key. A node without figures adds none. */
export function rollUp({ roots, children }) {
  const sums = new Map();
  const visit = (node) => {
    const sum = { ...NOTHING, tokens: node.tokens ?? 0, known: node.cost ?? node.cost_at_least ?? 0, unpriced: node.unpriced ?? 0,
      queue: node.queue, restarts: node.restarts, needs: state(node).needs ? 1 : 0 };
    for (const child of children.get(node.key) ?? []) {
      const below = visit(child);
      sum.below += below.below + 1;
      for (const name of ['queue', 'restarts', 'needs']) sum[name] += below[name];
      if (counted(child, node)) for (const name of ['tokens', 'known', 'unpriced']) sum[name] += below[name];
    }
    sums.set(node.key, sum);
    return sum;
  };
  roots.forEach(visit);
  return sums;
}

/** A sum in the form of a cost. */
export function costOf(sum) {
  if (sum.unpriced) return { unpriced: sum.unpriced, cost_at_least: sum.known };
  return sum.tokens || sum.known ? { cost: sum.known } : {};
}

/**
 * The rows in order: first those that need a person, flat, then the tree, without what is below folded paths. With `find`, only
 * nodes whose path, title or doing contains it, and the nodes above them.
 */
export function rows({ nodes, roots, children }, { folded = new Set(), find = '' } = {}) {
  const wanted = find.trim().toLowerCase();
  const hit = (node) => `${node.path} ${node.title ?? ''} ${node.kind} ${node.doing ?? ''} ${state(node).word}`.toLowerCase().includes(wanted);
  const shown = new Set();
  if (wanted) {
    for (const node of nodes.values()) {
      if (hit(node)) for (let up = node; up && !shown.has(up.key); up = nodes.get(up.parent)) shown.add(up.key);
    }
  }
  const needy = [...nodes.values()].filter((node) => state(node).needs && (!wanted || hit(node)))
    .sort((a, b) => (doing(a).at ?? 0) - (doing(b).at ?? 0));
  const list = needy.length ? [{ head: 'Needs a person', count: needy.length }, ...needy.map((node) => ({ node, level: 1, needs: true }))] : [];
  const tree = [];
  const visit = (siblings, level) => {
    const seen = wanted ? siblings.filter((node) => shown.has(node.key)) : siblings;
    seen.forEach((node, at) => {
      const below = children.get(node.key) ?? [];
      const open = below.length > 0 && (Boolean(wanted) || !folded.has(node.path));
      tree.push({ node, level, open: below.length ? open : undefined, at: at + 1, of: seen.length });
      if (open) visit(below, level + 1);
    });
  };
  visit(roots, 1);
  return needy.length ? [...list, { head: 'Supervision tree', count: nodes.size }, ...tree] : tree;
}

/** Which rows a window of the list shows, with `spare` beyond each edge. */
export function seen(count, height, top, room, spare = 8) {
  const from = Math.max(0, Math.floor(top / height) - spare);
  return { from, to: Math.min(count, Math.ceil((top + room) / height) + spare) };
}
