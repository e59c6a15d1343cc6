// What the page knows, and who wants to hear when it changes. Views read it and never keep copies.

export const state = {
  service: { name: '', role: 'site', version: '' },
  user: null,
  signIn: { token: true, oidc: false, choose_user: false },
  zone: Intl.DateTimeFormat().resolvedOptions().timeZone || 'UTC',
  resources: [],
  sites: [],
  schedule: { resources: [] },
  // Seconds since 1970 that `schedule` covers.
  covered: { from: 0, until: 0 },
  held: [],
  // Own holds that ran out while the page was open.
  expired: [],
  // Offers of the last request, the one under the pointer, the chosen one, and what the chosen one would delay.
  offers: [],
  hovered: null,
  chosen: null,
  effect: [],
  blockers: [],
  selected: null,
};

const listeners = new Map();

// Returns a function that stops listening.
export function on(topic, listener) {
  if (!listeners.has(topic)) listeners.set(topic, new Set());
  listeners.get(topic).add(listener);
  return () => listeners.get(topic).delete(listener);
}

export function tell(topic, value) {
  for (const listener of [...(listeners.get(topic) || [])]) listener(value);
}

export function change(topic, values) {
  Object.assign(state, values);
  tell(topic);
}

export function resourceNamed(name) {
  return state.resources.find((one) => one.name === name);
}

// A broker names a resource `site/resource`; a site has only the second half.
export function siteOf(name) {
  const at = name.indexOf('/');
  return at < 0 ? state.service.name : name.slice(0, at);
}

export function shortName(name) {
  return name.slice(name.indexOf('/') + 1);
}
