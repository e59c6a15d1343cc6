// Small helpers to build the page. All text goes through textContent, so data from the service can never become markup.

// h('p.note', {id: 'x', onclick: f}, 'text', child): an element with classes, attributes, listeners and children.
export function h(spec, attributes, ...children) {
  const [tag, ...classes] = spec.split('.');
  const element = document.createElement(tag || 'div');
  if (classes.length) element.className = classes.join(' ');
  for (const [key, value] of Object.entries(attributes || {})) {
    if (value == null || value === false) continue;
    if (key.startsWith('on')) element.addEventListener(key.slice(2), value);
    else if (key === 'value' || key === 'checked' || key === 'selected') element[key] = value;
    else element.setAttribute(key, value === true ? '' : value);
  }
  add(element, children);
  return element;
}

function add(element, children) {
  for (const child of children.flat(Infinity)) {
    if (child == null || child === false) continue;
    element.append(child instanceof Node ? child : String(child));
  }
}

export function fill(element, ...children) {
  element.replaceChildren();
  add(element, children);
  return element;
}

// Like `fill`, but the focus stays where it was: on the element with the same id or action, or else on what is around it.
export function refill(element, ...children) {
  const { id, dataset } = element.contains(document.activeElement) ? document.activeElement : {};
  fill(element, ...children);
  if (!dataset) return;
  const action = dataset.action && `[data-action="${dataset.action}"]${dataset.id ? `[data-id="${dataset.id}"]` : ''}`;
  const selector = id ? `#${CSS.escape(id)}` : action;
  ((selector && element.querySelector(selector)) || element.closest('[tabindex="-1"]'))?.focus({ preventScroll: true });
}

// Against a second click while the first is at work. Unlike `disabled` it keeps the focus.
export const isLocked = (button) => button.getAttribute('aria-disabled') === 'true';
export const lock = (button, locked) => button.setAttribute('aria-disabled', String(locked));

export const byId = (id) => document.getElementById(id);

let announcements = 0;

// Read aloud by screen readers. The zero-width suffix makes a repeated text count as new.
export function announce(text) {
  const region = byId('announcer');
  if (region) region.textContent = text + '\u200b'.repeat(announcements++ % 2);
}

export function field(label, control, hint) {
  const id = control.id || (control.id = `f${++fields}`);
  const note = hint && h('span.hint', { id: `${id}-hint` }, hint);
  if (note) control.setAttribute('aria-describedby', note.id);
  return h('div.field', null, h('label', { for: id }, label), control, note);
}
let fields = 0;

export function select(options, value, attributes) {
  const items = options.map(([key, text]) => h('option', { value: key, selected: key === value }, text));
  return h('select', attributes, items);
}

// Asks in a dialog. `body` may hold form fields; resolves to the name of the button, or null after Escape.
export function ask(title, body, buttons) {
  return new Promise((resolve) => {
    const id = `dialog-title-${++fields}`;
    // Enter in a field takes the first button that submits, so the one that only closes is none.
    const actions = buttons.map(([name, text, kind]) => h(`button.button${kind ? `.${kind}` : ''}`,
      name ? { type: 'submit', value: name, 'data-action': name } : { type: 'button', 'data-action': 'close', onclick: () => dialog.close() }, text));
    const form = h('form', { method: 'dialog' }, h('h2', { id }, title), body, h('div.actions', null, actions));
    const dialog = h('dialog.dialog', { 'aria-labelledby': id }, form);
    document.body.append(dialog);
    dialog.addEventListener('close', () => {
      dialog.remove();
      resolve(dialog.returnValue || null);
    });
    dialog.showModal();
  });
}

// On a phone each row becomes a block of lines, with the name of the column before each value. The roles keep it a table
// for screen readers, because browsers drop them with the layout. A row may have `total`.
export function table(caption, heads, rows, attributes) {
  const cell = (value, at) => h(`td${isNumber(heads[at]) ? '.number' : ''}${value === '–' || value === '' ? '.none' : ''}`, { role: 'cell', 'data-head': name(heads[at]) }, h('span', null, value));
  const head = heads.map((one) => h(`th${isNumber(one) ? '.number' : ''}`, { scope: 'col', role: 'columnheader' }, name(one)));
  return h('div.table-frame', { tabindex: '0', role: 'region', 'aria-label': caption },
    h('table', { role: 'table', 'aria-label': caption, ...attributes }, h('thead', { role: 'rowgroup' }, h('tr', { role: 'row' }, head)),
      h('tbody', { role: 'rowgroup' }, rows.map((row) => h(`tr${row.total ? '.total' : ''}`, { role: 'row' }, row.map(cell))))));
}
// A head in brackets marks a column of numbers.
const isNumber = (head) => Array.isArray(head);
const name = (head) => (Array.isArray(head) ? head[0] : head);

// Shows that work is under way, but only if it takes longer than 200 ms.
export async function busy(element, work) {
  const timer = setTimeout(() => element.setAttribute('aria-busy', 'true'), 200);
  try {
    return await work;
  } finally {
    clearTimeout(timer);
    element.removeAttribute('aria-busy');
  }
}

export function download(name, type, text) {
  const url = URL.createObjectURL(new Blob([text], { type }));
  const link = h('a', { href: url, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}
