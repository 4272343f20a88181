// Signs people up, each with a welcome message, on PostgreSQL with pg.
//
//     node sign_up_postgres.mjs DATABASE_URL WELCOME.JSON NAME...

import pg from "pg";

import { Queue } from "./ichido_send.mjs";

const [url, file, ...names] = process.argv.slice(2);
const welcome = new Queue(file);
const client = new pg.Client(url);
await client.connect();
try {
  for (const name of names) {
    try {
      await client.query("begin");
      await client.query("insert into member (name) values ($1)", [name]);
      await welcome.send((sql, values) => client.query(sql, values), { name }, { headers: { source: "web" } });
      if (name === "Mallory") throw new RangeError("we do not take everybody");
      await client.query("commit");
      console.log(`${name} has signed up`);
    } catch (error) {
      await client.query("rollback");
      if (!(error instanceof RangeError)) throw error;
      console.log(`${name} has not: ${error.message}`);
    }
  }
  for (const sql of welcome.afterCommit) await client.query(sql);
} finally {
  await client.end();
}
