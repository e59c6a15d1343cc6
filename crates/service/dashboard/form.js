// The fields of the Ask form: one or more parts, and how they belong together.

import { h, field, fill, select } from './dom.js';
import { on, state } from './state.js';
import { clockRate, plural } from './time.js';

const WHEN = [['together', 'begins together with'], ['any', 'at any time, as'], ['after', 'begins after the end of'], ['before', 'ends before the begin of']];
const WHERE = [['any', 'at any site'], ['same', 'at the same site'], ['other', 'at another site'], ['joins', 'joins the sites of the others']];

// Countable things of the resources, such as `gres/gpu=1, mem=1`; the field is left out where there are none.
const tresOffered = () => [...new Set(state.resources.flatMap((one) => Object.keys(one.tres || {})))].map((name) => `${name}=1`).join(', ');

// In accelerated time "now" has passed before a form is sent.
const soon = () => (clockRate() > 1 ? 'in 2 hours' : 'now');

function fresh(first) {
  return {
    capacity: first ? '10' : '64', what: first ? '' : 'kind:processors', length: first?.length || '2h', from: first?.from || soon(),
    until: first?.until || '+1d', attributes: '', tres: '', machine: '', priority: '', when: 'together', where: 'any', to: '0',
  };
}

export function requestForm(onSend) {
  let parts = [fresh()];
  let open = false;
  const list = h('div.parts');
  const name = h('input', { id: 'ask-name', name: 'name', maxlength: '100', autocomplete: 'off', placeholder: 'optional' });
  const more = h('button.link', { type: 'button', id: 'add-part', onclick: () => addPart() }, '+ another part');
  const send = h('button.button.primary', { type: 'submit', id: 'ask-send' }, 'Show offers');
  const element = h('form.ask-form', { id: 'ask-form', novalidate: true, onsubmit: submit }, list,
    h('p.add', null, more, h('span.soft', null, ' room, link, QPU …')), field('Name', name), send);

  // Kinds first: most people do not mind where their job runs.
  function choices() {
    const kinds = [...new Set(state.resources.map((one) => one.kind))];
    if (!kinds.length) kinds.push('processors');
    return [...kinds.map((kind) => [`kind:${kind}`, kind]), ...state.resources.map((one) => [`resource:${one.name}`, `${one.name} (${one.kind})`])];
  }

  function draw() {
    fill(list, parts.map(drawPart));
  }

  function drawPart(part, at) {
    const id = (key) => (at ? `ask-${key}-${at + 1}` : { capacity: 'ask-what' }[key] || `ask-${key}`);
    const input = (key, extra) => h('input', {
      id: id(key), 'data-field': key, 'data-part': at, value: part[key], autocomplete: 'off', required: true,
      oninput: (event) => { part[key] = event.target.value; event.target.removeAttribute('aria-invalid'); }, ...extra,
    });
    const pick = (key, options, label) => {
      const control = select(options, part[key], { id: id(key), 'data-field': key, 'aria-label': label, onchange: (event) => { part[key] = event.target.value; } });
      part[key] = control.value;
      return control;
    };
    const options = choices();
    if (!options.some(([key]) => key === part.what)) part.what = (options.find(([key]) => key !== parts[0]?.what) || options[0])[0];
    const others = parts.slice(0, at).map((_, index) => [String(index), `part ${index + 1}`]);
    const many = parts.length > 1;
    return h('fieldset.part', { 'data-part': at },
      h(`legend${many ? '' : '.hidden'}`, null, `Part ${at + 1}`),
      at > 0 && h('button.icon-button.remove', { type: 'button', 'aria-label': `Remove part ${at + 1}`, onclick: () => remove(at) }, '×'),
      h('div.row', null, field(many ? 'Capacity' : 'What', input('capacity', { inputmode: 'numeric', class: 'number' })),
        h('div.field.grow', null, h('label.hidden', { for: id('kind') }, 'Kind or resource'),
          withId(pick('what', options, 'Kind or resource'), id('kind')))),
      h('div.row', null, field('How long', input('length', { placeholder: '2h' })), field('From', input('from', { placeholder: 'tomorrow 9:00' })),
        field('Until', input('until', { placeholder: '+1d' }))),
      h('p.error', { 'data-error': at, role: 'alert', hidden: true }),
      at > 0 && h('div.row.joined', null, pick('when', WHEN, `Time of part ${at + 1}`), others.length > 1 ? pick('to', others, 'Other part') : h('span', null, 'part 1'),
        pick('where', parts.length > 2 ? WHERE : WHERE.slice(0, 3), `Place of part ${at + 1}`)),
      h('details.attributes', { open: open || !!(part.attributes || part.tres || part.machine || part.priority) }, h('summary', null, 'Attributes'),
        field('Needs', input('attributes', { required: false, placeholder: 'gpus>=4, mhz>=2600' })),
        (tresOffered() || part.tres) && field('GPUs, memory, licences', input('tres', { required: false, placeholder: tresOffered() })),
        field('Length measured on', input('machine', { required: false, placeholder: 'mhz=2600' })),
        at === 0 && field('Priority class', input('priority', { required: false }))));
  }
  const withId = (control, id) => Object.assign(control, { id });

  function addPart() {
    parts.push(fresh(parts[0]));
    draw();
    list.lastElementChild.querySelector('input').focus();
  }

  function remove(at) {
    parts.splice(at, 1);
    draw();
    more.focus();
  }

  function submit(event) {
    event.preventDefault();
    send.focus();
    onSend(read());
  }

  const kindOf = (what) => state.resources.find((one) => `resource:${one.name}` === what)?.kind;
  const read = () => ({ name: name.value, parts: parts.map((part) => ({ ...part, kindOf: kindOf(part.what) })) });

  function showFault(error) {
    clearFaults();
    const at = error.part ?? 0;
    const input = list.querySelector(`[data-field="${error.field}"][data-part="${at}"]`);
    input?.setAttribute('aria-invalid', 'true');
    const text = list.querySelector(`[data-error="${at}"]`);
    if (text) {
      text.textContent = error.message;
      text.hidden = false;
    }
    input?.focus();
  }

  function clearFaults() {
    for (const one of list.querySelectorAll('[aria-invalid]')) one.removeAttribute('aria-invalid');
    for (const one of list.querySelectorAll('[data-error]')) one.hidden = true;
  }

  function set(form) {
    parts = form.parts.map((part) => ({ ...fresh(), ...part }));
    name.value = form.name || name.value;
    draw();
  }

  on('resources', draw);
  // The default begin depends on the speed of the clock, which is known after the first answer.
  draw();
  return { element, read, set, showFault, clearFaults, refresh() { parts[0].from = soon(); draw(); }, size: () => plural(parts.length, 'part') };
}
