// Fills very many rectangles by writing pixels: a canvas call for each of 100,000 boxes would take longer than a frame.

// Canvases store red in the lowest byte on all machines that browsers run on.
function packed(colour) {
  const value = parseInt(colour.slice(1), 16);
  return (0xff000000 | ((value & 0xff) << 16) | (value & 0xff00) | (value >> 16)) >>> 0;
}

let buffer = new Uint32Array(0);

// Replaces a strip of the canvas, all in device pixels: `top` and `height`, over its whole width. `batches` are lists of
// rectangles in units of the picture, the lowest first; the first must cover the strip.
export function writePixels(context, ratio, top, height, batches) {
  const { width } = context.canvas;
  if (width * height <= 0) return;
  if (buffer.length < width * height) buffer = new Uint32Array(width * height);
  for (const [fill, data, count] of batches) fillRects(width, top, height, ratio, fill, data, count);
  const bytes = new Uint8ClampedArray(buffer.buffer, 0, width * height * 4);
  context.putImageData(new ImageData(bytes, width, height), 0, top);
}

function fillRects(width, first, height, ratio, fill, data, count) {
  const isHatched = Array.isArray(fill);
  const colour = packed(isHatched ? fill[0] : fill), line = isHatched ? packed(fill[1]) : 0;
  const period = Math.round(7 * ratio);
  for (let at = 0; at < count * 4; at += 4) {
    const left = Math.max(0, Math.round(data[at] * ratio)), top = Math.max(0, Math.round(data[at + 1] * ratio) - first);
    const right = Math.min(width, Math.max(left + 1, Math.round((data[at] + data[at + 2]) * ratio)));
    const bottom = Math.min(height, Math.max(top + 1, Math.round((data[at + 1] + data[at + 3]) * ratio) - first));
    for (let y = top; y < bottom; y++) {
      const row = y * width;
      // A call of fill() costs more than a few writes.
      if (isHatched) for (let x = left; x < right; x++) buffer[row + x] = (x + y) % period ? colour : line;
      else if (right - left > 24) buffer.fill(colour, row + left, row + right);
      else for (let x = left; x < right; x++) buffer[row + x] = colour;
    }
  }
}
