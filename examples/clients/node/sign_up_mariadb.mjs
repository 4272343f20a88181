// Signs people up, each with a welcome message, on MariaDB or MySQL with mysql2.
//
//     node sign_up_mariadb.mjs DATABASE_URL WELCOME.JSON NAME...

import mysql from "mysql2/promise";

import { Queue } from "./ichido_send.mjs";

const [url, file, ...names] = process.argv.slice(2);
const welcome = new Queue(file);
const connection = await mysql.createConnection(url);
try {
  for (const name of names) {
    try {
      await connection.beginTransaction();
      await connection.execute("insert into member (name) values (?)", [name]);
      await welcome.send((sql, values) => connection.execute(sql, values), { name }, { headers: { source: "web" } });
      if (name === "Mallory") throw new RangeError("we do not take everybody");
      await connection.commit();
      console.log(`${name} has signed up`);
    } catch (error) {
      await connection.rollback();
      if (!(error instanceof RangeError)) throw error;
      console.log(`${name} has not: ${error.message}`);
    }
  }
} finally {
  await connection.end();
}
