// A client in 60 lines, over the protocol's own SDK: prompts, permissions, steering, and what became of it.
import { spawn } from 'node:child_process';
import { Readable, Writable } from 'node:stream';
import * as acp from '@agentclientprotocol/sdk';

/** Starts an agent, and calls `use` with a client of it. `choose` picks the option of a permission. */
export async function withAgent({ command, cwd, env, choose, onUpdate = () => {} }, use) {
  const agent = spawn(command[0], command.slice(1), { cwd, env, stdio: ['pipe', 'pipe', 'inherit'] });
  agent.stdin.on('error', () => {});
  const gone = new Promise((resolve) => agent.on('close', resolve));
  const updates = [];
  const waiting = new Set();
  const app = acp.client({ name: 'sixty-lines' })
    .onNotification(acp.methods.client.session.update, ({ params }) => {
      updates.push(params.update);
      onUpdate(params.update);
      for (const look of waiting) look();
    })
    .onRequest(acp.methods.client.session.requestPermission, async ({ params }) => {
      const optionId = await choose(params);
      return { outcome: optionId ? { outcome: 'selected', optionId } : { outcome: 'cancelled' } };
    });
  const stream = acp.ndJsonStream(Writable.toWeb(agent.stdin), Readable.toWeb(agent.stdout));
  try {
    return await app.connectWith(stream, async (ctx) => {
      const hello = await ctx.request(acp.methods.agent.initialize, {
        protocolVersion: acp.PROTOCOL_VERSION,
        clientCapabilities: { session: { notices: {} } },
        clientInfo: { name: 'sixty-lines', version: '1' },
      });
      const says = (sessionId, text) => ({ sessionId, prompt: [{ type: 'text', text }] });
      return use({
        agent, gone, hello, updates,
        request: (method, params) => ctx.request(method, params),
        start: async () => (await ctx.request(acp.methods.agent.session.new, { cwd, mcpServers: [] })).sessionId,
        load: (sessionId) => ctx.request(acp.methods.agent.session.load, { sessionId, cwd, mcpServers: [] }),
        prompt: (id, text) => ctx.request(acp.methods.agent.session.prompt, says(id, text)),
        steer: (id, text, steering = 'skip_remaining') =>
          ctx.request('_session/steering', { ...says(id, text), _meta: { tamtam: { steering } } }),
        cancel: (sessionId) => ctx.notify(acp.methods.agent.session.cancel, { sessionId }),
        /** Resolves with the first update, seen or to come, of which this is true. */
        until: (isIt) => new Promise((resolve) => {
          const look = () => {
            const found = updates.find(isIt);
            if (found && waiting.delete(look)) resolve(found);
          };
          waiting.add(look);
          look();
        }),
        text: (kind = 'agent_message_chunk') => updates.filter((update) => update.sessionUpdate === kind)
          .map((update) => update.content.text).join(''),
      });
    });
  } finally {
    agent.stdin.end();
    await gone;
  }
}
