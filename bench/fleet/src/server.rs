//! A private PostgreSQL with fsync on, which ends and is deleted with this program.

use std::{
    fs,
    net::TcpListener,
    os::unix::fs::chown,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use tempfile::TempDir;

use crate::Result;

const SETTINGS: &str = "
max_connections = 800
shared_buffers = 1GB
max_wal_size = 8GB
shared_preload_libraries = 'pg_stat_statements'
pg_stat_statements.track_utility = on
listen_addresses = '127.0.0.1'
unix_socket_directories = ''
";

pub struct Server {
    folder: TempDir,
    programs: PathBuf,
    port: u16,
}

impl Server {
    pub fn start() -> Result<Self> {
        let versions =
            fs::read_dir("/usr/lib/postgresql").map_err(|_| "there is no PostgreSQL; ./test installs one")?;
        let newest = versions.flatten().map(|version| version.path()).max().ok_or("there is no PostgreSQL")?;
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let server = Server { folder: tempfile::tempdir()?, programs: newest.join("bin"), port };
        let data = server.folder.path().join("data");
        if is_root() {
            let user = fs::read_to_string("/etc/passwd")?;
            let user = user.lines().find(|line| line.starts_with("postgres:")).ok_or("there is no user postgres")?;
            let mut ids = user.split(':').skip(2).map(str::parse::<u32>);
            let (owner, group) = (ids.next().ok_or("no id")??, ids.next().ok_or("no id")??);
            chown(server.folder.path(), Some(owner), Some(group))?;
        }
        server.call("initdb", &data, &["-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-sync"])?;
        let settings = format!("{}\nport = {port}\n{SETTINGS}", fs::read_to_string(data.join("postgresql.conf"))?);
        fs::write(data.join("postgresql.conf"), settings)?;
        let log = server.folder.path().join("log");
        server.call("pg_ctl", &data, &["-w", "-l", &log.display().to_string(), "start"])?;
        Ok(server)
    }

    pub fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres", self.port)
    }

    pub fn program(&self, name: &str) -> PathBuf {
        self.programs.join(name)
    }

    fn call(&self, program: &str, data: &Path, arguments: &[&str]) -> Result<()> {
        let program = self.programs.join(program);
        let mut command = match is_root() {
            true => {
                let mut command = Command::new("runuser");
                command.args(["-u", "postgres", "--"]).arg(&program);
                command
            }
            false => Command::new(&program),
        };
        let ended = command.arg("-D").arg(data).args(arguments).stdout(Stdio::null()).status()?;
        if ended.success() { Ok(()) } else { Err(format!("{} failed", program.display()).into()) }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let data = self.folder.path().join("data");
        let _ = self.call("pg_ctl", &data, &["-m", "immediate", "-w", "stop"]);
    }
}

fn is_root() -> bool {
    fs::read_to_string("/proc/self/status").is_ok_and(|status| status.contains("\nUid:\t0\t"))
}
