// The timeline page: toolbar, names of lanes, chart, legend, tooltip; and the range in the address.

import { buildLanes, visible } from './boxes.js';
import { Chart, AXIS } from './chart.js';
import { announce, fill, h } from './dom.js';
import { listen } from './gestures.js';
import { leftOf, want } from './live.js';
import { findBlockers, findJoined, piece } from './overlay.js';
import { placeMoves, placeOffers } from './places.js';
import { saveSvg } from './sheet.js';
import { describe, laneTable } from './lane-table.js';
import { on, change, state } from './state.js';
import { count, date as dateOf, day, length, nowSeconds, range, seconds, stamp } from './time.js';
import { replaceRoute, route } from './route.js';

const DAY = 86400;
// Where the now-line stands in a view that follows it, and how far it may run before the view moves on.
const NOW_AT = 0.14, NOW_MOST = 0.34;
// Milliseconds of a frame for packing.
const BUILD_BUDGET = 8;

export function showTimeline(main, side) {
  const chart = new Chart({ onView });
  const marks = { hovered: null, selected: null, focused: null, joined: new Map(), blockers: [], offers: [], moves: [] };
  let all = { of: null, lanes: [] }, building = null, held = [];
  let follows = true, span = DAY, addressTimer = 0, rangeTimer = 0, rangeShown = 0, table = false;
  const date = h('strong.date', { id: 'timeline-date' });
  const scale = h('span.soft', { id: 'timeline-span' });
  const names = h('div.names');
  const tip = h('div.tip', { role: 'tooltip', hidden: true });
  const summary = h('p.hidden', { id: 'timeline-summary' });
  const tables = h('div.tables', { id: 'timeline-table', hidden: true });
  const scroller = h('div.scroller', { id: 'timeline-scroller' }, names, chart.element);
  const filter = h('select', { id: 'timeline-filter', 'aria-label': 'Resources shown', onchange: () => setFilter(filter.value) });
  const tool = (id, text, label, act, extra) => h('button.tool', { id, type: 'button', title: label, 'aria-label': label, onclick: act, ...extra }, text);
  const tableButton = tool('show-table', 'Table', 'Show the same as a table', toggleTable, { 'aria-pressed': 'false' });
  const sizes = [['day', 'Day', 'One day (d)', 1], ['week', 'Week', 'One week (w)', 7], ['month', 'Month', 'One month (m)', 30]]
    .map(([id, text, label, days]) => [tool(`show-${id}`, text, label, () => show(days * DAY)), days * DAY]);
  const bar = h('div.toolbar', null, h('div.when', null, date, ' ', scale),
    h('div.group', null, tool('go-back', '‹', 'Earlier (left arrow)', () => chart.pan(-chart.width / 2)),
      tool('go-today', 'Today', 'Today (t)', today), tool('go-on', '›', 'Later (right arrow)', () => chart.pan(chart.width / 2))),
    h('div.group', null, sizes.map(([button]) => button)),
    h('div.group', null, tool('zoom-out', '−', 'Zoom out (−)', () => chart.zoom(1.5)), tool('zoom-in', '+', 'Zoom in (+)', () => chart.zoom(1 / 1.5))),
    filter, h('span.spring'), tableButton, tool('save-svg', 'SVG', 'Save this view as SVG', () => saveSvg(chart)));
  const legend = h('ul.legend', { 'aria-label': 'Legend' }, [
    ['running', 'running'], ['planned', 'planned'], ['reserved', 'reserved'], ['held', 'held'], ['foreign', 'other, maintenance'],
    ['good', 'offer, nobody waits longer'], ['delay', 'offer that delays jobs'], ['broken', 'broken, in the way'],
  ].map(([name, text]) => h('li', null, h(`span.swatch.${name}`, { 'aria-hidden': 'true' }), text)));
  const frame = h('section.timeline', { 'aria-label': 'Timeline' }, h('h1.hidden', null, 'Timeline'), bar, scroller, tables, legend, summary, tip);
  fill(main, h('div.split', null, frame, side));
  chart.me = state.user?.name;
  chart.marks = () => ({
    ...marks, held: held.map(({ hold, parts }) => ({ left: leftOf(hold), parts })), hoveredKey: state.hovered, chosenKey: state.chosen, selectedId: state.selected?.id,
  });

  // Packing is the costly step. Of a large schedule some lanes are packed in each frame, while the old ones are shown.
  function rebuild() {
    building = null;
    if (all.of === state.schedule) {
      showLanes();
      return;
    }
    const of = state.schedule, steps = buildLanes(of, all.lanes);
    building = steps;
    const go = () => {
      if (building !== steps) return;
      const stop = performance.now() + BUILD_BUDGET;
      let step;
      do step = steps.next(); while (!step.done && performance.now() < stop);
      if (!step.done) {
        // After the next frame, so that each has one part of the work only.
        requestAnimationFrame(() => setTimeout(go));
        return;
      }
      building = null;
      all = { of, lanes: step.value };
      showLanes();
    };
    go();
  }

  function showLanes() {
    const wantedNames = (route().params.resource || '').split(',').filter(Boolean);
    const { lanes } = all;
    const shown = wantedNames.length ? lanes.filter((lane) => wantedNames.includes(lane.name) || wantedNames.includes(lane.site)) : lanes;
    chart.heldIds = new Set(state.held.map((hold) => hold.reservation.id));
    chart.me = state.user?.name;
    chart.setLanes(shown);
    Object.assign(marks, { hovered: findAgain(marks.hovered), focused: findAgain(marks.focused) });
    marks.joined = findJoined(shown);
    held = state.held.map((hold) => ({ hold, parts: hold.reservation.slots.map((slot) => findSlot(hold.reservation.id, slot)).filter(Boolean) }));
    remark();
    select();
    drawNames();
    listFilters(lanes, wantedNames);
    if (table) fill(tables, laneTable(chart));
    summary.textContent = `${shown.length} resources. ${shown.map((lane) => `${lane.name}: ${count(Math.max(0, freeNow(lane)))} of ${count(lane.capacity)} free now`).join('. ')}. `
      + 'Up and down arrows choose a lane, shift with left and right a box, Enter shows it. The button Table shows the same as a table.';
  }
  const freeNow = (lane) => chart.lanes.length ? describe.free(lane, nowSeconds()) : lane.capacity;

  function remark() {
    marks.offers = placeOffers(chart.lanes, state.offers);
    marks.moves = placeMoves(chart.lanes, state.effect);
    marks.blockers = findBlockers(chart.lanes, state.blockers);
    chart.paint();
  }

  function drawNames() {
    let last = '';
    const labels = chart.rows.map((row) => {
      const { lane } = row;
      const head = lane.site !== last && lane.site ? lane.site : '';
      last = lane.site;
      const unit = lane.kind || 'capacity';
      const label = h('div.name', { 'data-lane': lane.name },
        head && h('strong', null, head), h('span', null, lane.short),
        h('span.faint', null, `${count(lane.capacity)} ${unit}`), lane.lost > 0 && h('span.warn', null, `⚠ ${count(lane.lost)} lost`));
      label.style.top = `${row.y}px`;
      label.style.height = `${row.height}px`;
      if (row.height < 72) label.classList.add('tight');
      return label;
    });
    if (chart.freeRow) {
      const total = chart.summed.reduce((sum, lane) => sum + lane.capacity, 0);
      const [{ name, site, kind }] = chart.summed;
      const whole = chart.summed.length === 1 ? name : chart.summed.every((lane) => lane.site === site) ? site : 'all sites';
      const label = h('div.name', null, h('strong', null, `Free ${kind || 'capacity'}`), h('span.faint', null, `${whole}, of ${count(total)}`));
      label.style.top = `${chart.freeRow.y}px`;
      label.style.height = `${chart.freeRow.height}px`;
      labels.push(label);
    }
    fill(names, labels);
  }

  function listFilters(lanes, wantedNames) {
    const sites = [...new Set(lanes.map((lane) => lane.site))];
    const options = ['', ...(sites.length > 1 ? sites : []), ...lanes.map((lane) => lane.name)];
    // An address can name several.
    if (wantedNames.length > 1) options.push(wantedNames.join(','));
    const key = options.join();
    if (filter.dataset.key !== key) {
      filter.dataset.key = key;
      fill(filter, options.map((name) => h('option', { value: name }, name.replaceAll(',', ', ') || 'All resources')));
    }
    filter.value = wantedNames.join(',');
    filter.hidden = lanes.length < 2;
  }

  function setFilter(value) {
    replaceRoute({ ...route().params, resource: value });
    rebuild();
  }

  // Pieces point into the lanes of the last schedule.
  function findAgain(old) {
    const lane = old && chart.lanes.find((one) => one.name === old.lane);
    const at = lane ? lane.begin.findIndex((begin, index) => begin === old.begin && lane.end[index] === old.end
      && lane.high[index] - lane.low[index] === old.high - old.low) : -1;
    return at < 0 ? null : piece(lane, at);
  }

  function findSlot(id, slot) {
    const lane = chart.lanes.find((one) => one.name === slot.resource);
    if (!lane) return null;
    const at = lane.ref.findIndex((ref) => lane.blocks[ref].id === id);
    return at < 0 ? null : piece(lane, at);
  }

  function onView(byUser) {
    if (byUser) follows = false;
    span = chart.until - chart.from;
    if (state.zone) want(chart.from, chart.until, chart.width);
    // Another text makes the browser compute the layout of the page, which is too much for each step of a movement.
    if (performance.now() - rangeShown > 100) showRange();
    else rangeTimer ||= setTimeout(showRange, 100);
    clearTimeout(addressTimer);
    addressTimer = setTimeout(() => {
      chart.top.setAttribute('aria-label', `Timeline of ${chart.lanes.length} resources, ${range(chart.from, chart.until)}`);
      const { from, until, ...rest } = route().params;
      replaceRoute(follows ? { ...rest, span: span === DAY ? undefined : Math.round(span) }
        : { ...rest, span: undefined, from: stamp(chart.from), until: stamp(chart.until) });
    }, 250);
  }

  function showRange() {
    clearTimeout(rangeTimer);
    [rangeTimer, rangeShown] = [0, performance.now()];
    const first = chart.from, last = chart.until - 1;
    date.textContent = span <= 1.5 * DAY ? day((first + last) / 2) : `${dateOf(first)} – ${dateOf(last)}`;
    scale.textContent = Math.abs(span - DAY) < 60 ? '24h' : length(Math.round(span / 60) * 60);
    for (const [button, size] of sizes) button.setAttribute('aria-pressed', String(Math.abs(span - size) < 60));
  }

  function show(size) {
    span = size;
    if (follows || (nowSeconds() > chart.from && nowSeconds() < chart.until)) today();
    else chart.setView(chart.from, chart.from + size);
  }

  function today() {
    follows = true;
    const from = nowSeconds() - span * NOW_AT;
    chart.setView(from, from + span, false);
  }

  function toggleTable() {
    table = !table;
    tableButton.setAttribute('aria-pressed', String(table));
    tables.hidden = !table;
    frame.classList.toggle('with-table', table);
    if (table) fill(tables, laneTable(chart));
    measure();
  }

  // A link, a card or a click has chosen a booking: outline it.
  function select() {
    marks.selected = null;
    if (!state.selected) return;
    for (const lane of chart.lanes) {
      const at = lane.ref.findIndex((ref) => {
        const block = lane.blocks[ref];
        return state.selected.id ? block.id === state.selected.id
          : lane.name === state.selected.lane && block.begin === state.selected.block?.begin && block.end === state.selected.block?.end
            && block.capacity === state.selected.block?.capacity;
      });
      if (at >= 0) {
        marks.selected = piece(lane, at);
        break;
      }
    }
    chart.paint();
  }

  function choose(lane, one) {
    const block = one && lane.blocks[lane.ref[one.at]];
    change('selected', { selected: block ? { id: block.id, lane: lane.name, block } : null });
    replaceRoute({ ...route().params, select: block?.id });
  }

  listen(chart, {
    hover(x, y) {
      const offer = offerAt(x, y);
      if ((offer?.key || null) !== state.hovered) change('offer-hover', { hovered: offer?.key || null });
      const found = chart.hit(x, y);
      marks.hovered = offer ? null : found?.piece || null;
      chart.top.style.cursor = offer || marks.hovered ? 'pointer' : '';
      if (found) showTip(x, y, offer ? describe.offer(offer) : describe.hit(found));
      else tip.hidden = true;
      chart.paint();
    },
    leave() {
      tip.hidden = true;
      marks.hovered = null;
      if (state.hovered) change('offer-hover', { hovered: null });
      chart.paint();
    },
    click(x, y) {
      const offer = offerAt(x, y);
      if (offer) {
        change('offer-choose', { wantedOffer: offer.key });
        return;
      }
      const found = chart.hit(x, y);
      choose(found?.lane, found?.piece);
    },
    scroll(dy) {
      // Reading or writing the position makes the browser compute the layout.
      if (dy) scroller.scrollTop += dy;
    },
    move: moveFocus,
    enter() {
      const row = marks.focused && chart.rows.find((one) => one.lane.name === marks.focused.lane);
      if (row) choose(row.lane, marks.focused);
    },
    escape() {
      marks.focused = null;
      choose(null, null);
    },
  });

  function offerAt(x, y) {
    const found = chart.hit(x, y);
    if (!found) return null;
    const { row } = found;
    const capacity = ((row.y - chart.scroll + row.height - 2 - y) * row.lane.capacity) / (row.height - 4);
    return marks.offers.find((offer) => offer.places.some((slot) => slot.lane === row.lane.name && slot.begin <= found.at && found.at < slot.end
      && slot.low <= capacity && capacity <= slot.high)) || null;
  }

  function moveFocus(direction) {
    const { rows } = chart;
    if (!rows.length) return;
    let at = rows.findIndex((row) => row.lane.name === marks.focused?.lane);
    if (direction === 'up' || direction === 'down') {
      at = at < 0 ? 0 : (at + (direction === 'up' ? rows.length - 1 : 1)) % rows.length;
      marks.focused = nearest(rows[at].lane, marks.focused ? marks.focused.begin : nowSeconds());
      if (!marks.focused) announce(`${rows[at].lane.name}: nothing in this view`);
      if (!marks.focused) marks.focused = { lane: rows[at].lane.name, begin: nowSeconds(), end: nowSeconds(), low: 0, high: 0, at: -1 };
    } else {
      const { lane } = rows[Math.max(0, at)];
      const step = direction === 'later' ? 1 : -1;
      const next = marks.focused && marks.focused.at >= 0 ? marks.focused.at + step : -1;
      marks.focused = next >= 0 && next < lane.count ? piece(lane, next) : marks.focused || nearest(lane, nowSeconds());
    }
    const row = rows.find((one) => one.lane.name === marks.focused?.lane);
    if (!row || marks.focused.at < 0) return;
    if (marks.focused.end < chart.from || marks.focused.begin > chart.until) {
      chart.setView(marks.focused.begin - span / 2, marks.focused.begin + span / 2);
    }
    scroller.scrollTop = Math.max(0, Math.min(row.y - AXIS, Math.max(scroller.scrollTop, row.y + row.height - chart.height)));
    announce(describe.block(row.lane, row.lane.blocks[row.lane.ref[marks.focused.at]]));
    chart.paint();
  }

  function nearest(lane, at) {
    const [first, last] = visible(lane, chart.from, chart.until);
    let best = null;
    for (let index = first; index < last; index++) {
      if (best === null || Math.abs(lane.begin[index] - at) < Math.abs(lane.begin[best] - at)) best = index;
    }
    return best === null ? null : piece(lane, best);
  }

  function showTip(x, y, lines) {
    const key = lines.join('\n');
    if (tip.dataset.key !== key) {
      tip.dataset.key = key;
      fill(tip, h('strong', null, lines[0]), lines.slice(1).filter(Boolean).map((line) => h('span', null, line)));
    }
    tip.hidden = false;
    const box = chart.top.getBoundingClientRect();
    const left = Math.min(box.left + x + 14, innerWidth - tip.offsetWidth - 8);
    const top = box.top + y + 18 + tip.offsetHeight > innerHeight ? box.top + y - tip.offsetHeight - 12 : box.top + y + 18;
    tip.style.transform = `translate(${Math.round(left)}px, ${Math.round(top)}px)`;
  }

  function measure() {
    const width = scroller.clientWidth - names.offsetWidth;
    if (width > 40) chart.resize(width, scroller.clientHeight);
    drawNames();
    showRange();
  }

  scroller.addEventListener('scroll', () => {
    chart.scroll = scroller.scrollTop;
    chart.paint();
  });
  const observer = new ResizeObserver(measure);
  observer.observe(scroller);
  const { params } = route();
  span = Number(params.span) || DAY;
  rebuild();
  measure();
  if (params.from && params.until && seconds(params.until) > seconds(params.from)) {
    follows = false;
    chart.setView(seconds(params.from), seconds(params.until), false);
  } else {
    today();
  }
  chart.draw();

  // The now-line and countdowns move; the boxes below need no new drawing.
  const clock = setInterval(() => {
    if (document.hidden) return;
    if (follows && nowSeconds() > chart.from + span * NOW_MOST) today();
    else chart.paint();
  }, 250);
  const stops = [
    on('schedule', rebuild), on('held', rebuild), on('session', rebuild), on('theme', () => chart.setTheme()),
    on('offers', () => { remark(); reveal(); }), on('offer-hover', () => chart.paint()), on('effect', remark), on('selected', select),
    on('keys', (key) => ({ t: today, d: () => show(DAY), w: () => show(7 * DAY), m: () => show(30 * DAY), '+': () => chart.zoom(1 / 1.5), '-': () => chart.zoom(1.5) })[key]?.()),
    on('show-range', ([from, until]) => chart.setView(from, until)),
  ];

  // Offers beyond the right edge would be missed: widen the view to show them.
  function reveal() {
    const ends = marks.offers.flatMap((offer) => offer.places.map((slot) => slot.end));
    const last = Math.max(...ends);
    if (ends.length && last > chart.until) chart.setView(chart.from, last + (last - chart.from) * 0.05);
  }

  return () => {
    stops.forEach((stop) => stop());
    clearInterval(clock);
    building = null;
    clearTimeout(addressTimer);
    clearTimeout(rangeTimer);
    observer.disconnect();
    change('offer-hover', { hovered: null });
  };
}
