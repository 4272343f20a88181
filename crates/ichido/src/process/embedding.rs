//! A process inside an application: run until the application ends, and asked whether it is live and ready. Nothing here, nor anywhere else in this
//! crate, ends the program, handles signals or sets what is global to it.

use std::pin::pin;

use crate::{Process, Store, error::Result, process::Probe};

impl<S: Store> Process<S> {
    /// Runs all actions until this future is ready, then stops gracefully, as [`Process::stop_on`] does, and returns the exit code. Ends
    /// earlier if the process ends by itself; the future is dropped then. What the future returns is dropped too.
    ///
    /// After the stop, running messages get [`grace`](crate::process::Settings::grace); what is still running then is rolled back and
    /// released. It returns within that time and two seconds, even if the database is silent: other processes rescue what it could
    /// not release.
    ///
    /// Do not drop the future that this returns: to others the process would look dead, and its messages would wait for the lease.
    ///
    /// ```no_run
    /// # async fn embedded<S: ichido::Store>(process: ichido::Process<S>) -> ichido::Result<()> {
    /// let code = process.run_until(tokio::signal::ctrl_c()).await?;
    /// println!("the process has ended with {code}, and the program goes on");
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Only errors that no handler turned into a status, or an invalid handler queue.
    pub async fn run_until(mut self, end: impl IntoFuture) -> Result<i32> {
        let end = end.into_future();
        // Whoever stops by the token of `stop_on` still does.
        let stop = self.stop.child_token();
        self.stop = stop.clone();
        let mut run = pin!(self.run());
        tokio::select! {
            biased;
            ended = &mut run => return ended,
            _ = end => stop.cancel(),
        }
        run.await
    }

    /// What answers probes, before, while and after the process runs: is it live, is it ready?
    #[must_use]
    pub fn probe(&self) -> Probe {
        self.probe.clone()
    }
}
