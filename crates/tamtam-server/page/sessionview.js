// One session: what it is and does, its conversation as it streams, its asks, the box to steer with, its tasks, its actor.

import { h, announce, button, chip, complain, confirm, say } from './dom.js';
import { amount, cost, duration, line, since, tokens } from './format.js';
import { follow, get, post, session } from './api.js';
import { ActorView } from './actorview.js';
import { askView } from './askview.js';
import { Composer } from './composer.js';
import { abort } from './levers.js';
import { doing, state } from './tree.js';
import { lastExit } from './treeview.js';
import { TalkView } from './talkview.js';
import * as talk from './talk.js';

const TABS = [['talk', 'Conversation'], ['tasks', 'Tasks'], ['actor', 'Actor and crashes']];

export class SessionView {
  constructor(id, { login }) {
    Object.assign(this, { id, login, talk: talk.empty(), asks: new Map(), cursor: null, node: undefined, tab: 'talk', run: 0 });
    this.composer = new Composer(id, {
      sent: (message) => this.set(talk.onItsWay(this.talk, message)),
      gone: (gone) => this.set({ ...this.talk, waiting: this.talk.waiting.filter((message) => message.id !== gone) }),
    });
    this.actor = new ActorView(id, id);
    this.list = h('div', { class: 'items', role: 'log', 'aria-label': 'Conversation', 'aria-live': 'off' });
    this.more = button('Show older messages', () => this.older(), { class: 'plain', hidden: true });
    this.askBox = h('section', { class: 'asks', 'aria-label': 'Needs a person' });
    this.tasks = h('div', { class: 'scroll' });
    this.tabs = TABS.map(([name, label]) => button(label, () => this.show(name), { role: 'tab', id: `tab-${name}`, 'aria-controls': `pane-${name}` }));
    this.tabs.forEach((tab, at) => tab.addEventListener('keydown', (event) => this.tabKey(event, at)));
    const pane = (name, ...children) => h('div', { role: 'tabpanel', id: `pane-${name}`, class: `pane ${name}`, 'aria-labelledby': `tab-${name}` }, children);
    this.panes = [pane('talk', h('div', { class: 'scroll', tabindex: '0', 'aria-label': 'Conversation' }, this.more, this.list), this.askBox, this.composer.form), pane('tasks', this.tasks),
      pane('actor', h('div', { class: 'scroll' }, this.actor.root))];
    this.title = h('h2');
    this.stop = button('Abort the turn…', () => abort(id), { class: 'danger stop', hidden: true });
    this.facts = h('p', { class: 'figures' });
    this.because = h('span');
    this.why = h('p', { class: 'why', hidden: true }, this.because, ' ', button('See the report', () => this.show('actor'), { class: 'plain' }));
    this.link = h('span', { class: 'receipt', role: 'status' });
    this.root = h('div', { class: 'session', 'aria-label': `Session ${id}`, role: 'group' }, h('div', { class: 'top' }, h('a', { href: '#/', class: 'back' }, '← Tree'), h('div', { class: 'name' }, this.title, this.stop), this.link, this.facts, this.why,
      h('div', { role: 'tablist', 'aria-label': 'Parts of the session' }, this.tabs)), this.panes);
    this.view = new TalkView(this.list);
    this.show('talk');
    this.load();
  }

  /** Reads the session as it is, then follows it from there. Called again where the stream says that what is shown no longer holds. */
  async load() {
    this.stream?.stop();
    this.run += 1;
    const run = this.run;
    try {
      let about = await get(session(this.id));
      let page;
      let seq;
      // Messages and stream fit together where the tape did not move in between.
      for (let tries = 0; tries < 5; tries += 1) {
        seq = about.seq;
        page = await get(session(this.id, '/messages?limit=50'));
        if (page.seq !== undefined) { seq = page.seq; break; }
        about = await get(session(this.id));
        if (about.seq === seq) break;
      }
      // A parked session can be read, but what waits in it is told only once it is unparked.
      this.parked = false;
      const whenUp = (error) => { if (error.kind !== 'parked') throw error; this.parked = true; return {}; };
      const rest = await Promise.all(['queue', 'asks', 'tasks'].map((name) => get(session(this.id, `/${name}`)).catch(whenUp)));
      if (run !== this.run) return;
      this.about = about;
      this.cursor = page.next;
      this.set(talk.begin(talk.older(talk.empty(), page.messages), { now: about.now, waiting: rest[0].waiting, asks: rest[1].asks, tasks: rest[2].tasks }));
      this.stream = follow((last) => session(this.id, `/events?after=${encodeURIComponent(last ?? seq)}`), {
        frame: (name, event) => this.frame(event), state: (word, detail) => this.linkState(word, detail) });
    } catch (error) {
      if (run !== this.run) return;
      if (error.status === 401) this.login();
      else if (error.kind === 'away' || error.kind === 'retry') setTimeout(() => run === this.run && this.load(), 2_000);
      else {
        this.about = { status: error.kind.replaceAll('_', ' ') };
        this.composer.form.hidden = error.kind === 'not_found';
        say(this.link, error.message);
        this.head();
      }
    }
  }

  async older() {
    if (!this.cursor) return;
    try {
      const page = await get(session(this.id, `/messages?limit=50&before=${encodeURIComponent(this.cursor)}`));
      this.cursor = page.next;
      this.set(talk.older(this.talk, page.messages));
    } catch (error) {
      complain(error);
    }
  }

