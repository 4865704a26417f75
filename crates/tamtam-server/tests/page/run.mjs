// The page in a real browser, against a server that runs already:
//   node run.mjs ADDRESS [--shots DIR] [--session ID] [--token T] [--mock]
//   node run.mjs --start PROGRAM [--shots DIR]
// The run watches a session, answers its ask, steers it, crashes its actor, reads why, restarts it, and gives a task. The server plays
// `script.json`, asks before `edit`, and allows drills. With `--start` it is `PROGRAM serve` (the program `tamtam`), which the run starts
// in a folder of its own, and also kills (-9) and starts again while the page looks on. With `--mock` it is `mock.mjs`: the run makes it
// go away, and expects 10,000 sessions. Chromium is the system's, else the one of `@sparticuz/chromium`.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { chromium as browserOf } from 'playwright-core';

const { positionals: [given], values: options } = parseArgs({ allowPositionals: true,
  options: { shots: { type: 'string' }, session: { type: 'string', default: `watched-${process.pid}` }, token: { type: 'string' }, mock: { type: 'boolean', default: false }, start: { type: 'string' } } });
if (!given === !options.start) { console.error('usage: node run.mjs ADDRESS [--shots DIR] [--session ID] [--token T] [--mock], or node run.mjs --start PROGRAM'); process.exit(2); }
const ID = options.session;
const CRASH = 'the glitch of the browser test';

// A server of our own, in a folder of its own.
const folder = options.start ? mkdtempSync(join(tmpdir(), 'tamtam-page-')) : null;
let server = null;
async function serve(port) {
  const place = (name) => join(folder, name);
  if (!existsSync(place('work'))) {
    mkdirSync(place('work'));
    writeFileSync(place('work/greet.sh'), 'echo Helo\nline2\n');
    writeFileSync(place('rules.json'), JSON.stringify({ bash: 'allow', task: 'allow' }));
  }
  const script = fileURLToPath(new URL('script.json', import.meta.url));
  const args = ['serve', '--addr', `127.0.0.1:${port}`, '--drills', '--model', `scripted:${script}`, '--permission', 'ask', '--rules', place('rules.json'),
    '--store', place('store'), '--workspace', place('work')];
  server = spawn(options.start, args, { env: { PATH: process.env.PATH, HOME: folder }, stdio: ['ignore', 'pipe', 'pipe'] });
  let said = '';
  return new Promise((resolve, reject) => {
    const hear = (piece) => {
      said += piece;
      const found = said.match(/http:\/\/127\.0\.0\.1:\d+/);
      if (found) resolve(found[0]);
    };
    server.stdout.on('data', hear);
    server.stderr.on('data', hear);
    server.on('exit', () => reject(new Error(`the server ended: ${said}`)));
  });
}
async function end(signal) {
  if (!server) return;
  const ended = once(server, 'exit');
  server.kill(signal);
  await ended;
}
const address = given ?? await serve(0);

async function launch() {
  const installed = ['/usr/bin/chromium', '/usr/bin/chromium-browser'].find(existsSync);
  if (installed) return browserOf.launch({ executablePath: installed, args: ['--no-sandbox'] });
  const { default: carried } = await import('@sparticuz/chromium');
  return browserOf.launch({ executablePath: await carried.executablePath(), args: [...carried.args.filter((arg) => !arg.startsWith('--headless')), '--no-sandbox'] });
}

async function api(method, path, body) {
  const headers = { 'content-type': 'application/json', ...(options.token && { authorization: `Bearer ${options.token}` }) };
  const response = await fetch(`${address}${path}`, { method, headers, body: body && JSON.stringify(body) });
  const text = await response.text();
  assert.ok(response.ok, `${method} ${path}: ${response.status} ${text}`);
  return text ? JSON.parse(text) : null;
}

let passed = 0;
let failed = 0;
async function step(claim, work) {
  try {
    await work();
    passed += 1;
    console.log(`ok     ${claim}`);
  } catch (error) {
    failed += 1;
    console.log(`FAILED ${claim}\n       ${String(error.message ?? error).split('\n').slice(0, 12).join('\n       ')}`);
    await shot('failed');
  }
}

