// One reservation: its parts, state, jobs, and what can be done with it.

import { api } from './api.js';
import { stateBadge, stateWord } from './badges.js';
import { actionsFor } from './actions.js';
import { busy, fill, h, refill, table } from './dom.js';
import { jobTable, shortId } from './jobs.js';
import { timed, leftOf } from './live.js';
import { slotText } from './details.js';
import { withTres, writeTres } from './request.js';
import { hashOf } from './route.js';
import { on, resourceNamed, state } from './state.js';
import { amount, count, countdown, length, moment, range, seconds, short, shortEnd } from './time.js';

const LOST = {
  degraded: 'degraded: less capacity than promised', 'given-up': 'lost: cancelled by its owner', revoked: 'lost: cancelled by an operator of its site',
  ended: 'lost: ended by its site', forgotten: 'lost: unknown at its site', 'not-changed': 'not changed: its site could not apply the new terms',
};

const BY = { owner: 'by its owner', operator: 'by an operator', lost: 'its site lost it', ...LOST };
const HAPPENED = {
  'not-granted': 'rejected', refused: 'rejected', expired: 'hold expired', 'change-requested': 'change requested', 'change-settled': 'changed',
  'change-given-up': 'not changed', 'request-changed': 'name, note, labels or sharing changed', released: 'capacity released', begun: 'began', missing: 'degraded', whole: 'whole again',
  restored: 'whole again', 'part-lost': 'a part was lost', healed: 'lost part replaced', 'not-healed': 'lost part not replaced yet',
};
// A service that keeps no history is asked once, because the browser logs each refused call as an error.
let noHistory = false;

