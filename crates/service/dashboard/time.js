// The service's clock, and times and lengths in the same formats as on the command line.

import { state } from './state.js';

// The service may run faster than real time (in a demo), so its time is computed from the last answer.
const clock = { base: Date.now() / 1000, at: performance.now(), rate: 1 };

export function setClock(now, rate) {
  const seconds = typeof now === 'string' ? Date.parse(now) / 1000 : now;
  if (!Number.isFinite(seconds)) return;
  const speed = rate || clock.rate;
  // Answers carry whole seconds. A smaller step than that is noise, and would make the now-line tremble.
  const off = Math.abs(seconds - nowSeconds());
  if (off < Math.max(1.5, speed * 0.5) && speed === clock.rate) return;
  Object.assign(clock, { base: seconds, at: performance.now(), rate: speed });
}

export const nowSeconds = () => clock.base + ((performance.now() - clock.at) / 1000) * clock.rate;
export const clockRate = () => clock.rate;

export const seconds = (text) => Date.parse(text) / 1000;
export const stamp = (at) => new Date(Math.round(at) * 1000).toISOString().replace('.000Z', 'Z');

const formats = new Map();

function format(name, options) {
  const key = `${name} ${state.zone}`;
  if (!formats.has(key)) formats.set(key, new Intl.DateTimeFormat('en-GB', { timeZone: state.zone, ...options }));
  return formats.get(key);
}

const FIELDS = { year: 'numeric', month: 'numeric', day: 'numeric', hour: 'numeric', minute: 'numeric', second: 'numeric' };
const offsets = new Map();

// Seconds that local time is ahead of UTC. Zones change their offset only at full quarters of an hour.
export function offsetAt(at) {
  const quarter = Math.floor(at / 900);
  const key = `${quarter} ${state.zone}`;
  if (!offsets.has(key)) {
    if (offsets.size > 5000) offsets.clear();
    const part = {};
    for (const { type, value } of format('fields', { ...FIELDS, hourCycle: 'h23' }).formatToParts(quarter * 900000)) {
      part[type] = Number(value);
    }
    const local = Date.UTC(part.year, part.month - 1, part.day, part.hour, part.minute, part.second) / 1000;
    offsets.set(key, local - quarter * 900);
  }
  return offsets.get(key);
}

// The instant at which local clocks show `local` (seconds since 1970, as if local time were UTC).
export function instantOf(local) {
  const guess = local - offsetAt(local);
  return local - offsetAt(guess);
}

const DAYS = ['Sun', 'Mon', 'Tue', 'Wed', 'Thu', 'Fri', 'Sat'];
const MONTHS = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec'];
const two = (number) => String(number).padStart(2, '0');
const local = (at) => new Date((at + offsetAt(at)) * 1000);
const dayNumber = (at) => Math.floor((at + offsetAt(at)) / 86400);

export function wallClock(at) {
  const date = local(at);
  const rest = date.getUTCSeconds();
  return `${two(date.getUTCHours())}:${two(date.getUTCMinutes())}${rest ? `:${two(rest)}` : ''}`;
}

export function hourMinute(at) {
  const date = local(at);
  return `${two(date.getUTCHours())}:${two(date.getUTCMinutes())}`;
}

// `Mon 16 Nov`
export function day(at) {
  const date = local(at);
  return `${DAYS[date.getUTCDay()]} ${date.getUTCDate()} ${MONTHS[date.getUTCMonth()]}`;
}

// `16 Nov`
export const date = (at) => day(at).slice(4);

export function month(at) {
  const date = local(at);
  return `${MONTHS[date.getUTCMonth()]} ${date.getUTCFullYear()}`;
}

// `today 09:00`, `tomorrow 09:00`, `Thu 09:00`, `16 Dec 09:00`, `2027-03-01 09:00`
export function short(at) {
  return `${dayName(at)} ${wallClock(at)}`;
}

function dayName(at) {
  const days = dayNumber(at) - dayNumber(nowSeconds());
  const date = local(at);
  let name = `${date.getUTCFullYear()}-${two(date.getUTCMonth() + 1)}-${two(date.getUTCDate())}`;
  if (days === -1) name = 'yesterday';
  else if (days === 0) name = 'today';
  else if (days === 1) name = 'tomorrow';
  else if (days > 1 && days < 7) name = DAYS[date.getUTCDay()];
  else if (Math.abs(days) <= 330) name = `${date.getUTCDate()} ${MONTHS[date.getUTCMonth()]}`;
  return name;
}

