// Jobs: a list, and one job with its output.

import { api } from './api.js';
import { badge } from './badges.js';
import { ask, busy, fill, h, table } from './dom.js';
import { hashOf } from './route.js';
import { on, resourceNamed, state } from './state.js';
import { amount, length, seconds, short } from './time.js';

// Milliseconds between looks for new output of a running job.
const EVERY = 2000;
const OVER = ['done', 'cancelled', 'out-of-time', 'reservation-over', 'lost', 'could-not-start'];
export const jobBadge = (job) => (job.state === 'done' && job.exit ? badge(`failed with exit code ${job.exit}`, 'bad') : badge(job.state));

// A broker names a resource `site/resource`, but its jobs name both apart.
const whereOf = ({ resource, site }) => (state.service.role === 'broker' ? [site, resource].filter(Boolean).join('/') : resource);
const capacityOf = (job) => amount(job.capacity, resourceNamed(whereOf(job))?.kind || '');
// As long as ids are in lists of the command line.
export const shortId = (id) => `${id.slice(0, 12)}…`;

export function jobTable(jobs) {
  return table('Jobs', ['job', 'state', 'where', 'capacity', `start (${state.zone})`, 'time limit', 'owner'], jobs.map((job) => [
    h('a', { href: hashOf(`job/${job.id}`), 'data-job': job.id }, job.name || shortId(job.id)), jobBadge(job), whereOf(job) || '–', capacityOf(job),
    job.started ? short(seconds(job.started)) : job.expected_start ? `expected ${short(seconds(job.expected_start))}` : '–', length(job.limit_seconds), job.owner]), { id: 'jobs' });
}

export function showJobs(main) {
  const list = h('div');
  fill(main, h('div.page', null, h('div.page-head', null, h('h1', null, 'Jobs')), list));
  async function load() {
    if (!state.user) {
      fill(list, h('div.empty', null, h('p', null, 'Sign in to see your jobs.'), h('a.button.primary', { href: hashOf('sign-in', { back: '/jobs' }) }, 'Sign in')));
      return;
    }
    try {
      const { jobs } = await busy(list, api.jobs({ owner: state.user?.name, limit: 100 }));
      fill(list, jobs.length ? jobTable(jobs.reverse()) : h('div.empty', null, h('p', null, 'No jobs. Submit one on the command line:'), h('pre', null, 'bookahead submit --reservation rsv_… job.sh')));
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
  const output = h('div', null, h('h2', null, 'Output'), streams.stdout, h('h2', null, 'Error output'), streams.stderr);
  // Streams that are being read, so that no piece is added twice.
  const following = new Set();
  let timer = 0;
  fill(main, page);

  async function load() {
    try {
      const job = await busy(page, api.job(id));
      draw(job);
      clearInterval(timer);
      // There are no events about output.
      if (job.state === 'running') timer = setInterval(followAll, EVERY);
      if (job.started) followAll();
    } catch (error) {
      fill(page, h('h1', null, 'Job'), h('p.error', { role: 'alert' }, error.message));
    }
  }

  const followAll = () => ['stdout', 'stderr'].forEach(follow);

  // Long output comes in pieces; only what is new is fetched.
  async function follow(stream) {
    const element = streams[stream];
    if (following.has(stream)) return;
    following.add(stream);
    try {
      for (let piece = 0; piece < 16; piece++) {
        const { text, next, size } = await api.output(id, stream, read[stream]);
        element.append(text);
        if (!next || next === read[stream]) break;
        read[stream] = next;
        if (next >= size) break;
      }
    } catch (error) {
      if (error.code === 'no-output') {
        // It is not asked for again: a job without output never has any.
        fill(output, h('h2', null, 'Output'), h('p.soft', null, error.message));
        return;
      }
      if (!element.textContent) element.textContent = `not available: ${error.message}`;
    }
    following.delete(stream);
  }

  function draw(job) {
    const facts = [['Owner', job.owner], ['Where', whereOf(job)], ['Capacity', capacityOf(job)], ['Time limit', length(job.limit_seconds)],
      ['Reservation', job.reservation && h('a', { href: hashOf(`reservation/${job.reservation}`) }, shortId(job.reservation))], ['Submitted', short(seconds(job.submitted))],
      ['Expected start', !job.started && job.expected_start && short(seconds(job.expected_start))], ['Started', job.started && short(seconds(job.started))],
      ['Ended', job.ended && short(seconds(job.ended))], ['Ran for', job.started && job.ended && length(seconds(job.ended) - seconds(job.started))],
      ['Number in the batch system', job.native_id], ['Priority', job.priority], ['Note', job.note], ['Detail', job.detail],
      ['Went back to the queue', job.restarts && (job.restarts === 1 ? 'once' : `${job.restarts} times`)],
      ['Lost at', job.attempts?.map((lost) => h('p', null, `${lost.site}, ${short(seconds(lost.at))}: ${lost.why}`))]];
    fill(page, h('p', null, h('a', { href: '#/jobs' }, '‹ Jobs')), h('div.page-head', null, h('h1', null, job.name || 'Job'), jobBadge(job), h('span.spring'),
      !OVER.includes(job.state) && h('button.button.danger', { type: 'button', 'data-action': 'cancel-job', onclick: cancel }, 'Cancel job')),
    h('dl.facts.flow', null, facts.filter(([, value]) => value).map(([key, value]) => h('div', null, h('dt', null, key), h('dd', null, value)))),
    output);
  }

  async function cancel() {
    if (await ask('Cancel this job?', h('p', null, 'It cannot be undone.'), [['', 'Keep it'], ['cancel', 'Cancel job', 'danger']]) !== 'cancel') return;
    await api.cancelJob(id).catch((error) => ask('Not cancelled', h('p', null, error.message), [['', 'Close']]));
    load();
  }
  load();
  const stop = on('event', (event) => (event.job === id || event.kind === 'reset') && load());
  return () => {
    clearInterval(timer);
    stop();
  };
}
