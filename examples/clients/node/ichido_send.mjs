// Sends messages to a queue of ichido's, in the caller's transaction, with the statements that
// `ichido send --sql QUEUE --json` prints. Copy it: it needs nothing but Node.

import { randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";

/** A queue, as a file that `ichido send --sql QUEUE --json` has printed describes it. */
export class Queue {
  #how;

  constructor(file) {
    this.#how = JSON.parse(readFileSync(file, "utf8"));
  }

  /**
   * Sends a message in the transaction that `run(sql, values)` runs statements in. `headers` is an object of texts, `delay` is in
   * milliseconds. A message for a table is an object of columns. Returns the id of a message that goes to RabbitMQ, and null for others.
   */
  async send(run, message, { id = null, headers = null, group = null, unique = null, delay = null } = {}) {
    if (this.#how.kind === "broker") id ??= randomUUID();
    const sent = {
      id,
      payload: JSON.stringify(message),
      headers: headers && JSON.stringify(headers),
      group,
      unique,
      delay_ms: delay,
    };
    const values = this.#how.kind === "table" ? message : sent;
    for (const { sql, parameters } of this.#how.statements) {
      await run(sql, parameters.map((name) => values[name] ?? null));
    }
    return id;
  }

  /** Statements that wake idle workers; to be run after COMMIT, if they shall not wait for their next poll. */
  get afterCommit() {
    return this.#how.after_commit.map(({ sql }) => sql);
  }
}
