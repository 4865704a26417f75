// Whether the lines of a conversation are what the protocol's schema says.
import { readFileSync } from 'node:fs';
import Ajv from 'ajv/dist/2020.js';

const schema = JSON.parse(readFileSync(
  new URL('./node_modules/@agentclientprotocol/sdk/schema/v1/schema.json', import.meta.url), 'utf8'));
const ajv = new Ajv({ strict: false, allErrors: false, validateFormats: false });
ajv.addSchema(schema, 'acp');

/** The definition of what a method carries: `SessionNotification` of `session/update`. */
function definition(method, ending) {
  const found = Object.entries(schema.$defs).filter(([name, one]) => one['x-method'] === method && ending.test(name));
  return found.map(([name]) => name);
}

function check(name, value) {
  const validate = ajv.getSchema(`acp#/$defs/${name}`);
  if (!validate(value)) throw new Error(`no ${name}: ${ajv.errorsText(validate.errors)}: ${JSON.stringify(value)}`);
}

/** Checks all lines of a log of tee.mjs; gives how many of the agent's were checked. */
export function checked(log) {
  const asked = new Map();
  let count = 0;
  for (const { from, pid, line } of readFileSync(log, 'utf8').trim().split('\n').map((line) => JSON.parse(line))) {
    const frame = JSON.parse(line);
    if (from === 'client') {
      if (frame.method && frame.id !== undefined) asked.set(`${pid}:${frame.id}`, frame.method);
      continue;
    }
    if (frame.jsonrpc !== '2.0') throw new Error(`no JSON-RPC: ${line}`);
    if (frame.method) {
      const isRequest = frame.id !== undefined;
      const names = definition(frame.method, isRequest ? /Request$/ : /Notification$/);
      if (names.length !== 1) throw new Error(`the schema has no ${frame.method}: ${names}`);
      check(names[0], frame.params);
    } else if (frame.error) {
      check('Error', frame.error);
    } else {
      const method = asked.get(`${pid}:${frame.id}`);
      if (method === undefined) throw new Error(`an answer to nothing: ${line}`);
      // An extension has a shape of its own.
      for (const name of method.startsWith('_') ? [] : definition(method, /Response$/)) check(name, frame.result);
    }
    count += 1;
  }
  return count;
}