const browser = await launch();
const context = await browser.newContext({ viewport: { width: 1360, height: 820 }, colorScheme: 'light' });
const page = await context.newPage();
page.setDefaultTimeout(15_000);
const complaints = [];
const foreign = [];
page.on('console', (message) => { if (message.type() === 'error' && !/Failed to load resource|ERR_/.test(message.text())) complaints.push(message.text()); });
page.on('pageerror', (error) => complaints.push(String(error)));
page.on('request', (request) => { if (!request.url().startsWith(address) && !request.url().startsWith('data:')) foreign.push(request.url()); });

let shots = 0;
async function shot(name) {
  if (!options.shots) return;
  mkdirSync(options.shots, { recursive: true });
  await page.screenshot({ path: `${options.shots}/${String(shots += 1).padStart(2, '0')}-${name}.png` });
}
/** What axe, a judge of accessibility that we did not write, holds against the page as it is now. */
const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
async function accessible() {
  await page.evaluate(AXE);
  const found = await page.evaluate(() => axe.run(document, { runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'best-practice'] }));
  assert.deepEqual(found.violations.map(({ id, nodes }) => `${id}: ${nodes.map((node) => node.html.slice(0, 160)).slice(0, 3).join(' | ')}`), []);
}
const row = (id) => page.locator(`#rows > [role=row]:not([hidden]):has(.id:text-is("${id}"))`);
const text = (selector) => page.locator(selector).innerText();
const items = page.locator('.items');

if (options.token) {
  await step('a server with a token asks for it, and a wrong one gets no further', async () => {
    await page.goto(`${address}/`);
    const dialog = page.getByRole('dialog', { name: 'Token' });
    await dialog.locator('input').fill('wrong');
    await page.keyboard.press('Enter');
    await dialog.getByText('This token is not right.').waitFor();
    assert.equal(await page.locator('#rows > *').count(), 0);
    await dialog.locator('input').fill(options.token);
    await page.keyboard.press('Enter');
    await dialog.waitFor({ state: 'detached' });
  });
}

await step('the page opens and shows the supervision tree', async () => {
  await page.goto(`${address}/`);
  await row('runtime').last().waitFor();
  await page.locator('#connection', { hasText: 'Live' }).waitFor();
});

await step('a session that is made now appears in the tree; found by its name, opened by keyboard', async () => {
  await api('POST', '/v1/sessions', { id: ID, prompt: { text: 'The greeting is wrong. Repair it, and show that it is right.' } });
  await page.locator('#find').fill(ID);
  await row(ID).first().waitFor();
  if (options.mock) await shot('tree');
  await page.locator('#find').press('ArrowDown');
  for (let n = 0; n < 12; n += 1) {
    await page.keyboard.press('ArrowDown');
    const active = await page.locator('#grid').getAttribute('aria-activedescendant');
    if (active && (await page.locator(`#${active} .id`).innerText()) === ID) break;
  }
  await page.keyboard.press('Enter');
  await page.locator(`.session[aria-label="Session ${ID}"]`).waitFor();
});

await step('the conversation streams, with its thought, its calls and their results', async () => {
  await items.locator('.reasoning').first().waitFor();
  await items.locator('.call', { hasText: 'read' }).filter({ hasText: 'done' }).first().waitFor();
  await items.locator('.answer', { hasText: 'look at the greeting first.' }).waitFor();
});

await step('the ask shows the diff and what "always" would allow, and comes first in the tree', async () => {
  await page.locator('#find').fill('');
  const ask = page.locator('.ask').first();
  await ask.getByRole('heading', { name: 'Allow edit to run?' }).waitFor();
  assert.match(await ask.locator('.diff').innerText(), /-Helo[^]*\+Hello/);
  assert.match(await ask.locator('fieldset').innerText(), /Allows changing greet\.sh/);
  await page.locator('#grid').evaluate((grid) => { grid.scrollTop = 0; });
  await page.locator('#rows > .needs', { hasText: ID }).waitFor();
  await page.locator('#rows > .head', { hasText: 'Needs a person' }).waitFor();
  await shot('ask-light');
  await page.emulateMedia({ colorScheme: 'dark' });
  await shot('ask-dark');
  await page.emulateMedia({ colorScheme: 'light' });
  await page.setViewportSize({ width: 390, height: 800 });
  await shot('ask-phone');
  await page.setViewportSize({ width: 1360, height: 820 });
});

await step('axe finds nothing in the session with its ask, light and dark', async () => {
  await accessible();
  await page.emulateMedia({ colorScheme: 'dark' });
  await accessible();
  await page.emulateMedia({ colorScheme: 'light' });
});

