// Open asks: the whole question, what each "always" would allow, and the buttons. A budget's ask raises a limit instead.

import { h, button, complain } from './dom.js';
import { amount, since } from './format.js';
import { change } from './call.js';
import { diff, input } from './talkview.js';
import { post, session } from './api.js';

const SCOPES = [['session', 'in this session'], ['turn', 'in this turn only'], ['project', 'in this project (a trusted folder)']];

const title = (ask) => ask.question?.title ?? (ask.kind === 'budget' ? 'Raise the budget?' : `Allow ${ask.name} to run?`);

function offers(ask, answer) {
  if (!ask.offers?.length) return null;
  const scope = h('select', { 'aria-label': 'Where “always” holds' }, SCOPES.map(([value, words]) => h('option', { value }, words)));
  return h('fieldset', null, h('legend', null, 'Always allow ', scope), ask.offers.map(({ offer, allows, rules }) => h('div', { class: 'offer' },
    button('Always', () => answer({ grant: 'always', offer, scope: scope.value }), { 'aria-label': `Always: ${allows}` }),
    h('span', null, allows.split('`').map((piece, n) => (n % 2 ? h('code', null, piece) : piece))), h('code', null, (rules ?? []).map((rule) => `${rule.permission} ${rule.pattern}`).join(', ')))));
}

function budget(ask, answer) {
  const breach = ask.breach ?? ask;
  const name = breach.resource === 'usd' ? 'micro_usd' : breach.resource;
  // The least that lets the next step go on, and not less than as much again.
  const short = (breach.used ?? 0) + (breach.held ?? 0) + (breach.needs ?? 0) - (breach.max ?? 0);
  const by = h('input', { type: 'number', min: '1', id: `raise-${ask.ask}`, value: String(Math.max(breach.max ?? 1, short)) });
  return [h('p', null, ask.text ?? `${amount(breach.resource, breach.used ?? 0)} of ${amount(breach.resource, breach.max ?? 0)} are used (${breach.extent})${breach.needs ? `; the next step needs ${amount(breach.resource, breach.needs)}` : ''}.`),
    h('div', { class: 'buttons' }, h('label', { for: by.id }, `Raise ${name} by`), by,
      button('Raise', () => answer({ grant: 'raise', by: { [name]: Number(by.value) } }), { class: 'primary' }),
      button('Stop here', () => answer({ grant: 'reject' }), { class: 'danger' }))];
}

function call(ask, answer) {
  const why = h('input', { type: 'text', 'aria-label': 'What to tell the model', placeholder: 'Say why, and the turn goes on', autocomplete: 'off' });
  const reject = () => answer(why.value.trim() ? { grant: 'reject', message: why.value.trim() } : { grant: 'reject' });
  why.addEventListener('keydown', (event) => { if (event.key === 'Enter') reject(); });
  const lines = change(ask);
  return [
    ask.question?.details && h('p', { class: 'words' }, ask.question.details),
    ask.repeats && h('p', null, `It repeats: this call was made ${ask.repeats.times} times.`),
    lines ? diff(lines) : input({ input: ask.input ?? '' }),
    ask.access?.length > 0 && h('p', { class: 'receipt' }, 'Wants: ', ask.access.map((access) => h('code', null, `${access.permission} ${access.pattern}`))),
    h('div', { class: 'buttons' }, button('Allow once', () => answer({ grant: 'once' }), { class: 'primary' }),
      button('Reject', reject, { class: 'danger' }), why),
    h('p', { class: 'receipt' }, 'A rejection without words ends the turn.'),
    offers(ask, answer)];
}

/** The element of one ask. It stays until the stream says that the ask is closed. */
export function askView(id, ask) {
  const box = h('article', { class: 'ask', 'aria-label': title(ask) });
  const answer = async (grant) => {
    box.querySelectorAll('button').forEach((each) => { each.disabled = true; });
    try {
      await post(session(id, `/asks/${ask.ask}`), ask.digest ? { ...grant, digest: ask.digest } : grant);
    } catch (error) {
      if (error.kind !== 'stale') complain(error);
      box.querySelectorAll('button').forEach((each) => { each.disabled = false; });
    }
  };
  const from = ask.from?.at(-1);
  const left = h('span', { class: 'time' });
  box.append(h('h3', null, title(ask), left),
    ...(from ? [h('p', null, 'Asked by the task ', h('a', { href: `#/session/${encodeURIComponent(from.session)}` }, from.session), from.agent ? ` (${from.agent})` : '')] : []),
    ...(ask.kind === 'budget' ? budget(ask, answer) : call(ask, answer)).flat().filter(Boolean));
  box.tick = (now) => { left.textContent = ask.expires > now ? `denied in ${since(now, ask.expires)}` : ''; };
  box.tick(Date.now());
  return box;
}