// Without seconds.
export const moment = (at) => `${dayName(at)} ${hourMinute(at)}`;

// The end of an interval, without its day if it is the day of the begin.
export function shortEnd(begin, end) {
  return dayNumber(begin) === dayNumber(end) ? wallClock(end) : short(end);
}

// Minutes only: for cards and labels, where seconds would be noise.
export function range(begin, end) {
  return `${moment(begin)} – ${dayNumber(begin) === dayNumber(end) ? hourMinute(end) : moment(end)}`;
}

// `Mon 2026-11-16 09:00+01:00`
export function wall(at) {
  const date = local(at);
  const offset = offsetAt(at);
  const size = Math.abs(offset);
  const zone = offset ? `${offset < 0 ? '−' : '+'}${two(Math.floor(size / 3600))}:${two((size / 60) % 60)}` : 'Z';
  const text = `${date.getUTCFullYear()}-${two(date.getUTCMonth() + 1)}-${two(date.getUTCDate())}`;
  return `${DAYS[date.getUTCDay()]} ${text} ${wallClock(at)}${zone}`;
}

// Can be typed into a form and means the same: `2026-11-16 09:00`.
export function typed(at) {
  const date = local(at);
  return `${date.getUTCFullYear()}-${two(date.getUTCMonth() + 1)}-${two(date.getUTCDate())} ${wallClock(at)}`;
}

export const midnight = (at) => instantOf(dayNumber(at) * 86400);
export const nextMidnight = (at) => instantOf((dayNumber(at) + 1) * 86400);

// The two largest units: `45s`, `3m 20s`, `1h 54m`, `4d 02h`.
export function length(value) {
  const whole = Math.max(0, Math.round(value));
  const [days, hours, minutes, rest] =
    [Math.floor(whole / 86400), Math.floor(whole / 3600) % 24, Math.floor(whole / 60) % 60, whole % 60];
  if (days) return hours ? `${days}d ${two(hours)}h` : `${days}d`;
  if (hours) return minutes ? `${hours}h ${two(minutes)}m` : `${hours}h`;
  if (minutes) return rest ? `${minutes}m ${two(rest)}s` : `${minutes}m`;
  return `${rest}s`;
}

// The remaining time of a hold: `4:59`. Rounded down, so that it never seems longer than it is.
export function countdown(value) {
  const whole = Math.max(0, Math.floor(value));
  const [hours, minutes, rest] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60, whole % 60];
  return hours ? `${hours}:${two(minutes)}:${two(rest)}` : `${minutes}:${two(rest)}`;
}

export const count = (number) => Math.round(number).toLocaleString('en-US');
// `1 processor`, `64 processors`; kinds are named in the plural where they have one.
export const amount = (number, kind) => `${count(number)} ${number === 1 ? kind.replace(/s$/, '') : kind}`.trim();
export const plural = (number, noun) => `${count(number)} ${noun}${number === 1 ? '' : 's'}`;

const STEPS = [60, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800];
const MONTH = 2629800;

// Marks at round local times: [{at, text, major}]. `most` is how many labels have room.
export function ticks(from, until, most) {
  const step = STEPS.find((one) => (until - from) / one <= most);
  return step ? evenTicks(from, until, step) : monthTicks(from, until, most);
}

function evenTicks(from, until, step) {
  const marks = [];
  // 1970 began on a Thursday; weeks begin on Monday.
  const shift = step === 604800 ? 4 * 86400 : 0;
  let at = Math.ceil((from + offsetAt(from) - shift) / step) * step + shift;
  for (; ; at += step) {
    const instant = instantOf(at);
    if (instant >= until) return marks;
    const isMidnight = at % 86400 === 0;
    if (instant >= from) marks.push({ at: instant, text: isMidnight ? day(instant) : hourMinute(instant), major: isMidnight });
  }
}

function monthTicks(from, until, most) {
  const each = [1, 2, 3, 6, 12, 24, 60].find((one) => (until - from) / (one * MONTH) <= most) || 120;
  const first = local(from);
  const marks = [];
  let number = Math.floor((first.getUTCFullYear() * 12 + first.getUTCMonth()) / each) * each;
  for (; ; number += each) {
    const instant = instantOf(Date.UTC(Math.floor(number / 12), number % 12) / 1000);
    if (instant >= until) return marks;
    if (instant >= from) marks.push({ at: instant, text: month(instant), major: number % 12 === 0 });
  }
}
