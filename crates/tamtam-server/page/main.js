// The page: the tree's stream, the panel beside it, and what is in the address behind `#`.

import { h, announce, button, complain, say } from './dom.js';
import { clock, many, since } from './format.js';
import { follow, get, post } from './api.js';
import { ActorView, crashesView } from './actorview.js';
import { drain } from './levers.js';
import { NodesView } from './nodesview.js';
import { SessionView } from './sessionview.js';
import { fold, state } from './tree.js';
import { TreeView } from './treeview.js';

const $ = (id) => document.getElementById(id);
const panel = $('panel');
let nodes = new Map();
let needy = 0;
let view = null; // {tree(node, children), tick(now), close()}, all optional, with the name or id of its node
let away = null;

const address = (node) => (node.kind === 'session' ? `#/session/${encodeURIComponent(node.id)}` : `#/actor/${encodeURIComponent(node.path)}`);
const tree = new TreeView({ grid: $('grid'), list: $('rows'), open: (node) => { location.hash = address(node); } });

function nodeOf({ session, path }) {
  for (const node of nodes.values()) if (session ? node.kind === 'session' && node.id === session : node.path === path) return node;
  return undefined;
}

function refresh() {
  tree.set(nodes);
  const all = [...nodes.values()];
  const sessions = all.filter((node) => node.kind === 'session');
  const needs = all.filter((node) => state(node).needs).length;
  const words = [many(sessions.length, 'session'), `${sessions.filter((node) => node.turn).length.toLocaleString('en-US')} in a turn`, `${needs} need${needs === 1 ? 's' : ''} a person`];
  say($('counts'), words.join(' · '));
  if (needs > needy) announce(words[2]);
  needy = needs;
  document.title = needs ? `(${needs}) Tamtam` : 'Tamtam';
  showNode();
}

function showNode() {
  const node = view && nodeOf(view);
  tree.choose(node?.path ?? null);
  view?.tree?.(node, node ? tree.shape.children.get(node.key) ?? [] : []);
}

function start() {
  const stream = follow(() => '/v1/tree/events', {
    frame: (name, data) => { nodes = fold(nodes, name, data); refresh(); },
    state: (word, next) => {
      if (word === 'login' || word === 'ended') { if (word === 'login') login(); else complain(new Error(`the tree's stream is over: ${next}`)); return; }
      away = word === 'away' ? { since: away?.since ?? Date.now(), next, now: stream.now } : null;
      tick();
    },
  });
}

function tick() {
  const now = Date.now();
  document.body.classList.toggle('is-away', Boolean(away));
  say($('connection'), away ? 'Away' : 'Live');
  $('away').hidden = !away;
  if (away) {
    // Only the first part is told to a screen reader; the seconds would never let it finish.
    say($('away').querySelector('[role=status]'), `The server is away since ${clock(away.since)}. What you see is from then.`);
    say($('away').querySelector('.next'), `Trying again${away.next > now ? ` in ${since(now, away.next)}` : ' now'}.`);
    $('away').querySelector('button').onclick = away.now;
  }
  tree.paint();
  view?.tick?.(now);
}

/** Asks for the token; the server then keeps it in a cookie that no script can read. */
function login() {
  const token = h('input', { type: 'password', id: 'token', autocomplete: 'current-password' });
  const said = h('p', { class: 'receipt', role: 'alert' });
  const enter = async () => {
    try {
      await post('/v1/login', { token: token.value });
      location.reload();
    } catch (error) {
      said.textContent = error.status === 401 ? 'This token is not right.' : error.message;
    }
  };
  token.addEventListener('keydown', (event) => { if (event.key === 'Enter') enter(); });
  document.querySelector('dialog')?.remove();
  const dialog = h('dialog', { 'aria-labelledby': 'login-title', oncancel: (event) => event.preventDefault() }, h('h2', { id: 'login-title' }, 'Token'),
    h('label', { for: 'token' }, 'This server asks for its token'), token, said, h('div', { class: 'buttons' }, button('Log in', enter, { class: 'primary' })));
  document.body.append(dialog);
  dialog.showModal();
}

function route() {
  const [, kind, name] = location.hash.split('/');
  const id = decodeURIComponent(name ?? '');
  view?.close?.();
  view = null;
  document.body.classList.toggle('has-panel', ['session', 'actor', 'crashes', 'nodes'].includes(kind));
  if (kind === 'session') {
    view = new SessionView(id, { login });
    view.session = id;
    panel.replaceChildren(view.root);
  } else if (kind === 'actor') {
    view = actorPage(id);
    panel.replaceChildren(view.root);
  } else if (kind === 'nodes') {
    view = new NodesView();
    panel.replaceChildren(view.root);
  } else if (kind === 'crashes') {
    const box = h('div', { class: 'scroll' });
    panel.replaceChildren(h('a', { href: '#/', class: 'back' }, '← Tree'), box);
    crashesView(box).catch(complain);
  } else {
    panel.replaceChildren(h('p', { class: 'empty' }, 'Choose a session or an actor in the tree.'));
  }
  showNode();
}

function actorPage(path) {
  const actor = new ActorView(path, null);
  const root = h('div', { class: 'scroll' }, h('a', { href: '#/', class: 'back' }, '← Tree'), h('h2', null, path.split('/').at(-1)), actor.root);
  return { path, root, tree: (node) => actor.draw(node) };
}

const THEMES = ['auto', 'light', 'dark'];
function theme(name) {
  document.documentElement.dataset.theme = name;
  say($('theme'), `Theme: ${name}`);
  remembered((storage) => storage.setItem('theme', name));
}

/** A browser may refuse the storage; then the choice lasts until the page is closed. */
function remembered(use) {
  try { return use(localStorage); } catch { return null; }
}

const before = remembered((storage) => storage.getItem('theme'));
theme(THEMES.includes(before) ? before : 'auto');
$('theme').addEventListener('click', () => theme(THEMES[(THEMES.indexOf(document.documentElement.dataset.theme) + 1) % THEMES.length]));
$('drain').addEventListener('click', drain);
$('find').addEventListener('input', () => tree.search($('find').value));
$('find').addEventListener('keydown', (event) => {
  const { value } = $('find');
  if (event.key === 'ArrowDown') { $('grid').focus(); event.preventDefault(); }
  // A session that sleeps is not in the tree; its id opens it.
  else if (event.key === 'Enter' && value.trim()) location.hash = tree.hit() ? address(tree.hit()) : `#/session/${encodeURIComponent(value.trim())}`;
});
$('fold').addEventListener('click', () => {
  const all = $('fold').textContent === 'Fold all';
  tree.foldAll(all);
  say($('fold'), all ? 'Unfold all' : 'Fold all');
});
addEventListener('hashchange', route);
setInterval(tick, 1_000);

try {
  const about = await get('/v1');
  $('drain').hidden = about.scope !== 'all';
  $('nodes').hidden = !about.several_nodes;
} catch (error) {
  if (error.status === 401) login();
  else complain(error);
}
if (!document.querySelector('dialog')) {
  start();
  route();
}
