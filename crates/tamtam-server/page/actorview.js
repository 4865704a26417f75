// One actor: its facts, its levers, why it ended before, and its last events. The same for a session and for anything else in the tree.

import { h, button, complain } from './dom.js';
import { clock, cost, decision, duration, reason, since, tokens } from './format.js';
import { actor, get } from './api.js';
import { doing, state } from './tree.js';
import { levers } from './levers.js';

const CONTEXT = { start_error: 'failed to start', child_terminated: 'crashed', shutdown_error: 'did not stop as asked' };

/** A crash report: the sentence, the facts of OTP, the work in hand, the last events. */
export function crash(report, open = false) {
  const at = report.turn ? `turn ${report.turn.turn}, step ${report.turn.step}` : '';
  const place = typeof report.reason?.detail === 'object' ? report.reason.detail?.location : '';
  return h('details', { class: 'crash', open },
    h('summary', null, h('span', { class: 'time' }, clock(report.at)), h('b', null, report.offender ?? report.path), ' ', CONTEXT[report.context] ?? report.context, ': ', reason(report.reason),
      h('span', { class: 'receipt' }, ` → ${decision(report.decision)}`)),
    h('dl', { class: 'facts' }, [
      ['Report', `#${report.number}`], ['Supervisor', report.supervisor], ['Incarnation', report.incarnation], ['Place in code', place],
      ['In hand', report.message && `${report.message}${report.in_hand_ms ? ` for ${duration(report.in_hand_ms)}` : ''}`], ['Was doing', report.doing], ['At', at],
      ['Tape', report.tape_seq && `entry ${report.tape_seq}`], ['Tokens', tokens(report.tokens)], ['Cost', cost(report)], ['Waiting', String(report.queue)],
      ['Crashes in the window', report.in_window],
    ].filter(([, value]) => value !== undefined && value !== null && value !== '').map(([term, value]) => [h('dt', null, term), h('dd', null, String(value))])),
    report.recent?.length > 0 && events([...report.recent].reverse(), 'Before it, the newest first'));
}

const events = (list, title) => h('table', null, h('caption', null, title), h('thead', null, h('tr', null, ['Ago', 'Kind', 'What', 'Number'].map((name) => h('th', { scope: 'col' }, name)))),
  h('tbody', null, list.map((each) => h('tr', null, h('td', null, duration(each.ago_ms)), h('td', null, each.kind), h('td', null, each.what), h('td', null, String(each.number ?? ''))))));

function factsOf(node, now) {
  const does = doing(node);
  return [['Path', node.path], ['Kind', node.kind], ['State', state(node).word], ['Needs', state(node).needs], ['Reading', node.reading], ['Does', does.text],
    ['Since', does.at && `${clock(does.at)} (${since(does.at, now)})`], ['Up since', node.started_at && clock(node.started_at)],
    ['Incarnation', node.incarnation], ['Restarts', `${node.restarts} (crashes in the window: ${node.restarts_in_window})`],
    ['Last end', node.last_exit && `${reason(node.last_exit)}, ${since(node.last_exit_at, now)} ago`],
    ['Inbox', `${node.queue} (peak ${node.queue_peak}, turned away ${node.queue_rejected})`], ['Handled', node.handled],
    ['Tokens', node.tokens !== undefined && `${tokens(node.tokens_in)} in, ${tokens(node.tokens_out)} out`], ['Cost', cost(node)],
    ['Tape', node.tape_seq && `entry ${node.tape_seq}`]];
}

/** The view of an actor: `draw(node)` with what the tree's stream says, `load()` for its crashes and events. */
export class ActorView {
  constructor(name, id) {
    Object.assign(this, { name, id, facts: h('dl', { class: 'facts' }), levers: h('div'), crashes: h('div'), trace: h('div') });
    this.root = h('div', { class: 'actor' }, h('h3', null, 'Crash reports'), this.crashes, h('h3', null, 'As it is now'), this.facts,
      h('h3', null, 'Levers'), this.levers, h('h3', null, 'Last events'), this.trace, button('Read again', () => this.load()));
  }

  draw(node) {
    const changed = node?.last_exit_at !== this.node?.last_exit_at || node?.incarnation !== this.node?.incarnation;
    const other = !this.levers.hasChildNodes() || ['status', 'phase', 'path'].some((name) => node?.[name] !== this.node?.[name]) || Boolean(node?.turn) !== Boolean(this.node?.turn);
    this.node = node;
    const pairs = node ? factsOf(node, Date.now()).filter(([, value]) => value !== undefined && value !== null && value !== false && value !== '') : [['State', 'not in the tree: asleep, or gone']];
    this.facts.replaceChildren(...pairs.flatMap(([term, value]) => [h('dt', null, term), h('dd', null, String(value))]));
    if (other) this.levers.replaceChildren(levers(node, this.id));
    if (changed) this.load();
  }

  async load() {
    try {
      const seen = await get(actor(this.node?.path ?? this.name));
      const reports = [...(seen.crashes ?? [])].reverse();
      this.crashes.replaceChildren(...(reports.length ? reports.map((report, n) => crash(report, n === 0)) : [h('p', { class: 'receipt' }, 'None.')]));
      this.trace.replaceChildren(seen.trace?.length ? events([...seen.trace].reverse(), 'The newest first') : h('p', { class: 'receipt' }, 'None.'));
    } catch (error) {
      if (error.status === 404) this.crashes.replaceChildren(h('p', { class: 'receipt' }, 'It is not in the tree.'));
      else complain(error);
    }
  }
}

/** Fills a box with all crash reports, newest first. */
export async function crashesView(box) {
  const { crashes } = await get('/v1/crashes');
  box.replaceChildren(h('h2', null, 'Crash reports'), h('p', { class: 'receipt' }, 'The newest 256, newest first. ', button('Read again', () => crashesView(box).catch(complain), { class: 'plain' })),
    ...(crashes.length ? [...crashes].reverse().map((report, n) => crash(report, n === 0)) : [h('p', null, 'Nothing has crashed.')]));
}
