// All nodes over the same tapes: which of them live, and which sessions each has. Any node tells of all, those that are gone too.

import { h, button, chip, complain } from './dom.js';
import { clock, duration, many } from './format.js';
import { get } from './api.js';

const AGAIN_MS = 5_000;

export class NodesView {
  constructor() {
    this.box = h('div');
    this.at = h('p', { class: 'receipt' });
    this.root = h('div', { class: 'scroll' }, h('a', { href: '#/', class: 'back' }, '← Tree'), h('h2', null, 'Nodes'), this.at, this.box);
    this.load(true);
  }

  /** Reads again while somebody looks. A failure is told once; then the time says of when the page is. */
  tick(now) {
    if (!document.hidden && now - this.asked >= AGAIN_MS) this.load(false);
  }

  async load(says) {
    this.asked = Infinity;
    try {
      const { nodes, waiting, parked } = await get('/v1/cluster');
      const groups = [...nodes.map((node) => group(node.name, chip(node.is_live ? 'live' : 'gone', node.is_live ? 'fine' : 'bad'), about(node), node.sessions)),
        waiting.count > 0 && group('Waiting for a node', chip('waiting', 'warn'), 'No node has them, and each has messages or an open turn.', waiting),
        parked.count > 0 && group('Parked', chip('parked', 'bad'), 'Nothing becomes of them until somebody unparks them.', parked)];
      this.box.replaceChildren(...groups.filter(Boolean));
      this.at.replaceChildren(`As of ${clock(Date.now())}. `, button('Read again', () => this.load(true), { class: 'plain' }));
    } catch (error) {
      if (says) complain(error);
    }
    this.asked = Date.now();
  }
}

function about({ pid, is_live: isLive, joined_ms: joined, gone_ms: gone }) {
  const when = isLive ? joined !== null && `joined ${duration(joined)} ago` : gone !== null && `gone for ${duration(gone)}; others take its sessions up`;
  return [`process ${pid}`, when].filter(Boolean).join(', ');
}

function group(name, state, words, { count, shown }) {
  const more = count - shown.length;
  return h('section', { class: 'node', 'aria-label': name }, h('h3', null, name, ' ', state), h('p', { class: 'receipt' }, `${words}${words.endsWith('.') ? '' : '.'} ${count ? many(count, 'session') : 'No sessions'}.`),
    shown.length > 0 && h('ul', null, shown.map((one) => h('li', null, h('a', { href: `#/session/${encodeURIComponent(one.session)}` }, one.session),
      [one.in_turn && 'in a turn', one.messages > 0 && `${many(one.messages, 'message')} on the way`].filter(Boolean).map((word) => ` · ${word}`))),
    more > 0 && h('li', { class: 'receipt' }, `and ${more.toLocaleString('en-US')} more`)));
}
