// The tree on the screen: a list of rows of one height, of which only those in the window exist. The focus stays on the grid and
// names the active row, so that a row that scrolls away takes no focus with it.

import { h, say } from './dom.js';
import { coarse, cost, reason, since, tokens } from './format.js';
import { costOf, doing, rollUp, rows, seen, shape, state } from './tree.js';

export class TreeView {
  /** `open(node)` is called for the row that a person chooses. */
  constructor({ grid, list, open }) {
    Object.assign(this, { grid, list, open, slots: [], rows: [], folded: new Set(), find: '', active: null, chosen: null });
    this.set(new Map());
    grid.addEventListener('scroll', () => this.paint(), { passive: true });
    grid.addEventListener('keydown', (event) => this.key(event));
    list.addEventListener('click', (event) => this.click(event));
    new ResizeObserver(() => this.measure()).observe(grid);
  }

  set(nodes) {
    this.shape = shape(nodes);
    this.sums = rollUp(this.shape);
    this.arrange();
  }

  search(text) {
    this.find = text;
    this.arrange();
  }

  /** The first row that is itself what is searched for, not just above it. */
  hit() {
    const words = this.find.trim().toLowerCase();
    return this.rows.find(({ node }) => node && `${node.id} ${node.title ?? ''}`.toLowerCase().includes(words))?.node;
  }

  /** Folds everything below the first level, or unfolds all. */
  foldAll(all) {
    this.folded = new Set(all ? [...this.shape.nodes.values()].filter((node) => this.shape.children.has(node.key) && this.shape.nodes.has(node.parent))
      .map((node) => node.path) : []);
    this.arrange();
  }

  choose(path) {
    this.chosen = path;
    this.paint();
  }

  arrange() {
    this.rows = rows(this.shape, { folded: this.folded, find: this.find });
    this.grid.setAttribute('aria-rowcount', this.rows.length);
    this.measure();
  }

  measure() {
    this.height = parseFloat(getComputedStyle(this.grid).getPropertyValue('--row')) || 28;
    this.narrow = this.grid.clientWidth < 780;
    this.list.style.height = `${this.rows.length * this.height}px`;
    this.paint();
  }

  at() {
    return this.rows.findIndex((row) => row.node && this.name(row) === this.active);
  }

  name({ node, needs }) {
    return `${needs ? 'need' : 'row'}-${node.key}`;
  }

  /** Draws the rows in the window, into the elements that are there already. */
  paint() {
    const { from, to } = seen(this.rows.length, this.height, this.grid.scrollTop, this.grid.clientHeight);
    while (this.slots.length < to - from) this.slots.push(this.slot());
    const now = Date.now();
    this.slots.forEach((slot, n) => {
      const at = from + n;
      slot.row.hidden = at >= to;
      if (at < to) this.fill(slot, this.rows[at], at, now);
      else slot.row.removeAttribute('id'); // a row that is not drawn must not share its name with one that is
    });
    const at = this.at(); // only a row that is drawn can be pointed to
    if (at >= from && at < to) this.grid.setAttribute('aria-activedescendant', this.active);
    else this.grid.removeAttribute('aria-activedescendant');
  }

  slot() {
    const cell = (name) => h('span', { role: 'gridcell', class: name });
    const slot = { twist: h('span', { class: 'twist', 'aria-hidden': 'true' }), id: h('span', { class: 'id' }), kind: h('span', { class: 'kind' }),
      word: h('span', null), what: h('span', { class: 'what' }), age: h('span', { class: 'age' }), name: cell('name'), state: cell('state'), doing: cell('doing'), exit: cell('exit'), queue: cell('number queue'),
      tokens: cell('number tokens'), cost: cell('number cost') };
    slot.name.append(slot.twist, slot.id, slot.kind);
    slot.state.append(slot.word);
    slot.doing.append(slot.what, slot.age);
    slot.row = h('div', { role: 'row' }, slot.name, slot.state, slot.doing, slot.exit, slot.queue, slot.tokens, slot.cost);
    this.list.append(slot.row);
    return slot;
  }

