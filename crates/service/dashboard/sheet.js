// The current view as an SVG file, drawn by the same code as on the screen.

import { drawAxis, drawLanes, drawSheet } from './draw.js';
import { download } from './dom.js';
import { drawOverlay } from './overlay.js';
import { SvgPen } from './pens.js';
import { AXIS } from './chart.js';
import { state } from './state.js';
import { count, range, stamp } from './time.js';

const LEFT = 176, HEAD = 36, FOOT = 40;

export function saveSvg(chart) {
  const scroll = chart.scroll;
  // On paper everything is visible, so nothing is scrolled.
  chart.scroll = 0;
  const view = { ...chart.view(), bottom: chart.content, left: LEFT, offset: HEAD };
  const marks = chart.marks();
  chart.scroll = scroll;
  const pen = new SvgPen(LEFT + chart.width + 16, HEAD + chart.content + FOOT);
  const { palette } = view;
  const names = view.rows.map((row) => ({
    row, head: row.lane.site || row.lane.short, lines: [row.lane.short, `${count(row.lane.capacity)} ${row.lane.kind}`],
  }));
  if (view.free) names.push({ row: view.free, head: `Free ${chart.summed[0]?.kind || 'capacity'}`, lines: [] });
  const legend = [
    ['running', { fill: palette.running }], ['planned', { fill: palette.planned, stroke: palette['planned-line'] }],
    ['reserved', { fill: palette.reserved, stroke: palette['reserved-line'] }],
    ['held', { fill: [palette.held, palette['held-line']], stroke: palette['held-line'] }],
    ['other, maintenance', { fill: [palette.foreign, palette['foreign-line']], stroke: palette['foreign-line'] }],
    ['offer, nobody waits longer', { fill: palette.good, stroke: palette['good-line'], dash: [3, 2] }],
    ['offer that delays jobs', { fill: palette.delay, stroke: palette['delay-line'], dash: [3, 2] }],
  ];
  drawSheet(pen, view, { title: `${state.service.name}: ${range(chart.from, chart.until)} (${state.zone})`, names, legend });
  pen.parts.push(`<g transform="translate(${LEFT} ${HEAD})">`);
  pen.clip(-30, 0, chart.width + 60, chart.content + AXIS, () => drawAxis(pen, view));
  pen.clip(0, AXIS, chart.width, chart.content, () => drawLanes(pen, view));
  drawOverlay(pen, view, { ...marks, hovered: null, focused: null });
  pen.parts.push('</g>');
  download(`schedule-${stamp(chart.from).slice(0, 10)}.svg`, 'image/svg+xml', pen.toString());
}
