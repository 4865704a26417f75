// Building the document. Text goes in as text nodes only, here and everywhere: no words of a model or a tool are ever markup.

/** An element: `h('p', {class: 'x', onclick: f, 'aria-label': 'y'}, 'text', child, …)`. Null and false children are left out. */
export function h(tag, props, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? '' : value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false && child !== ''));
  return element;
}

export const button = (label, onclick, props = {}) => h('button', { type: 'button', onclick, ...props }, label);
export const chip = (word, tone) => h('span', { class: `chip tone-${tone}` }, word);

/** Sets a text, and touches the document only if it is another one. */
export function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** Terms and values as a description list; pairs without a value are left out. */
export const facts = (pairs) => h('dl', { class: 'facts' },
  pairs.filter(([, value]) => value !== undefined && value !== null && value !== '').map(([term, value]) => [h('dt', null, term), h('dd', null, value)]));

/** Tells a screen reader. Urgent words interrupt it. */
export function announce(text, urgent = false) {
  const region = document.getElementById(urgent ? 'urgent' : 'polite');
  region.textContent = '';
  requestAnimationFrame(() => { region.textContent = text; });
}

/** Shows what went wrong, until the next message or a click. */
export function complain(error) {
  const bar = document.getElementById('complaint');
  bar.replaceChildren(h('span', null, error.next ? `${error.message} – ${error.next}` : error.message),
    button('Dismiss', () => { bar.hidden = true; }, { class: 'plain' }));
  bar.hidden = false;
}

/** Asks before something is done. Gives null if it is not, else the reason that was typed (or an empty text). */
export function confirm({ title, effect, act, reason = false, danger = false }) {
  return new Promise((resolve) => {
    const field = reason ? h('input', { type: 'text', id: 'confirm-reason', autocomplete: 'off' }) : null;
    const end = (answer) => { dialog.remove(); resolve(answer); };
    const yes = () => end(field ? field.value : '');
    const dialog = h('dialog', { 'aria-labelledby': 'confirm-title', oncancel: () => end(null) },
      h('h2', { id: 'confirm-title' }, title), h('p', null, effect),
      field && h('label', { for: 'confirm-reason' }, 'Reason (optional)'), field,
      h('div', { class: 'buttons' }, button('Cancel', () => end(null)), button(act, yes, { class: danger ? 'danger' : 'primary' })));
    field?.addEventListener('keydown', (event) => { if (event.key === 'Enter') yes(); });
    document.body.append(dialog);
    dialog.showModal();
  });
}
