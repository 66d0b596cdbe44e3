// What a reader has chosen stands in the page's address, so that a copy of it shows the same.

const chosen = new URLSearchParams(location.search);

/** What was chosen for a key; null if nothing was. */
export const recall = (key) => chosen.get(key);

/** Write it into the address; null takes it out. */
export function remember(key, value) {
  if (value === null || value === "") chosen.delete(key);
  else chosen.set(key, value);
  history.replaceState(null, "", location.pathname + query());
}

/** All of it, as it stands in an address. */
export const query = () => (chosen.size ? `?${chosen}` : "");