await step('an answer closes the ask, and the call runs', async () => {
  await page.locator('.ask').first().getByRole('button', { name: 'Allow once' }).click();
  await page.locator('.ask').first().waitFor({ state: 'detached' });
  const edit = items.locator('.call', { hasText: 'edit' }).first();
  await edit.locator('summary', { hasText: 'done' }).first().waitFor();
  assert.match(await edit.locator('.diff').innerText(), /\+echo Hello/);
});

await step('a message steers: its receipt goes from accepted to delivered, and the calls not yet started are skipped', async () => {
  await items.locator('.call', { hasText: 'bash' }).filter({ hasText: 'running' }).first().waitFor();
  assert.equal(await page.locator('#steer-policy').inputValue(), 'skip_remaining', 'steering is what the box offers while a turn runs');
  await page.locator('#steer-text').fill('Stop here. Leave the other files alone.');
  await page.keyboard.press('Enter');
  await page.locator('.waiting li.stage-accepted', { hasText: 'Leave the other files alone' }).waitFor();
  assert.match(await text('.waiting'), /accepted \d\d:\d\d:\d\d[^]*entry \d+[^]*not delivered yet/);
  await shot('steered');
  const said = items.locator('.said', { hasText: 'Leave the other files alone' });
  await said.waitFor();
  assert.match(await said.innerText(), /accepted \d\d:\d\d:\d\d → delivered \d\d:\d\d:\d\d/);
  assert.equal(await page.locator('.waiting li').count(), 0);
  assert.equal(await items.locator('.call', { hasText: 'write' }).filter({ hasText: 'skipped' }).count(), 2);
  await items.locator('.answer', { hasText: 'as you said.' }).waitFor();
  await items.locator('.note', { hasText: 'Turn ended: done' }).waitFor();
});

await step('words of the model are text, never markup', async () => {
  assert.match(await items.locator('.answer', { hasText: 'misspelt' }).innerText(), /<img src=x onerror=/);
  assert.equal(await page.locator('#panel img').count(), 0);
  assert.ok(!(await page.title()).includes('owned'));
});

await step('a reload shows the same conversation', async () => {
  await page.reload();
  await items.locator('.answer', { hasText: 'as you said.' }).waitFor();
  assert.equal(await items.locator('.said').count(), 2);
  assert.equal(await items.locator('.call').count(), 5);
  assert.equal(await items.locator('.call', { hasText: 'write' }).filter({ hasText: 'skipped' }).count(), 2);
});

await step('a crashed actor says why it was restarted; its report has the four facts', async () => {
  await api('POST', `/v1/actors/${ID}/crash`, { words: CRASH });
  await page.locator('.why', { hasText: CRASH }).waitFor();
  await page.getByRole('tab', { name: 'Actor and crashes' }).click();
  const report = page.locator('.actor .crash[open]').first();
  await report.locator('summary', { hasText: CRASH }).waitFor();
  const words = await report.innerText();
  for (const fact of ['crashed', 'restarted at once', 'Supervisor', 'sessions', 'Incarnation']) assert.ok(words.includes(fact), `the report says ${fact}`);
  await shot('crash-light');
  await accessible();
});

await step('a lever asks before it acts: the actor is restarted by hand', async () => {
  const incarnation = async () => Number(await page.locator('.actor > .facts dt:text-is("Incarnation") + dd').innerText());
  const before = await incarnation();
  await page.locator('[data-lever=restart]').click();
  await page.getByRole('dialog').getByText('Stops it and starts it again').waitFor();
  await page.getByRole('dialog').getByRole('button', { name: 'Cancel' }).click();
  assert.equal(await page.getByRole('dialog').count(), 0);
  assert.equal(await incarnation(), before, 'cancelled is not done');
  await page.locator('[data-lever=restart]').click();
  await page.getByRole('dialog').getByRole('button', { name: 'Restart the actor' }).click();
  await page.waitForFunction((old) => Number(document.querySelector('.actor > .facts')?.innerText.match(/Incarnation\s+(\d+)/)?.[1]) > old, before);
});

await step('the running turn is aborted, with a reason, after a confirmation', async () => {
  const id = `${ID}-aborted`;
  await api('POST', '/v1/sessions', { id, prompt: { text: 'Repair it.' } });
  await page.goto(`${address}/#/session/${id}`);
  await page.locator('.ask').first().waitFor();
  await page.getByRole('button', { name: 'Abort the turn…' }).first().click();
  await page.getByRole('dialog').locator('input').fill('not now');
  await page.getByRole('dialog').getByRole('button', { name: 'Abort the turn' }).click();
  await items.locator('.note', { hasText: 'Turn ended: aborted: not now' }).waitFor();
  await page.locator('.ask').first().waitFor({ state: 'detached' });
  await page.locator('.stop').waitFor({ state: 'hidden' });
});

