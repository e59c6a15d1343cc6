// Two pens with the same methods: one draws on a canvas, one writes SVG. The drawing code does not know which it has.

import { writePixels } from './pixels.js';

export const FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif';

export class CanvasPen {
  constructor(context, ratio) {
    this.context = context;
    this.ratio = ratio;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.textBaseline = 'alphabetic';
  }

  // Whole device pixels are sharp, and much faster to fill than fractions.
  snap(value) {
    return Math.round(value * this.ratio) / this.ratio;
  }

  // Rectangles of one lane: batches of a fill, an array with x, y, width, height of each, and their number. In this order,
  // and only between `top` and `bottom`; the first covers all of that. A fill of two colours is a diagonal hatch.
  batches(top, bottom, list) {
    const first = Math.round(top * this.ratio);
    writePixels(this.context, this.ratio, first, Math.round(bottom * this.ratio) - first, list);
  }

  frame(x, y, width, height, { fill, stroke, line = 1, dash, radius = 0, alpha = 1 }) {
    const { context } = this;
    context.globalAlpha = alpha;
    context.beginPath();
    context.roundRect(x, y, Math.max(0, width), Math.max(0, height), Math.min(radius, width / 2, height / 2));
    if (fill) {
      context.fillStyle = fill;
      context.fill();
    }
    if (stroke) this.stroke(stroke, line, dash);
    context.globalAlpha = 1;
  }

  stroke(stroke, line, dash) {
    const { context } = this;
    context.strokeStyle = stroke;
    context.lineWidth = line;
    context.setLineDash(dash || []);
    context.stroke();
  }

  path(points, { stroke, fill, line = 1, dash, alpha = 1 }) {
    const { context } = this;
    context.globalAlpha = alpha;
    context.beginPath();
    points.forEach(([x, y], at) => (at ? context.lineTo(x, y) : context.moveTo(x, y)));
    if (fill) {
      context.fillStyle = fill;
      context.fill();
    }
    if (stroke) this.stroke(stroke, line, dash);
    context.globalAlpha = 1;
  }

  text(x, y, text, { fill, size = 11, weight = 400, align = 'left', room }) {
    const { context } = this;
    context.font = `${weight} ${size}px ${FONT}`;
    context.textAlign = align;
    context.fillStyle = fill;
    const shown = room === undefined ? text : this.cut(text, room);
    if (shown) context.fillText(shown, x, y);
  }

  // The longest beginning of a text that fits, with an ellipsis; nothing if that would be too short to read.
  cut(text, room) {
    if (this.context.measureText(text).width <= room) return text;
    let size = text.length - 1;
    while (size > 2 && this.context.measureText(`${text.slice(0, size)}…`).width > room) size--;
    return size > 2 ? `${text.slice(0, size)}…` : '';
  }

  clip(x, y, width, height, draw) {
    const { context } = this;
    context.save();
    context.beginPath();
    context.rect(x, y, width, height);
    context.clip();
    draw();
    context.restore();
  }
}

const escape = (text) => String(text).replace(/[&<>"]/g, (sign) => ({ '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' })[sign]);
const short = (number) => String(Math.round(number * 100) / 100);

export class SvgPen {
  constructor(width, height) {
    Object.assign(this, { width, height, parts: [], defs: [], hatches: new Map(), clips: 0 });
  }

  snap(value) {
    return value;
  }

  paint(fill) {
    if (!Array.isArray(fill)) return fill;
    const key = fill.join();
    if (!this.hatches.has(key)) {
      const id = `hatch${this.hatches.size}`;
      this.hatches.set(key, id);
      this.defs.push(`<pattern id="${id}" width="7" height="7" patternUnits="userSpaceOnUse"><rect width="7" height="7" fill="${fill[0]}"/>`
        + `<path d="M-1 8 8-1M-8 8 1-1M6 8 15-1" stroke="${fill[1]}" stroke-width="1.1"/></pattern>`);
    }
    return `url(#${this.hatches.get(key)})`;
  }

  rects(fill, data, count) {
    let path = '';
    for (let at = 0; at < count * 4; at += 4) {
      path += `M${short(data[at])} ${short(data[at + 1])}h${short(data[at + 2])}v${short(data[at + 3])}h${short(-data[at + 2])}z`;
    }
    if (path) this.parts.push(`<path fill="${this.paint(fill)}" d="${path}"/>`);
  }

  batches(top, bottom, list) {
    for (const [fill, data, count] of list) this.rects(fill, data, count);
  }

  look({ fill, stroke, line = 1, dash, alpha = 1 }) {
    return `fill="${fill ? this.paint(fill) : 'none'}"${stroke ? ` stroke="${stroke}" stroke-width="${line}"` : ''}`
      + `${dash?.length ? ` stroke-dasharray="${dash.join(' ')}"` : ''}${alpha < 1 ? ` opacity="${alpha}"` : ''}`;
  }

  frame(x, y, width, height, look) {
    const size = [x, y, Math.max(0, width), Math.max(0, height)].map(short);
    this.parts.push(`<rect x="${size[0]}" y="${size[1]}" width="${size[2]}" height="${size[3]}" rx="${look.radius || 0}" ${this.look(look)}/>`);
  }

  path(points, look) {
    this.parts.push(`<path d="M${points.map(([x, y]) => `${short(x)} ${short(y)}`).join('L')}" ${this.look(look)}/>`);
  }

  text(x, y, text, { fill, size = 11, weight = 400, align = 'left', room }) {
    // No measure without a canvas: 0.56 em is the mean width of a character in common sans-serif fonts.
    const most = room === undefined ? Infinity : Math.floor(room / (size * 0.56));
    if (most < 3) return;
    const shown = text.length > most ? `${text.slice(0, most - 1)}…` : text;
    const anchor = { left: 'start', center: 'middle', right: 'end' }[align];
    this.parts.push(`<text x="${short(x)}" y="${short(y)}" fill="${fill}" font-size="${size}" font-weight="${weight}" text-anchor="${anchor}">${escape(shown)}</text>`);
  }

  clip(x, y, width, height, draw) {
    const id = `clip${this.clips++}`;
    this.defs.push(`<clipPath id="${id}"><rect x="${x}" y="${y}" width="${width}" height="${height}"/></clipPath>`);
    this.parts.push(`<g clip-path="url(#${id})">`);
    draw();
    this.parts.push('</g>');
  }

  toString() {
    return `<svg xmlns="http://www.w3.org/2000/svg" width="${this.width}" height="${this.height}" viewBox="0 0 ${this.width} ${this.height}" `
      + `font-family="${escape(FONT)}"><defs>${this.defs.join('')}</defs>\n${this.parts.join('\n')}\n</svg>\n`;
  }
}
