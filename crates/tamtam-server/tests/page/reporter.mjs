// A small reporter for node --test: the failures in full, then one line of counts.
export default async function* report(source) {
  let passed = 0;
  let failed = 0;
  for await (const event of source) {
    if (event.type === 'test:pass') passed += 1;
    if (event.type === 'test:fail') {
      failed += 1;
      const { file, line } = event.data;
      yield `FAILED ${event.data.name} (${file ?? ''}:${line ?? ''})\n${event.data.details.error?.cause?.stack ?? event.data.details.error}\n\n`;
    }
    if (event.type === 'test:stderr') yield event.data.message;
  }
  yield `${passed} passed, ${failed} failed\n`;
}
