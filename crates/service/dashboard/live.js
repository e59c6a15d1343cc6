// Keeps the page up to date: listens to events, and reloads what they touch.

import { api } from './api.js';
import { announce } from './dom.js';
import { change, state, tell } from './state.js';
import { clockRate, nowSeconds, seconds, stamp } from './time.js';

// EventSource delivers named events only to listeners of that name. Kinds that are missing here are seen at the
// next periodic refresh.
const KINDS = ['reset', 'state', 'requested', 'granted', 'not-granted', 'held', 'held-longer', 'refused', 'commit-requested',
  'committed', 'expired', 'change-requested', 'change-prepared', 'change-settled', 'change-given-up', 'request-changed', 'released', 'begun',
  'completed', 'cancelled', 'cancelled-before', 'terminated', 'missing', 'lost', 'restored', 'whole', 'degraded', 'broken',
  'healed', 'not-healed', 'part-lost', 'forgotten', 'job-submitted', 'job-started', 'job-completed', 'job-failed', 'job-cancelled'];

// Events come in bursts; more pictures than two a second help nobody.
const LEAST_BETWEEN = 500;
const EVERY = 30000;
const RETRY = 2500;

const wanted = { from: 0, until: 0, pixels: 1200 };
let lastLoad = 0, timer = 0, loading = false, again = false, isLarge = false;

// The longest schedule that a service shows by default.
const YEAR = 366 * 86400;

// Reading an answer with more boxes than this takes several frames.
const MANY = 15000;

// The view's window. More is loaded than is seen, and again before the view leaves it, so that it rarely has blank edges.
// Large answers are loaded only when the view has left the last one, because a movement must not stop for them.
export function want(from, until, pixels) {
  const span = until - from, beside = Math.max(0, Math.min(span, YEAR - span) / 2);
  const { covered } = state;
  const early = isLarge ? 0 : beside / 2;
  const inside = covered.from <= from - early && covered.until >= until + early;
  // Zoomed in far below what was loaded, densities become boxes.
  const coarse = covered.until - covered.from > span * 6 && state.schedule.resources.some((one) => one.levels);
  Object.assign(wanted, { from: from - beside, until: until + beside, pixels: Math.max(200, Math.round((pixels * (span + 2 * beside)) / span)) });
  if (!inside || coarse) refreshSchedule();
}

export function refreshSchedule() {
  document.documentElement.dataset.schedule = 'loading';
  if (loading) {
    again = true;
    return;
  }
  clearTimeout(timer);
  timer = setTimeout(load, Math.max(0, lastLoad + LEAST_BETWEEN - performance.now()));
}

async function load() {
  if (!wanted.until) return;
  loading = true;
  lastLoad = performance.now();
  const { from, until, pixels } = wanted;
  try {
    const schedule = await api.schedule({ from: stamp(from), until: stamp(until), pixels });
    isLarge = schedule.resources.reduce((sum, one) => sum + one.blocks.length, 0) > MANY;
    change('schedule', { schedule, covered: { from, until } });
  } catch {
    // The picture stays as it is; the head says that the service does not answer.
  }
  loading = false;
  if (!again) {
    document.documentElement.dataset.schedule = 'loaded';
    return;
  }
  again = false;
  refreshSchedule();
}

// Own holds, with the moment on this machine's clock at which each ends.
export async function refreshHeld() {
  if (!state.user) {
    change('held', { held: [], expired: [] });
    return;
  }
  try {
    const { reservations } = await api.reservations({ owner: state.user.name, state: 'held', limit: 20 });
    const isHeld = ({ reservation: { id } }) => reservations.some((one) => one.id === id);
    // Whole seconds and the way of the answer make the countdown here a little slow.
    const over = state.held.filter((hold) => leftOf(hold) < 3 && !hold.settled && !isHeld(hold)).map((hold) => hold.reservation);
    if (over.length) announce('the hold has expired; its room is free again');
    change('held', { held: reservations.map(timed), expired: [...over, ...state.expired] });
  } catch {
    // Seen again with the next event.
  }
}

export function timed(reservation) {
  const left = (reservation.held_for_seconds || 0) / clockRate();
  const known = state.held.find((one) => one.reservation.id === reservation.id);
  const lasts = known && known.reservation.version === reservation.version ? Math.max(known.lasts, left) : left;
  return { reservation, lasts, ends: performance.now() + left * 1000 };
}

export const leftOf = (hold) => Math.max(0, (hold.ends - performance.now()) / 1000);

let source = null, offlineSince = null, hadConnection = false, retrying = 0;

export function connect() {
  source?.close();
  clearTimeout(retrying);
  source = new EventSource('v1/events');
  source.addEventListener('open', () => {
    const wasOffline = offlineSince !== null;
    offlineSince = null;
    setLive(true);
    // Events since the last one are sent again by the service; what was not an event is read again.
    if (hadConnection || wasOffline) refreshAll();
    hadConnection = true;
  });
  source.addEventListener('error', () => {
    if (offlineSince === null) offlineSince = nowSeconds();
    setLive(false);
    // A refused connection is not tried again by the browser. If the session is over, the call says so.
    if (source?.readyState === EventSource.CLOSED) retrying = setTimeout(() => refreshHeld().then(() => source && connect()), RETRY);
  });
  for (const kind of KINDS) source.addEventListener(kind, heard);
}

// Signing in or out changes which events are sent.
export function reconnect() {
  hadConnection = false;
  connect();
}

export function disconnect() {
  source?.close();
  source = null;
  clearTimeout(retrying);
  delete document.documentElement.dataset.live;
}

function setLive(live) {
  document.documentElement.dataset.live = live ? 'live' : 'offline';
  tell('live', live ? null : offlineSince);
}

let heldTimer = 0;

function heard({ type, data }) {
  if (type === 'reset') {
    refreshAll();
    return;
  }
  let event;
  try {
    event = JSON.parse(data);
  } catch {
    return;
  }
  refreshSchedule();
  if (event.owner === state.user?.name) {
    clearTimeout(heldTimer);
    heldTimer = setTimeout(refreshHeld, 100);
  }
  tell('event', event);
}

export function refreshAll() {
  refreshSchedule();
  refreshHeld();
  tell('event', { kind: 'reset' });
}

export function startRefreshing() {
  const isOpen = () => !document.hidden && source && source.readyState !== EventSource.CLOSED;
  setInterval(() => {
    if (isOpen()) refreshSchedule();
  }, EVERY);
  document.addEventListener('visibilitychange', () => {
    if (isOpen()) refreshAll();
  });
}

export function setFirst(schedule, from, until) {
  const now = nowSeconds();
  change('schedule', { schedule, covered: { from: from ? seconds(from) : now, until: until ? seconds(until) : now + 86400 } });
}
