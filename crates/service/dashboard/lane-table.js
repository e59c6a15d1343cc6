// The picture in words: tooltips, announcements, and the table behind it.

import { freeAt, KINDS, RUNNING, visible, WORDS } from './boxes.js';
import { h, table } from './dom.js';
import { state } from './state.js';
import { count, length, plural, range, seconds, short } from './time.js';

// A table with more rows helps nobody; the command line lists all.
const MOST_ROWS = 400;

const word = (block) => {
  const at = KINDS.indexOf(block.kind);
  if (block.kind === 'reservation') return block.state && block.state !== 'committed' ? `reserved, ${block.state}` : 'reserved';
  return at < 0 ? block.kind : WORDS[at];
};

const unit = (lane) => lane.kind || 'capacity';

export const describe = {
  free: freeAt,
  hit({ lane, at, free, piece }) {
    if (!piece) return [lane.name, `${count(free)} of ${count(lane.capacity)} ${unit(lane)} free`, short(Math.round(at / 60) * 60)];
    const block = lane.blocks[lane.ref[piece.at]];
    const [begin, end] = [seconds(block.begin), seconds(block.end)];
    const isBroken = block.condition && block.condition !== 'whole';
    return [block.name || block.owner || (KINDS.indexOf(block.kind) <= 1 && KINDS.indexOf(block.kind) >= RUNNING ? 'Job' : 'Booking'),
      `${word(block)}${isBroken ? `, ${block.condition}` : ''}${block.owner && block.name ? ` · ${block.owner}` : ''}`,
      `${count(block.capacity)} ${unit(lane)} of ${lane.name}`, `${range(begin, end)} (${length(end - begin)})`];
  },
  block: (lane, block) => `${lane.name}: ${word(block)}, ${block.name || block.owner || ''} ${count(block.capacity)} ${unit(lane)}, ${range(seconds(block.begin), seconds(block.end))}`,
  offer({ offer }) {
    const [first] = offer.slots;
    return ['Offer', offer.slots.map((slot) => `${count(slot.capacity)} of ${slot.resource}`).join(', '),
      range(seconds(first.begin), seconds(first.end)), offer.delayed ? `${plural(offer.delayed, 'job')} later` : 'nobody waits longer'];
  },
  word,
};

export function laneTable(chart) {
  let rest = MOST_ROWS, hidden = 0;
  const parts = chart.rows.map(({ lane }) => {
    const [first, last] = visible(lane, chart.from, chart.until);
    const rows = [];
    const seen = new Set();
    for (let at = first; at < last; at++) {
      const ref = lane.ref[at];
      if (lane.end[at] <= chart.from || seen.has(ref)) continue;
      seen.add(ref);
      if (rest-- <= 0) {
        hidden++;
        continue;
      }
      const block = lane.blocks[ref];
      const [begin, end] = [seconds(block.begin), seconds(block.end)];
      rows.push([word(block), block.name || '', block.owner || '', count(block.capacity), short(begin), short(end), length(end - begin)]);
    }
    const heads = ['what', 'name', 'owner', ['capacity'], `begin (${state.zone})`, 'end', 'length'];
    return [h('h2', null, lane.name, h('span.soft', null, ` ${count(freeAt(lane, chart.view().now))} of ${count(lane.capacity)} free now`)),
      rows.length ? table(`Occupied times of ${lane.name}`, heads, rows) : h('p.soft', null, 'Nothing in this view.')];
  });
  return [parts, hidden > 0 && h('p.soft', null, `${plural(hidden, 'more row')}; zoom in to see them.`)];
}
