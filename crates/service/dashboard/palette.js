// Colours of the pictures, read from the style sheet, so that light, dark and print have one source.

const NAMES = ['ground', 'lane', 'line', 'line-strong', 'text', 'soft', 'faint', 'accent', 'now',
  'running', 'running-2', 'running-3', 'planned', 'planned-line', 'reserved', 'reserved-line', 'reserved-text',
  'held', 'held-line', 'held-text', 'foreign', 'foreign-line', 'foreign-text', 'good', 'good-line', 'good-text',
  'delay', 'delay-line', 'delay-text', 'broken', 'free', 'free-line'];

export function readPalette() {
  const style = getComputedStyle(document.documentElement);
  return Object.fromEntries(NAMES.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
}

// A browser may forbid pages to keep anything; the choice then lasts as long as the page.
function keep(theme) {
  try {
    if (theme) localStorage.setItem('bookahead-theme', theme);
    return localStorage.getItem('bookahead-theme');
  } catch {
    return null;
  }
}

const kept = keep();
if (kept) document.documentElement.dataset.theme = kept;

export function isDark() {
  const { theme } = document.documentElement.dataset;
  return theme ? theme === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches;
}

export function toggleTheme() {
  const theme = isDark() ? 'light' : 'dark';
  document.documentElement.dataset.theme = theme;
  keep(theme);
}
