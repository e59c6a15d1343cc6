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
    const actions = buttons.map(([name, text, kind]) =>
      h(`button.button${kind ? `.${kind}` : ''}`, { type: 'submit', value: name, 'data-action': name }, text));
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

export function table(caption, heads, rows, attributes) {
  const cell = (value, at) => h(`td${isNumber(heads[at]) ? '.number' : ''}`, null, value);
  const head = heads.map((one) => h(`th${isNumber(one) ? '.number' : ''}`, { scope: 'col' }, name(one)));
  return h('div.table-frame', { tabindex: '0', role: 'region', 'aria-label': caption },
    h('table', attributes, h('caption.hidden', null, caption), h('thead', null, h('tr', null, head)),
      h('tbody', null, rows.map((row) => row instanceof Node ? row : h('tr', null, row.map(cell))))));
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
