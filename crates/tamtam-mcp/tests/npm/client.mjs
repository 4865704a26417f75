// A client of the protocol's own SDK for a server on standard input and output: `node client.mjs COMMAND [ARGUMENT]...`. It does what
// the test of `tamtam mcp serve` says, and prints each result as a line.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";

const [command, ...args] = process.argv.slice(2);
const client = new Client({ name: "judge", version: "1" });
await client.connect(new StdioClientTransport({ command, args, env: process.env, stderr: "inherit" }));
const { tools } = await client.listTools();
console.log(JSON.stringify({ server: client.getServerVersion().name, tools: tools.map((tool) => tool.name) }));
const call = async (name, given) => {
  const result = await client.callTool({ name, arguments: given });
  console.log(JSON.stringify({ name, ...result }));
  return result.structuredContent;
};

const { session } = await call("prompt", { text: "hi" });
const asking = await call("prompt", { session, text: "write it", message: "m1" });
await call("steer", { session, text: "and be quick", message: "m2", running: "finish_batch", wait_seconds: 0 });
await call("prompt", { session, text: "write it", message: "m1", wait_seconds: 0 });
const [{ ask, digest }] = asking.asks;
await call("answer", { session, ask, digest, grant: "once" });
let status;
do status = (await client.callTool({ name: "status", arguments: { session, message: "m1" } })).structuredContent;
while (status.fate.state !== "ended");
await call("status", { session, message: "m2" });
await call("abort", { session, reason: "enough" });
await call("status", { session: "no/session" });
await call("prompt", {});
await call("answer", { session, ask, grant: "once" });
// A call that waits for its turn is given up: the server goes on, and the message stays.
await client.callTool({ name: "prompt", arguments: { session, text: "write it again" } });
const stop = new AbortController();
const later = { name: "prompt", arguments: { session, text: "later", message: "m3" } };
const waiting = client.callTool(later, undefined, { signal: stop.signal });
do status = (await client.callTool({ name: "status", arguments: { session, message: "m3" } })).structuredContent;
while (status.fate.state !== "waiting");
stop.abort();
await waiting.catch((error) => console.log(JSON.stringify({ gone: `${error}` })));
await call("abort", { session });
await call("status", { session, message: "m3" });
await client.close();
