// What a call shows: its one-line argument, its input as fields, its diff. Pure; the text in all of it is a model's or a tool's.

const MAIN = ['command', 'path', 'pattern', 'prompt', 'query', 'url', 'name', 'title'];

/** The arguments as a record, or null while they are not whole. */
export function fields(input) {
  try {
    const value = JSON.parse(input);
    return value && typeof value === 'object' && !Array.isArray(value) ? value : null;
  } catch {
    return null;
  }
}

/** The argument that says most, in one line. */
export function gist(input) {
  const value = fields(input);
  if (!value) return String(input ?? '').slice(0, 120);
  const name = MAIN.find((key) => typeof value[key] === 'string') ?? Object.keys(value).find((key) => typeof value[key] === 'string');
  return name ? value[name].split('\n', 1)[0].slice(0, 200) : input.slice(0, 120);
}

/** The lines of a unified diff, each `{kind: 'add' | 'del' | 'same' | 'hunk', text}`. */
export function diffLines(text) {
  const kinds = { '+': 'add', '-': 'del', '@': 'hunk' };
  return text.replace(/\n$/, '').split('\n').filter((line) => !/^(---|\+\+\+) /.test(line))
    .map((line) => ({ kind: kinds[line[0]] ?? 'same', text: line }));
}

const marked = (mark, kind, text) => text.replace(/\n$/, '').split('\n').map((line) => ({ kind, text: `${mark}${line}` }));

/** What a call changes in files: the tool's own diff once it is done, before that what the arguments ask for; null for other calls. */
export function change(item) {
  const done = item.details?.diff?.content;
  if (typeof done === 'string') return diffLines(done);
  const value = fields(item.input);
  if (!value) return null;
  if (item.name === 'edit' && typeof value.diff === 'string' && value.old_string === undefined) return diffLines(value.diff);
  if (item.name === 'edit' && typeof value.old_string === 'string') {
    return [...marked('-', 'del', value.old_string), ...marked('+', 'add', String(value.new_string ?? ''))];
  }
  if (item.name === 'write' && typeof value.content === 'string') return marked('+', 'add', value.content);
  return null;
}

const WORDS = { writing: ['being written', 'busy'], pending: ['pending', 'quiet'], asking: ['asks a person', 'warn'], running: ['running', 'busy'],
  completed: ['done', 'fine'], skipped: ['skipped', 'held'], aborted: ['aborted', 'held'], denied: ['denied', 'warn'], blocked: ['blocked', 'warn'],
  unknown: ['outcome unknown', 'warn'] };

/** A call's state: a word and a tone. */
export const stateOf = (item) => WORDS[item.state] ?? [item.state, 'bad'];
