// A browser starts no Worker for a page that was opened from a file (file://), and the search of
// the site runs in one. There a hidden frame runs the worker's script instead. mkdocs.yml names
// this file so that the theme does not load a script for it from another server.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      this.started = new Promise((resolve) => {
        this.frame.addEventListener("load", () => {
          const worker = this.frame.contentWindow;
          worker.postMessage = (data) =>
            this.dispatchEvent(new MessageEvent("message", { data }));
          const script = worker.document.createElement("script");
          script.addEventListener("load", () => resolve(worker));
          script.src = url;
          worker.document.body.append(script);
        }, { once: true });
      });
      this.frame.srcdoc = "<body></body>";
      document.body.append(this.frame);
    }

    async postMessage(data) {
      (await this.started).dispatchEvent(new MessageEvent("message", { data }));
    }

    terminate() {
      this.frame.remove();
    }
  };
}
