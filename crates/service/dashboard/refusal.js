// A refusal in the words of the command line, with what is in the way and what would fit instead.

import { h } from './dom.js';
import { length, moment, nowSeconds, range, seconds } from './time.js';

const KIND = { 'running-job': 'a running job', 'waiting-job': 'a waiting job with a promised start', reservation: 'a reservation' };

function blocker({ kind, begin, end, name }) {
  const what = name ? `${KIND[kind] || kind} “${name}”` : KIND[kind] || kind;
  if (begin && end) return seconds(begin) <= nowSeconds() ? `${what} until ${moment(seconds(end))}` : `${what}, ${range(seconds(begin), seconds(end))}`;
  if (end) return `${what} until ${moment(seconds(end))}`;
  return begin ? `${what} from ${moment(seconds(begin))} on, with no known end` : what;
}

export function condition(change) {
  if (change.type === 'later') return `if it may end ${length(change.by_seconds)} later`;
  if (change.type === 'shorter') return `if it is ${length(change.by_seconds)} shorter`;
  if (change.type === 'fewer') return `with ${change.by} fewer`;
  return change.type === 'earlier' ? `if it may begin ${moment(seconds(change.begin))}` : 'with a change';
}

// Instants of the API, by the clock of the reader.
const byClock = (text) => text.replace(/\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ/g, (at) => moment(seconds(at)));

// `parts[0]` of the API is part 1 for people, and the only part is not named.
export function counted(detail, parts) {
  const text = parts === 1 ? detail.replace(/^parts\[0\]: /, '') : detail;
  return byClock(text).replace(/(part|constraint)s\[(\d+)\]/g, (_, noun, at) => `${noun} ${Number(at) + 1}`);
}

// `onTake(request)` is called with the counter-offer that was chosen.
export function showRefusal(error, parts, onTake) {
  const problem = error.document || { title: 'Refused', detail: error.message };
  const blockers = [...(problem.blockers || [])].sort((a, b) => seconds(a.begin || a.end) - seconds(b.begin || b.end));
  const offers = problem.counter_offers || [];
  const shown = blockers.slice(0, 4);
  return h('section.refusal', { id: 'refusal', role: 'alert', 'data-code': problem.code || '' },
    h('h3', null, h('span.sign', { 'aria-hidden': 'true' }, '!'), problem.title || 'Refused'),
    h('p', null, counted(problem.detail || '', parts)),
    blockers.length > 0 && [h('h4', null, 'In the way'), h('ul.blockers', { id: 'blockers' }, shown.map((one) => h('li', null, blocker(one))),
      blockers.length > shown.length && h('li.soft', null, `and ${blockers.length - shown.length} more, outlined in the timeline`))],
    offers.length > 0 && onTake && [h('h4', null, 'It would fit'), h('div.counters', { id: 'counter-offers' }, offers.map((one, at) => one.request
      ? h('button.counter', { type: 'button', 'data-counter': at, 'data-change': one.change.type, onclick: () => onTake(one.request) },
        h('span', null, condition(one.change)), h('span.go', { 'aria-hidden': 'true' }, '→'))
      : h('p.counter', null, condition(one.change))))],
    !offers.length && problem.busy_for_seconds > 0 && h('p', null, `It would fit with a start ${length(problem.busy_for_seconds)} later.`));
}
