// A client of `tamtam serve` for Node 20 and newer, without any package: makes a session, sends a message, follows its events over
// broken connections, steers it while it asks, and answers. Run it with the server's address:
//
//     node client.mjs http://127.0.0.1:7878
//
// The types are those of `docs/openapi.json`; an editor or `tsc --checkJs` reads them from the comments.

/** @typedef {{ id: string, event: string, [field: string]: any }} TamtamEvent */
/** @typedef {{ message: string, seq: number, disposition: string, known_before: boolean }} Receipt */

const server = process.argv[2];
const session = '/v1/sessions/client';

/**
 * @param {string} path
 * @param {object} body
 * @returns {Promise<any>}
 */
async function post(path, body) {
  const headers = { 'content-type': 'application/json' };
  const answer = await fetch(server + path, { method: 'POST', headers, body: JSON.stringify(body) });
  const said = await answer.text();
  if (!answer.ok) throw new Error(`${path}: ${answer.status} ${said}`);
  return said ? JSON.parse(said) : null;
}

/**
 * The events of the session from its beginning. Only a durable event has an id: with the last one, the stream goes on.
 * @returns {AsyncGenerator<TamtamEvent>}
 */
async function* events(last = '0') {
  for (;;) {
    try {
      const answer = await fetch(`${server}${session}/events`, { headers: { 'last-event-id': last } });
      let text = '';
      for await (const piece of answer.body.pipeThrough(new TextDecoderStream())) {
        const lines = (text + piece).split('\n');
        text = lines.pop() ?? '';
        for (const line of lines) {
          const [, key, value] = line.match(/^(\w+): (.*)$/) ?? [];
          if (key === 'event' && value === 'ended') return;
          if (key === 'id') last = value;
          const event = key === 'data' ? JSON.parse(value) : {};
          if (event.event) yield event;
        }
      }
    } catch (error) {
      // The connection broke: come again with the last id.
      if (!(error instanceof TypeError)) throw error;
    }
  }
}

await post('/v1/sessions', { id: 'client' });
// A message with an id is taken once, however often it is sent.
/** @type {Receipt} */
const receipt = await post(`${session}/messages`, { id: 'm1', text: 'ask me' });
for await (const event of events()) {
  if (event.event === 'ask') {
    console.log(`asked: may ${event.name} run?`);
    await post(`${session}/messages`, { id: 'm2', text: 'be brief', delivery: 'steer', steering: 'finish_batch' });
    await post(`${session}/asks/${event.ask}`, { grant: 'once', who: 'client.mjs' });
  }
  if (event.event === 'steered') console.log(`steered: ${event.message.parts[0].text}`);
  if (event.event === 'call_finished') console.log(`${event.name}: ${event.error ?? 'done'}`);
  if (event.event === 'turn_finished' && event.messages.includes(receipt.message)) {
    console.log(`answer: ${event.text} (${event.outcome})`);
    break;
  }
}