  frame(event) {
    this.set(talk.fold(this.talk, event));
    if (this.talk.stale) this.load();
    if (event.event === 'ask') announce(`${event.name} asks a person`, true);
    if (event.event === 'turn_finished') announce(`Turn ended: ${event.outcome}`);
    if (event.event === 'part_updated' && event.part.type === 'text') announce(line(event.part.text, 300));
  }

  linkState(word, detail) {
    if (word === 'away') this.set(talk.broken(this.talk));
    if (word === 'login') this.login();
    say(this.link, { live: '', away: 'Away: reconnecting, nothing is lost', ended: `The stream is over: ${detail}` }[word] ?? '');
  }

  set(next) {
    this.talk = next;
    // Many deltas, one drawing.
    this.drawing ??= requestAnimationFrame(() => { this.drawing = null; this.draw(); });
  }

  draw() {
    this.view.draw(this.talk.items);
    this.more.hidden = !this.cursor;
    this.composer.draw(this.talk.waiting);
    this.composer.running(Boolean(this.talk.turn));
    for (const [key, box] of this.asks) {
      if (this.talk.asks.has(key)) continue;
      const focused = box.contains(document.activeElement) || document.activeElement === document.body;
      box.remove();
      this.asks.delete(key);
      if (focused) this.composer.text.focus({ preventScroll: true });
    }
    for (const [key, ask] of this.talk.asks) {
      if (this.asks.has(key)) continue;
      const box = askView(this.id, ask);
      this.asks.set(key, box);
      this.askBox.append(box);
    }
    this.askBox.hidden = this.asks.size === 0;
    this.drawTasks();
    this.head();
  }

  /** What the tree says of the session; undefined while it sleeps. */
  tree(node, children) {
    this.node = node;
    this.children = children;
    if (this.parked && node?.status === 'running') this.load();
    this.actor.draw(node);
    this.head();
    this.drawTasks();
  }

  tick(now) {
    this.head();
    for (const box of this.asks.values()) box.tick(now);
  }

  head() {
    const { node, about } = this;
    const now = Date.now();
    const name = node?.title || about?.title || this.id;
    const { word, tone } = node ? state(node) : { word: about?.status ?? 'asleep', tone: 'quiet' };
    if (this.headWord !== `${name} ${word}`) {
      this.headWord = `${name} ${word}`;
      this.title.replaceChildren(name, ' ', chip(word, tone));
    }
    this.stop.hidden = !this.talk.turn;
    const does = node ? doing(node) : {};
    const left = Object.entries(this.talk.left ?? node?.left ?? {}).map(([resource, n]) => `${amount(resource, n)} left`);
    say(this.facts, [name !== this.id && this.id, does.text && `${does.text} · ${since(does.at, now)}`, about?.agent, this.talk.turn?.model ?? about?.model, node?.tokens !== undefined && `${tokens(node.tokens)} tokens`,
      node && cost(node), ...left, this.talk.context && `context ${Math.round((100 * this.talk.context[0]) / this.talk.context[1])} %`].filter(Boolean).join(' · '));
    this.why.hidden = !node?.last_exit;
    if (node?.last_exit) say(this.because, `The actor ${lastExit(node, now)}`);
  }

  drawTasks() {
    const rows = [...this.talk.tasks.values()];
    say(this.tabs[1], rows.length ? `Tasks (${rows.length})` : 'Tasks');
    const shown = rows.map((task) => {
      const node = this.children?.find((child) => child.id === task.session);
      const { word, tone } = task.over ? { word: task.over, tone: task.over === 'done' ? 'fine' : 'warn' } : node ? state(node) : { word: task.queued ? 'waits for room' : 'running', tone: task.queued ? 'quiet' : 'busy' };
      const metrics = [node ? doing(node).text : task.progress?.current_tool, node?.tokens !== undefined && `${tokens(node.tokens)} tokens`, node && cost(node),
        task.progress?.stalled && `no sign for ${duration(task.progress.idle_ms)}`].filter(Boolean).join(' · ');
      return h('li', null, h('a', { href: `#/session/${encodeURIComponent(task.session)}` }, task.session), ' ', chip(word, tone), h('p', { class: 'receipt' }, metrics),
        !task.over && button('Stop this task…', () => this.stopTask(task), { class: 'plain' }), task.text && h('p', { class: 'words' }, line(task.text, 400)));
    });
    this.tasks.replaceChildren(shown.length ? h('ul', { class: 'tasks' }, shown) : h('p', { class: 'receipt' }, 'This session has given no tasks.'));
  }

  async stopTask(task) {
    const reason = await confirm({ title: 'Stop this task?', effect: `${task.session} is stopped; this session is told so.`, act: 'Stop', reason: true, danger: true });
    if (reason !== null) await post(session(this.id, `/tasks/${task.ticket}/stop`), reason ? { reason } : {}).catch(complain);
  }

  show(name) {
    this.tab = name;
    TABS.forEach(([each], at) => {
      this.tabs[at].setAttribute('aria-selected', String(each === name));
      this.tabs[at].tabIndex = each === name ? 0 : -1;
      this.panes[at].hidden = each !== name;
    });
    if (name === 'actor') this.actor.load();
  }

  tabKey(event, at) {
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1 }[event.key];
    if (to === undefined) return;
    const next = (to + TABS.length) % TABS.length;
    this.show(TABS[next][0]);
    this.tabs[next].focus();
  }

  close() {
    this.run += 1;
    this.stream?.stop();
  }
}
