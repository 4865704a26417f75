// The box to steer with, and what is on its way: each message with its receipt, from sent over accepted to delivered.

import { h, button, complain } from './dom.js';
import { clock } from './format.js';
import { ask, newId, post, session } from './api.js';
import { policy } from './talkview.js';

const POLICIES = [
  ['queue', 'Queue', 'A turn of its own, after the one that runs.'],
  ['skip_remaining', 'Steer: skip the rest', 'The running call finishes, calls that have not started are skipped, then the model reads this.'],
  ['finish_batch', 'Steer: wait for the batch', 'All calls of this step run, then the model reads this.'],
  ['abort_running', 'Steer: abort what runs', 'The answer and the running calls are stopped now, then the model reads this.'],
  ['reject', 'Only if idle', 'Refused while a turn runs.'],
];
const asDelivery = (value) => (['queue', 'reject'].includes(value) ? value : { steer: value });
const asBody = (value) => (['queue', 'reject'].includes(value) ? { delivery: value } : { delivery: 'steer', steering: value });

// Where a message is that waits for its delivery.
const whereabouts = ({ ahead, why }) => ({
  sent: 'the model has it, and stops to read it',
  committed: 'the model goes on with it',
  returned: `came back${why ? `: ${why}` : ''}, waits for the next step`,
})[ahead] ?? 'not delivered yet';

export class Composer {
  /** `sent(message)` hears of each message on its way, `gone(id)` of one that was refused. */
  constructor(id, { sent, gone }) {
    Object.assign(this, { id, sent, gone });
    this.text = h('textarea', { id: 'steer-text', rows: '2', placeholder: 'Message to the agent', 'aria-describedby': 'steer-hint', maxlength: '200000' });
    this.policy = h('select', { id: 'steer-policy' }, POLICIES.map(([value, words]) => h('option', { value }, words)));
    this.hint = h('p', { id: 'steer-hint', class: 'receipt' });
    this.waiting = h('ol', { class: 'waiting', 'aria-label': 'On its way' });
    this.form = h('div', { class: 'composer' }, this.waiting, h('label', { for: 'steer-text', class: 'hidden' }, 'Message to the agent'), this.text,
      h('div', { class: 'buttons' }, h('label', { for: 'steer-policy' }, 'Delivery'), this.policy, button('Send', () => this.send(), { class: 'primary', id: 'send' })), this.hint);
    this.policy.addEventListener('change', () => { this.chosen = true; this.describe(); });
    this.text.addEventListener('keydown', (event) => {
      if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return;
      event.preventDefault();
      this.send();
    });
    this.describe();
  }

  describe() {
    this.hint.textContent = `${POLICIES.find(([value]) => value === this.policy.value)[2]} Enter sends, Shift+Enter breaks the line.`;
  }

  /** While a turn runs, steering is what a person most likely wants; a choice of their own stays. */
  running(runs) {
    if (this.chosen || this.runs === runs) return;
    this.runs = runs;
    this.policy.value = runs ? 'skip_remaining' : 'queue';
    this.describe();
  }

  async send() {
    const text = this.text.value;
    if (!text.trim()) return;
    const message = { id: newId(), text, delivery: asDelivery(this.policy.value), stage: 'sent', at: Date.now() };
    const body = { id: message.id, text, ...asBody(this.policy.value) };
    this.text.value = '';
    this.sent(message);
    // The same id again is the same message: a lost answer is asked for once more.
    for (let tries = 0; ; tries += 1) {
      try {
        const receipt = await post(session(this.id, '/messages'), body);
        this.sent({ id: message.id, text, delivery: message.delivery, stage: 'accepted', seq: receipt.seq, disposition: receipt.disposition, accepted: Date.now() });
        return;
      } catch (error) {
        if (error.retryable && error.kind !== 'busy' && tries < 4) {
          await new Promise((resolve) => { setTimeout(resolve, 500 * 2 ** tries); });
          continue;
        }
        this.gone(message.id);
        if (!this.text.value) this.text.value = text;
        complain(error);
        return;
      }
    }
  }

  draw(waiting) {
    this.waiting.replaceChildren(...waiting.map((message) => this.row(message)));
    this.waiting.hidden = waiting.length === 0;
  }

  row(message) {
    const before = message.disposition?.queued?.before;
    const steps = message.stage === 'sent' ? 'sent …' : [`accepted ${clock(message.accepted)}`, message.seq && `entry ${message.seq}`, before > 0 && `${before} before it`, whereabouts(message)]
      .filter(Boolean).join(' · ');
    return h('li', { class: `stage-${message.stage}` }, h('span', { class: 'words' }, message.text), h('span', { class: 'receipt' }, `${policy(message.delivery)} · ${steps}`),
      message.stage === 'accepted' && button('Take back', () => this.withdraw(message), { class: 'plain', 'aria-label': `Take back: ${message.text.slice(0, 60)}` }));
  }

  async withdraw(message) {
    try {
      await ask('DELETE', session(this.id, `/queue/${encodeURIComponent(message.id)}`));
      this.gone(message.id);
      if (!this.text.value) this.text.value = message.text;
    } catch (error) {
      complain(error);
    }
  }
}
