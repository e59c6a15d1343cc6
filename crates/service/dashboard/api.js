// Calls of the service. All paths are relative, so the page works behind a prefix.

import { seconds, setClock, stamp } from './time.js';
import { state, tell } from './state.js';

export class Problem extends Error {
  constructor(document) {
    super(document.detail || document.title || 'the service refused');
    this.document = document;
    this.code = document.code;
    this.status = document.status;
  }
}

// Longer than `answer_within` of a site with a batch system (60 s), so a slow answer is not taken for none.
const TIMEOUT = 70000;

async function call(method, path, { body, key, version, type = 'json' } = {}) {
  const headers = { Accept: 'application/json' };
  if (body !== undefined) headers['Content-Type'] = 'application/json';
  if (method !== 'GET') {
    // Other origins cannot set this header without permission, which guards the cookie.
    headers['X-Bookahead-Page'] = '1';
    headers['Idempotency-Key'] = `"${key || newKey()}"`;
  }
  if (version !== undefined) headers['If-Match'] = `"${version}"`;
  let answer;
  try {
    answer = await fetch(path, {
      method, headers, body: body === undefined ? undefined : JSON.stringify(body),
      credentials: 'same-origin', signal: AbortSignal.timeout(TIMEOUT),
    });
  } catch (error) {
    const late = error.name === 'TimeoutError';
    throw new Problem({
      code: 'unavailable', status: 0, title: 'No answer',
      detail: late ? 'the service did not answer in time; try again' : 'the service cannot be reached; check the connection and try again',
    });
  }
  const now = answer.headers.get('Bookahead-Now');
  if (now) setClock(now, Number(answer.headers.get('Bookahead-Clock-Speed')) || 1);
  if (answer.ok) return type === 'answer' ? answer : answer.status === 204 ? null : answer.json();
  throw await problem(answer, path);
}

async function problem(answer, path) {
  const text = await answer.text();
  let document;
  try {
    document = JSON.parse(text);
  } catch {
    document = { detail: `the service answered with ${answer.status} ${answer.statusText}` };
  }
  if (answer.status === 401 && path !== 'v1/session') tell('signed-out');
  return new Problem({ status: answer.status, code: '', ...document });
}

export const newKey = () => Array.from(crypto.getRandomValues(new Uint8Array(12)), (byte) => byte.toString(16).padStart(2, '0')).join('');

// Repeats a call with the same key while the service is busy or the answer was lost, at most for as long as people wait.
async function repeat(make) {
  const key = newKey();
  for (let attempt = 0; ; attempt++) {
    try {
      return await make(key);
    } catch (error) {
      const again = ['busy', 'key-in-flight', 'late', 'no-batch-system', 'clock-in-doubt', 'change-under-way'].includes(error.code);
      if (!again || attempt >= 4) throw error;
      await new Promise((done) => setTimeout(done, 400 * 2 ** attempt));
    }
  }
}

const query = (values) => {
  const kept = Object.entries(values).filter(([, value]) => value !== undefined && value !== null && value !== '');
  return kept.length ? `?${new URLSearchParams(kept)}` : '';
};

const post = (path, body, options) => repeat((key) => call('POST', path, { body, key, ...options }));
const one = (id) => `v1/reservations/${encodeURIComponent(id)}`;

export const api = {
  schedule: (values) => call('GET', `v1/schedule${query(values)}`),
  resources: () => call('GET', 'v1/resources'),
  sites: () => call('GET', 'v1/sites'),
  health: () => call('GET', 'v1/health'),
  session: () => call('GET', 'v1/session'),
  signIn: (body) => call('POST', 'v1/session', { body }),
  signOut: () => call('DELETE', 'v1/session'),
  signOutEverywhere: () => call('DELETE', 'v1/sessions'),
  calendarAddress: () => call('GET', 'v1/calendar-address'),
  makeCalendarAddress: () => call('POST', 'v1/calendar-address'),
  withdrawCalendarAddress: () => call('DELETE', 'v1/calendar-address'),
  // Reads a time or a length as the command line does.
  read: (text, kind) => call('POST', 'v1/times', { body: { text, zone: state.zone, kind } }),
  probe: (request, most) => call('POST', 'v1/probes', { body: { request, most } }),
  async whatIf(slot) {
    const { resource, begin, end, capacity } = slot;
    const { jobs } = await call('POST', 'v1/what-if', { body: { resource, begin, end, capacity } });
    const at = (job, start) => ({ job: job.place, capacity: job.capacity, begin: start, end: stamp(seconds(start) + job.limit_seconds) });
    const late = jobs.filter((job) => seconds(job.after) > seconds(job.before));
    return {
      resource,
      before: jobs.map((job) => at(job, job.before)),
      after: jobs.map((job) => at(job, job.after)),
      delayed: late.map((job) => ({ job: job.place, delay_seconds: seconds(job.after) - seconds(job.before) })),
    };
  },
  reserve: (request, holdFor) => post('v1/reservations', { request, hold_for_seconds: holdFor }),
  reservations: (values) => call('GET', `v1/reservations${query(values)}`),
  reservation: (id) => call('GET', one(id)),
  history: (id) => call('GET', `${one(id)}/history`),
  commit: (id) => post(`${one(id)}/commit`),
  holdLonger: (id, forSeconds) => post(`${one(id)}/hold`, { hold_for_seconds: forSeconds }),
  extend: (id, version, end) => post(`${one(id)}/extend`, { end }, { version }),
  change: (id, version, request) => repeat((key) => call('PUT', one(id), { body: { request }, version, key })),
  release: (id, body) => post(`${one(id)}/release`, body),
  cancel: (id) => repeat((key) => call('DELETE', one(id), { key })),
  answerInvitation: (id, answer) => post(`${one(id)}/invitation`, { answer }),
  block: (user) => call('PUT', `v1/blocked-users${query({ user })}`),
  blocked: () => call('GET', 'v1/blocked-users'),
  unblock: (user) => call('DELETE', `v1/blocked-users${query({ user })}`),
  jobs: (values) => call('GET', `v1/jobs${query(values)}`),
  job: (id) => call('GET', `v1/jobs/${encodeURIComponent(id)}`),
  cancelJob: (id) => repeat((key) => call('DELETE', `v1/jobs/${encodeURIComponent(id)}`, { key })),
  usage: (values) => call('GET', `v1/usage${query(values)}`),
  async output(id, stream, from) {
    const answer = await call('GET', `v1/jobs/${encodeURIComponent(id)}/output${query({ stream, from })}`, { type: 'answer' });
    const header = (name) => Number(answer.headers.get(name));
    return { text: await answer.text(), next: header('Bookahead-Output-Next'), size: header('Bookahead-Output-Size') };
  },
};
