// Layouts, made in a worker where the browser lets a page have one.

class LayoutService {
  constructor(graph) {
    this.waiting = new Map();
    this.last = 0;
    this.graph = graph;
    this.done = [];
    try {
      const text = `${find("#engine").textContent}\nserveLayouts(self);`;
      const url = URL.createObjectURL(new Blob([text], { type: "text/javascript" }));
      this.worker = new Worker(url);
      this.worker.onmessage = ({ data: [number, picture] }) => this.give(number, picture);
      this.worker.onerror = event => { event.preventDefault(); this.goOnHere(); };
      this.worker.postMessage([0, graph]);
    } catch { this.goOnHere(); }
  }

  /** Do without a worker: pages in some frames may have none. */
  goOnHere() {
    this.worker?.terminate();
    this.worker = null;
    this.engine = new Engine(this.graph);
    for (const command of this.done) this.engine.do(command);
    for (const [number, { command }] of [...this.waiting])
      this.give(number, this.engine.do(command));
  }

  /** The picture after a command, or null if that changes nothing. */
  ask(command) {
    const number = ++this.last;
    return new Promise(resolve => {
      this.waiting.set(number, { command, resolve });
      if (this.worker) this.worker.postMessage([number, command]);
      else this.give(number, this.engine.do(command));
    });
  }

  give(number, picture) {
    const { command, resolve } = this.waiting.get(number);
    this.waiting.delete(number);
    if (this.worker) this.done.push(command);
    resolve(picture);
  }
}
