// Keeps the page up to date: listens to events, and reloads what they touch.

import { api } from './api.js';
import { change, state, tell } from './state.js';
import { clockRate, nowSeconds, seconds, stamp } from './time.js';

// EventSource delivers named events only to listeners of that name. Kinds that are missing here are seen at the
// next periodic refresh.
const KINDS = ['reset', 'state', 'requested', 'granted', 'not-granted', 'held', 'held-longer', 'refused', 'commit-requested',
  'committed', 'expired', 'change-requested', 'change-prepared', 'change-settled', 'change-given-up', 'released', 'begun',
  'completed', 'cancelled', 'cancelled-before', 'terminated', 'missing', 'lost', 'restored', 'whole', 'degraded', 'broken',
  'healed', 'not-healed', 'part-lost', 'forgotten', 'job-submitted', 'job-started', 'job-completed', 'job-failed', 'job-cancelled'];

// Events come in bursts; more pictures than two a second help nobody.
const LEAST_BETWEEN = 500;
const EVERY = 30000;
const RETRY = 2500;

const wanted = { from: 0, until: 0, pixels: 1200 };
let lastLoad = 0, timer = 0, loading = false, again = false;

// The view's window. More is loaded than is seen, so that small moves need no call.
export function want(from, until, pixels) {
  const span = until - from;
  const { covered } = state;
  const inside = covered.from <= from && covered.until >= until;
  // Zoomed in far below what was loaded, densities become boxes.
  const coarse = covered.until - covered.from > span * 6 && state.schedule.resources.some((one) => one.levels);
  Object.assign(wanted, { from: from - span / 2, until: until + span / 2, pixels: Math.max(200, Math.round(pixels * 2)) });
  if (!inside || coarse) refreshSchedule();
}

export function refreshSchedule() {
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
    change('schedule', { schedule, covered: { from, until } });
  } catch {
    // The picture stays as it is; the head says that the service does not answer.
  }
  loading = false;
  if (again) {
    again = false;
    refreshSchedule();
  }
}

// Own holds, with the moment on this machine's clock at which each ends.
export async function refreshHeld() {
  if (!state.user) {
    change('held', { held: [] });
    return;
  }
  try {
    const { reservations } = await api.reservations({ owner: state.user.name, state: 'held', limit: 20 });
    change('held', { held: reservations.map(timed) });
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

let source = null, offlineSince = null, hadConnection = false;

export function connect() {
  source?.close();
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
    // A refused connection is not tried again by the browser.
    if (source.readyState === EventSource.CLOSED) setTimeout(connect, RETRY);
  });
  for (const kind of KINDS) source.addEventListener(kind, heard);
}

// Signing in or out changes which events are sent.
export function reconnect() {
  hadConnection = false;
  connect();
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
  setInterval(() => {
    if (!document.hidden) refreshSchedule();
  }, EVERY);
  document.addEventListener('visibilitychange', () => {
    if (!document.hidden) refreshAll();
  });
}

export function setFirst(schedule, from, until) {
  const now = nowSeconds();
  change('schedule', { schedule, covered: { from: from ? seconds(from) : now, until: until ? seconds(until) : now + 86400 } });
}
