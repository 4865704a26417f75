// Server-sent events as a pure parser: text in, frames out. The page reads streams with fetch, not EventSource, because that shows
// status codes and heartbeats, so that a dead line is noticed.

export const empty = () => ({ rest: '', frame: { name: 'message', id: null, data: [] } });

/**
 * Feeds a piece of the stream. Returns the state to go on with, the whole frames `{name, id, data}`, and `retry` in ms if the server
 * set it. A frame without data is dropped, as the standard says; a comment (a heartbeat) is nothing.
 */
export function feed({ rest, frame }, piece) {
  let text = rest + piece;
  // A carriage return at the end may be half of a line's end.
  const cut = text.endsWith('\r') ? '\r' : '';
  if (cut) text = text.slice(0, -1);
  const lines = text.split(/\r\n|\n|\r/);
  const left = lines.pop() + cut;
  const frames = [];
  let now = { ...frame, data: [...frame.data] };
  let retry = null;
  for (const line of lines) {
    if (line === '') {
      if (now.data.length) frames.push({ name: now.name, id: now.id, data: now.data.join('\n') });
      now = { name: 'message', id: null, data: [] };
      continue;
    }
    const colon = line.indexOf(':');
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? '' : line.slice(colon + 1).replace(/^ /, '');
    if (field === 'data') now.data.push(value);
    else if (field === 'event') now.name = value;
    else if (field === 'id') now.id = value;
    else if (field === 'retry' && /^\d+$/.test(value)) retry = Number(value);
  }
  return { state: { rest: left, frame: now }, frames, retry };
}
