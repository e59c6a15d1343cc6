// Sites: reachability, load, round trip, batch system.

import { api } from './api.js';
import { badge } from './badges.js';
import { busy, fill, h, table } from './dom.js';
import { hashOf } from './route.js';
import { state } from './state.js';
import { clockRate, count, length, nowSeconds, plural, seconds } from './time.js';

export function showSites(main) {
  const list = h('div.cards', { id: 'sites' });
  const note = h('span.soft', { id: 'service-version' });
  fill(main, h('div.page', null, h('div.page-head', null, h('h1', null, 'Sites'), note), list));

  async function load() {
    try {
      const [{ sites }, health] = await busy(list, Promise.all([api.sites(), api.health().catch((error) => error.document)]));
      state.sites = sites;
      draw(health);
    } catch (error) {
      fill(list, h('p.error', { role: 'alert' }, error.message));
    }
  }

  function draw(health) {
    const [server, ...peers] = state.sites;
    const shown = peers.length ? [...peers, server] : [server];
    note.textContent = [peers.length && plural(peers.length, 'site'), state.service.version && `version ${state.service.version}`].filter(Boolean).join(', ');
    fill(list, shown.filter(Boolean).map((site) => card(site, site === server ? health : null)));
  }

  function card(site, health) {
    const status = health?.status && health.status !== 'ready' ? badge(health.status, 'bad') : badge(site.state);
    const loads = new Map((site.loads || []).map((load) => [load.resource, load]));
    const words = (attributes) => Object.entries(attributes || {}).map(([key, value]) => `${key}=${value}`).join(', ');
    const facts = [
      ['Role', site.role === 'broker' && 'broker'], ['Round trip', site.round_trip_seconds !== undefined && milliseconds(site.round_trip_seconds)],
      // The service that answers has just been heard.
      ['Last heard', site.last_heard && !health && ago(site.last_heard)], ['A hold takes', site.hold_takes_seconds > 0 && milliseconds(site.hold_takes_seconds)],
      ['Batch system', health?.batch ? [badge(health.batch.state), health.batch.looked_seconds_ago !== undefined && ` polled ${length(health.batch.looked_seconds_ago)} ago`] : site.batch && badge(site.batch)],
      ['Identity provider', health?.identity_provider && badge(health.identity_provider.state)],
      ['Problem', health?.problem], ['Version', site.version], ['Address', site.url], ['Attributes', words(site.attributes)]];
    const rows = site.role === 'broker' ? [] : site.resources.map((one) => {
      const load = loads.get(one.name);
      const name = state.service.role === 'broker' ? `${site.name}/${one.name}` : one.name;
      return [h('a', { href: hashOf('timeline', { resource: name }) }, one.name), `${count(one.capacity)} ${one.kind}`,
        load?.running_jobs || load?.waiting_jobs ? `${count(load.running_jobs)} running, ${count(load.waiting_jobs)} waiting` : '–',
        load?.requested ? bar(load.requested / one.capacity) : '–', words({ ...one.attributes, ...one.tres }) || '–', one.price > 0 ? String(one.price) : '–'];
    });
    return h('section.card.site', { 'data-site': site.name }, h('div.title-row', null, h('h2', null, site.name), status),
      h('dl.facts.flow', null, facts.filter(([, value]) => value).map(([key, value]) => h('div', null, h('dt', null, key), h('dd', null, value)))),
      rows.length > 0 && table(`Resources of ${site.name}`, ['resource', 'capacity', 'jobs', 'requested by jobs', 'attributes', ['price per hour']], rows));
  }

  load();
  const timer = setInterval(load, 5000);
  return () => clearInterval(timer);
}

const milliseconds = (value) => `${Math.max(1, Math.round(value * 1000))} ms`;
// The connection is real even if the clock of the service is faster, so its age is in seconds of the clock on the wall.
const ago = (at) => `${length(Math.max(0, nowSeconds() - seconds(at)) / clockRate())} ago`;

// Requested capacity compared with what is there: above 100 % jobs wait.
function bar(share) {
  const inner = h('span');
  inner.style.width = `${Math.min(100, share * 100)}%`;
  return h('span.load', null, h(`span.track${share > 1 ? '.over' : ''}`, { 'aria-hidden': 'true' }, inner), `${Math.round(share * 100)} %`);
}