  fill(slot, row, at, now) {
    const { node } = row;
    const set = (name, value) => (value === undefined ? slot.row.removeAttribute(name) : slot.row.setAttribute(name, value));
    slot.row.style.top = `${at * this.height}px`;
    slot.at = at;
    slot.row.dataset.at = at;
    set('aria-rowindex', at + 1);
    set('aria-level', row.level);
    set('aria-expanded', row.open);
    set('aria-posinset', row.at);
    set('aria-setsize', row.of);
    slot.row.className = row.head ? 'head' : row.needs ? 'needs' : '';
    if (row.head) {
      slot.row.removeAttribute('id');
      set('aria-selected', undefined);
      for (const name of ['kind', 'word', 'what', 'age', 'exit', 'queue', 'tokens', 'cost', 'twist']) say(slot[name], '');
      slot.word.className = '';
      slot.name.style.paddingInlineStart = '';
      say(slot.id, `${row.head} (${row.count.toLocaleString('en-US')})`);
      return;
    }
    const name = this.name(row);
    slot.row.id = name;
    set('aria-selected', String(node.path === this.chosen && !row.needs));
    slot.row.classList.toggle('active', name === this.active);
    slot.name.style.paddingInlineStart = `${(row.level - 1) * 14 + 4}px`;
    say(slot.twist, row.open === undefined ? '' : row.open ? '▾' : '▸');
    say(slot.id, node.title || node.id);
    slot.id.title = node.path;
    say(slot.kind, node.kind === node.id ? '' : node.kind);
    const { word, tone, needs } = state(node);
    say(slot.word, word);
    slot.word.className = `chip tone-${tone}`;
    const sum = this.sums.get(node.key);
    const folded = row.open === false;
    const does = doing(node);
    const age = since(does.at, now);
    const what = (row.needs && needs) || does.text || (node.status === 'running' ? 'up' : '');
    const below = folded && `${sum.below.toLocaleString('en-US')} below${sum.needs ? `, ${sum.needs} need a person` : ''}`;
    const exit = lastExit(node, now);
    // Where the column of the last restart has no room, its words join what the node does; in front of it while they are news.
    const news = this.narrow && exit && now - (node.last_exit_at ?? 0) < 60_000;
    say(slot.what, [below, news && exit, what, this.narrow && !news && exit].filter(Boolean).join(' · '));
    say(slot.age, this.narrow ? coarse(age) : age);
    slot.doing.title = `${slot.what.textContent} · ${age}`;
    say(slot.exit, exit);
    slot.exit.title = slot.exit.textContent;
    const queue = folded ? sum.queue : node.queue;
    say(slot.queue, queue ? String(queue) : '');
    slot.queue.title = `${node.queue} wait; peak ${node.queue_peak ?? 0}; turned away ${node.queue_rejected ?? 0}`;
    say(slot.tokens, folded ? (sum.tokens ? tokens(sum.tokens) : '') : tokens(node.tokens));
    say(slot.cost, cost(folded ? costOf(sum) : node));
  }

  fold(row, open) {
    if (row.open === undefined || row.open === open) return;
    if (open) this.folded.delete(row.node.path);
    else this.folded.add(row.node.path);
    this.arrange();
  }

  click(event) {
    const element = event.target.closest('[data-at]');
    const row = element && this.rows[Number(element.dataset.at)];
    if (!row?.node) return;
    this.active = this.name(row);
    if (event.target.closest('.twist') && row.open !== undefined) this.fold(row, !row.open);
    else this.open(row.node);
    this.paint();
  }

  key(event) {
    const at = this.at();
    const row = this.rows[at];
    const page = Math.max(1, Math.floor(this.grid.clientHeight / this.height) - 1);
    const moves = { ArrowDown: at + 1, ArrowUp: at - 1, PageDown: at + page, PageUp: at - page, Home: 0, End: this.rows.length - 1 };
    if (event.key in moves) this.move(moves[event.key], moves[event.key] < at || event.key === 'End' ? -1 : 1);
    else if (!row) return;
    else if (event.key === 'Enter' || event.key === ' ') this.open(row.node);
    else if (event.key === 'ArrowRight') { if (row.open) this.move(at + 1, 1); else this.fold(row, true); }
    else if (event.key === 'ArrowLeft' && row.open) this.fold(row, false);
    else if (event.key === 'ArrowLeft') this.move(this.rows.findIndex((up) => up.node?.key === row.node.parent && !up.needs), -1);
    else return;
    event.preventDefault();
    this.paint();
  }

  /** Makes the row there the active one; where a heading stands, the next one in the direction. */
  move(to, step) {
    let at = Math.min(this.rows.length - 1, Math.max(0, to));
    if (this.rows[at]?.head) at += this.rows[at + step] ? step : -step;
    if (!this.rows[at]?.node) return;
    this.active = this.name(this.rows[at]);
    const top = at * this.height;
    if (top < this.grid.scrollTop) this.grid.scrollTop = top;
    else if (top + this.height > this.grid.scrollTop + this.grid.clientHeight) this.grid.scrollTop = top + this.height - this.grid.clientHeight;
  }
}

/** Why a node last restarted or ended, and how often it did. */
export function lastExit(node, now) {
  const times = node.restarts ? `restarted ${node.restarts}×` : 'ended';
  if (!node.last_exit) return node.restarts ? times : '';
  return `${times}, ${since(node.last_exit_at, now)} ago: ${reason(node.last_exit)}`;
}
