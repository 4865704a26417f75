// The items of a conversation on the screen. An element is made anew only when its item is another object; whether a person had
// opened it stays.

import { h, button, chip } from './dom.js';
import { clip, clock, duration } from './format.js';
import { change, fields, gist, stateOf } from './call.js';

const CHARS_MAX = 6_000;

/** A text of any size: the beginning, and the rest on demand. */
export function long(text, props = {}) {
  const { text: first, more } = clip(text, CHARS_MAX);
  const box = h('pre', props, first);
  if (more) box.append(button(`Show ${more.toLocaleString('en-US')} more characters`, () => box.replaceChildren(text), { class: 'plain' }));
  return box;
}

export const diff = (lines) => h('pre', { class: 'diff', 'aria-label': 'Diff' },
  lines.slice(0, 400).map(({ kind, text }) => h('span', { class: kind }, `${text}\n`)),
  lines.length > 400 && h('span', { class: 'hunk' }, `… ${lines.length - 400} more lines`));

/** The arguments of a call, each as a labelled text. */
export function input(item) {
  const values = fields(item.input);
  if (!values) return long(item.input || '…', { class: 'input' });
  return h('dl', { class: 'arguments' }, Object.entries(values).map(([name, value]) =>
    [h('dt', null, name), h('dd', null, long(typeof value === 'string' ? value : JSON.stringify(value, null, 1)))]));
}

/** How a message steers or queues, in words. */
export function policy(delivery) {
  const steer = typeof delivery === 'object' ? delivery?.steer : null;
  const words = { skip_remaining: 'steers, skips the calls that have not started', finish_batch: 'steers, waits for the batch',
    abort_running: 'steers, aborts what runs' };
  return steer ? (words[steer] ?? 'steers') : delivery === 'queue' ? 'queued: a turn of its own' : delivery === 'reject' ? 'only if idle' : '';
}

function saidItem(item) {
  const receipt = item.delivered && item.accepted && h('p', { class: 'receipt' }, `${policy(item.delivery)} · accepted ${clock(item.accepted)} → delivered ${clock(item.delivered)}`,
    item.delivered - item.accepted >= 1_000 && ` (after ${duration(item.delivered - item.accepted)})`);
  return h('article', { class: 'item said', 'aria-label': 'Message to the agent' }, h('p', { class: 'words' }, item.text || '(no text)'),
    item.files?.length > 0 && h('p', { class: 'receipt' }, `Files: ${item.files.join(', ')}`), receipt);
}

function callItem(item, open) {
  const [word, tone] = stateOf(item);
  const lines = change(item);
  const time = item.ended && item.started ? duration(item.ended - item.started) : item.started ? clock(item.started) : '';
  const start = open ?? (item.state === 'completed' ? lines !== null : !['skipped', 'writing', 'pending'].includes(item.state));
  return h('details', { class: `item call tone-edge-${tone}`, open: start },
    h('summary', null, h('b', null, item.name), h('code', null, gist(item.input)), chip(word, tone), h('span', { class: 'time' }, time)),
    lines ? diff(lines) : input(item),
    item.progress && !item.ended && h('p', { class: 'receipt' }, item.progress),
    item.content !== undefined && [h('h4', null, item.title ? `Result: ${item.title}` : 'Result'), long(item.content, { class: 'result' })],
    lines && h('details', { class: 'inner' }, h('summary', null, 'Input'), input(item)));
}

function element(item, open) {
  if (item.kind === 'said') return saidItem(item);
  if (item.kind === 'call') return callItem(item, open);
  if (item.kind === 'reasoning') {
    return h('details', { class: 'item reasoning', open: open ?? item.draft }, h('summary', null, item.draft ? 'Thinking …' : 'Thought'), h('p', { class: 'words' }, item.text));
  }
  if (item.kind === 'text') return h('article', { class: `item answer${item.draft ? ' draft' : ''}`, 'aria-label': 'The agent' }, h('p', { class: 'words' }, item.text));
  return h('p', { class: `item note tone-${item.tone ?? 'quiet'}` }, item.text, item.at && h('span', { class: 'time' }, clock(item.at)));
}

export class TalkView {
  constructor(list) {
    this.list = list;
    this.drawn = new Map();
  }

  /** Draws the items; stays at the end if it was there. */
  draw(items) {
    const scroller = this.list.parentElement;
    const atEnd = scroller.scrollHeight - scroller.scrollTop - scroller.clientHeight < 60;
    const keys = new Set(items.map((item) => item.key));
    for (const [key, { made }] of this.drawn) if (!keys.has(key)) { made.remove(); this.drawn.delete(key); }
    let before = null;
    for (const item of items) {
      const old = this.drawn.get(item.key);
      let made = old?.made;
      if (old?.item !== item) {
        const text = made && item.draft && old.item.draft && item.kind === 'text' && made.querySelector('.words');
        if (text) text.textContent = item.text;
        else {
          made = element(item, old?.touched ? old.made.open : undefined);
          old?.made.replaceWith(made);
        }
        const entry = { item, made, touched: old?.touched ?? false };
        if (made.tagName === 'DETAILS') made.querySelector('summary').addEventListener('click', () => { this.drawn.get(item.key).touched = true; });
        this.drawn.set(item.key, entry);
      }
      const place = before ? before.nextSibling : this.list.firstChild;
      if (place !== made) this.list.insertBefore(made, place);
      before = made;
    }
    if (atEnd) scroller.scrollTop = scroller.scrollHeight;
  }
}
