//! Looks at a table that may become a queue, explains how its rows would be claimed, and adds what it lacks. All looking is
//! done in transactions that cannot write.

use ichido::{
    Queue, Table,
    adopt::{
        Adopt, ClaimPlan, Column, Counts, FoundTable, Holds, MOST_VALUES, TableLook, TableName, UniqueKey, listed,
        plain_default,
    },
    error::Result,
};
use ichido_sql::{ClaimIndex, OwnerIndex, Sample, StatusColumn};
use sqlx::{AssertSqlSafe, PgConnection, Row, postgres::PgRow};

use crate::{
    Postgres,
    catalog::{self, full_name},
    connect::setup_error,
    pooler::{self, OwnTx},
    quote,
    statements::{self, Rows, Statements},
};

/// What a new owner column is.
const OWNER_KIND: &str = "uuid";

/// What a new status column is.
const STATUS_KIND: &str = "varchar(10)";

/// Longer names are cut off by the server.
const LONGEST_NAME: usize = 63;

impl Adopt for Postgres {
    async fn tables(&self, schema: Option<&str>) -> Result<Vec<FoundTable>> {
        let mut tx = self.read_only().await?;
        let tables = sqlx::query(
            "select c.relname::text, c.relkind::text, c.relpersistence::text, c.oid::bigint::text from pg_class c join pg_namespace n on n.oid = c.relnamespace \
             where c.relkind in ('r', 'p', 'v', 'm', 'f') and case when $1::text is null then pg_table_is_visible(c.oid) \
             and n.nspname not in ('pg_catalog', 'information_schema') else n.nspname = $1 end order by 1",
        );
        let tables = self.patient(tx.id(), tables.bind(schema).fetch_all(&mut *tx)).await.map_err(setup_error)?;
        let found = |row: &PgRow| {
            let unfit = unfit(row.try_get(1)?, row.try_get(2)?).map(str::to_owned);
            Ok(FoundTable { schema: schema.map(str::to_owned), name: row.try_get(0)?, id: row.try_get(3)?, unfit })
        };
        tables.iter().map(found).collect()
    }

    async fn names(&self) -> Result<Vec<TableName>> {
        let mut tx = self.read_only().await?;
        self.patiently(tx.id(), catalog::names(&mut tx)).await
    }

    async fn look(&self, table: &FoundTable) -> Result<TableLook> {
        let mut tx = self.read_only().await?;
        let name = full_name(table.schema.as_deref(), &table.name)?;
        let columns = sqlx::query(
            "select a.attname::text, format_type(a.atttypid, a.atttypmod), b.typname::text, b.typcategory::text, \
                a.attnotnull or a.attgenerated <> '' or t.typtype = 'd', a.attnotnull, a.attgenerated <> '' or a.attidentity <> '', \
                case when a.attgenerated = '' then pg_get_expr(d.adbin, d.adrelid) end, case when a.atttypmod > 4 then a.atttypmod - 4 else 36 end, \
                array(select e.enumlabel::text from pg_enum e where e.enumtypid = b.oid order by e.enumsortorder), \
                array(select pg_get_constraintdef(c.oid) from pg_constraint c \
                    where c.conrelid = a.attrelid and c.contype = 'c' and c.conkey = array[a.attnum]) \
             from pg_attribute a join pg_type t on t.oid = a.atttypid \
             join pg_type b on b.oid = case when t.typtype = 'd' then t.typbasetype else t.oid end \
             left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum \
             where a.attrelid = to_regclass($1) and a.attnum > 0 and not a.attisdropped order by a.attnum",
        );
        let columns = self.patient(tx.id(), columns.bind(&name).fetch_all(&mut *tx)).await.map_err(setup_error)?;
        let keys = self.patiently(tx.id(), catalog::unique(&mut tx, &name)).await?.into_iter();
        let keys = keys.map(|(primary, columns, not_null)| UniqueKey { columns, primary, not_null }).collect();
        Ok(TableLook { table: table.clone(), columns: columns.iter().map(column).collect::<Result<_>>()?, keys })
    }

