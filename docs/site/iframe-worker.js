/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Search for pages that are opened from a folder. Browsers start no worker from a file: there the search runs in a hidden
 * frame instead, which gets the few members of Worker that the theme uses. The theme looks for the name IFrameWorker.
 */
if (location.protocol === "file:") {
  window.IFrameWorker = class extends EventTarget {
    constructor(address) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      frame.title = "search";
      document.body.appendChild(frame);
      this.frame = frame.contentWindow;
      this.frame.document.write("<!doctype html><title>search</title>");
      this.frame.document.close();
      // Inside of the frame a worker's script finds these functions.
      this.frame.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", {data}));
      this.frame.importScripts = (...scripts) =>
        scripts.reduce((done, script) => done.then(() => this.load(new URL(script, address))), Promise.resolve());
      this.ready = this.load(address);
    }

    load(address) {
      return new Promise((resolve, reject) => {
        const script = this.frame.document.createElement("script");
        script.src = address;
        script.onload = resolve;
        script.onerror = () => reject(new Error(`cannot load ${address}`));
        this.frame.document.head.appendChild(script);
      });
    }

    postMessage(data) {
      this.ready.then(() => this.frame.dispatchEvent(new MessageEvent("message", {data})));
    }
  };
  window.Worker = window.IFrameWorker;
}
