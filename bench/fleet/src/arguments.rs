//! The command line: a scenario, and options that are all `--name value`.

use std::{collections::BTreeMap, str::FromStr};

use crate::Result;

pub struct Arguments {
    pub scenario: String,
    options: BTreeMap<String, String>,
}

impl Arguments {
    pub fn read() -> Result<Self> {
        let mut words = std::env::args().skip(1);
        let scenario = words.next().ok_or("which scenario? processes, idle, rows, due or pickup")?;
        let mut options = BTreeMap::new();
        while let Some(name) = words.next() {
            let name = name.strip_prefix("--").ok_or_else(|| format!("`{name}` is not --an-option"))?.to_owned();
            let value = words.next().ok_or_else(|| format!("--{name} needs a value"))?;
            options.insert(name, value);
        }
        Ok(Arguments { scenario, options })
    }

    /// The value of an option, or this one.
    pub fn get<T: FromStr>(&self, name: &str, default: T) -> Result<T> {
        match self.options.get(name) {
            None => Ok(default),
            Some(value) => value.parse().map_err(|_| format!("--{name}: `{value}` is no value for it").into()),
        }
    }

    /// Numbers with commas between them, or these.
    pub fn list(&self, name: &str, default: &[usize]) -> Result<Vec<usize>> {
        let Some(value) = self.options.get(name) else { return Ok(default.to_owned()) };
        let numbers = value.split(',').map(str::parse).collect::<std::result::Result<_, _>>();
        numbers.map_err(|_| format!("--{name}: `{value}` is no list of numbers such as 4,64").into())
    }
}