    async fn counts(&self, look: &TableLook, column: &str) -> Result<Counts> {
        let mut tx = self.read_only().await?;
        let (sample, all) = self.patiently(tx.id(), sample(&mut tx, look, &quote::name(column)?)).await?;
        let most = MOST_VALUES;
        let counts = format!(
            "select v::text, count(*), (sum(count(*)) over ())::bigint from (select {} as v from ({sample}) s) v group by 1 order by 2 desc, 1 limit {most}",
            quote::name(column)?
        );
        let counts =
            self.patient(tx.id(), sqlx::query(AssertSqlSafe(counts)).fetch_all(&mut *tx)).await.map_err(setup_error)?;
        let rows = counts.first().map(|row| row.try_get::<i64, _>(2)).transpose()?.unwrap_or_default();
        let value = |row: &PgRow| Ok((row.try_get(0)?, row.try_get::<i64, _>(1)?.unsigned_abs()));
        Ok(Counts { rows: rows.unsigned_abs(), all, values: counts.iter().map(value).collect::<Result<_>>()? })
    }

    async fn owned(&self, look: &TableLook, table: &Table) -> Result<u64> {
        let (owner, status) = (quote::name(&table.owner)?, quote::name(&table.status.column)?);
        let mut tx = self.read_only().await?;
        let (sample, _) = self.patiently(tx.id(), sample(&mut tx, look, &format!("{status}, {owner}"))).await?;
        let new = quote::literal(&table.status.new)?;
        let count = format!("select count(*) from ({sample}) s where {status} = {new} and {owner} is not null");
        let count =
            self.patient(tx.id(), sqlx::query(AssertSqlSafe(count)).fetch_one(&mut *tx)).await.map_err(setup_error)?;
        Ok(count.try_get::<i64, _>(0)?.unsigned_abs())
    }

    async fn claim_plan(&self, queue: &str, table: &Table, owner_is_there: bool) -> Result<ClaimPlan> {
        let queue = &Queue::table(queue, table.clone());
        let mut tx = self.read_only().await?;
        let column = || statements::Column::new(table.owner.clone(), OWNER_KIND.into());
        let to_come = if owner_is_there { None } else { Some(column()?) };
        let (id, rows) = (tx.id(), Box::pin(catalog::business_table(&mut tx, queue, table, to_come)));
        let rows = self.patiently(id, rows).await?;
        let Statements { rows, look, .. } = Statements::new(&self.shared.known.tables, queue, rows)?;
        // Before there is an owner column, every unprocessed row is one that nobody has.
        let ownerless = format!(" and t.{} is null", rows.owner.quoted);
        let look = if owner_is_there { look.to_string() } else { look.replacen(&ownerless, "", 1) };
        let (steps, by_index) = self.patiently(tx.id(), explain(&mut tx, &look)).await?;
        let mut ddl = Vec::new();
        if !owner_is_there {
            ddl.push(format!("alter table {} add column {} {OWNER_KIND}", rows.mapping.table, rows.owner.quoted));
        }
        // Where every row is in a group, there is nothing else to claim.
        let by_index = owner_is_there && (by_index || rows.mapping.all_grouped);
        let owners = owner_is_there && self.patiently(tx.id(), finds_owner(&mut tx, &rows)).await?;
        if !by_index || !owners {
            ddl.extend(self.patiently(tx.id(), torn(&mut tx, &rows)).await?);
        }
        if !by_index {
            ddl.push(self.patiently(tx.id(), claim_index(&mut tx, table, &rows)).await?);
        }
        if !owners {
            ddl.push(self.patiently(tx.id(), owner_index(&mut tx, table, &rows)).await?);
        }
        Ok(ClaimPlan { steps, by_index, ddl })
    }

    fn add_status(&self, look: &TableLook, status: &str, done: Option<&str>) -> Result<Vec<String>> {
        let table = full_name(look.table.schema.as_deref(), &look.table.name)?;
        StatusColumn { table: &table, kind: STATUS_KIND, default_later: true }.add(status, done, quote::name)
    }

