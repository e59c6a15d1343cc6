// The selected box of the timeline, in the side panel. A co-reservation is one card with all its parts.

import { api } from './api.js';
import { fill, h } from './dom.js';
import { hashOf, replaceRoute, route } from './route.js';
import { describe } from './lane-table.js';
import { withTres } from './request.js';
import { stateBadge } from './badges.js';
import { change, resourceNamed, tell } from './state.js';
import { amount, length, range, seconds } from './time.js';

// `64 processors of north/cluster with gres/gpu=2`
export const slotText = ({ resource, capacity, tres }) => `${amount(capacity, resourceNamed(resource)?.kind || '')} of ${resource}${withTres(tres)}`;

export function detailsOf(selected) {
  if (!selected) return null;
  const { id, block, lane } = selected;
  const card = h('section.card.details', { 'data-selected': id || '' });
  if (block) fill(card, head(block.name || block.owner || (block.kind.endsWith('job') ? 'Job' : 'Booking')), facts([
    ['What', describe.word(block)], ['Owner', block.owner], ['Where', lane],
    ['Capacity', amount(block.capacity, resourceNamed(lane)?.kind || '')],
    ['When', range(seconds(block.begin), seconds(block.end))], ['Length', length(seconds(block.end) - seconds(block.begin))]]));
  if (id?.startsWith('rsv_')) whole(card, id);
  return card;
}

const close = () => {
  change('selected', { selected: null });
  replaceRoute({ ...route().params, select: undefined });
};

const head = (title, badge) => h('div.title-row', null, h('h2', null, title), badge,
  h('button.icon-button', { type: 'button', 'aria-label': 'Close', id: 'close-details', onclick: close }, '×'));

const facts = (pairs) => h('dl.facts', null, pairs.filter(([, value]) => value).map(([key, value]) => [h('dt', null, key), h('dd', null, value)]));

// Parts and state need the reservation itself, which only its owner and operators may read.
async function whole(card, id) {
  try {
    const reservation = await api.reservation(id);
    const { slots } = reservation;
    const from = Math.min(...slots.map((slot) => seconds(slot.begin))), until = Math.max(...slots.map((slot) => seconds(slot.end)));
    fill(card, head(reservation.name || reservation.owner, stateBadge(reservation)),
      facts([['Owner', reservation.owner], ['Shared with', (reservation.shared_with || []).join(', ')], ['When', range(from, until)], ['Length', length(until - from)]]),
      h('ul.plain', null, slots.map((slot) => h('li', null, slotText(slot)))),
      h('div.actions', null, h('button.link', { type: 'button', onclick: () => tell('show-range', [from - (until - from), until + (until - from)]) }, 'Zoom to it'),
        h('a.button', { href: hashOf(`reservation/${id}`), 'data-action': 'open' }, 'Open')));
  } catch {
    // What the picture shows is all that this user may see.
    if (!card.firstChild) fill(card, head('Booking'), h('p.soft', null, `${id} is not known here, or not yours.`));
  }
}
