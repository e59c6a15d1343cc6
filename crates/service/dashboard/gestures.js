// Mouse, touch and keys of the chart.

const KEY_STEP = 0.12;

// `actions`: hover(x, y), leave(), click(x, y), move(direction) for the keyboard focus, enter(), escape().
export function listen(chart, actions) {
  const canvas = chart.top;
  const pointers = new Map();
  let dragged = 0, pinch = 0;

  canvas.addEventListener('wheel', (event) => {
    event.preventDefault();
    const lines = event.deltaMode === 1 ? 16 : 1;
    const [dx, dy] = [event.deltaX * lines, event.deltaY * lines];
    if (event.shiftKey || Math.abs(dx) > Math.abs(dy)) chart.pan(event.shiftKey && !dx ? dy : dx);
    else chart.zoom(Math.exp(Math.max(-0.4, Math.min(0.4, dy * (event.ctrlKey ? 0.01 : 0.0022)))), event.offsetX);
  }, { passive: false });

  canvas.addEventListener('pointerdown', (event) => {
    if (event.button > 0) return;
    pointers.set(event.pointerId, point(event));
    dragged = 0;
    pinch = spread();
    try {
      canvas.setPointerCapture(event.pointerId);
    } catch {
      // The pointer is already gone, for example after a very short touch.
    }
  });

  canvas.addEventListener('pointermove', (event) => {
    const before = pointers.get(event.pointerId);
    if (!before) {
      actions.hover(event.offsetX, event.offsetY);
      return;
    }
    const after = point(event);
    pointers.set(event.pointerId, after);
    if (pointers.size === 2) {
      const size = spread();
      if (pinch > 0 && size > 0) chart.zoom(pinch / size, middle());
      pinch = size;
      dragged = 10;
      return;
    }
    dragged += Math.hypot(after.x - before.x, after.y - before.y);
    if (dragged < 4) return;
    if (!canvas.classList.contains('dragging')) {
      canvas.classList.add('dragging');
      actions.leave();
    }
    chart.pan(before.x - after.x);
    actions.scroll(before.y - after.y);
  });

  const release = (event) => {
    const known = pointers.delete(event.pointerId);
    canvas.classList.remove('dragging');
    if (known && event.type === 'pointerup' && dragged < 4 && pointers.size === 0) actions.click(event.offsetX, event.offsetY);
    pinch = spread();
  };
  canvas.addEventListener('pointerup', release);
  canvas.addEventListener('pointercancel', release);
  canvas.addEventListener('pointerleave', () => actions.leave());

  canvas.addEventListener('keydown', (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const keys = {
      ArrowLeft: () => (event.shiftKey ? actions.move('earlier') : chart.pan(-chart.width * KEY_STEP)),
      ArrowRight: () => (event.shiftKey ? actions.move('later') : chart.pan(chart.width * KEY_STEP)),
      ArrowUp: () => actions.move('up'),
      ArrowDown: () => actions.move('down'),
      '[': () => actions.move('earlier'),
      ']': () => actions.move('later'),
      Enter: () => actions.enter(),
      ' ': () => actions.enter(),
      Escape: () => actions.escape(),
    };
    if (!keys[event.key]) return;
    event.preventDefault();
    keys[event.key]();
  });

  function point(event) {
    return { x: event.offsetX, y: event.offsetY };
  }

  function spread() {
    const [a, b] = [...pointers.values()];
    return b ? Math.hypot(a.x - b.x, a.y - b.y) : 0;
  }

  function middle() {
    const [a, b] = [...pointers.values()];
    return (a.x + b.x) / 2;
  }
}
