// Narrow screens: Ask and own bookings first, then the lanes as a list of days with a strip for each resource.

import { api } from './api.js';
import { buildLanes, freeAt, pieceAt, visible } from './boxes.js';
import { drawLanes } from './draw.js';
import { drawOverlay, findBlockers, piece } from './overlay.js';
import { placeMoves, placeOffers } from './places.js';
import { fill, h } from './dom.js';
import { want } from './live.js';
import { item } from './mine.js';
import { readPalette } from './palette.js';
import { CanvasPen } from './pens.js';
import { change, on, state } from './state.js';
import { count, day, hourMinute, midnight, nextMidnight, nowSeconds } from './time.js';

const DAYS = 5, STRIP = 26, NAME = 15, GAP = 5;

export function showPhone(main, side) {
  const own = h('section', { 'aria-label': 'My next bookings', id: 'next-bookings' });
  const list = h('div.days', { id: 'days' });
  fill(main, h('div.phone', null, h('h1.hidden', null, 'Ask and timeline'), side, own, h('section', { 'aria-label': 'Days' }, h('h2', null, 'Days'), list)));
  let lanes = [], packed = null, palette = readPalette();

  function days() {
    const found = [];
    let from = midnight(nowSeconds());
    for (let at = 0; at < DAYS; at++) {
      const until = nextMidnight(from);
      found.push([from, until]);
      from = until;
    }
    return found;
  }

  function draw() {
    if (packed !== state.schedule) {
      const steps = buildLanes(state.schedule, lanes);
      let step;
      do step = steps.next(); while (!step.done);
      [packed, lanes] = [state.schedule, step.value];
    }
    palette = readPalette();
    const all = days();
    if (list.children.length !== all.length || list.dataset.from !== String(all[0][0])) {
      list.dataset.from = String(all[0][0]);
      fill(list, all.map(([from]) => h('section.day', null, h('h3', null, day(from), h('span.all-free', null, ' everything is free')), h('canvas', { role: 'img' }), h('p.soft.scale', { 'aria-hidden': 'true' }, ['00', '06', '12', '18', '24'].map((hour) => h('span', null, hour))))));
      [...list.querySelectorAll('canvas')].forEach((canvas, at) => canvas.addEventListener('click', (event) => tap(event, all[at])));
    }
    const marks = { offers: placeOffers(lanes, state.offers), moves: placeMoves(lanes, state.effect), blockers: findBlockers(lanes, state.blockers) };
    all.forEach((range, at) => drawDay(list.children[at].querySelector('canvas'), range, marks));
  }

  function viewOf([from, until], width) {
    // Only what is in use that day: a phone has no room for empty lanes.
    const isUsed = (lane) => { const [first, last] = visible(lane, from, until); return last > first || lane.levels; };
    const offered = new Set(state.offers.flatMap((offer) => offer.slots.map((slot) => slot.resource)));
    const rows = lanes.filter((lane) => isUsed(lane) || (offered.has(lane.name) && from < nowSeconds() + 86400)).map((lane, at) => ({ lane, top: at * (STRIP + NAME + GAP) + NAME, height: STRIP }));
    const bottom = rows.length * (STRIP + NAME + GAP);
    return { from, until, width, axis: 0, bottom, rows, free: null, palette, now: nowSeconds(), me: state.user?.name, room: width / 4.5 };
  }

  function drawDay(canvas, range, marks) {
    const width = list.clientWidth - 2;
    if (width < 50) return;
    const view = viewOf(range, width);
    const section = canvas.parentElement;
    section.classList.toggle('free-day', !view.rows.length);
    if (!view.rows.length) return;
    const ratio = Math.min(3, devicePixelRatio || 1);
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(view.bottom * ratio);
    canvas.style.width = `${width}px`;
    canvas.style.height = `${view.bottom}px`;
    const pen = new CanvasPen(canvas.getContext('2d'), ratio);
    drawLanes(pen, view);
    // A day's strip has no head for the now-line's time.
    drawOverlay(pen, view, { ...marks, joined: new Map(), held: [], hoveredKey: state.hovered, chosenKey: state.chosen });
    for (const { lane, top } of view.rows) pen.text(0, top - 4, `${lane.name} ${count(lane.capacity)}`, { fill: palette.soft, size: 11 });
    const middle = (range[0] + range[1]) / 2;
    canvas.setAttribute('aria-label', `${day(range[0])}: ${lanes.map((lane) => `${lane.name} ${count(freeAt(lane, middle))} free at ${hourMinute(middle)}`).join(', ')}`);
  }

  function tap(event, range) {
    const view = viewOf(range, list.clientWidth - 2);
    const row = view.rows.find((one) => event.offsetY >= one.top - 4 && event.offsetY <= one.top + one.height + 4);
    if (!row) return;
    const at = range[0] + (event.offsetX * (range[1] - range[0])) / view.width;
    const perPixel = row.lane.capacity / (row.height - 4);
    const index = pieceAt(row.lane, at, (row.top + row.height - 2 - event.offsetY) * perPixel, ((range[1] - range[0]) / view.width) * 8, 10 * perPixel);
    if (index < 0) return;
    const block = row.lane.blocks[row.lane.ref[piece(row.lane, index).at]];
    change('selected', { selected: { id: block.id, lane: row.lane.name, block } });
    side.scrollIntoView();
  }

  async function loadOwn() {
    if (!state.user) {
      fill(own, h('h2', null, 'My bookings'), h('p', null, h('a', { href: '#/sign-in' }, 'Sign in'), ' to see your bookings.'));
      return;
    }
    try {
      const { reservations } = await api.reservations({ owner: state.user.name, state: 'committed,active', limit: 3 });
      fill(own, h('div.title-row', null, h('h2', null, 'My bookings'), h('a', { href: '#/mine' }, 'All')), reservations.length ? reservations.map(item) : h('p.soft', null, 'None to come.'));
    } catch {
      // Shown again with the next event.
    }
  }

  const load = () => {
    const all = days();
    want(all[0][0], all[DAYS - 1][1], list.clientWidth * DAYS);
  };
  draw();
  load();
  loadOwn();
  addEventListener('resize', draw);
  const timer = setInterval(() => { if (!document.hidden) draw(); }, 5000);
  const stops = [on('schedule', draw), on('offers', draw), on('offer-hover', draw), on('effect', draw), on('theme', draw), on('session', loadOwn),
    on('event', (event) => (event.kind === 'reset' || event.owner === state.user?.name) && loadOwn())];
  return () => {
    clearInterval(timer);
    removeEventListener('resize', draw);
    stops.forEach((stop) => stop());
  };
}