await step('a session that crashed too often is parked: it needs a person, can be read, and is unparked from here', async () => {
  const id = `${ID}-poison`;
  await api('POST', '/v1/sessions', { id });
  await page.locator('#find').fill(id);
  for (let n = 0; n < 3; n += 1) {
    await row(id).filter({ hasText: n ? `restarted ${n}×` : 'idle' }).filter({ hasText: 'idle' }).first().waitFor();
    await api('POST', `/v1/actors/${id}/crash`, { words: CRASH });
  }
  const needs = page.locator('#rows > .needs', { hasText: id });
  await needs.filter({ hasText: 'parked' }).waitFor();
  await needs.click();
  await page.locator(`.session[aria-label="Session ${id}"] h2`, { hasText: 'parked' }).waitFor();
  await page.getByRole('button', { name: 'See the report' }).click();
  await page.locator('.actor .crash[open] summary', { hasText: CRASH }).waitFor();
  await page.locator('[data-lever=unpark]').click();
  await page.getByRole('dialog').getByRole('button', { name: 'Unpark' }).click();
  await page.locator('.session h2', { hasText: 'idle' }).waitFor();
  assert.equal(await page.locator('#complaint').isVisible(), false);
  await page.locator('#find').fill('');
});

await step('a session that does not exist is said not to exist', async () => {
  await page.goto(`${address}/#/session/nonesuch`);
  await page.locator('.session h2', { hasText: 'not found' }).waitFor();
  assert.equal(await page.locator('#steer-text').isVisible(), false);
});

await step('all crash reports are on a page of their own', async () => {
  await page.getByRole('link', { name: 'Crashes' }).click();
  await page.locator('#panel .crash', { hasText: CRASH }).first().waitFor();
});

await step('a server that is alone shows no nodes; one of several shows all of them, and leads to their sessions', async () => {
  assert.equal(await page.getByRole('link', { name: 'Nodes' }).isVisible(), false);
  const sessions = (count, ...shown) => ({ count, shown });
  const nodes = [{ id: 'a', name: 'one', pid: 11, is_live: true, joined_ms: 65_000, gone_ms: null, sessions: sessions(22, { session: ID, in_turn: true, messages: 1 }) },
    { id: 'b', name: 'two', pid: 12, is_live: false, joined_ms: 70_000, gone_ms: 4_000, sessions: sessions(0) }];
  const about = await api('GET', '/v1');
  await page.route(`${address}/v1`, (route) => route.fulfill({ json: { ...about, several_nodes: true } }));
  await page.route(`${address}/v1/cluster`, (route) => route.fulfill({ json: { nodes, waiting: sessions(1, { session: 'left', in_turn: true, messages: 0 }), parked: sessions(0) } }));
  await page.reload();
  await page.getByRole('link', { name: 'Nodes' }).click();
  const one = page.locator('.node[aria-label=one]');
  await one.filter({ hasText: 'live' }).filter({ hasText: 'process 11, joined 1 min 5 s ago. 22 sessions.' }).filter({ hasText: 'in a turn · 1 message on the way' }).filter({ hasText: 'and 21 more' }).waitFor();
  await page.locator('.node[aria-label=two]', { hasText: 'gone for 4 s; others take its sessions up. No sessions.' }).waitFor();
  await page.locator('.node[aria-label="Waiting for a node"] a', { hasText: 'left' }).waitFor();
  assert.equal(await page.locator('.node').count(), 3, 'nothing is parked');
  await shot('nodes');
  await accessible();
  await one.getByRole('link', { name: ID }).click();
  await page.locator(`.session[aria-label="Session ${ID}"]`).waitFor();
  await page.unroute(`${address}/v1`);
  await page.unroute(`${address}/v1/cluster`);
});

