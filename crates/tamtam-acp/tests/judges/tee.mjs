// Runs an agent, and keeps each line of both directions: node tee.mjs LOG COMMAND ARGUMENT…
import { spawn } from 'node:child_process';
import { appendFileSync, writeFileSync } from 'node:fs';
import { createInterface } from 'node:readline';

const [log, command, ...args] = process.argv.slice(2);
const agent = spawn(command, args, { stdio: ['pipe', 'pipe', 'inherit'] });
writeFileSync(`${log}.pid`, String(agent.pid));
const keep = (from, line) => appendFileSync(log, `${JSON.stringify({ from, pid: agent.pid, line })}\n`);
createInterface({ input: process.stdin, crlfDelay: Infinity })
  .on('line', (line) => { keep('client', line); agent.stdin.write(`${line}\n`); })
  .on('close', () => agent.stdin.end());
createInterface({ input: agent.stdout, crlfDelay: Infinity })
  .on('line', (line) => { keep('agent', line); process.stdout.write(`${line}\n`); });
agent.stdin.on('error', () => {});
process.stdout.on('error', () => agent.stdin.end());
agent.on('close', (code) => process.exit(code ?? 1));
