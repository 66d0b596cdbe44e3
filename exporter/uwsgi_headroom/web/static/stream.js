// Receives the documents that the exporter sends once a second. Reconnects by itself after any failure.

const AGAIN_MS = 2000; // between attempts
const SILENT_MS = 3000; // without a document, the exporter counts as gone
const HALF_OPEN_MS = 10000; // without a document, the connection counts as gone: a laptop woke up, an exporter stopped

export class Stream {
  #url;
  #heard;
  #source = null;
  #timer = 0;
  #last = performance.now();
  #opened = 0;

  /** heard: called with every document, once `open` has been called. */
  constructor(heard) {
    this.#heard = heard;
    this.trouble = null;
  }

  /** Milliseconds since the last document. */
  get silentFor() {
    return performance.now() - this.#last;
  }

  get lost() {
    return this.silentFor > SILENT_MS;
  }

  open(url) {
    this.close();
    this.#url = url;
    this.#opened = performance.now();
    this.#source = new EventSource(url);
    this.#source.onmessage = (event) => this.#take(JSON.parse(event.data));
    this.#source.onerror = () => this.#fail();
    this.#timer = setInterval(() => this.#look(), 1000);
  }

  close() {
    this.#source?.close();
    this.#source = null;
    clearInterval(this.#timer);
  }

  #take(document) {
    this.#last = performance.now();
    this.trouble = null;
    this.#heard(document);
  }

  #look() {
    const waited = performance.now() - Math.max(this.#last, this.#opened);
    if (waited > (this.#source ? HALF_OPEN_MS : AGAIN_MS)) this.open(this.#url);
  }

  // The exporter limits the number of streams, and some proxies block streams: then fetch one document.
  async #fail() {
    this.#source?.close();
    this.#source = null;
    this.#opened = performance.now();
    try {
      const one = this.#url.replace(/^\/api\/v2\/events/, "/api/v2/servers/events").replace(/\/events(?=\?|$)/, "");
      const answer = await fetch(one, { signal: AbortSignal.timeout(AGAIN_MS) });
      const document = await answer.json();
      if (answer.ok) this.#take(document);
      else this.trouble = document.error;
    } catch {
      this.trouble = null; // the exporter does not answer, which `lost` reports
    }
  }
}
