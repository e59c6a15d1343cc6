// Starts the page: first data, head, routes, keys.

import './palette.js';
import { api } from './api.js';
import { ask, byId, fill, h } from './dom.js';
import { connect, disconnect, reconnect, refreshAll, refreshHeld, setFirst, startRefreshing } from './live.js';
import { toggleTheme } from './palette.js';
import { go, hashOf, route } from './route.js';
import { change, on, state, tell } from './state.js';
import { clockRate, hourMinute, setClock } from './time.js';
import { askPanel } from './ask.js';
import { showTimeline } from './timeline.js';
import { showPhone } from './phone.js';
import { showMine } from './mine.js';
import { showReservation } from './reservation.js';
import { showJob, showJobs } from './jobs.js';
import { showSites } from './sites.js';
import { showUsage } from './usage.js';
import { showSignIn } from './sign-in.js';

const narrow = matchMedia('(max-width: 760px)');
const main = byId('view');
// Kept between views, so that a half-filled form or a list of offers survives a look elsewhere.
const panel = askPanel();

const VIEWS = {
  timeline: () => (narrow.matches ? showPhone(main, panel) : showTimeline(main, panel)),
  mine: () => showMine(main),
  reservation: ({ id }) => showReservation(main, id),
  jobs: () => showJobs(main),
  job: ({ id }) => showJob(main, id),
  sites: () => showSites(main),
  usage: () => showUsage(main),
  'sign-in': () => showSignIn(main),
};
const TITLES = { timeline: 'Timeline', mine: 'My bookings', reservation: 'Reservation', jobs: 'Jobs', job: 'Job', sites: 'Sites', usage: 'Usage', 'sign-in': 'Sign in' };

let leave = null, shown = '', isSessionKnown = false;

function render() {
  const where = route();
  if (mustSignIn() && where.view !== 'sign-in') {
    // In place of the view, so that the way back does not lead here again.
    location.replace(hashOf('sign-in', { back: location.hash.slice(1) }));
    return;
  }
  const view = VIEWS[where.view] ? where.view : 'timeline';
  const key = `${view}/${where.id || ''}`;
  if (where.params.select && where.params.select !== state.selected?.id) change('selected', { selected: { id: where.params.select } });
  if (key === shown && view !== 'timeline' && view !== 'sign-in') return;
  leave?.();
  const isFirst = shown === '';
  shown = key;
  leave = VIEWS[view](where) || null;
  document.title = `${TITLES[view]} – Bookahead ${state.service.name}`;
  for (const link of byId('nav').querySelectorAll('a')) {
    const current = link.dataset.view === view || (view === 'reservation' && link.dataset.view === 'mine') || (view === 'job' && link.dataset.view === 'jobs');
    if (current) link.setAttribute('aria-current', 'page');
    else link.removeAttribute('aria-current');
  }
  document.documentElement.dataset.view = view;
  if (!isFirst) main.focus({ preventScroll: true });
  if (!isFirst) scrollTo(0, 0);
}

function drawHead() {
  byId('service-name').textContent = state.service.name;
  byId('zone').textContent = state.zone;
  const user = byId('user');
  const name = state.user?.name;
  fill(user, name ? [h('span.avatar', { 'aria-hidden': 'true' }, name.slice(0, 1).toUpperCase()), h('span', null, h('span.hidden', null, 'Signed in as '), name)] : 'Sign in');
}

on('session', () => {
  drawHead();
  if (mustSignIn()) {
    disconnect();
    return;
  }
  refreshHeld();
  reconnect();
  if (!state.resources.length) fetchMissing({ service: state.service, user: state.user });
});
on('signed-out', () => {
  change('session', { user: null });
  if (route().view !== 'sign-in') go('sign-in', { back: location.hash.slice(1) });
});
on('live', (since) => {
  byId('live-text').textContent = since === null ? 'live' : clockRate() > 1 ? 'offline' : `offline since ${hourMinute(since)}`;
});

byId('theme').addEventListener('click', () => {
  toggleTheme();
  tell('theme');
});
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => tell('theme'));
narrow.addEventListener('change', () => {
  if (route().view === 'timeline') render();
});
byId('show-keys').addEventListener('click', showKeys);
byId('skip').addEventListener('click', (event) => {
  event.preventDefault();
  main.focus();
});

const KEYS = [['← →', 'move in time'], ['+ −', 'zoom'], ['t', 'today'], ['d w m', 'day, week, month'], ['↑ ↓', 'choose a lane'],
  ['[ ]', 'box before or after (also shift with ← →)'], ['Enter', 'show the box'], ['/', 'jump to Ask'], ['?', 'show these keys']];

function showKeys() {
  ask('Keys', h('dl.keys', null, KEYS.map(([key, text]) => [h('dt', null, h('kbd', null, key)), h('dd', null, text)])), [['close', 'Close']]);
}

document.addEventListener('keydown', (event) => {
  const typing = event.target.closest?.('input, textarea, select, dialog');
  if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === '?') {
    showKeys();
  } else if (event.key === '/') {
    event.preventDefault();
    if (route().view !== 'timeline') go('timeline');
    requestAnimationFrame(() => byId('ask-what')?.focus());
  } else if (route().view === 'timeline') {
    const key = { '=': '+', _: '-', '−': '-' }[event.key] || event.key;
    tell('keys', key);
    if ((key === 'ArrowLeft' || key === 'ArrowRight') && !event.target.closest?.('canvas, .table-frame')) {
      byId('timeline-canvas')?.focus();
      byId('timeline-canvas')?.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: false }));
    }
  }
});
addEventListener('hashchange', render);

async function start() {
  const first = JSON.parse(byId('first-data').textContent || '{}');
  takeSession(first);
  if (first.zone) state.zone = first.zone;
  if (first.now) setClock(first.now, first.clock_rate || 1);
  if (first.service) state.service = first.service;
  if (first.resources) state.resources = first.resources;
  if (first.sites) state.sites = first.sites;
  if (first.schedule) setFirst(first.schedule, first.from, first.until);
  drawHead();
  render();
  document.documentElement.dataset.ready = 'true';
  startRefreshing();
  if (mustSignIn()) return;
  connect();
  await fetchMissing(first);
  refreshHeld();
}

// Without a user the service would refuse every call, and the browser would log each of them.
const mustSignIn = () => !state.user && !state.signIn.choose_user && isSessionKnown;

function takeSession({ user, sign_in: signIn }) {
  if (user !== undefined) state.user = user;
  isSessionKnown ||= !!signIn;
  if (signIn) state.signIn = signIn;
}

async function fetchMissing(first) {
  const tasks = [];
  const quietly = (work) => tasks.push(work.catch(() => {}));
  if (!first.service) {
    quietly(api.health().then(({ name, role, version }) => Object.assign(state, { service: { name, role, version } })));
  }
  if (first.user === undefined) quietly(api.session().then(takeSession));
  if (!first.resources) quietly(api.resources().then(({ resources }) => Object.assign(state, { resources })));
  if (!first.sites) quietly(api.sites().then(({ sites }) => Object.assign(state, { sites })));
  if (!tasks.length) return;
  await Promise.all(tasks);
  drawHead();
  tell('resources');
  tell('schedule');
  refreshAll();
}

start();
