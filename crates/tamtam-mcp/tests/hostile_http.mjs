// A raw MCP server at an address for the tests, without any library: `node hostile_http.mjs MODE`. Each mode is one way in which a
// server can misbehave; `good` does not. It says on which port it listens, and `GET /seen` has what it was sent.
import http from "node:http";

const [mode] = process.argv.slice(2);
const seen = { headers: {}, initialize: 0, calls: 0, deletes: 0, elsewhere: 0, sessions: [], cut: 0 };
let last = 0;
const sessions = new Set();
const questions = new Map();
const forgotten = new Set();
let tell = null;

const tool = (name) => ({ name, description: `The tool ${name}.`, inputSchema: { type: "object" } });
const text = (id, words) => ({ jsonrpc: "2.0", id, result: { content: [{ type: "text", text: words }] } });
const json = (out, value, more = {}) => {
  out.writeHead(200, { "content-type": "application/json", ...more });
  out.end(JSON.stringify(value));
};
const events = (out) => out.writeHead(200, { "content-type": "text/event-stream; charset=utf-8" });
const event = (value) => `event: message\ndata: ${JSON.stringify(value)}\n\n`;
const refuse = (out, status, words, more = {}) => {
  out.writeHead(status, { "content-type": "text/plain", ...more });
  out.end(words);
};
// Writes the same again and again, no faster than it is read.
const pour = (out, piece) => {
  while (!out.destroyed) if (!out.write(piece)) return out.once("drain", () => pour(out, piece));
};

const call = (request, out, { id, params }) => {
  seen.calls += 1;
  seen.headers = request.headers;
  const given = params.arguments ?? {};
  switch (mode) {
    case "mute":
      return;
    case "silent-events":
      return events(out).flushHeaders();
    case "flood":
      events(out);
      return pour(out, event({ jsonrpc: "2.0", method: "notifications/message", params: { data: 1 } }).repeat(100));
    case "line":
      events(out).write("data: ");
      return pour(out, "x".repeat(1 << 20));
    case "long-json":
      out.writeHead(200, { "content-type": "application/json" });
      return pour(out, "[" + "1,".repeat(1 << 19));
    case "page":
      out.writeHead(200, { "content-type": "text/html" });
      return out.end("<p>Log in, please.</p>");
    case "other-answer":
      return json(out, text(id + 1_000, "for somebody else"));
    case "broken-json":
      out.writeHead(200, { "content-type": "application/json" });
      return out.end('{"jsonrpc": "2.0", "id": ');
    case "twice":
      events(out);
      return out.end(event(text(id, "first")) + event(text(id, "second")));
    case "busy":
      return refuse(out, 503, "come back later", { "retry-after": "1" });
    case "redirect":
      return refuse(out, 307, "", { location: `http://localhost:${server.address().port}/elsewhere` });
    case "resume":
      // Twice the stream ends before the answer.
      events(out);
      questions.set("resume", id);
      return out.end("id: one\nretry: 1\ndata:\n\n");
    case "dead-end":
      events(out);
      return out.end("id: one\nretry: 1\ndata:\n\n");
  }
  if (params.name === "cut") {
    const whole = Buffer.from(`: hello\n\n${event(text(id, "whole"))}`);
    events(out);
    return out.write(whole.subarray(0, given.at ?? whole.length), () => out.socket.destroySoon());
  }
  if (params.name === "ask") {
    events(out);
    questions.set("q1", (answer) => out.end(event(text(id, JSON.stringify(answer)))));
    const sure = { type: "object", properties: { sure: { type: "boolean" } }, required: ["sure"] };
    const question = { message: "Really?", requestedSchema: sure };
    return out.write(event({ jsonrpc: "2.0", id: "q1", method: "elicitation/create", params: question }));
  }
  if (params.name === "hang") {
    events(out);
    out.on("close", () => (seen.cut += 1));
    const progress = { progressToken: params._meta.progressToken, progress: 1, message: "hanging" };
    return out.write(event({ jsonrpc: "2.0", method: "notifications/progress", params: progress }));
  }
  if (params.name === "headers") return json(out, text(id, JSON.stringify(request.headers)));
  if (params.name === "change") tell?.write(event({ jsonrpc: "2.0", method: "notifications/tools/list_changed" }));
  json(out, text(id, JSON.stringify(given)), mode === "other-session" ? { "mcp-session-id": "other" } : {});
};

