// Own bookings: a list with search, newest needs first, and the calendar feed.

import { api } from './api.js';
import { busy, fill, h, select } from './dom.js';
import { slotText } from './details.js';
import { heldCards } from './holds.js';
import { stateBadge } from './badges.js';
import { hashOf, replaceRoute, route } from './route.js';
import { on, state } from './state.js';
import { plural, range, seconds, wall } from './time.js';

const STATES = [['', 'now and later'], ['all', 'all states'], ...['held', 'committed', 'active', 'completed', 'cancelled', 'expired', 'rejected', 'terminated'].map((one) => [one, one])];
// Own holds are shown as cards above the list.
const OPEN = 'requested,committed,change-requested,active';

let holds;

export function showMine(main) {
  holds ||= heldCards();
  const { params } = route();
  const search = h('input', { id: 'search', type: 'search', value: params.name || '', placeholder: 'name, or label key=value', 'aria-label': 'Search by name or label' });
  const states = select(STATES, params.state || '', { id: 'search-state', 'aria-label': 'State' });
  const owner = select([['', 'mine'], ['all', 'of all users']], params.owner || '', { id: 'search-owner', 'aria-label': 'Owner' });
  const list = h('div.list', { id: 'bookings' });
  const total = h('span.soft', { id: 'bookings-total', role: 'status' });
  const address = h('section.card', { id: 'address', hidden: true });
  const blocked = h('p.soft', { id: 'blocked', hidden: true });
  let cursor, number = 0;
  fill(main, h('div.page', null, h('div.page-head', null, h('h1', null, 'My bookings'), total, h('span.spring'),
    h('a.button', { href: 'v1/calendar.ics', id: 'calendar' }, 'Calendar'), state.user && h('button.button', { type: 'button', id: 'calendar-address', onclick: () => showAddress() }, 'Calendar address'),
    h('a.button.primary', { href: '#/timeline' }, 'Ask')),
  address, blocked, holds, h('form.filters', { role: 'search', onsubmit: (event) => { event.preventDefault(); load(); } }, search, states, state.user?.operator && owner), list));

  // The address is shown once, when it is made: the service keeps only a digest.
  async function showAddress(made) {
    address.hidden = false;
    try {
      const since = made?.path ? '' : (await busy(address, api.calendarAddress())).made;
      const then = (call) => async () => showAddress(await busy(address, call()));
      fill(address, h('h2', null, 'Calendar address'),
        h('p', null, 'A calendar program reads your bookings at an address with a secret, until you withdraw it. Anyone who has it can read them.'),
        made?.path && h('p', null, h('code', { id: 'calendar-url' }, new URL(made.path.slice(1), document.baseURI).href), ' Copy it now: it is not shown again.'),
        since && h('p.soft', null, `There is one since ${wall(seconds(since))}.`),
        h('div.actions.start', null, h('button.button', { type: 'button', id: 'make-address', onclick: then(api.makeCalendarAddress) }, made?.path || since ? 'Replace it' : 'Make one'),
          (made?.path || since) && h('button.button', { type: 'button', id: 'withdraw-address', onclick: then(api.withdrawCalendarAddress) }, 'Withdraw it')));
    } catch (error) {
      fill(address, h('p.error', { role: 'alert' }, error.message));
    }
  }

  async function showBlocked() {
    const { users } = state.user ? await api.blocked().catch(() => ({ users: [] })) : { users: [] };
    const unblock = (user) => async () => { await api.unblock(user); showBlocked(); load(); };
    blocked.hidden = !users.length;
    fill(blocked, 'Invitations of these users are not shown: ', users.map((user) => [user, ' ', h('button.button', { type: 'button', 'data-unblock': user, onclick: unblock(user) }, 'Unblock'), ' ']));
  }

  async function load(more) {
    const mine = ++number;
    const text = search.value.trim();
    const isLabel = text.includes('=');
    replaceRoute({ name: text, state: states.value, owner: owner.value });
    if (!state.user) {
      fill(list, empty());
      total.textContent = '';
      return;
    }
    const wanted = {
      // Without an owner the service lists what the user may see: also what others share.
      owner: owner.value === 'all' || !state.user?.operator ? undefined : state.user.name, state: states.value === 'all' ? undefined : states.value || (owner.value === 'all' ? `held,${OPEN}` : OPEN),
      [isLabel ? 'label' : 'name']: text, limit: 50, cursor: more ? cursor : undefined,
    };
    try {
      const answer = await busy(list, api.reservations(wanted));
      if (mine !== number) return;
      cursor = answer.next;
      const items = answer.reservations.map(item);
      if (!more) fill(list);
      list.querySelector('#more')?.remove();
      list.append(...items);
      if (cursor) list.append(h('button.button', { type: 'button', id: 'more', onclick: () => load(true) }, 'Show more'));
      total.textContent = answer.total === undefined ? '' : plural(answer.total, 'booking');
      if (!list.children.length) fill(list, empty());
    } catch (error) {
      if (mine === number) fill(list, h('p.error', { role: 'alert' }, error.message));
    }
  }

  const empty = () => h('div.empty', null, h('p', null, state.user ? 'No bookings here.' : 'Sign in to see your bookings.'),
    state.user ? h('a.button.primary', { href: '#/timeline' }, 'Ask for one') : h('a.button.primary', { href: hashOf('sign-in', { back: '/mine' }) }, 'Sign in'));

  let timer = 0;
  const later = () => {
    clearTimeout(timer);
    timer = setTimeout(() => load(), 200);
  };
  search.addEventListener('input', later);
  states.addEventListener('change', () => load());
  owner.addEventListener('change', () => load());
  load();
  showBlocked();
  const stops = [on('event', (event) => {
    if (event.kind === 'reset' || event.reservation) later();
  }), on('session', load)];
  return () => {
    clearTimeout(timer);
    stops.forEach((stop) => stop());
  };
}

export function item(reservation) {
  const { slots, id, name, owner } = reservation;
  const from = Math.min(...slots.map((slot) => seconds(slot.begin))), until = Math.max(...slots.map((slot) => seconds(slot.end)));
  const labels = Object.entries(reservation.labels || {});
  const what = slots.map(slotText).join(', ');
  const more = [name && what, owner !== state.user?.name && owner].filter(Boolean).join(', ');
  return h('a.booking', { href: hashOf(`reservation/${id}`), 'data-reservation': id, 'data-state': reservation.state },
    h('span.line', null, h('strong', null, name || what || id), stateBadge(reservation)),
    (slots.length > 0 || more) && h('span.line', null, h('span.time', null, slots.length > 0 && range(from, until)), h('span.soft', null, more)),
    labels.length > 0 && h('span.line', null, h('span', null, labels.map(([key, value]) => h('span.label', null, `${key}=${value}`)))));
}
