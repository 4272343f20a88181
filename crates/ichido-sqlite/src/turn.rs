//! Whose turn it is to write. SQLite's own busy handler polls with growing pauses, so that among several processes the
//! fastest takes nearly everything. Here writers stand in line on two file locks beside the database: who waits for the turn
//! holds the gate, so that whoever had the last turn cannot slip in again before them. The kernel frees both when a process dies.

use std::{
    fs::{File, TryLockError},
    io,
    sync::Arc,
    time::Duration,
};

use crate::locks::Locks;

const GATE: &str = "gate.lock";
const TURN: &str = "turn.lock";

/// Nobody waits longer than this for a turn: then the database counts as busy.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The line of writers.
#[derive(Clone)]
pub(crate) struct Line(Arc<Locks>);

/// The right to write, until it is dropped.
pub(crate) struct WriteTurn {
    _file: File,
}

impl Line {
    pub(crate) fn new(locks: Arc<Locks>) -> Self {
        Line(locks)
    }

    /// Waits for the turn.
    pub(crate) async fn wait(&self) -> io::Result<WriteTurn> {
        if let Some(turn) = self.try_now()? {
            return Ok(turn);
        }
        let line = self.clone();
        let waiting = tokio::task::spawn_blocking(move || line.wait_blocking());
        match tokio::time::timeout(TIMEOUT, waiting).await {
            Ok(turn) => turn?,
            Err(_) => Err(io::Error::new(
                io::ErrorKind::TimedOut,
                format!("another process has been writing for {TIMEOUT:?}"),
            )),
        }
    }

    fn try_now(&self) -> io::Result<Option<WriteTurn>> {
        let gate = self.0.open(GATE)?;
        let turn = self.0.open(TURN)?;
        Ok((try_lock(&gate)? && try_lock(&turn)?).then_some(WriteTurn { _file: turn }))
    }

    fn wait_blocking(&self) -> io::Result<WriteTurn> {
        let gate = self.0.open(GATE)?;
        gate.lock()?;
        let turn = self.0.open(TURN)?;
        turn.lock()?;
        Ok(WriteTurn { _file: turn })
    }
}

pub(crate) fn try_lock(file: &File) -> io::Result<bool> {
    match file.try_lock() {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::{thread, time::Instant};

    use super::*;

    #[test]
    fn nobody_passes_who_waits_for_the_turn() {
        let folder = tempfile::tempdir().unwrap();
        let line = Line::new(Arc::new(Locks::beside(&folder.path().join("a.db"))));
        let writer = line.try_now().unwrap().unwrap();
        let second = line.clone();
        let waiting = thread::spawn(move || second.wait_blocking().unwrap());
        let (gate, begun) = (line.0.open(GATE).unwrap(), Instant::now());
        while try_lock(&gate).unwrap() {
            gate.unlock().unwrap();
            assert!(begun.elapsed() < TIMEOUT, "who waits for the turn does not hold the gate");
            thread::yield_now();
        }
        drop(writer);
        drop(waiting.join().unwrap());
        // The turn is free now; with the gate in somebody's hands it is still not a newcomer's.
        gate.lock().unwrap();
        assert!(line.try_now().unwrap().is_none());
        gate.unlock().unwrap();
        assert!(line.try_now().unwrap().is_some());
    }
}
