//! `files`: what an action opens through [`Context::file`] is seen only when its transaction has committed, and never if it
//! was rolled back. The `transaction` handler decides about them; this one lends the folder, and at the start puts in order what
//! a crash left behind: files of committed transactions appear, others are removed.
//!
//! Scope: worker. In: the right to files. Out and on error: nothing; the transaction has decided. It needs nothing before it.
//! Options: `folder` = ".", below which all files are, and which belongs to one database: what a process of another one left there
//! would count as not committed; `sync` = true, files are on the disk before the COMMIT (false: a power
//! failure may leave empty files behind).

use std::{path::PathBuf, sync::Arc};

use tokio::sync::OnceCell;

use crate::{
    Context, Handler, Next, Outcome, Store,
    action::files::Stage,
    error::Result,
    handlers::{About, Options, Scope},
};

/// Lends a folder for files that appear with the COMMIT.
#[derive(Default)]
pub struct Files {
    folder: PathBuf,
    no_sync: bool,
    stage: OnceCell<Arc<Stage>>,
}

impl Files {
    /// All files are below this folder.
    #[must_use]
    pub fn below(folder: impl Into<PathBuf>) -> Self {
        Files { folder: folder.into(), ..Files::default() }
    }

    /// Files need not be on the disk before the COMMIT: faster, and a power failure may leave empty files behind.
    #[must_use]
    pub fn without_sync(self) -> Self {
        Files { no_sync: true, ..self }
    }

    pub(crate) fn from_options(options: &mut Options) -> Result<Self> {
        let files = Files::below(options.text("folder").unwrap_or_else(|| ".".into()));
        Ok(if options.parsed("sync")?.unwrap_or(true) { files } else { files.without_sync() })
    }

    async fn stage(&self) -> Result<Arc<Stage>> {
        let open = || async { Stage::open(self.folder.clone(), !self.no_sync).await.map(Arc::new) };
        self.stage.get_or_try_init(open).await.cloned()
    }
}

impl<S: Store> Handler<S> for Files {
    async fn start(&self, cx: &mut Context<S>) -> crate::Result<()> {
        Ok(self.stage().await?.recover(cx.store()).await?)
    }

    async fn handle(&self, cx: &mut Context<S>, next: Next<'_, S>) -> crate::Result<Outcome> {
        let before = cx.stage.replace(self.stage().await?);
        let result = next.run(cx).await;
        cx.stage = before;
        result
    }

    fn about(&self, _: Scope) -> About {
        About::new("files", "files appear at commit", "", "").only(Scope::Worker).once()
    }
}
