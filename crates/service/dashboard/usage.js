// Usage: booked, kept and used capacity as a table with small bars.

import { api } from './api.js';
import { busy, fill, h, select, table } from './dom.js';
import { replaceRoute, route } from './route.js';
import { state } from './state.js';
import { count, day, instantOf, nowSeconds, offsetAt, seconds, stamp } from './time.js';

const BY = [['user', 'by user'], ['project', 'by project'], ['month', 'by month'], ['site', 'by site'], ['resource', 'by resource'], ['user,month', 'by user and month'], ['project,month', 'by project and month']];
const RANGES = [['0', 'this month'], ['1', 'last month'], ['3', 'last 3 months'], ['12', 'last 12 months']];

export function showUsage(main) {
  const { params } = route();
  const by = select(BY, params.by || 'user', { id: 'usage-by', 'aria-label': 'Group by' });
  const span = select(RANGES, params.months || '0', { id: 'usage-range', 'aria-label': 'Time' });
  const body = h('div', { id: 'usage' });
  const note = h('span.soft');
  fill(main, h('div.page', null, h('div.page-head', null, h('h1', null, 'Usage'), note), h('div.filters', null, by, span), body));

  async function load() {
    replaceRoute({ by: by.value, months: span.value });
    const [from, until] = months(Number(span.value));
    try {
      const usage = await busy(body, api.usage({ by: by.value, from: stamp(from), until: stamp(until), zone: state.zone }));
      note.textContent = `${day(seconds(usage.from))} – ${day(seconds(usage.until) - 1)}`;
      draw(usage);
    } catch (error) {
      fill(body, h('p.error', { role: 'alert' }, error.message));
    }
  }

  function draw(usage) {
    const kinds = [...new Set(usage.rows.map((row) => row.kind))];
    fill(body, !kinds.length && h('p.empty', null, 'Nothing was used in this time.'), kinds.map((kind) => {
      const rows = usage.rows.filter((row) => row.kind === kind).sort((a, b) => b.booked_unit_hours - a.booked_unit_hours);
      const most = Math.max(...rows.map((row) => Math.max(row.booked_unit_hours, row.job_unit_hours)), 0.001);
      const total = usage.totals.find((row) => row.kind === kind);
      const line = (row, isTotal) => [...usage.by.map((key) => (isTotal ? (key === usage.by[0] ? 'all' : '') : row[key] || '–')),
        isTotal ? hours(row.booked_unit_hours) : bars(row, most), hours(row.kept_unit_hours), hours(row.job_unit_hours), whole(row.reservations), whole(row.cancelled), whole(row.expired), whole(row.jobs)];
      const heads = [...usage.by, `booked ${kind.replace(/s$/, '')}-hours`, ['kept'], ['used by jobs'], ['bookings'], ['cancelled'], ['expired'], ['jobs']];
      return h('section', { 'data-kind': kind }, h('h2', null, kind.slice(0, 1).toUpperCase() + kind.slice(1) || 'Other'),
        table(`Usage of ${kind}`, heads, [...rows.slice(0, 200).map((row) => line(row)), ...(total && rows.length > 1 ? [Object.assign(line(total, true), { total: true })] : [])]),
        rows.length > 200 && h('p.soft', null, `${rows.length - 200} more rows; the command line lists all: bookahead usage`));
    }), kinds.length > 0 && h('p.soft', null, 'Bars: booked, and below it used by jobs. Kept is what is left of the booked hours after cancellations, early releases and failures.',
      usage.complete_since && ` Usage before ${day(seconds(usage.complete_since))} is not recorded completely.`));
  }

  by.addEventListener('change', load);
  span.addEventListener('change', load);
  load();
}

const hours = (value) => {
  const digits = value < 10 ? 1 : 0;
  return value > 0 ? value.toLocaleString('en-US', { minimumFractionDigits: digits, maximumFractionDigits: digits }) : '–';
};
const whole = (value) => (value ? count(value) : '–');

function bars(row, most) {
  const one = (value, name) => {
    const inner = h(`span.${name}`);
    inner.style.width = `${Math.max(value > 0 ? 1 : 0, (100 * value) / most)}%`;
    return inner;
  };
  return h('span.usage-bar', null, h('span.track', { 'aria-hidden': 'true' }, one(row.booked_unit_hours, 'booked'), one(row.job_unit_hours, 'used')), hours(row.booked_unit_hours));
}

// Whole months of local time; 0 is this month.
function months(back) {
  const now = nowSeconds();
  const date = new Date((now + offsetAt(now)) * 1000);
  const at = (shift) => instantOf(Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + shift) / 1000);
  return back === 0 ? [at(0), at(1)] : back === 1 ? [at(-1), at(0)] : [at(1 - back), at(1)];
}
