// One reservation: its parts, state, jobs, and what can be done with it.

import { api } from './api.js';
import { stateBadge } from './badges.js';
import { actionsFor } from './actions.js';
import { busy, fill, h, table } from './dom.js';
import { jobTable } from './jobs.js';
import { timed, leftOf } from './live.js';
import { hashOf } from './route.js';
import { on, state } from './state.js';
import { count, countdown, length, range, seconds, short, shortEnd, wall } from './time.js';

const LOST = {
  degraded: 'degraded: less capacity than promised', 'given-up': 'lost: cancelled by its owner', revoked: 'lost: cancelled by an operator of its site',
  ended: 'lost: ended by its site', forgotten: 'lost: unknown at its site', 'not-changed': 'not changed: its site could not apply the new terms',
};

export function showReservation(main, id) {
  const page = h('div.page', { id: 'reservation', 'data-reservation': id });
  let timer = 0, clock = 0;
  fill(main, page);

  async function load() {
    try {
      const [reservation, jobs] = await busy(page, Promise.all([
        api.reservation(id), api.jobs({ limit: 100 }).catch(() => ({ jobs: [] }))]));
      draw(reservation, jobs.jobs.filter((job) => job.reservation === id));
    } catch (error) {
      fill(page, h('p', null, h('a', { href: '#/mine' }, '‹ My bookings')), h('h1', null, 'Reservation'), h('p.error', { role: 'alert' }, error.message));
    }
  }

  function draw(reservation, jobs) {
    const { slots } = reservation;
    const labels = Object.entries(reservation.labels || {}).map(([key, value]) => h('span.label', null, `${key}=${value}`));
    const cost = slots.reduce((sum, slot) => sum + (slot.cost || 0), 0);
    const from = Math.min(...slots.map((slot) => seconds(slot.begin))), until = Math.max(...slots.map((slot) => seconds(slot.end)));
    const facts = [['Owner', reservation.owner], ['Shared with', (reservation.shared_with || []).join(', ')], ['Note', reservation.note], ['Labels', labels.length && labels],
      ['Created', reservation.created && wall(seconds(reservation.created))], ['Cost', cost > 0 && cost.toFixed(2)], ['Version', String(reservation.version)],
      ['Reason', reservation.refused?.detail], ['Id', h('code', null, reservation.id)]];
    const fault = h('p.error', { id: 'action-fault', role: 'alert', hidden: true });
    const hold = reservation.state === 'held' && timed(reservation);
    const left = hold && h('strong.left', { id: 'hold-left' }, countdown(leftOf(hold)));
    clearInterval(clock);
    if (hold) clock = setInterval(() => { left.textContent = countdown(leftOf(hold)); }, 250);
    fill(page, h('p', null, h('a', { href: '#/mine' }, '‹ My bookings')),
      h('div.page-head', null, h('h1', null, reservation.name || 'Reservation'), stateBadge(reservation), hold && h('span', null, left, ' left'), h('span.spring'),
        slots.length > 0 && h('a.button', { href: hashOf('timeline', { select: id, ...around(from, until) }), id: 'to-timeline' }, 'Show in timeline')),
      h('div.actions.start', { id: 'reservation-actions' }, actionsFor(reservation, load, fault)), fault,
      h('h2', null, slots.length > 1 ? 'Parts' : 'Booked'), parts(reservation),
      (reservation.losses || []).map((loss) => h('p.warn', null, `⚠ ${slots.length > 1 ? `part ${loss.part + 1}, ` : ''}since ${short(seconds(loss.since))}: ${LOST[loss.why] || loss.why}`,
        loss.heal_at && `; next attempt to replace it at ${short(seconds(loss.heal_at))}`)),
      (reservation.replaced || []).map((one) => h('p.soft', null, `part ${one.part + 1}, at ${short(seconds(one.at))}: ${one.was.resource} was ${LOST[one.why] || one.why}`)),
      h('dl.facts.flow', null, facts.filter(([, value]) => value).map(([key, value]) => h('div', null, h('dt', null, key), h('dd', null, value)))),
      reservation.request && [h('h2', null, 'Asked for'), h('ul.plain', null, reservation.request.parts.map((part) => h('li', null,
        `${count(part.capacity)} ${part.kind || 'processors'}${part.resource ? ` of ${part.resource}` : ''} for ${length(part.duration_seconds)}, between ${range(seconds(part.earliest_start), seconds(part.latest_end))}`)))],
      jobs.length > 0 && [h('h2', null, 'Jobs'), jobTable(jobs)]);
  }

  function parts(reservation) {
    const { slots, missing = [] } = reservation;
    const heads = [...(slots.length > 1 ? [['part']] : []), 'resource', ['capacity'], `begin (${state.zone})`, 'end', ['length'], ['missing'], ['cost']];
    return table('Parts', heads, slots.map((slot, at) => [...(slots.length > 1 ? [at + 1] : []), slot.resource, count(slot.capacity), short(seconds(slot.begin)),
      shortEnd(seconds(slot.begin), seconds(slot.end)), length(seconds(slot.end) - seconds(slot.begin)), missing[at] ? h('span.warn', null, `⚠ ${count(missing[at])}`) : '–', slot.cost > 0 ? slot.cost.toFixed(2) : '–']), { id: 'parts' });
  }

  load();
  const stop = on('event', (event) => {
    if (event.kind !== 'reset' && event.reservation !== id) return;
    clearTimeout(timer);
    timer = setTimeout(load, 150);
  });
  return () => {
    clearTimeout(timer);
    clearInterval(clock);
    stop();
  };
}

function around(from, until) {
  const span = Math.max(6 * 3600, (until - from) * 4);
  const first = (from + until - span) / 2;
  const text = (at) => new Date(Math.round(at) * 1000).toISOString().replace('.000Z', 'Z');
  return { from: text(first), until: text(first + span) };
}
