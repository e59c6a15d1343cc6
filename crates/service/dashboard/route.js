// Views live in the hash of the address, so that a view can be sent to a colleague: #/timeline?from=…&until=…

export function route() {
  const [path, query] = location.hash.replace(/^#\/?/, '').split('?');
  const [view, id] = path.split('/').map(decode);
  return { view: view || 'timeline', id, params: Object.fromEntries(new URLSearchParams(query || '')) };
}

// An address that was cut off in a mail may end in half a character.
function decode(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

export function hashOf(view, params = {}) {
  const kept = Object.entries(params).filter(([, value]) => value !== undefined && value !== null && value !== '');
  return `#/${view}${kept.length ? `?${new URLSearchParams(kept).toString().replaceAll('%3A', ':')}` : ''}`;
}

// Changes the parameters of the view without an entry in the history: panning is no navigation.
export function replaceRoute(params) {
  const { view, id } = route();
  const hash = hashOf(id ? `${view}/${id}` : view, params);
  if (hash !== location.hash) history.replaceState(null, '', hash);
}

export function go(view, params) {
  location.hash = hashOf(view, params);
}
