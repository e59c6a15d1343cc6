// Fills very many rectangles by writing pixels: a canvas call for each of 100,000 boxes would take longer than a frame.

// Canvases store red in the lowest byte on all machines that browsers run on.
function packed(colour) {
  const value = parseInt(colour.slice(1), 16);
  return (0xff000000 | ((value & 0xff) << 16) | (value & 0xff00) | (value >> 16)) >>> 0;
}

export class Pixels {
  constructor() {
    this.canvas = document.createElement('canvas');
  }

  begin(width, height) {
    const { canvas } = this;
    if (!this.image || canvas.width !== width || canvas.height !== height) {
      canvas.width = width;
      canvas.height = height;
      this.context = canvas.getContext('2d');
      this.image = this.context.createImageData(width, height);
      this.data = new Uint32Array(this.image.data.buffer);
    }
    this.data.fill(0);
  }

  rects(fill, data, count, ratio) {
    const { width, height } = this.canvas;
    const isHatched = Array.isArray(fill);
    const colour = packed(isHatched ? fill[0] : fill), line = isHatched ? packed(fill[1]) : 0;
    const period = Math.round(7 * ratio);
    for (let at = 0; at < count * 4; at += 4) {
      const left = Math.max(0, Math.round(data[at] * ratio)), top = Math.max(0, Math.round(data[at + 1] * ratio));
      const right = Math.min(width, Math.max(left + 1, Math.round((data[at] + data[at + 2]) * ratio)));
      const bottom = Math.min(height, Math.max(top + 1, Math.round((data[at + 1] + data[at + 3]) * ratio)));
      for (let y = top; y < bottom; y++) {
        const row = y * width;
        // A call of fill() costs more than a few writes.
        if (right - left > 24 && !isHatched) this.data.fill(colour, row + left, row + right);
        else if (isHatched) for (let x = left; x < right; x++) this.data[row + x] = (x + y) % period ? colour : line;
        else for (let x = left; x < right; x++) this.data[row + x] = colour;
      }
    }
  }

  end(context, ratio) {
    this.context.putImageData(this.image, 0, 0);
    context.drawImage(this.canvas, 0, 0, this.canvas.width / ratio, this.canvas.height / ratio);
  }
}