    /// An index is built while others write, which no transaction can hold; one that was cut off is found the next time.
    async fn apply(&self, statements: &[String]) -> Result<()> {
        for statement in statements {
            let sql = sqlx::raw_sql(AssertSqlSafe(statement.clone()));
            if statement.starts_with(CONCURRENTLY) {
                let mut lent = self.own.0.take().await.map_err(|error| self.unreachable(error))?;
                let id = lent.id.clone();
                self.patient(id, sql.execute(&mut lent.connection)).await.map_err(setup_error)?;
                lent.give_back();
            } else {
                let begun = self.own.begin(pooler::OWN).await;
                let mut tx = begun.map_err(|error| self.unreachable(error))?;
                let id = tx.id();
                self.patient(id, sql.execute(&mut *tx)).await.map_err(setup_error)?;
                tx.commit().await?;
            }
        }
        Ok(())
    }
}

/// How an index begins that is built while others write.
const CONCURRENTLY: &str = "create index concurrently ";

impl Postgres {
    async fn read_only(&self) -> Result<OwnTx> {
        self.begin_look().await
    }
}

fn unfit(kind: &str, persistence: &str) -> Option<&'static str> {
    match (kind, persistence) {
        (_, "t") => Some("is a temporary table, visible only to its own session; make it permanent"),
        ("v" | "m", _) => Some("is a view; adopt the table behind it"),
        ("f", _) => Some(
            "is a foreign table; its rows and the effects must be in one transaction, so adopt it in its own database",
        ),
        _ => None,
    }
}

fn column(row: &PgRow) -> Result<Column> {
    let (base, category): (String, String) = (row.try_get(2)?, row.try_get(3)?);
    let (no_owner, not_null, generated): (bool, bool, bool) = (row.try_get(4)?, row.try_get(5)?, row.try_get(6)?);
    let holds = match (&*base, &*category) {
        _ if generated => Holds::Other,
        ("bool", _) => Holds::Flag,
        ("int2" | "int4" | "int8" | "numeric", _) => Holds::Number,
        ("bpchar" | "varchar" | "text", _) | (_, "E") => Holds::Text,
        _ => Holds::Other,
    };
    let (default, width): (Option<String>, i32) = (row.try_get(7)?, row.try_get(8)?);
    let (mut admits, checks): (Vec<String>, Vec<String>) = (row.try_get(9)?, row.try_get(10)?);
    if holds == Holds::Flag {
        admits = vec!["false".into(), "true".into()];
    }
    if admits.is_empty() {
        admits = checks.iter().map(|check| listed(check)).find(|values| !values.is_empty()).unwrap_or_default();
    }
    let wide = matches!(&*base, "uuid" | "text") || matches!(&*base, "bpchar" | "varchar") && width >= 36;
    Ok(Column {
        name: row.try_get(0)?,
        kind: row.try_get(1)?,
        holds,
        nullable: !not_null,
        generated,
        default: default.as_deref().and_then(plain_default),
        admits,
        fits_owner: wide && !no_owner,
    })
}

/// A query for these columns of the rows that are looked at, and whether these are all.
async fn sample(connection: &mut PgConnection, look: &TableLook, columns: &str) -> Result<(String, bool)> {
    let table = full_name(look.table.schema.as_deref(), &look.table.name)?;
    let sample = Sample::new(&table, look, quote::name)?;
    let size = sqlx::query(AssertSqlSafe(sample.size())).fetch_one(connection).await.map_err(setup_error)?;
    let all = Sample::is_all(size.try_get(0)?);
    Ok((sample.rows(columns, all), all))
}