export function showReservation(main, id) {
  const page = h('div.page', { id: 'reservation', 'data-reservation': id });
  // Kept while the page is drawn again, because an event often follows a refusal.
  const fault = h('p.error', { id: 'action-fault', role: 'alert', hidden: true });
  const past = h('div');
  let timer = 0, clock = 0, number = 0;
  fill(main, page);

  async function load() {
    try {
      const mine = ++number;
      const [reservation, { jobs }] = await busy(page, Promise.all([api.reservation(id), api.jobs({ limit: 100 }).catch(() => ({ jobs: [] }))]));
      if (mine !== number) return;
      const own = jobs.filter((job) => job.reservation === id);
      draw(reservation, own);
      // What can be done with the reservation does not wait for its past.
      const events = noHistory ? null : await api.history(id).catch((error) => error);
      noHistory ||= [404, 422].includes(events?.status);
      if (mine === number) fill(past, history(reservation, own, events));
    } catch (error) {
      fill(page, h('p', null, h('a', { href: '#/mine' }, '‹ My bookings')), h('h1', null, 'Reservation'), h('p.error', { role: 'alert' }, error.message));
    }
  }

  function draw(reservation, jobs) {
    const { slots } = reservation;
    const labels = Object.entries(reservation.labels || {}).map(([key, value]) => h('span.label', null, `${key}=${value}`));
    const cost = slots.reduce((sum, slot) => sum + (slot.cost || 0), 0);
    const from = Math.min(...slots.map((slot) => seconds(slot.begin))), until = Math.max(...slots.map((slot) => seconds(slot.end)));
    const facts = [['Owner', reservation.owner], ['Shared with', sharedWith(reservation)], ['Priority', reservation.priority], ['Note', reservation.note], ['Labels', labels.length && labels],
      ['Created', reservation.created && moment(seconds(reservation.created))], ['Cost', cost > 0 && slots.length > 1 && cost.toFixed(2)], ['Version', reservation.version > 1 && String(reservation.version)],
      ['Reason', reservation.refused?.detail], ['Id', h('code', null, reservation.id)]];
    const hold = reservation.state === 'held' && timed(reservation);
    const left = hold && h('strong.left', { id: 'hold-left' }, countdown(leftOf(hold)));
    clearInterval(clock);
    if (hold) clock = setInterval(() => { left.textContent = countdown(leftOf(hold)); }, 250);
    refill(page, h('p', null, h('a', { href: '#/mine' }, '‹ My bookings')),
      h('div.page-head', null, h('h1', null, reservation.name || slots.map(slotText).join(', ') || 'Reservation'), stateBadge(reservation), hold && h('span', null, left, ' left'), h('span.spring'),
        slots.length > 0 && h('a.button', { href: hashOf('timeline', { select: id, ...around(from, until) }), id: 'to-timeline' }, 'Show in timeline')),
      h('div.actions.start', { id: 'reservation-actions' }, actionsFor(reservation, load, fault)), fault,
      slots.length > 0 && [h('h2', null, slots.length > 1 ? 'Parts' : reservation.state === 'held' ? 'Held' : 'Booked'), parts(reservation)],
      (reservation.losses || []).map((loss) => h('p.warn', null, `⚠ ${slots.length > 1 ? `part ${loss.part + 1}, ` : ''}since ${short(seconds(loss.since))}: ${LOST[loss.why] || loss.why}`,
        loss.heal_at && `; next attempt to replace it at ${short(seconds(loss.heal_at))}`)),
      (reservation.replaced || []).map((one) => h('p.soft', null, `part ${one.part + 1}, at ${short(seconds(one.at))}: ${one.was.resource} was ${LOST[one.why] || one.why}`)),
      h('dl.facts.flow', null, facts.filter(([, value]) => value).map(([key, value]) => h('div', null, h('dt', null, key), h('dd', null, value)))),
      reservation.request && [h('h2', null, 'Asked for'), h('ul.plain', null, reservation.request.parts.map((part) => h('li', null,
        `${amount(part.capacity, part.kind || 'processors')}${part.resource ? ` of ${part.resource}` : ''}${withTres(part.tres)} for ${length(part.duration_seconds)}, within ${range(seconds(part.earliest_start), seconds(part.latest_end))}`)))],
      jobs.length > 0 && [h('h2', null, 'Jobs'), jobTable(jobs)],
      h('h2', null, 'History'), past);
  }

  function history(reservation, jobs, answer) {
    if (noHistory) return h('p.soft', { id: 'no-history' }, 'No history is kept here.');
    if (!answer.events) return h('p.error', null, `The history is not available: ${answer.message}`);
    // Attaching a job is recorded as another commit, and most changes as a request with its outcome right after it.
    const isNoise = ({ kind }, at, all) => (kind === 'committed' && all.slice(0, at).some((one) => one.kind === 'committed'))
      || (['change-requested', 'change-prepared'].includes(kind) && all[at + 1]?.kind.startsWith('change-'));
    const events = answer.events.filter((...one) => !isNoise(...one));
    const reasons = events.map((event) => why(event, reservation));
    const columns = [`time (${state.zone})`, 'what happened', ...(reasons.some(Boolean) ? ['why'] : [])];
    const rows = events.map((event, at) => [toSecond(event.at), happened(event, events[at - 1], jobs), reasons[at] || '–'].slice(0, columns.length));
    return [answer.complete === false && h('p.soft', { id: 'history-incomplete' }, 'Earlier events are no longer known.'),
      rows.length > 0 && table('History', columns, rows, { id: 'history' })];
  }

  function parts({ slots, missing = [] }) {
    const kind = (slot) => resourceNamed(slot.resource)?.kind || '';
    // Columns that would be empty are left out.
    const columns = [
      slots.length > 1 && ['part', (_, at) => `part ${at + 1}`], ['resource', (slot) => slot.resource], ['capacity', (slot) => amount(slot.capacity, kind(slot))],
      slots.some(({ tres }) => writeTres(tres)) && ['GPUs, memory, licences', ({ tres }) => writeTres(tres) || '–'],
      [`begin (${state.zone})`, ({ begin }) => short(seconds(begin))], ['end', ({ begin, end }) => shortEnd(seconds(begin), seconds(end))],
      ['length', ({ begin, end }) => length(seconds(end) - seconds(begin))],
      missing.some(Boolean) && ['missing', (_, at) => (missing[at] ? h('span.warn', null, `⚠ ${count(missing[at])}`) : '–')],
      slots.some((slot) => slot.cost > 0) && [['cost'], ({ cost }) => (cost > 0 ? cost.toFixed(2) : '–')]].filter(Boolean);
    return table('Parts', columns.map(([head]) => head), slots.map((slot, at) => columns.map(([, value]) => value(slot, at))), { id: 'parts' });
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

function sharedWith({ shared_with: users = [], consents = {} }) {
  return users.map((user) => (consents[user] === 'accepted' ? user : `${user} (${consents[user] || 'invited'})`)).join(', ');
}

// All times of the table have seconds, also those at a full minute.
function toSecond(at) {
  const whole = Math.floor(seconds(at));
  return `${short(whole)}${whole % 60 ? '' : ':00'}`;
}

function happened({ kind, job, missing, exit }, before, jobs) {
  if (job) {
    const name = jobs.find((one) => one.id === job)?.name;
    const end = kind === 'job-failed' && exit ? `failed with exit code ${exit}` : kind.replace('job-', '');
    return ['job ', h('a', { href: hashOf(`job/${job}`) }, name || shortId(job)), ` ${end}`];
  }
  if (kind === 'held' && before?.state === 'held') return 'held longer';
  if (kind === 'missing' && !missing) return 'whole again';
  return HAPPENED[kind] || kind.replaceAll('-', ' ');
}

function why({ kind, because, missing, could_begin: begins = [], job_state: after }, { refused }) {
  const isRefusal = kind === 'refused' || kind === 'not-granted';
  const texts = [
    isRefusal && refused ? refused.detail : BY[because] || because?.replaceAll('-', ' '), missing > 0 && `${count(missing)} missing`,
    begins.length > 0 && `whole if moved to ${begins.map((one) => short(seconds(one))).join(' or ')}`,
    ['out-of-time', 'reservation-over', 'could-not-start', 'lost'].includes(after) && stateWord(after)];
  return texts.filter(Boolean).join('; ');
}

function around(from, until) {
  const span = Math.max(6 * 3600, (until - from) * 4);
  const first = (from + until - span) / 2;
  const text = (at) => new Date(Math.round(at) * 1000).toISOString().replace('.000Z', 'Z');
  return { from: text(first), until: text(first + span) };
}
