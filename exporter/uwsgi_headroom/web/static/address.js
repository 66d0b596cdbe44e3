// Keeps the reader's choices in the page's URL, so that a copied URL shows the same view.

const chosen = new URLSearchParams(location.search);

/** The value chosen for a key, or null. */
export const recall = (key) => chosen.get(key);

/** Write a choice into the URL; null removes it. */
export function remember(key, value) {
  if (value === null || value === "") chosen.delete(key);
  else chosen.set(key, value);
  history.replaceState(null, "", location.pathname + query());
}

/** All choices, as the query of a URL. */
export const query = () => (chosen.size ? `?${chosen}` : "");