/// Asks the planner, with reading the whole table made unattractive: what it says, and whether an index serves the claim.
pub(crate) async fn explain(connection: &mut PgConnection, look: &str) -> Result<(Vec<String>, bool)> {
    for setting in ["seqscan", "bitmapscan", "sort"] {
        sqlx::query(AssertSqlSafe(format!("set local enable_{setting} = off"))).execute(&mut *connection).await?;
    }
    let plan = sqlx::raw_sql(AssertSqlSafe(format!("explain (costs off) {look}"))).fetch_all(connection).await?;
    let steps: Vec<String> = plan.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?;
    // A filter means that rows are read which the index does not know to be claimable.
    let reads_too_much = ["Seq Scan", "Parallel Seq Scan", "Sort", "Incremental Sort", "Filter:"];
    let step = |step: &String| {
        let step = step.trim_start().trim_start_matches("->").trim_start();
        // Partitions are merged by a `Sort Key` without being sorted.
        reads_too_much.iter().any(|sign| step.starts_with(sign)) && !step.starts_with("Sort Key")
    };
    let served = !steps.iter().any(step);
    Ok((steps, served))
}

/// Statements against what is left of indexes that could not be built to their end: nobody reads them, and every write
/// keeps them up.
async fn torn(connection: &mut PgConnection, rows: &Rows) -> Result<Vec<String>> {
    let torn = sqlx::query(
        "select 'drop index ' || i.indexrelid::regclass from pg_index i join pg_class c on c.oid = i.indexrelid \
         where i.indrelid = to_regclass($1) and not i.indisvalid and c.relkind = 'i' and c.relname ~ '_(claim|owner)(_[0-9]+)?$'",
    );
    let torn = torn.bind(&rows.mapping.table).fetch_all(connection).await.map_err(setup_error)?;
    torn.iter().map(|row| Ok(row.try_get(0)?)).collect()
}

/// Asks the planner: are the unprocessed rows of an owner found by the owner?
pub(crate) async fn finds_owner(connection: &mut PgConnection, rows: &Rows) -> Result<bool> {
    let (owner, conditions) = (&rows.owner, rows.mapping.conditions(quote::literal)?);
    let (table, nobody, new) = (&rows.mapping.table, &conditions.nobody, &conditions.new);
    let look = format!("select 1 from {table} t where t.{} = {nobody} and {new}", owner.quoted);
    let steps = explain(connection, &look).await?.0;
    // The server quotes a name only where it must.
    let named = |step: &&String| step.contains(&owner.name) && step.trim_start().starts_with("Index Cond:");
    let scans = steps.iter().filter(|step| step.contains(" Scan")).count();
    Ok(scans > 0 && steps.iter().filter(named).count() == scans)
}

/// The index on claimable rows in claim order.
async fn claim_index(connection: &mut PgConnection, table: &Table, rows: &Rows) -> Result<String> {
    let ClaimIndex { order, claimable, .. } = ClaimIndex::of(&rows.mapping, quote::literal)?;
    index(connection, (table, "claim"), rows, &order, &claimable).await
}

/// The index by which the rows of a process are found.
async fn owner_index(connection: &mut PgConnection, table: &Table, rows: &Rows) -> Result<String> {
    let OwnerIndex { owner, claimed, .. } = OwnerIndex::of(&rows.mapping, quote::literal)?;
    index(connection, (table, "owner"), rows, &[owner], &claimed).await
}

/// The statement that makes an index of these columns on the rows of which all of this is true.
async fn index(
    connection: &mut PgConnection,
    (table, purpose): (&Table, &str),
    rows: &Rows,
    columns: &[String],
    holds: &[String],
) -> Result<String> {
    let about = sqlx::query(
        "select c.relkind = 'p', array(select o.relname::text from pg_class o left join pg_index i on i.indexrelid = o.oid \
            where o.relnamespace = c.relnamespace and coalesce(i.indisvalid, true)) \
         from pg_class c where c.oid = to_regclass($1)",
    );
    let about = about.bind(&rows.mapping.table).fetch_one(connection).await.map_err(setup_error)?;
    let (partitioned, taken): (bool, Vec<String>) = (about.try_get(0)?, about.try_get(1)?);
    let is_taken = |name: &str| taken.iter().any(|known| known == name);
    let name = ichido::adopt::free_name(&table.name, purpose, LONGEST_NAME, is_taken);
    Ok(format!(
        "{}{} on {} ({}) where {}",
        if partitioned { "create index " } else { CONCURRENTLY },
        quote::name(&name)?,
        rows.mapping.table,
        columns.join(", "),
        holds.join(" and "),
    ))
}
