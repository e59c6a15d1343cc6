// Jobs: a list, and one job with its output.

import { api } from './api.js';
import { badge } from './badges.js';
import { ask, busy, fill, h, table } from './dom.js';
import { hashOf } from './route.js';
import { on, state } from './state.js';
import { count, length, seconds, short, wall } from './time.js';

const OVER = ['done', 'cancelled', 'out-of-time', 'reservation-over', 'lost', 'could-not-start'];
export const jobBadge = (job) => (job.state === 'done' && job.exit ? badge(`failed with exit code ${job.exit}`, 'bad') : badge(job.state));

export function jobTable(jobs) {
  return table('Jobs', ['job', 'state', 'where', ['capacity'], `begin (${state.zone})`, ['limit'], 'owner'], jobs.map((job) => [
    h('a', { href: hashOf(`job/${job.id}`), 'data-job': job.id }, job.name || `${job.id.slice(0, 12)}…`), jobBadge(job), job.resource || job.site || '–', count(job.capacity),
    job.started ? short(seconds(job.started)) : job.expected_start ? `expected ${short(seconds(job.expected_start))}` : '–', length(job.limit_seconds), job.owner]), { id: 'jobs' });
}

export function showJobs(main) {
  const list = h('div');
  fill(main, h('div.page', null, h('div.page-head', null, h('h1', null, 'Jobs')), list));
  async function load() {
    try {
      const { jobs } = await busy(list, api.jobs({ owner: state.user?.name, limit: 100 }));
      fill(list, jobs.length ? jobTable(jobs.reverse()) : h('div.empty', null, h('p', null, 'No jobs. Submit one on the command line:'), h('pre', null, 'bookahead submit --in RESERVATION -- ./program')));
    } catch (error) {
      fill(list, h('p.error', { role: 'alert' }, error.message));
    }
  }
  load();
  const stops = [on('event', (event) => (event.job || event.kind === 'reset') && load()), on('session', load)];
  return () => stops.forEach((stop) => stop());
}

export function showJob(main, id) {
  const page = h('div.page');
  const streams = { stdout: h('pre.output', { id: 'output-stdout', tabindex: '0' }), stderr: h('pre.output', { id: 'output-stderr', tabindex: '0' }) };
  const read = { stdout: 0, stderr: 0 };
  fill(main, page);

  async function load() {
    try {
      const job = await busy(page, api.job(id));
      draw(job);
      for (const stream of ['stdout', 'stderr']) follow(stream);
    } catch (error) {
      fill(page, h('h1', null, 'Job'), h('p.error', { role: 'alert' }, error.message));
    }
  }

  // Long output comes in pieces; only what is new is fetched.
  async function follow(stream) {
    const element = streams[stream];
    try {
      for (let piece = 0; piece < 16; piece++) {
        const { text, next, size } = await api.output(id, stream, read[stream]);
        element.append(text);
        if (!next || next === read[stream]) break;
        read[stream] = next;
        if (next >= size) break;
      }
    } catch (error) {
      if (!element.textContent) element.textContent = error.code === 'no-output' ? error.message : `not available: ${error.message}`;
    }
  }

  function draw(job) {
    const facts = [['Owner', job.owner], ['Where', [job.resource, job.site].filter(Boolean).join(' at ')], ['Capacity', count(job.capacity)], ['Limit', length(job.limit_seconds)],
      ['Reservation', job.reservation && h('a', { href: hashOf(`reservation/${job.reservation}`) }, job.reservation)], ['Submitted', wall(seconds(job.submitted))],
      ['Expected', !job.started && job.expected_start && wall(seconds(job.expected_start))], ['Started', job.started && wall(seconds(job.started))],
      ['Ended', job.ended && wall(seconds(job.ended))], ['Number at the site', job.native_id], ['Note', job.note], ['Detail', job.detail]];
    fill(page, h('p', null, h('a', { href: '#/jobs' }, '‹ Jobs')), h('div.page-head', null, h('h1', null, job.name || 'Job'), jobBadge(job), h('span.spring'),
      !OVER.includes(job.state) && h('button.button.danger', { type: 'button', 'data-action': 'cancel-job', onclick: cancel }, 'Cancel job')),
    h('dl.facts.flow', null, facts.filter(([, value]) => value).map(([key, value]) => h('div', null, h('dt', null, key), h('dd', null, value)))),
    h('h2', null, 'Output'), streams.stdout, h('h2', null, 'Errors'), streams.stderr);
  }

  async function cancel() {
    if (await ask('Cancel this job?', h('p', null, 'It cannot be undone.'), [['', 'Keep it'], ['cancel', 'Cancel job', 'danger']]) !== 'cancel') return;
    await api.cancelJob(id).catch((error) => ask('Not cancelled', h('p', null, error.message), [['', 'Close']]));
    load();
  }
  load();
  return on('event', (event) => (event.job === id || event.kind === 'reset') && load());
}