const post = (request, out, message) => {
  const { id, method } = message;
  const known = { serverInfo: { name: mode, version: "1" }, capabilities: { tools: { listChanged: true } } };
  if (mode === "guarded" && request.headers.authorization !== "Bearer sk-CANARY-right") {
    return refuse(out, 401, `not ${request.headers.authorization}`);
  }
  if (mode === "modern") {
    if (method === "initialize") {
      out.writeHead(400, { "content-type": "application/json" });
      return out.end(JSON.stringify({ jsonrpc: "2.0", id, error: { code: -32022, message: "no handshake" } }));
    }
    if (request.headers["mcp-protocol-version"] !== "2026-07-28" || request.headers["mcp-method"] !== method) {
      return refuse(out, 400, "headers are missing");
    }
    if (method === "server/discover") return json(out, { jsonrpc: "2.0", id, result: { supportedVersions: ["2026-07-28"], ...known } });
  } else if (method === "initialize") {
    seen.initialize += 1;
    const session = `session-${(last += 1)}`;
    sessions.add(session);
    const version = message.params.protocolVersion === "2025-11-25" && mode === "old" ? "2025-03-26" : "2025-06-18";
    return json(out, { jsonrpc: "2.0", id, result: { protocolVersion: version, ...known } }, { "mcp-session-id": session });
  } else {
    const session = request.headers["mcp-session-id"];
    if (!seen.sessions.includes(session)) seen.sessions.push(session);
    const forgets = mode === "forgets" && method === "tools/call" && !forgotten.has(session) && forgotten.size < 2;
    if (forgets) forgotten.add(session);
    if (forgets || (mode === "amnesia" && method !== "notifications/initialized") || !sessions.has(session)) {
      return refuse(out, 404, "who are you?");
    }
  }
  if (method === undefined) {
    questions.get(id)?.(message.result);
    return refuse(out, 202, "");
  }
  if (id === undefined) return refuse(out, 202, "");
  if (method === "tools/list") {
    const names = ["echo", "headers", "cut", "ask", "hang", "change"].concat(seen.calls > 0 && mode === "good" ? ["new"] : []);
    return json(out, { jsonrpc: "2.0", id, result: { tools: names.map(tool) } });
  }
  if (method === "tools/call") return call(request, out, message);
  json(out, { jsonrpc: "2.0", id, error: { code: -32601, message: "unknown" } });
};

const server = http.createServer((request, out) => {
  if (request.url === "/seen") return json(out, seen);
  if (request.url !== "/mcp") {
    seen.elsewhere += 1;
    return refuse(out, 404, "");
  }
  if (request.method === "DELETE") {
    seen.deletes += 1;
    return refuse(out, 200, "");
  }
  if (request.method === "GET") {
    const from = request.headers["last-event-id"];
    if (mode === "resume" && from === "one") return events(out).end("id: two\ndata:\n\n");
    if (mode === "resume" && from === "two") return events(out).end(event(text(questions.get("resume"), "resumed")));
    if (mode !== "good") return refuse(out, 405, "");
    tell = out;
    return events(out).flushHeaders();
  }
  let body = "";
  request.on("data", (piece) => (body += piece));
  request.on("end", () => post(request, out, JSON.parse(body)));
});
server.listen(0, "127.0.0.1", () => process.stdout.write(`port ${server.address().port}\n`));
// Nobody is left who would stop it.
process.stdin.on("end", () => process.exit(0)).resume();