await step('a task is shown at the session that gave it, and under it in the tree', async () => {
  await page.goto(`${address}/#/session/${ID}`);
  await page.locator('#steer-text').fill('Have somebody look for other greetings.');
  await page.keyboard.press('Enter');
  await items.locator('.note', { hasText: /Task \d+ ended: done/ }).waitFor();
  await items.locator('.note', { hasText: 'Turn ended: done' }).last().waitFor();
  await page.getByRole('tab', { name: 'Tasks (1)' }).click();
  const link = page.locator('ul.tasks a');
  const child = await link.innerText();
  assert.match(await text('ul.tasks'), /done/);
  await page.locator('#find').fill(child);
  await row(child).first().waitFor();
  const level = async (id) => Number(await row(id).last().getAttribute('aria-level'));
  assert.equal(await level(child), await level(ID) + 1);
  await page.locator('#find').fill('');
  await link.click();
  await items.locator('.answer', { hasText: 'There is no other greeting.' }).waitFor();
});

if (options.start) {
  await step('a server that is killed is said to be away; what happens after its restart is neither missed nor doubled', async () => {
    await page.goto(`${address}/#/session/${ID}`);
    await items.locator('.answer', { hasText: 'as you said.' }).waitFor();
    const said = await items.locator('.said').count();
    const answers = await items.locator('.answer').count();
    await end('SIGKILL');
    await page.locator('#away', { hasText: 'The server is away since' }).waitFor();
    await serve(new URL(address).port);
    await api('POST', `/v1/sessions/${ID}/messages`, { id: 'meanwhile', text: 'Is anything left?' });
    await items.locator('.said', { hasText: 'Is anything left?' }).waitFor();
    await items.locator('.answer', { hasText: 'Nothing else is open.' }).waitFor();
    await page.locator('#connection', { hasText: 'Live' }).waitFor();
    assert.deepEqual([await items.locator('.said').count(), await items.locator('.answer').count()], [said + 1, answers + 1]);
  });
}

if (options.mock) {
  await step('10,000 sessions: only the rows in the window exist, also in the middle', async () => {
    await page.locator('#grid').evaluate((grid) => { grid.scrollTop = grid.scrollHeight / 2; });
    await page.locator('#rows .id', { hasText: 'bulk-0' }).first().waitFor();
    assert.ok(await page.locator('#rows > *').count() < 80);
    assert.ok(Number(await page.locator('#grid').getAttribute('aria-rowcount')) > 10_000);
    await page.locator('#grid').evaluate((grid) => { grid.scrollTop = 0; });
    await page.locator('#fold').click();
    await page.locator('#rows > [aria-expanded=false]', { hasText: 'below' }).first().waitFor();
    await shot('folded');
    await page.locator('#fold').click();
  });

  await step('a server that goes away is said to be away, and what it said meanwhile is not missed', async () => {
    await page.goto(`${address}/#/session/${ID}`);
    await items.locator('.answer', { hasText: 'as you said.' }).waitFor();
    const said = await items.locator('.said').count();
    await api('POST', '/mock/away', { ms: 2_500 });
    await page.locator('#away', { hasText: 'The server is away since' }).waitFor();
    await page.locator('.top .receipt', { hasText: 'Away' }).waitFor();
    await new Promise((resolve) => { setTimeout(resolve, 2_600); });
    await api('POST', `/v1/sessions/${ID}/messages`, { id: 'meanwhile', text: 'Is anything left?' });
    await items.locator('.said', { hasText: 'Is anything left?' }).waitFor();
    await items.locator('.answer', { hasText: 'Nothing else is open.' }).waitFor();
    await page.locator('#connection', { hasText: 'Live' }).waitFor();
    assert.equal(await items.locator('.said').count(), said + 1, 'nothing is doubled');
  });
}

await step('dark and on a phone', async () => {
  await page.goto(`${address}/#/session/${ID}`);
  await items.locator('.answer', { hasText: 'as you said.' }).waitFor();
  await shot('session-light');
  await page.emulateMedia({ colorScheme: 'dark' });
  await shot('session-dark');
  await page.setViewportSize({ width: 390, height: 800 });
  await shot('session-phone-dark');
  await page.getByRole('link', { name: '← Tree' }).click();
  await page.emulateMedia({ colorScheme: 'light' });
  await row('runtime').last().waitFor();
  await shot('tree-phone');
  await accessible();
  assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), 'nothing is wider than the phone');
});

await step('nothing came from elsewhere, and the browser complained about nothing', async () => {
  assert.deepEqual(foreign, []);
  assert.deepEqual(complaints, []);
});

await browser.close();
await end('SIGINT');
if (folder) rmSync(folder, { recursive: true, force: true });
console.log(`${passed} passed, ${failed} failed`);
process.exit(failed ? 1 : 0);
