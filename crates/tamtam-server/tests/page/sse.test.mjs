import { test } from 'node:test';
import assert from 'node:assert/strict';
import { empty, feed } from '../../page/sse.js';

const STREAM = 'retry: 1000\n\n: beat\n\nid: 3.0.0\ndata: {"a":1}\n\nevent: lagged\ndata: {"missed":4}\n\r\ndata: one\r\ndata: two\r\ndata\r\n\r\nid: 9\n\nda';
const WHOLE = [{ name: 'message', id: '3.0.0', data: '{"a":1}' }, { name: 'lagged', id: null, data: '{"missed":4}' },
  { name: 'message', id: null, data: 'one\ntwo\n' }];

test('a stream is the same frames, wherever it is cut', () => {
  for (let size = 1; size <= STREAM.length; size += 1) {
    let state = empty();
    const frames = [];
    let wait = null;
    for (let at = 0; at < STREAM.length; at += size) {
      const fed = feed(state, STREAM.slice(at, at + size));
      state = fed.state;
      frames.push(...fed.frames);
      wait = fed.retry ?? wait;
    }
    assert.deepEqual(frames, WHOLE, `pieces of ${size}`);
    assert.equal(wait, 1_000);
    assert.equal(state.rest, 'da', 'what is not whole waits');
  }
});
